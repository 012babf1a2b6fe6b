"""What slots share of their downloads: by content, bounded, whatever rivals and strangers do."""

import hashlib
import os
import threading
from pathlib import Path

import pytest

from pytest_atesor.porter import download_pool
from pytest_atesor.porter.download_pool import DownloadPool


def digest_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@pytest.fixture
def pool(tmp_path: Path) -> DownloadPool:
    return DownloadPool(tmp_path / "state/downloads", spare_bytes=0)


def keep(pool: DownloadPool, file: Path, content: bytes) -> int:
    file.write_bytes(content)
    return keep_file(pool, file)


def keep_file(pool: DownloadPool, file: Path) -> int:
    handle = os.open(file, os.O_RDONLY)
    try:
        return pool.keep(handle)
    finally:
        os.close(handle)


def files_of(tmp_path: Path) -> dict[str, bytes]:
    found = (one for one in (tmp_path / "state/downloads").rglob("*") if one.is_file())
    return {one.name: one.read_bytes() for one in found if one.name != "grown"}


def test_what_one_slot_kept_another_gets_as_a_file_of_its_own(pool: DownloadPool, tmp_path: Path) -> None:
    assert pool.is_empty()
    assert keep(pool, tmp_path / "a_1_riscv64.deb", b"content") == 7
    digest = digest_of(b"content")
    assert not pool.is_empty()
    assert pool.has(digest)
    assert pool.hand_out(digest, tmp_path / "one") == 7
    assert pool.hand_out(digest, tmp_path / "two") == 7
    (tmp_path / "one").write_bytes(b"changed")
    (tmp_path / "a_1_riscv64.deb").write_bytes(b"changed")
    assert (tmp_path / "two").read_bytes() == b"content"
    assert pool.hand_out(digest, tmp_path / "three") == 7
    assert (tmp_path / "three").read_bytes() == b"content"
    assert oct((tmp_path / "three").stat().st_mode)[-3:] == "644"
    assert keep(pool, tmp_path / "same", b"content") == 0


def test_what_is_not_there_leaves_no_file(pool: DownloadPool, tmp_path: Path) -> None:
    assert pool.hand_out(digest_of(b"nothing"), tmp_path / "copy") is None
    assert not (tmp_path / "copy").exists()


def test_a_pool_that_cannot_be_looked_at_has_nothing(tmp_path: Path) -> None:
    pool = DownloadPool(tmp_path / ("x" * 300), spare_bytes=0)
    assert pool.is_empty()
    assert not pool.has(digest_of(b"content"))
    assert pool.hand_out(digest_of(b"content"), tmp_path / "copy") is None


@pytest.mark.parametrize("forgery", ["content", "cut", "link", "pipe", "directory"])
def test_an_entry_that_is_not_what_its_name_says_is_not_handed_out(
    pool: DownloadPool, tmp_path: Path, forgery: str
) -> None:
    keep(pool, tmp_path / "good", b"content")
    digest = digest_of(b"content")
    entry = tmp_path / f"state/downloads/sha256/{digest[:2]}/{digest}"
    entry.unlink()
    match forgery:
        case "content":
            entry.write_bytes(b"CONTENT")
        case "cut":
            entry.write_bytes(b"")
        case "link":
            entry.symlink_to(tmp_path / "good")
        case "pipe":
            os.mkfifo(entry)
        case _:
            entry.mkdir()
    assert pool.hand_out(digest, tmp_path / "copy") is None
    assert not (tmp_path / "copy").exists()
    if forgery in {"content", "cut", "pipe"}:  # seen while it was read, and gone
        assert not entry.exists()


def test_a_target_that_exists_is_never_written(pool: DownloadPool, tmp_path: Path) -> None:
    keep(pool, tmp_path / "good", b"content")
    (tmp_path / "secret").write_bytes(b"secret")
    (tmp_path / "copy").symlink_to(tmp_path / "secret")
    with pytest.raises(FileExistsError):
        pool.hand_out(digest_of(b"content"), tmp_path / "copy")
    assert (tmp_path / "secret").read_bytes() == b"secret"


def test_a_file_that_is_too_large_is_not_kept_even_if_it_grows_while_it_is_read(
    pool: DownloadPool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download_pool, "LARGEST_BYTES", 8)
    assert keep(pool, tmp_path / "large", b"123456789") == 0
    assert Path("/proc/self/status").stat().st_size == 0
    assert keep_file(pool, Path("/proc/self/status")) == 0
    assert files_of(tmp_path) == {}
    assert keep(pool, tmp_path / "fits", b"12345678") == 8
    assert files_of(tmp_path) == {digest_of(b"12345678"): b"12345678"}


def test_other_things_than_files_are_not_kept(pool: DownloadPool, tmp_path: Path) -> None:
    assert keep_file(pool, tmp_path) == 0
    assert files_of(tmp_path) == {}


def test_rivals_keep_and_take_the_same_files_at_once(tmp_path: Path) -> None:
    contents = [bytes([number]) * 50_000 for number in range(20)]
    wrong: list[str] = []

    def work(name: str) -> None:
        mine = DownloadPool(tmp_path / "state/downloads", spare_bytes=0)
        for number, content in enumerate(contents):
            keep(mine, tmp_path / f"{name}-{number}", content)
            copy = tmp_path / f"{name}-{number}-copy"
            if mine.hand_out(digest_of(content), copy) is None or copy.read_bytes() != content:
                wrong.append(f"{name} {number}")

    rivals = [threading.Thread(target=work, args=(f"rival-{number}",)) for number in range(4)]
    for one in rivals:
        one.start()
    for one in rivals:
        one.join()
    assert wrong == []
    assert files_of(tmp_path) == {digest_of(one): one for one in contents}


def test_what_was_used_longest_ago_goes_first(tmp_path: Path) -> None:
    pool = DownloadPool(tmp_path / "state/downloads", most_bytes=100, spare_bytes=0)
    digests = []
    for number in range(10):
        content = b"%d" % number * 20
        keep(pool, tmp_path / "file", content)
        digests.append(digest_of(content))
        entry = next((tmp_path / "state/downloads/sha256").glob(f"*/{digests[-1]}"))
        os.utime(entry, (number, number))
    pool.hand_out(digests[0], tmp_path / "copy")
    pool.trim()
    assert sorted(files_of(tmp_path)) == sorted([digests[0], *digests[7:]])
    pool.trim()
    assert len(files_of(tmp_path)) == 4


def test_a_directory_among_the_files_keeps_nothing_from_being_trimmed(tmp_path: Path) -> None:
    pool = DownloadPool(tmp_path / "state/downloads", most_bytes=1, spare_bytes=0)
    keep(pool, tmp_path / "file", b"content")
    (entry,) = (tmp_path / "state/downloads/sha256").glob("*/*")
    directory = entry.parent / "directory"
    directory.mkdir()
    os.utime(directory, (1, 1))
    pool.trim()
    assert list(entry.parent.iterdir()) == [directory]


def test_the_bound_is_held_without_being_asked_at_each_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download_pool, "_UNIT", 1000)
    pool = DownloadPool(tmp_path / "state/downloads", most_bytes=10_000, spare_bytes=0)
    sizes = []
    for number in range(200):
        keep(pool, tmp_path / "file", b"%d" % number + bytes(996))
        sizes.append(len(files_of(tmp_path)))
    assert sizes[62] == 63
    assert max(sizes) <= 10 + 64
    assert sizes[63] <= 10


def test_what_a_killed_process_has_left_goes_after_a_day(pool: DownloadPool, tmp_path: Path) -> None:
    keep(pool, tmp_path / "good", b"content")
    old, young = (tmp_path / f"state/downloads/.new-{word}" for word in ("old", "young"))
    old.write_bytes(b"half")
    young.write_bytes(b"half")
    os.utime(old, (1, 1))
    pool.trim()
    assert not old.exists()
    assert young.exists()


def test_nothing_is_kept_where_the_disk_has_little_room(tmp_path: Path) -> None:
    pool = DownloadPool(tmp_path / "state/downloads", spare_bytes=2**62)
    with pytest.raises(OSError, match="little room"):
        keep(pool, tmp_path / "good", b"content")
    assert files_of(tmp_path) == {}


def test_nothing_is_handed_out_where_the_disk_has_little_room(pool: DownloadPool, tmp_path: Path) -> None:
    keep(pool, tmp_path / "good", b"content")
    full = DownloadPool(tmp_path / "state/downloads", spare_bytes=2**62)
    with pytest.raises(OSError, match="little room"):
        full.hand_out(digest_of(b"content"), tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_files_are_copied_where_the_kernel_does_not_do_it(
    pool: DownloadPool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_given: object) -> int:
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(os, "copy_file_range", refuse)
    content = bytes(range(256)) * 10_000
    assert keep(pool, tmp_path / "good", content) == len(content)
    assert pool.hand_out(digest_of(content), tmp_path / "copy") == len(content)
    assert (tmp_path / "copy").read_bytes() == content
