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
from pytest_atesor.runners.guard import _SCRIPT, guarding
from tests.unit.processes import LIMIT_S, have_ended, read_command, watching

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
    return {one.pid for one in psutil.Process().children() if read_command(one)[:1] == ["atesor-guard"]}


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
        try:
            deadline = time.monotonic() + LIMIT_S
            while not (tmp_path / "pids").exists():
                assert time.monotonic() < deadline, "the third child never started"
                time.sleep(0.05)
            with watching(map(int, (tmp_path / "pids").read_text().split())) as tree:
                harness.kill()
                assert have_ended(tree)
        finally:
            harness.kill()


def run_guard(place: Path, note: str) -> list[str]:
    """Run the guard's script to its end with that note, and return what it would have done."""
    (place / "note").write_text(note)
    (place / "grep").write_text(f"#!/bin/sh\necho look >> {place}/done\n")
    (place / "grep").chmod(0o755)
    kill = f"echo kill >> {place}/done; : "
    script = f"exec 3< {place}/note\n{_SCRIPT}".replace("kill -KILL", kill)
    subprocess.run(
        ["/bin/sh", "-c", script],
        stdin=subprocess.DEVNULL,
        env={"PATH": str(place)},
        check=False,
        timeout=LIMIT_S,
    )
    return (place / "done").read_text().split() if (place / "done").exists() else []


@pytest.mark.parametrize("note", ["", "\n", "0 0\n", "x 9\n", "7x 9\n", ".* 9\n", "- -\n", "-7 9\n"])
def test_a_guard_without_a_clear_mark_kills_nobody(tmp_path: Path, note: str) -> None:
    assert run_guard(tmp_path, note) == []


@pytest.mark.parametrize("note", ["7", "7\n", "7 0\n", "7 1\n", "7 x\n", "7 -9\n"])
def test_a_guard_without_a_clear_group_kills_the_marked_alone(tmp_path: Path, note: str) -> None:
    assert run_guard(tmp_path, note) == ["look"]


def test_a_guard_kills_the_group_and_then_the_marked(tmp_path: Path) -> None:
    assert run_guard(tmp_path, f"{7:<20} {9:<10}\n") == ["kill", "look"]


@pytest.fixture(autouse=True)
def nothing_left() -> None:
    """These tests look at the guards themselves."""
    with guarding(1):
        pass
