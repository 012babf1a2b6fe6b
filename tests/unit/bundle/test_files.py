import errno
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pytest_atesor.bundle.files import check_file_writable, check_writable, explain_os_error, write_atomic
from pytest_atesor.errors import BundleError


@contextmanager
def files_limited_to(size_bytes: int) -> Iterator[None]:
    """Make the kernel refuse to grow a file beyond a size: a full disk in small, without root."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, handler)


@pytest.mark.parametrize("durable", [True, False])
def test_a_file_is_replaced_whole_and_nothing_else_is_left(tmp_path: Path, *, durable: bool) -> None:
    path = tmp_path / "x.json"
    path.write_text("old")
    write_atomic(path, "né\n", durable=durable)
    assert path.read_bytes() == "né\n".encode()
    assert list(tmp_path.iterdir()) == [path]


def test_a_refused_write_leaves_the_old_file_and_no_rest(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text("old")
    with files_limited_to(100), pytest.raises(BundleError, match="cannot write"):
        write_atomic(path, "x" * 10_000)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_what_a_process_of_the_same_id_is_writing_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    theirs = tmp_path / f".x.json.{os.getpid()}.tmp"
    theirs.write_text("half of")
    write_atomic(path, "ours")
    assert path.read_text() == "ours"
    assert theirs.read_text() == "half of"


_NAMES = """
import os
os.getpid = lambda: 7
from pytest_atesor.temporary import temporary_name
print(temporary_name("x.json"))
"""


def test_processes_of_one_id_write_under_two_names() -> None:
    first, second = (
        subprocess.run([sys.executable, "-c", _NAMES], check=True, capture_output=True, text=True).stdout
        for _ in range(2)
    )
    assert first != second
    assert first.startswith(".x.json.7-")


def test_a_missing_directory_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match=r"cannot write .*/gone/x\.json"):
        write_atomic(tmp_path / "gone" / "x.json", "x")


def test_a_full_disk_is_told_in_words() -> None:
    error = explain_os_error(
        OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), "append to", Path("/b/journal.jsonl")
    )
    assert (
        str(error)
        == "cannot append to /b/journal.jsonl: no space is left on the device; free some and resume the batch"
    )


def test_writability_is_seen_without_creating_anything(tmp_path: Path) -> None:
    check_writable(tmp_path / "a" / "b", "the output root")
    assert list(tmp_path.iterdir()) == []


def test_a_place_is_tried_beside_what_another_process_of_this_number_made(tmp_path: Path) -> None:
    theirs = tmp_path / f".atesor.{os.getpid()}.tmp"
    theirs.mkdir()
    check_writable(tmp_path / "a", "the output root")
    assert list(tmp_path.iterdir()) == [theirs]


def test_a_file_in_the_way_is_seen(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("")
    with pytest.raises(BundleError, match=r"as the output root: .*/a is not a directory"):
        check_writable(tmp_path / "a" / "b", "the output root")


def test_a_dangling_link_in_the_way_is_seen(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("nowhere")
    with pytest.raises(BundleError, match="is not a directory"):
        check_writable(tmp_path / "a" / "b", "the output root")


@pytest.mark.parametrize("path", ["/proc/x", "/proc/x/y"])
def test_a_place_that_takes_nothing_from_anybody_is_seen(path: str) -> None:
    with pytest.raises(BundleError, match=r"as the output root: .*/proc.*; choose another place"):
        check_writable(Path(path), "the output root")
    with pytest.raises(BundleError, match=r"JUnit file: .*/proc.*; choose another place"):
        check_file_writable(Path(path), "the JUnit file")


def test_a_file_that_is_there_or_can_be_made_may_be_written(tmp_path: Path) -> None:
    (tmp_path / "old.xml").write_text("old")
    for name in ("old.xml", "new.xml", "reports/new.xml"):
        check_file_writable(tmp_path / name, "the JUnit file")
    check_file_writable(Path("/dev/null"), "the JUnit file")
    assert [path.name for path in tmp_path.iterdir()] == ["old.xml"]
    assert (tmp_path / "old.xml").read_text() == "old"


@contextmanager
def asked_as_ordinary_user() -> Iterator[None]:
    """Let access(2) answer for an ordinary user, also when root tests: it goes by the real user id."""
    real, effective, saved = os.getresuid()
    if effective == 0:
        os.setresuid(65534, effective, saved)
    try:
        yield
    finally:
        os.setresuid(real, effective, saved)


def test_a_read_only_directory_is_seen(tmp_path: Path) -> None:
    directory = tmp_path / "sealed"
    directory.mkdir(mode=0o555)
    with asked_as_ordinary_user(), pytest.raises(BundleError, match="is not writable; choose another place"):
        check_writable(directory / "a", "the output root")
