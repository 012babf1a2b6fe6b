"""The mark finds what a child started, whatever that did to hide."""

import os
import subprocess

import psutil

from pytest_atesor.runners.birth_mark import BirthMark
from tests.unit.processes import have_ended, is_alive, watching

HIDES = "(setsid env -i sh -c 'echo $$; exec sleep 600' &) ; echo $$; exec sleep 600"


def start(mark: BirthMark) -> tuple["subprocess.Popen[str]", list[int]]:
    """Start a shell with that mark, and a daemon of its own; return it and both process ids."""
    with mark.given():
        process = subprocess.Popen(["/bin/sh", "-c", HIDES], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, [int(process.stdout.readline()) for _ in range(2)]


def test_killing_by_mark_leaves_nothing_of_the_child_and_everything_of_another() -> None:
    mark, other = BirthMark(), BirthMark()
    process, pids = start(mark)
    spared, spared_pids = start(other)
    with watching(pids) as marked, watching(spared_pids) as others:
        mark.kill_all()
        assert have_ended(marked)
        assert all(is_alive(pid) for pid in spared_pids)
        other.kill_all()
        assert have_ended(others)
    for one in (process, spared):
        one.communicate()


def test_no_two_marks_are_the_same_however_quickly_they_are_made() -> None:
    assert len({BirthMark().number for _ in range(10_000)}) == 10_000


def test_killing_by_a_mark_that_nobody_has_harms_nobody() -> None:
    BirthMark().kill_all()
    assert psutil.pid_exists(os.getpid())
