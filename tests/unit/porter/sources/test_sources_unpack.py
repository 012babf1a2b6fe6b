"""Archives that nobody vouches for."""

import hashlib
import io
import os
import stat
import subprocess
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_atesor.porter.inside import unpack as program
from pytest_atesor.porter.inside.unpack import Checker, UnpackError, leads_out, unpack

Member = tuple[tarfile.TarInfo, bytes]


def a_file(name: str, content: bytes = b"x", mode: int = 0o644) -> Member:
    member = tarfile.TarInfo(name)
    member.size, member.mode, member.mtime = len(content), mode, 1_000_000_000
    return member, content


def a_special(name: str, kind: bytes, target: str = "") -> Member:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, target
    return member, b""


def make_tar(path: Path, *members: Member, mode: str = "w:gz") -> Path:
    with tarfile.open(path, mode) as archive:  # type: ignore[call-overload]  # the mode is the test's
        for member, content in members:
            archive.addfile(member, io.BytesIO(content))
    return path


def make_zip(path: Path, *members: tuple[zipfile.ZipInfo, bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for member, content in members:
            archive.writestr(member, content)
    return path


def zip_member(name: str, mode: int = stat.S_IFREG | 0o644) -> zipfile.ZipInfo:
    member = zipfile.ZipInfo(name, (2001, 9, 9, 1, 46, 40))
    member.external_attr = mode << 16
    return member


@pytest.mark.parametrize(
    "pack",
    [
        pytest.param(lambda path: path, id="tar"),
        pytest.param(lambda path: compress(path, "gzip"), id="gzip"),
        pytest.param(lambda path: compress(path, "bzip2"), id="bzip2"),
        pytest.param(lambda path: compress(path, "xz"), id="xz"),
        pytest.param(lambda path: compress(path, "xz", "--format=lzma"), id="lzma"),
    ],
)
def test_every_compression_is_told_by_its_content(tmp_path: Path, pack: Callable[[Path], Path]) -> None:
    plain = make_tar(tmp_path / "a.bin", a_file("top/configure", b"#!/bin/sh\n", 0o4777), mode="w:")
    archive = pack(plain)
    result = unpack(archive, tmp_path / "out")
    status = (tmp_path / "out/configure").stat()
    assert result["sha256"] == hashlib.sha256(archive.read_bytes()).hexdigest()
    assert stat.S_IMODE(status.st_mode) == 0o755
    assert status.st_mtime == 1_000_000_000


def compress(path: Path, *command: str) -> Path:
    out = path.with_name(f"{path.name}.packed")
    with path.open("rb") as source, out.open("wb") as target:
        subprocess.run([*command, "-c"], stdin=source, stdout=target, check=True)
    return out


def test_an_archive_without_a_single_top_directory_keeps_its_layout(tmp_path: Path) -> None:
    unpack(make_tar(tmp_path / "a", a_file("one/a"), a_file("README")), tmp_path / "out")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["README", "one"]


def test_links_inside_the_archive_work(tmp_path: Path) -> None:
    members = (
        a_file("top/a", b"hello"),
        a_special("top/d/up", tarfile.SYMTYPE, "../a"),
        a_special("top/hard", tarfile.LNKTYPE, "top/a"),
    )
    unpack(make_tar(tmp_path / "a", *members), tmp_path / "out")
    assert (tmp_path / "out/d/up").read_bytes() == (tmp_path / "out/hard").read_bytes() == b"hello"


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        pytest.param([a_file("top/../../evil")], "leads out", id="dot-dot"),
        pytest.param([a_file("/tmp/evil")], "absolute", id="absolute"),  # noqa: S108 - a member's name
        pytest.param([a_special("top/dev", tarfile.CHRTYPE)], "device", id="device"),
        pytest.param([a_special("top/pipe", tarfile.FIFOTYPE)], "pipe", id="pipe"),
        pytest.param([a_special("top/h", tarfile.LNKTYPE, "../../etc/passwd")], "leads out", id="hard-link"),
        pytest.param(
            [a_special("top/h", tarfile.LNKTYPE, "/etc/passwd")], "absolute", id="absolute-hard-link"
        ),
        pytest.param([a_file("top/a"), a_file("./top//a")], "twice", id="same-file-twice"),
        pytest.param([a_file("top/a"), a_file("top/a/b")], "file and a directory", id="file-as-directory"),
        pytest.param([a_file("/".join(["d"] * 200))], "impossible", id="too-deep"),
        pytest.param([], "no archive|empty", id="empty"),
        pytest.param(
            [
                a_special("top/x/here", tarfile.SYMTYPE, "."),
                a_special("top/out", tarfile.SYMTYPE, "x/here/../../.."),
                a_file("top/out/evil"),
            ],
            "leads out",
            id="link-through-a-link",
        ),
    ],
)
def test_a_hostile_archive_leaves_nothing_behind(tmp_path: Path, members: list[Member], reason: str) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    archive = make_tar(tmp_path / "a", *members)
    with pytest.raises(UnpackError, match=reason) as caught:
        unpack(archive, inner / "out")
    assert caught.value.trouble == "broken"
    assert list(inner.iterdir()) == []
    assert sorted(path.name for path in (tmp_path).iterdir()) == ["a", "inner"]


def test_a_symbolic_link_that_leads_out_is_left_out_and_said(tmp_path: Path) -> None:
    members = (
        a_special("top/etc", tarfile.SYMTYPE, "/etc"),
        a_file("top/etc/passwd", b"mine"),
        a_special("top/up", tarfile.SYMTYPE, "../../x"),
    )
    result = unpack(make_tar(tmp_path / "a", *members), tmp_path / "out")
    assert (tmp_path / "out/etc/passwd").read_bytes() == b"mine"
    assert not (tmp_path / "out/up").is_symlink()
    assert "2 symbolic links" in result["notes"][0]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        pytest.param(b"<!DOCTYPE html><html>sign in</html>", "web page", id="html"),
        pytest.param(b"version https://git-lfs.github.com/spec/v1\n", "LFS", id="lfs-pointer"),
        pytest.param(b"", "empty", id="nothing"),
        pytest.param(b"\x00" * 700, "no archive|empty", id="zeros"),
        pytest.param(b"\x1f\x8b\x08\x00 this is not gzip", "corrupt", id="corrupt-gzip"),
        pytest.param(b"PK\x03\x04 this is not zip", "corrupt", id="corrupt-zip"),
    ],
)
def test_what_is_no_archive_is_named(tmp_path: Path, content: bytes, reason: str) -> None:
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(UnpackError, match=reason):
        unpack(tmp_path / "a", tmp_path / "out")


def test_a_cut_off_archive_is_broken(tmp_path: Path) -> None:
    archive = make_tar(tmp_path / "a", a_file("top/a", os.urandom(100_000)))
    archive.write_bytes(archive.read_bytes()[:50_000])
    with pytest.raises(UnpackError, match="corrupt"):
        unpack(archive, tmp_path / "out")


def test_a_changed_checksum_at_the_very_end_is_noticed(tmp_path: Path) -> None:
    archive = make_tar(tmp_path / "a", a_file("top/a", b"x" * 1000))
    data = bytearray(archive.read_bytes())
    data[-8] ^= 0xFF
    archive.write_bytes(data)
    with pytest.raises(UnpackError, match="corrupt"):
        unpack(archive, tmp_path / "out")


def test_a_missing_decompressor_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").write_bytes(b"\x28\xb5\x2f\xfd" + b"x" * 100)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UnpackError, match="zstd") as caught:
        unpack(tmp_path / "a", tmp_path / "out")
    assert caught.value.trouble == "tool"


def test_sizes_and_numbers_are_bounded() -> None:
    checker = Checker()
    with pytest.raises(UnpackError, match="bytes"):
        checker.admit("top/a", "file", 1 << 60)


def test_a_zip_keeps_permissions_times_and_links(tmp_path: Path) -> None:
    archive = make_zip(
        tmp_path / "a.zip",
        (zip_member("top/run", stat.S_IFREG | 0o755), b"#!/bin/sh\n"),
        (zip_member("top/link", stat.S_IFLNK | 0o777), b"run"),
    )
    unpack(archive, tmp_path / "out")
    assert os.access(tmp_path / "out/run", os.X_OK)
    assert (tmp_path / "out/run").stat().st_mtime < 1_100_000_000
    assert (tmp_path / "out/link").readlink() == Path("run")


@pytest.mark.parametrize(
    ("name", "mode", "content"),
    [
        pytest.param("../evil", stat.S_IFREG | 0o644, b"x", id="dot-dot"),
        pytest.param("/evil", stat.S_IFREG | 0o644, b"x", id="absolute"),
        pytest.param("dev", stat.S_IFBLK | 0o644, b"", id="device"),
    ],
)
def test_a_hostile_zip_is_refused(tmp_path: Path, name: str, mode: int, content: bytes) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    archive = make_zip(tmp_path / "a.zip", (zip_member(name, mode), content))
    with pytest.raises(UnpackError, match=r"leads out|absolute|device"):
        unpack(archive, inner / "out")
    assert list(inner.iterdir()) == []


@pytest.mark.parametrize(
    ("path", "target", "expected"),
    [
        ("a", "b", False),
        ("d/a", "../b", False),
        ("a", "../b", True),
        ("d/a", "../../b", True),
        ("a", "/b", True),
        ("a", "d/../../b", True),
    ],
)
def test_where_a_link_leads(path: str, target: str, expected: bool) -> None:  # noqa: FBT001 - a table's column
    assert leads_out(path, target) is expected


def _refused(tmp_path: Path, archive: Path) -> str:
    """Return why an archive is refused; nothing of it may be left."""
    inner = tmp_path / "inner"
    inner.mkdir()
    with pytest.raises(UnpackError) as caught:
        unpack(archive, inner / "out")
    assert caught.value.trouble == "broken"
    assert list(inner.iterdir()) == []
    return str(caught.value)


@pytest.mark.parametrize("kind", ["tar", "zip"])
def test_a_bomb_of_bytes_is_refused_before_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(program, "MOST_BYTES", 10_000)
    zeros = bytes(20_000)
    archive = (
        make_tar(tmp_path / "a", a_file("top/a"), a_file("top/b", zeros))
        if kind == "tar"
        else make_zip(tmp_path / "a", (zip_member("top/a"), b"x"), (zip_member("top/b"), zeros))
    )
    assert "unpacks to more than 10000 bytes" in _refused(tmp_path, archive)


def test_a_sparse_member_counts_with_its_whole_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "MOST_BYTES", 10_000_000)
    (tmp_path / "top").mkdir()
    with (tmp_path / "top/holes").open("wb") as file:
        file.truncate(50_000_000)
    archive = tmp_path / "a"
    subprocess.run(["/bin/tar", "-cSf", archive, "-C", tmp_path, "top"], check=True)
    assert archive.stat().st_size < 100_000
    assert "more than 10000000 bytes" in _refused(tmp_path, archive)


@pytest.mark.parametrize("kind", ["tar", "zip"])
def test_a_bomb_of_members_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setattr(program, "MOST_MEMBERS", 10)
    names = [f"top/{number}" for number in range(20)]
    archive = (
        make_tar(tmp_path / "a", *(a_file(one, b"") for one in names))
        if kind == "tar"
        else make_zip(tmp_path / "a", *((zip_member(one), b"") for one in names))
    )
    assert "more than 10 members" in _refused(tmp_path, archive)


def test_an_archive_that_goes_on_behind_its_end_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "MOST_TRAILING_BYTES", 1_000_000)
    plain = make_tar(tmp_path / "plain", a_file("top/a"), mode="w:")
    with plain.open("ab") as file:
        file.write(bytes(5_000_000))
    assert "behind its end" in _refused(tmp_path, compress(plain, "gzip"))


def test_a_zip_that_lies_about_a_size_is_refused(tmp_path: Path) -> None:
    archive = tmp_path / "a.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr(zip_member("top/a"), bytes(100_000), zipfile.ZIP_DEFLATED)
    data = archive.read_bytes()
    archive.write_bytes(data.replace((100_000).to_bytes(4, "little"), (10).to_bytes(4, "little")))
    _refused(tmp_path, archive)


def test_names_of_any_bytes_are_unpacked_as_they_are(tmp_path: Path) -> None:
    names = [b"new\nline", b"\xff\xfe", b"-rf", b"tab\there", "Ωmega".encode()]
    members = [a_file(os.fsdecode(b"top/" + name)) for name in names]
    result = unpack(make_tar(tmp_path / "a", *members), tmp_path / "out")
    assert result["members"] == len(names)
    assert {os.fsencode(one.name) for one in (tmp_path / "out").iterdir()} == set(names)


def test_what_is_unpacked_can_be_read_by_the_agent_too(tmp_path: Path) -> None:
    unpack(make_tar(tmp_path / "a", a_file("top/secret.so", mode=0o600)), tmp_path / "out")
    assert stat.S_IMODE((tmp_path / "out/secret.so").stat().st_mode) == 0o644
