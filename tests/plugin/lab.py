"""A rootdir with package lists and a small agent, and runs of pytest in it.

The agent is an ordinary shell script. What it does is the last directory of the URL:
https://x.org/fail/zlib fails. It appends "start NAME" and "end NAME" to the file ``events`` in the rootdir,
so that tests see order without clocks.
"""

import contextlib
import fcntl
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

AGENT = r"""#!/bin/sh
args="$*"
while [ $# -gt 0 ]; do
    case "$1" in
        --repo) url=$2; shift ;;
        --container) slot=$2; shift ;;
    esac
    shift
done
name=${url##*/}; rest=${url%/*}; verb=${rest##*/}
echo "start $name" >> events
finish() { echo "end $name" >> events; exit "$1"; }
blame() {
    echo "{\"schema_version\": \"result_v1\", \"cause\": \"environment\", \"reason\": \"$1\"}" \
        > "$ATESOR_ATTEMPT_DIR/result.json"
}
wait_for() { until grep -qsx "$1" events; do sleep 0.05; done; }
case "$verb" in
    pass) finish 0 ;;
    unverified) finish 3 ;;
    fail) echo "building"; echo "error: no rule to make target" >&2; finish 1 ;;
    slow) sleep 0.5; finish 0 ;;
    slow-fail) sleep 0.5; echo "error: no rule to make target" >&2; finish 1 ;;
    hang) exec sleep 3000 ;;
    stubborn) trap 'echo "term $name" >> events' TERM; while :; do sleep 0.05; done ;;
    strange) printf '\033[31mred\033[0m \000 nul \200 byte\nerror: \033]0;title\007bad\n'; finish 1 ;;
    flood) yes "a line of a flood" | head -c 400000; echo "error: too much"; finish 1 ;;
    environment) blame "the mirror is down"; finish 1 ;;
    recovering) [ "${ATESOR_ATTEMPT_DIR##*/}" != 001 ] || { blame "the mirror is down"; finish 1; }
        finish 0 ;;
    forge) echo "ld: final link failed: No space left on device"; finish 1 ;;
    kill-second) [ "${ATESOR_ATTEMPT_DIR##*/}" = 001 ] || { kill -9 $PPID; sleep 3000; }
        blame "the mirror is down"; finish 1 ;;
    kill-worker) kill -9 $PPID; sleep 3000 ;;
    kill-after-*) wait_for "end ${verb#kill-after-}"; kill -9 $PPID; sleep 3000 ;;
    stop-worker) kill -STOP $PPID; sleep 3000 ;;
    exclusive) mkdir lock || finish 1; sleep 0.3; rmdir lock; finish 0 ;;
    args) echo "$args"; echo "deadline=$ATESOR_RUN_DEADLINE key=$KEY"; finish 0 ;;
    after-*) wait_for "end ${verb#after-}"; finish 0 ;;
esac
"""

SECONDS = 300
"""How long something that must come is waited for, on a machine that may stand still for a while."""

CASE_SECONDS = 600
"""The time limit of a case that is not to reach it: more than anybody waits, less than an agent hangs."""

PYTEST = ("pytest", "-p", "no:hypothesispytest")


@dataclass(frozen=True)
class Run:
    """How one pytest process ended."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


class Lab:
    """A rootdir for batches."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "packages").mkdir(parents=True)
        (root / "pytest.ini").write_text("[pytest]\n")
        agent = root / "agent"
        agent.write_text(AGENT)
        agent.chmod(0o755)

    def write_list(
        self, name: str, verbs: Mapping[str, str], *, timeout_s: int = CASE_SECONDS, **more: Any
    ) -> Path:
        """Write packages/NAME.json with a package for each key, doing what its value says.

        ``more`` maps a package to further keys of its entry.
        """
        packages = [
            {"name": package, "url": f"https://example.org/{verb}/{package}", **more.get(package, {})}
            for package, verb in verbs.items()
        ]
        body = {"$schema_version": 1, "defaults": {"timeout_seconds": timeout_s}, "packages": packages}
        path = self.root / "packages" / f"{name}.json"
        path.write_text(json.dumps(body))
        return path

    def write_manifest(self, scripts: Mapping[str, str], **more: Any) -> Path:
        """Write m.yaml with a case for each key, running its value as a shell script.

        ``more`` maps a case to further keys of its command.
        """
        cases = []
        (self.root / "specs").mkdir(exist_ok=True)
        for label, script in scripts.items():
            command = {"argv": ["sh", "-c", script], **more.get(label, {})}
            runspec = {"schema_version": "runspec_v1", "kind": "command", "command": command}
            (self.root / "specs" / f"{label}.json").write_text(json.dumps(runspec))
            cases.append({"label": label, "runspec": f"specs/{label}.json"})
        path = self.root / "m.yaml"
        path.write_text(json.dumps({"schema_version": "batch_v1", "batch": {"cases": cases}}))
        return path

    def environment(self, **more: str) -> dict[str, str]:
        """Return an environment without this session's own variables."""
        own = ("ATESOR_", "PYTEST_", "COV_")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(own)}
        return {
            **kept,
            "ATESOR_STATE_DIR": str(self.root / "state"),
            "ATESOR_ENGINE": "none",
            "ATESOR_AGENT": "./agent",
            "COLUMNS": "160",
            **more,
        }

    def start(
        self, *arguments: str, module: tuple[str, ...] = PYTEST, ignored: str = "", **environment: str
    ) -> "subprocess.Popen[str]":
        """Start pytest, or another module, in the rootdir, leader of its own process group.

        ``ignored`` has the names of signals that it ignores from the start, as under nohup.
        """
        ignoring = ("sh", "-c", f'trap "" {ignored}; exec "$@"', "sh") if ignored else ()
        return subprocess.Popen(
            [*ignoring, sys.executable, "-m", *module, *arguments],
            cwd=self.root,
            env=self.environment(**environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            process_group=0,
        )

    def run(self, *arguments: str, timeout_s: float = SECONDS, **environment: str) -> Run:
        """Run pytest in the rootdir to its end."""
        return finish(self.start(*arguments, **environment), timeout_s)

    def batch(self, *arguments: str, **environment: str) -> Run:
        """Run ``atesor batch`` in the rootdir to its end."""
        return finish(self.start(*arguments, module=("pytest_atesor.cli", "batch"), **environment))

    def events(self) -> list[str]:
        """Return what the agents wrote, in order."""
        path = self.root / "events"
        return path.read_text().splitlines() if path.exists() else []

    def wait_for_events(self, *lines: str) -> None:
        """Wait until the agents have written all of these lines."""
        wait_until(lambda: set(lines) <= set(self.events()))

    def wait_until(self, is_true: Callable[[], bool]) -> None:
        """Poll for a condition that another process brings about."""
        wait_until(is_true)

    @property
    def bundles(self) -> list[Path]:
        return sorted((self.root / "runs" / "batches").glob("*"), key=lambda path: path.stat().st_mtime_ns)

    def journal(self) -> list[dict[str, Any]]:
        """Return the journal of the newest bundle."""
        return [json.loads(line) for line in (self.bundles[-1] / "journal.jsonl").read_text().splitlines()]

    def results(self) -> dict[str, Any]:
        """Return the newest bundle's view of the current outcomes."""
        content: dict[str, Any] = json.loads((self.bundles[-1] / "batch_results.json").read_text())
        return content


def wait_until(is_true: Callable[[], bool]) -> None:
    """Poll for a condition that another process brings about."""
    end = time.monotonic() + SECONDS
    while not is_true():
        assert time.monotonic() < end, "the event never came"
        time.sleep(0.02)


def finish(process: "subprocess.Popen[str]", timeout_s: float = SECONDS) -> Run:
    """Wait for the end of a process; one that does not end is killed and fails the test with what it said."""
    try:
        out, err = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        kill_tree(process.pid)
        out, err = process.communicate()
        pytest.fail(f"it did not end within {timeout_s:g} s:\n{out}{err}")
    return Run(process.returncode, out, err)


def kill_tree(pid: int) -> None:
    """Kill a process and all below it, none of which can do anything about it or have more children."""
    tree = [psutil.Process(pid)]
    for one in tree:  # which grows: who stands still has all the children that there will be
        with contextlib.suppress(psutil.Error):
            one.suspend()
            wait_until(lambda process=one: stands_still(process))  # type: ignore[misc]  # bound now
            tree += one.children()
    for one in reversed(tree):  # leaves first: the kernel wakes who stands still in a dead parent's group
        with contextlib.suppress(psutil.Error):
            one.kill()
    wait_until(lambda: all(map(has_ended, tree)))


def has_ended(process: psutil.Process) -> bool:
    """Say whether a process is gone, or waits for its parent to hear of its end."""
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def stands_still(process: psutil.Process) -> bool:
    """Say whether no thread of a process runs: a signal reaches one after the other, and some later."""
    states = []
    for thread in Path(f"/proc/{process.pid}/task").glob("*/stat"):
        with contextlib.suppress(OSError):
            states.append(thread.read_bytes().rpartition(b") ")[2][:1])
    return set(states) <= {b"T", b"t", b"Z", b"X"}


@contextlib.contextmanager
def batches_alone() -> Iterator[None]:
    """Let no other test's batches start on an engine meanwhile, of whatever suite of this user.

    Each start removes what killed batches left behind, so that a test of just this would find nothing.
    """
    place = Path(tempfile.gettempdir()) / f"pytest-atesor-batches-{os.getuid()}.lock"
    with place.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def run_inside(pytester: pytest.Pytester, capfd: pytest.CaptureFixture[str], *arguments: str) -> Run:
    """Run pytest within this process, for runs that end early; much cheaper than a process of its own."""
    # The plugins that are left out do nothing for these runs, and take seconds at their end.
    left_out = ("cacheprovider", "unraisableexception", "hypothesispytest")
    config = pytester.parseconfig(*(f"-pno:{name}" for name in left_out), *arguments)
    capfd.readouterr()
    code = config.hook.pytest_cmdline_main(config=config)
    captured = capfd.readouterr()
    return Run(int(code), captured.out, captured.err)
