"""The mark finds what a child started, whatever that did to hide."""

import os
import subprocess

import psutil

from pytest_atesor.runners.birth_mark import BirthMark

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
    try:
        mark.kill_all()
        assert not [pid for pid in pids if is_alive(pid)]
        assert all(is_alive(pid) for pid in spared_pids)
    finally:
        other.kill_all()
        for one in (process, spared):
            one.communicate()
    assert not any(is_alive(pid) for pid in (*pids, *spared_pids))


def test_killing_by_a_mark_that_nobody_has_harms_nobody() -> None:
    BirthMark().kill_all()
    assert psutil.pid_exists(os.getpid())


def is_alive(pid: int) -> bool:
    """Say whether a process runs; a zombie, whose parent has not looked yet, does not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
