"""The guard is used again and again, replaced when it dies, and kills only for the child of the moment."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from pytest_atesor.core.child_end import ChildEnd
from pytest_atesor.runners.descendants import child_pids
from pytest_atesor.runners.guard import guarding

RunScript = Callable[..., ChildEnd]

HARNESS = """
import sys, time
from pathlib import Path
from pytest_atesor.runners.process import ChildSpec, run_child
from pytest_atesor.runners.stop import StopFlag
for script in ("true", "true", "setsid sleep 600 & echo $! $$ > pids.tmp; mv pids.tmp pids; sleep 600"):
    run_child(ChildSpec(argv=("bash", "-c", script), env={"PATH": sys.argv[1]}, cwd=Path.cwd(),
        log_path=Path("run.log"), deadline=time.monotonic() + 600), stop=StopFlag())
"""


def guards() -> set[int]:
    return {pid for pid in child_pids() if psutil.Process(pid).cmdline()[:1] == ["atesor-guard"]}


def test_one_guard_serves_one_child_after_the_other(run_script: RunScript) -> None:
    before = guards()
    assert len(before) == 1
    assert [run_script("exit 3").exit_code for _ in range(3)] == [3, 3, 3]
    assert guards() == before


def test_a_guard_that_was_killed_is_replaced(run_script: RunScript) -> None:
    (dead,) = guards()
    os.kill(dead, signal.SIGKILL)
    os.waitid(os.P_PID, dead, os.WEXITED | os.WNOWAIT)
    assert run_script("exit 3").exit_code == 3
    assert len(guards() - {dead}) == 1


def test_a_harness_that_dies_in_a_later_child_takes_its_whole_tree_with_it(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", HARNESS, os.environ["PATH"]], cwd=tmp_path) as harness:
        deadline = time.monotonic() + 60
        while not (tmp_path / "pids").exists():
            assert time.monotonic() < deadline, "the third child never started"
            time.sleep(0.05)
        harness.kill()
    pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
    _, alive = psutil.wait_procs([psutil.Process(pid) for pid in pids if psutil.pid_exists(pid)], timeout=30)
    assert alive == []


@pytest.fixture(autouse=True)
def nothing_left() -> None:
    """These tests look at the guards themselves."""
    with guarding(1):
        pass
