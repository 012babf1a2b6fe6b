import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_atesor.bundle.lock import BundleLock, Holder, wait_for_workers
from pytest_atesor.errors import BundleError

HOLDING = """
import sys
from pathlib import Path
from pytest_atesor.bundle.lock import BundleLock, Holder
lock = BundleLock(Path(sys.argv[1]), Holder(host="server", pid=99, started_at="2026-01-01T00:00:00Z"))
lock.acquire()
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "bundle.lock"


def test_a_second_process_is_refused_at_once_and_told_who_holds_it(path: Path, holder: Holder) -> None:
    command = [sys.executable, "-c", HOLDING, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        with pytest.raises(BundleError) as caught:
            BundleLock(path, holder).acquire()
        assert str(caught.value) == (
            f"{path.parent} is in use by process 99 on server since 2026-01-01T00:00:00Z; "
            "wait for it or stop it"
        )
        # Its death frees the lock, without any clean-up of its own.
        other.send_signal(signal.SIGKILL)
        other.wait()
        with BundleLock(path, holder):
            pass


def test_a_child_that_outlives_the_holder_does_not_keep_the_lock(path: Path, holder: Holder) -> None:
    with BundleLock(path, holder):
        command = [sys.executable, "-c", "import sys; sys.stdin.read()"]
        child = subprocess.Popen(command, stdin=subprocess.PIPE, close_fds=False)
    try:
        with BundleLock(path, holder):
            pass
    finally:
        child.communicate()


def test_the_lock_can_be_taken_again_after_its_release(path: Path, holder: Holder) -> None:
    lock = BundleLock(path, holder)
    for _ in range(2):
        with lock:
            assert path.exists()
    lock.release()


def test_a_note_that_cannot_be_removed_does_not_keep_the_lock(path: Path, holder: Holder) -> None:
    note = path.with_name("bundle.lock.holder")
    with BundleLock(path, holder):
        # as on a disk that went read-only, it refuses to be unlinked
        note.unlink()
        note.mkdir()
    note.rmdir()
    with BundleLock(path, holder):
        assert note.is_file()


@pytest.mark.parametrize("left", ["", "{", "[]", '{"pid": 1}', "\udc80"], ids=ascii)
def test_a_damaged_note_about_the_holder_does_not_matter(path: Path, holder: Holder, left: str) -> None:
    with BundleLock(path, holder):
        path.with_name("bundle.lock.holder").write_bytes(os.fsencode(left))
        with pytest.raises(BundleError, match="is in use by another process"):
            BundleLock(path, holder).acquire()


def test_a_path_that_cannot_be_locked_is_a_clear_error(path: Path, holder: Holder) -> None:
    path.mkdir()
    with pytest.raises(BundleError, match=r"cannot lock .*bundle\.lock: a directory stands there"):
        BundleLock(path, holder).acquire()


PRESENT = """
import sys
from pathlib import Path
from pytest_atesor.bundle.lock import WorkerPresence
presence = WorkerPresence(Path(sys.argv[1]))
presence.take()
print("present", flush=True)
sys.stdin.read()
"""


def test_who_takes_over_waits_for_the_last_worker(path: Path) -> None:
    command = [sys.executable, "-c", PRESENT, str(path)]
    with (
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as one,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as two,
    ):
        assert one.stdout is not None
        assert two.stdout is not None
        assert (one.stdout.readline(), two.stdout.readline()) == (b"present\n", b"present\n")
        with pytest.raises(BundleError, match=r"a worker of the former run of .* does not end"):
            wait_for_workers(path, lambda: None, patience_s=0)
        one.kill()
        waits = []

        def end_the_other() -> None:
            waits.append("waiting")
            two.kill()

        wait_for_workers(path, end_the_other)
    assert waits == ["waiting"]


def test_where_no_worker_ever_was_nothing_is_waited_for_or_made(path: Path) -> None:
    wait_for_workers(path, lambda: pytest.fail("it waited"))
    assert not path.exists()
