"""Kill a batch at random moments, resume it each time, and check that nothing is lost or doubled.

    python tools/kill_loop.py [--rounds 50] [--cases 60] [--workers 2] [--seed N] [--list] [--directory DIR]

Each round starts ``atesor batch resume``, waits a random while, and kills with SIGKILL: the controller, a
worker (and, later, the controller), or the controller and all that descends from it. At last the batch is
resumed to its end. Then every case must have exactly one PASS, every attempt directory exactly one start in
the journal, and each directory must have been used by one process only: the cases' own program checks that.
Prints one line a round and ends with 1 when a promise is broken. ``--list`` does it with a package list.
"""

import argparse
import contextlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

TALLY: Final = re.compile(r"planned (\d+) = done (\d+) \+ interrupted (\d+) \+ not started (\d+)")
ONCE: Final = 'mkdir {directory}/used || exit 9; sleep 0.1$(( $$ % 9 )); echo "{{}}" > {directory}/ended'
PATIENCE_S: Final = 120
# Killed by us; done; with the failed attempt of a killed worker, as a list (1) and as a manifest (4).
ORDERLY: Final = frozenset({-signal.SIGKILL, 0, 1, 4})


@dataclass(frozen=True)
class Lab:
    """Where the batch is, and how it is run."""

    root: Path
    workers: int
    is_list: bool

    def plan(self, cases: int) -> Path:
        """Write the input, plan it, and return the bundle."""
        (self.root / "pytest.ini").write_text("[pytest]\n")
        source = self._write_list(cases) if self.is_list else self._write_manifest(cases)
        options = ["--batch-id", "kill", "--workers", str(self.workers)]
        subprocess.run(self.command("plan", str(source), *options), check=True, **self.surroundings())
        return self.root / "runs" / "batches" / "kill"

    def command(self, *arguments: str) -> list[str]:
        """Return a command line of atesor."""
        return [sys.executable, "-m", "pytest_atesor.cli", "batch", *arguments]

    def surroundings(self) -> dict:  # type: ignore[type-arg]  # keywords of Popen
        """Return where and with what it runs: nothing of the caller's own batch."""
        own = ("ATESOR_", "PYTEST_")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(own)}
        mine = {
            "ATESOR_STATE_DIR": str(self.root / "state"),
            "ATESOR_ENGINE": "none",
            "ATESOR_AGENT": "./agent",
        }
        return {"cwd": self.root, "env": {**kept, **mine}, "stdin": subprocess.DEVNULL}

    def _write_manifest(self, cases: int) -> Path:
        runspec = {
            "schema_version": "runspec_v1",
            "kind": "command",
            "timeout_seconds": PATIENCE_S,
            "command": {"argv": ["sh", "-c", ONCE.format(directory="..")]},
        }
        listed = []
        for number in range(cases):
            path = self.root / f"case{number}.json"
            path.write_text(json.dumps(runspec))
            listed.append({"label": f"case{number}", "runspec": path.name})
        path = self.root / "manifest.json"
        path.write_text(json.dumps({"schema_version": "batch_v1", "batch": {"cases": listed}}))
        return path

    def _write_list(self, cases: int) -> Path:
        agent = self.root / "agent"
        agent.write_text("#!/bin/sh\n" + ONCE.format(directory='"$ATESOR_ATTEMPT_DIR"') + "\n")
        agent.chmod(0o755)
        packages = [{"name": f"case{n}", "url": f"https://example.org/x/case{n}"} for n in range(cases)]
        path = self.root / "list.json"
        path.write_text(json.dumps({"$schema_version": 1, "packages": packages}))
        return path


def main() -> int:
    """Kill, resume, check."""
    parser = argparse.ArgumentParser(description="SIGKILL at random moments")
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--cases", type=int, default=60)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--directory")
    options = parser.parse_args()
    dice = random.Random(options.seed)  # noqa: S311 - moments, not secrets
    print(f"seed {options.seed}")
    with tempfile.TemporaryDirectory(dir=options.directory) as name:
        lab = Lab(root=Path(name), workers=options.workers, is_list=options.list)
        bundle = lab.plan(options.cases)
        faults = [fault for number in range(options.rounds) for fault in _round(lab, bundle, dice, number)]
        code, out = _finish(lab, bundle)
        faults += [f"the last resume ended with {code}:\n{out}"] if code else []
        faults += _check(bundle, options.cases)
        attempts = sum(1 for _ in bundle.glob("cases/*/attempts/*"))
    for fault in faults:
        print(f"BROKEN: {fault}")
    print(f"{options.rounds} kills, {options.cases} cases, {attempts} attempts: {len(faults)} faults")
    return 1 if faults else 0


def _round(lab: Lab, bundle: Path, dice: random.Random, number: int) -> Iterator[str]:
    """Resume the batch, kill something at a random moment, and yield what was wrong."""
    output = lab.root / "output.txt"
    journal = bundle / "journal.jsonl"
    size = journal.stat().st_size
    command = lab.command("resume", str(bundle), "--workers", str(lab.workers), "--", "-q")
    with output.open("w") as file:
        process = subprocess.Popen(command, stdout=file, stderr=file, **lab.surroundings())
    target = dice.choice(["controller", "worker", "everything"])
    is_early = dice.random() < 0.2  # noqa: PLR2004 - now and then while it starts
    if not is_early:
        _wait_until(lambda: process.poll() is not None or b"attempt_started" in _read_from(journal, size))
    time.sleep(dice.random() * (2.0 if is_early else 0.4))
    family = _family(process)
    if target == "worker" and len(family) > 1:
        _kill(dice.choice(family[1:]))
        time.sleep(dice.random() * 0.5)
        family = _family(process)
    for victim in family if target == "everything" else family[:1]:
        _kill(victim)
    code = process.wait(PATIENCE_S)
    text = output.read_text()
    found = TALLY.search(text)
    print(f"round {number}: {target}, {found[0] if found else 'no tally yet'}")
    if found and int(found[1]) != sum(map(int, found.groups()[1:])):
        yield f"the tally does not add up: {found[0]}"
    # An execnet worker whose controller dies under its first words says so by a traceback of its own.
    if "INTERNALERROR" in text or re.search(r"Traceback[^!]*pytest_atesor", text) or code not in ORDERLY:
        yield f"round {number} ended with {code} and printed:\n{text}"


def _family(process: subprocess.Popen[bytes]) -> list[psutil.Process]:
    try:
        parent = psutil.Process(process.pid)
        return [parent, *parent.children(recursive=True)]
    except psutil.Error:
        return []


def _kill(process: psutil.Process) -> None:
    with contextlib.suppress(psutil.Error):
        process.send_signal(signal.SIGKILL)


def _wait_until(is_true: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not is_true() and time.monotonic() < end:
        time.sleep(0.01)


def _read_from(path: Path, offset: int) -> bytes:
    with path.open("rb") as file:
        file.seek(offset)
        return file.read()


def _finish(lab: Lab, bundle: Path) -> tuple[int, str]:
    command = lab.command("resume", str(bundle), "--retry-failed", "--workers", str(lab.workers), "--", "-q")
    done = subprocess.run(command, capture_output=True, text=True, check=False, **lab.surroundings())
    return done.returncode, done.stdout + done.stderr


def _check(bundle: Path, cases: int) -> Iterator[str]:
    """Yield what is wrong in the finished bundle."""
    results = json.loads((bundle / "batch_results.json").read_text())
    ended = Counter(case["status"] for case in results["cases"])
    if ended != {"PASS": cases}:
        yield f"not every case has passed: {dict(ended)}"
    history = json.loads((bundle / "batch_attempts.json").read_text())["attempts"]
    passed = Counter(attempt["case_id"] for attempt in history if attempt["status"] == "PASS")
    if doubled := [case_id for case_id, count in passed.items() if count > 1]:
        yield f"passed more than once: {doubled}"
    known = sorted(attempt["path"] for attempt in history)
    on_disk = sorted(path.relative_to(bundle).as_posix() for path in bundle.glob("cases/*/attempts/*"))
    if known != on_disk:
        yield f"history and directories differ: {set(known) ^ set(on_disk)}"
    journal = [json.loads(line) for line in (bundle / "journal.jsonl").read_text().splitlines()]
    starts = Counter(
        (event["case_id"], event["attempt_id"]) for event in journal if event["type"] == "attempt_started"
    )
    if again := [start for start, count in starts.items() if count > 1]:
        yield f"started more than once: {again}"
    if [event["seq"] for event in journal] != list(range(1, len(journal) + 1)):
        yield "the journal's numbers have gaps"
    if used := [attempt for attempt in history if attempt["exit_code"] == 9]:  # noqa: PLR2004 - of the cases' program
        yield f"a directory was used twice: {used}"


if __name__ == "__main__":
    sys.exit(main())
