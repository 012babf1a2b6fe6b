"""Kills workers, agents and sandboxes of a batch at random, and checks that its books close all the same.

    python tools/chaos.py [--seconds 60] [--workers 3] [--engine none|docker|podman|host] [--seed N] [--json]

A batch of short cases runs in a directory of its own. For that many seconds something of it is killed with
SIGKILL every second or so: a worker process, an agent, a sandbox (with an engine), one of the engine's
clients, whatever it is doing, or the engine's own process behind a sandbox or a command in it (shim, conmon,
slirp4netns). Then the batch may end, and everything must add up: every planned case has one outcome, JUnit
has each case once, no attempt directory is used twice, and neither the process table nor the engine has
anything left. Only processes and containers of this very batch are killed.

Ends with 1 when something does not add up.
"""

import argparse
import contextlib
import json
import os
import random
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Final

import psutil

from pytest_atesor.errors import SandboxError
from pytest_atesor.sandbox.engines.cli import CliEngine
from pytest_atesor.sandbox.interface import Engine, Present
from pytest_atesor.sandbox.select import select_engine

AGENT: Final = """#!/bin/sh
while [ $# -gt 0 ]; do
    case "$1" in
        --repo) url=$2; shift ;;
        --container) slot=$2; shift ;;
    esac
    shift
done
echo "$slot" >> slots
case "$ATESOR_ENGINE" in
    none) exec sleep "${url##*-}" ;;
    host) exec ./host "$slot" "${url##*-}" ;;
esac
"$ATESOR_ENGINE" exec --user builder "$slot" sleep "${url##*-}"
"""
HOST_CLIENT: Final = f"""#!{sys.executable}
import os, sys
from pathlib import Path
from pytest_atesor.sandbox.engines.host import HostEngine
from pytest_atesor.sandbox.interface import ExecSpec
engine = HostEngine(Path(os.environ["ATESOR_STATE_DIR"]))
argv = engine.exec_argv(sys.argv[1], ExecSpec(argv=["sleep", sys.argv[2]]))
os.execvp(argv[0], argv)
"""
CLIENTS: Final = ("docker", "podman", "runc", "crun")
SHIMS: Final = ("containerd-shim", "conmon", "slirp4netns")
PAUSE_S: Final = (0.3, 1.5)
CASES_PER_SECOND: Final = 1.5
PATIENCE_S: Final = 600.0
DYING_S: Final = 20.0
MARK: Final = "CHAOS_ROOT"
Kill = Callable[[], bool]


class Batch:
    """The running batch and what may be killed of it."""

    def __init__(self, root: Path, engine: Engine | None, workers: int, chance: random.Random) -> None:
        self.root = root
        self.engine = engine
        self.chance = chance
        self.kills: Counter[str] = Counter()
        self.ids: set[str] = set()
        self.started_at = time.time()
        name = "none" if engine is None else engine.name
        kept = {key: text for key, text in os.environ.items() if not key.startswith(("ATESOR_", "PYTEST_"))}
        self.process = subprocess.Popen(
            [
                *(
                    sys.executable,
                    "-m",
                    "pytest",
                    "--atesor-list=chaos",
                    f"-n{workers}",
                    "--junitxml=junit.xml",
                ),
                *("--atesor-retry-environment=1", "--atesor-no-breaker", "-p", "no:cacheprovider"),
            ],
            cwd=root,
            env={**kept, "ATESOR_ENGINE": name, "ATESOR_AGENT": "./agent", MARK: str(root)},
            stdin=subprocess.DEVNULL,
            stdout=(root / "pytest.out").open("wb"),
            stderr=subprocess.STDOUT,
        )

    def slots(self) -> set[str]:
        """Return the containers that this batch's agents were given."""
        path = self.root / "slots"
        return set(path.read_text().split()) if path.exists() else set()

    def workers(self) -> list[psutil.Process]:
        """Return the worker processes that lead their own groups: they have been taken over."""
        with contextlib.suppress(psutil.Error):
            children = psutil.Process(self.process.pid).children()
            return [child for child in children if _leads_group(child)]
        return []

    def kill_worker(self) -> bool:
        """Kill one worker."""
        return self._kill_one(self.workers())

    def kill_agent(self) -> bool:
        """Kill something below a worker."""
        return self._kill_one(self._below())

    def kill_client(self) -> bool:
        """Kill one of the engine's clients: it runs a command inside, makes a sandbox or removes one."""
        return self._kill_one([one for one in self._below() if _is_client(one)])

    def kill_sandbox(self) -> bool:
        """Kill PID 1 of one container."""
        return self._kill_one(self._inits())

    def kill_shim(self) -> bool:
        """Kill one of the engine's processes behind one container, or behind a command in it."""
        shims = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if self._is_shim(process):
                    shims.append(process)
        return self._kill_one(shims)

    def left(self) -> list[str]:
        """Return what still stands of the batch, after what is dying had its time."""
        give_up = time.monotonic() + DYING_S
        while (found := self._look_around()) and time.monotonic() < give_up:
            time.sleep(0.5)
        return found

    def _look_around(self) -> list[str]:
        """Return the processes that are the batch's or serve its containers, and the containers."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error, OSError):
                if process.pid != os.getpid() and (self._is_ours(process) or self._is_shim(process)):
                    found.append(f"process {process.pid} {' '.join(process.cmdline())[:300]}")
        if self.engine is not None:
            found += [f"container {name}" for name in self.slots() & set(self.engine.list_sandboxes())]
        return found

    def _is_ours(self, process: psutil.Process) -> bool:
        """Say whether a process works in the batch's directory, comes from it, or is in a container."""
        if process.environ().get(MARK) == str(self.root) or process.cwd() == str(self.root):
            return process.status() != psutil.STATUS_ZOMBIE
        groups = Path(f"/proc/{process.pid}/cgroup").read_text()
        return any(one in groups for one in self.ids)

    def _is_shim(self, process: psutil.Process) -> bool:
        """Say whether it is the engine's process behind a container of the batch."""
        if not process.name().startswith(SHIMS) or process.create_time() < self.started_at:
            return False
        marked = process.environ().get(MARK) == str(self.root)
        return marked or not (self.slots() | self.ids).isdisjoint(process.cmdline())

    def _below(self) -> list[psutil.Process]:
        below: list[psutil.Process] = []
        for worker in self.workers():
            with contextlib.suppress(psutil.Error):
                below += worker.children(recursive=True)
        return below

    def _inits(self) -> list[psutil.Process]:
        found: list[psutil.Process] = []
        if self.engine is None:
            return found
        for name in sorted(self.slots()):
            with contextlib.suppress(psutil.Error, SandboxError):
                state = self.engine.state(name)
                if isinstance(state, Present) and state.pid:
                    found.append(psutil.Process(state.pid))
        return found

    def look_at_ids(self) -> None:
        """Remember the ids of the containers that there are: their processes may outlive their names."""
        if isinstance(self.engine, CliEngine):
            argv = [self.engine.name, "ps", "--all", "--no-trunc", "--format", "{{.ID}} {{.Names}}"]
            text = subprocess.run(argv, capture_output=True, text=True, check=False).stdout
            rows = (line.split() for line in text.splitlines())
            self.ids |= {row[0] for row in rows if row[1:] and row[1] in self.slots()}

    def _kill_one(self, processes: list[psutil.Process]) -> bool:
        with contextlib.suppress(psutil.Error):
            if processes:
                self.chance.choice(processes).kill()
                return True
        return False


def main() -> int:
    """Run, kill, check."""
    parser = argparse.ArgumentParser(description="chaos under a batch")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--engine", default="none", choices=["none", "docker", "podman", "host"])
    parser.add_argument(
        "--only", action="append", metavar="KIND", help="kill nothing else, as client or shim"
    )
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    seed = random.SystemRandom().randrange(10**6) if options.seed is None else options.seed
    chance = random.Random(seed)  # noqa: S311 - repeatable chaos
    engine = None if options.engine == "none" else select_engine(options.engine)
    with tempfile.TemporaryDirectory(prefix="atesor-chaos-") as name:
        root = Path(name) / "root"
        count = prepare(root, options.seconds, options.workers, chance)
        batch = Batch(root, engine, options.workers, chance)
        make_chaos(batch, options.seconds, options.only)
        figures, faults = check(batch, count)
        report = {"seed": seed, "planned": count, **figures, "faults": faults}
    print(f"seed {seed}: {count} cases, killed {report['kills']}, statuses {report['statuses']}")
    for fault in faults:
        print(f"FAULT {fault}")
    print(f"{len(faults)} faults" if faults else "everything adds up")
    if options.json:
        print(json.dumps(report))
    return 1 if faults else 0


def prepare(root: Path, seconds: float, workers: int, chance: random.Random) -> int:
    """Write list and agent; return the number of cases."""
    (root / "packages").mkdir(parents=True)
    (root / "pytest.ini").write_text("[pytest]\n")
    agent = root / "agent"
    agent.write_text(AGENT)
    (root / "host").write_text(HOST_CLIENT)
    for program in (agent, root / "host"):
        program.chmod(0o755)
    count = max(10, int(seconds * workers / 3 * CASES_PER_SECOND))
    names = [f"p{number}-{chance.uniform(0.1, 3.0):.2f}" for number in range(count)]
    packages = [{"name": name, "url": f"https://example.org/a/{name}"} for name in names]
    body = {"$schema_version": 1, "defaults": {"timeout_seconds": 60}, "packages": packages}
    (root / "packages" / "chaos.json").write_text(json.dumps(body))
    return count


def make_chaos(batch: Batch, seconds: float, only: list[str] | None) -> None:
    """Kill things until the time is over or the batch is."""
    kills: dict[str, Kill] = {"worker": batch.kill_worker, "agent": batch.kill_agent}
    if batch.engine is not None:
        kills |= {"client": batch.kill_client, "sandbox": batch.kill_sandbox, "shim": batch.kill_shim}
    kinds = sorted(set(only or kills) & set(kills))
    until = time.monotonic() + seconds
    while time.monotonic() < until and batch.process.poll() is None:
        time.sleep(batch.chance.uniform(*PAUSE_S))
        batch.look_at_ids()
        name = batch.chance.choice(kinds)
        if kills[name]():
            batch.kills[name] += 1


def check(batch: Batch, count: int) -> tuple[dict[str, object], list[str]]:
    """Wait for the end of the batch and return the figures, and what does not add up."""
    faults: list[str] = []
    try:
        code = batch.process.wait(PATIENCE_S)
    except subprocess.TimeoutExpired:
        batch.process.kill()
        code = batch.process.wait()
        faults.append(f"the batch did not end within {PATIENCE_S:.0f} s")
    if code not in {0, 1}:
        faults.append(f"pytest ended with {code}")
    output = (batch.root / "pytest.out").read_text(errors="replace")
    if "INTERNALERROR" in output:
        faults.append("pytest had an INTERNALERROR")
    statuses: Counter[str] = Counter()
    try:
        (bundle,) = (batch.root / "runs" / "batches").iterdir()
        statuses, found = check_bundle(bundle, count)
        names = [case.attrib["name"] for case in ET.parse(batch.root / "junit.xml").iter("testcase")]  # noqa: S314 - our own
        faults += found
        if len(names) != count or len(set(names)) != count:
            faults.append(f"JUnit has {len(names)} cases, {len(set(names))} different ones")
    except (OSError, ValueError, KeyError) as error:
        faults.append(f"the bundle cannot be read: {error!r}")
    faults += [f"left behind: {what}" for what in batch.left()]
    if faults:
        print(output[-5000:])
    return {"exit_code": code, "kills": dict(batch.kills), "statuses": dict(statuses)}, faults


def check_bundle(bundle: Path, count: int) -> tuple[Counter[str], list[str]]:
    """Return the cases by status, and what does not add up."""
    faults = []
    results = json.loads((bundle / "batch_results.json").read_text())
    tally = results["tally"]
    if tally["planned"] != count or tally["done"] + tally["interrupted"] + tally["not_started"] != count:
        faults.append(f"the sums do not close: {tally}")
    without = [case["label"] for case in results["cases"] if case["status"] is None]
    if without:
        faults.append(f"{len(without)} cases have no outcome: {without[:3]}")
    attempts = json.loads((bundle / "batch_attempts.json").read_text())["attempts"]
    known = {attempt["path"] for attempt in attempts}
    on_disk = {path.relative_to(bundle).as_posix() for path in bundle.glob("cases/*/attempts/*")}
    if len(known) != len(attempts) or known != on_disk:
        faults.append(f"{len(attempts)} attempts on record, {len(on_disk)} on disk, {len(known)} different")
    return Counter(case["status"] for case in results["cases"]), faults


def _is_client(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.Error):
        return process.name() in CLIENTS
    return False


def _leads_group(process: psutil.Process) -> bool:
    with contextlib.suppress(OSError, psutil.Error):
        return os.getpgid(process.pid) == process.pid
    return False


if __name__ == "__main__":
    sys.exit(main())
