"""Unpack one upstream archive that nobody vouches for: ``python3 -I unpack.py ARCHIVE DIRECTORY``.

Every member is checked before it is written, everything is written below a new directory, and only a whole
archive is moved to DIRECTORY (which must not exist), without its single top directory when it has one. What
can only be hostile or broken (paths that lead out, devices, hard links that lead out, the same file twice,
too much of anything) refuses the archive; a symbolic link that leads out is left out and counted, because
real archives carry such in test data. Set-id bits, owners and write permission for others are dropped.

The last line on standard output is a JSON object with sha256, size_bytes, members and notes, or with trouble
("broken"; "tool" with the name of a program to install) and reason. Exit code 0 or 3.
Standard library only, Python 3.12 and newer, or any with tarfile's extraction filters.
"""

import hashlib
import json
import os
import posixpath
import shutil
import stat
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
import zlib
from pathlib import Path
from typing import IO, Any

MARK = "@source-result "
MOST_MEMBERS = 500_000
MOST_BYTES = 16 * 1024**3
MOST_TRAILING_BYTES = 256 * 1024**2  # behind the end of a tar archive, where only padding belongs
LONGEST_PATH = 2000
DEEPEST_PATH = 100
CHUNK = 256 * 1024
REMARK = 2  # the exit code of gzip and xz for something that is no error, such as trailing garbage

# What an archive starts with, and the programs that decompress it: ordinary tools are much faster than Python
# under emulation.
DECOMPRESSORS = (
    (b"\x1f\x8b", "gzip"),
    (b"\x1f\x9d", "gzip"),
    (b"BZh", "bzip2"),
    (b"\xfd7zXZ\x00", "xz"),
    (b"\x5d\x00\x00", "xz"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"LZIP", "lzip"),
)


class UnpackError(Exception):
    """An archive that is not unpacked; ``trouble`` is "broken" or "tool"."""

    def __init__(self, trouble: str, reason: str) -> None:
        """Keep both parts."""
        super().__init__(reason)
        self.trouble = trouble


class Checker:
    """Decides about members one by one and remembers what it saw."""

    def __init__(self) -> None:
        """Start with nothing seen."""
        self.members = 0
        self.total_bytes = 0
        self.files: set[str] = set()
        self.left_out: list[str] = []

    def admit(self, name: str, kind: str, size_bytes: int, target: str = "") -> "str | None":
        """Return the normal path of a member, None to leave it out. Raises UnpackError.

        ``kind`` is "file", "directory", "symlink", "hardlink" or what else the archive calls it.
        """
        self.members += 1
        self.total_bytes += max(size_bytes, 0)
        if self.members > MOST_MEMBERS:
            raise UnpackError("broken", f"the archive has more than {MOST_MEMBERS} members")
        if self.total_bytes > MOST_BYTES:
            raise UnpackError("broken", f"the archive unpacks to more than {MOST_BYTES} bytes")
        path = normal_path(name)
        if kind == "directory":
            return path
        if path == ".":
            raise UnpackError("broken", f"the archive has a {kind} without a name")
        if kind not in {"file", "symlink", "hardlink"}:
            raise UnpackError("broken", f"the archive has a {kind}: {shown(name)}")
        if kind == "hardlink":
            normal_path(target)
        if path in self.files:
            raise UnpackError("broken", f"the archive has {shown(name)} twice")
        self.files.add(path)
        if kind == "symlink" and leads_out(path, target):
            self.left_out.append(f"{shown(path)} -> {shown(target)}")
            return None
        return path

    def notes(self) -> "list[str]":
        """Return what was left out, in words."""
        if not self.left_out:
            return []
        listed = ", ".join(self.left_out[:5])
        return [f"{len(self.left_out)} symbolic links that lead out of the archive were left out: {listed}"]


def normal_path(name: str) -> str:
    """Return a member's path without ``.`` and doubled slashes. Raises UnpackError for one that leads out."""
    parts = [part for part in name.split("/") if part not in {"", "."}]
    if name.startswith("/"):
        raise UnpackError("broken", f"the archive has an absolute path: {shown(name)}")
    if ".." in parts:
        raise UnpackError("broken", f"the archive has a path that leads out of it: {shown(name)}")
    if (
        "\0" in name
        or len(name.encode("utf-8", "surrogateescape")) > LONGEST_PATH
        or len(parts) > DEEPEST_PATH
    ):
        raise UnpackError("broken", f"the archive has an impossible path: {shown(name)}")
    return "/".join(parts) or "."


def leads_out(path: str, target: str) -> bool:
    """Say whether a symbolic link at ``path`` points outside of the archive's own tree."""
    if target.startswith("/") or "\0" in target:
        return True
    reached = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
    return reached == ".." or reached.startswith("../")


def shown(name: str) -> str:
    """Return a name for a message, short and printable."""
    return ascii(name[:120])[1:-1]


def unpack(archive: Path, directory: Path) -> "dict[str, Any]":
    """Unpack ``archive`` as ``directory``. Raises UnpackError."""
    digest = hashlib.sha256()
    with archive.open("rb") as stream:
        head = stream.read(512)
        digest.update(head)
        while chunk := stream.read(CHUNK):
            digest.update(chunk)
    staging = Path(tempfile.mkdtemp(prefix=".unpack-", dir=directory.parent))
    checker = Checker()
    try:
        if head.startswith(b"PK\x03\x04"):
            unpack_zip(archive, staging, checker)
        else:
            unpack_tar(archive, head, staging, checker)
        move_top(staging, directory, checker)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return {
        "sha256": digest.hexdigest(),
        "size_bytes": archive.stat().st_size,
        "members": checker.members,
        "notes": checker.notes(),
    }


def unpack_tar(archive: Path, head: bytes, staging: Path, checker: Checker) -> None:
    """Unpack a tar archive, compressed or not."""
    tool = next((name for magic, name in DECOMPRESSORS if head.startswith(magic)), None)
    if tool is None:
        if head[257:262] != b"ustar" and not plain_old_tar(archive):
            raise UnpackError("broken", f"this is no archive{what_instead(head)}")
        with archive.open("rb") as stream:
            extract_all(stream, staging, checker)
        return
    if shutil.which(tool) is None:
        raise UnpackError("tool", tool)
    with tempfile.TemporaryFile() as complaints:
        child = subprocess.Popen([tool, "-dc", "--", str(archive)], stdout=subprocess.PIPE, stderr=complaints)
        if child.stdout is None:
            raise AssertionError("it was asked for as a pipe")
        try:
            extract_all(child.stdout, staging, checker)
            trailing = 0
            while chunk := child.stdout.read(CHUNK):  # up to the compressor's own check
                trailing += len(chunk)
                if trailing > MOST_TRAILING_BYTES:
                    raise UnpackError("broken", "the archive goes on and on behind its end")
            code = child.wait()
        finally:
            child.kill()
            child.stdout.close()
            child.wait()
        complaints.seek(0)
        said = complaints.read(4000).decode("utf-8", "replace").strip()
    if code != 0 and not (code == REMARK and tool in {"gzip", "xz"}):
        raise UnpackError("broken", f"the archive is corrupt: {said or tool + ' failed'}")


def extract_all(stream: "IO[bytes]", staging: Path, checker: Checker) -> None:
    """Check and write the members of an uncompressed tar stream."""
    try:
        with tarfile.open(fileobj=stream, mode="r|") as archive:
            for member in archive:
                path = checker.admit(
                    member.name, kind_of(member), member.size if member.isreg() else 0, member.linkname
                )
                if path is None or path == ".":
                    continue
                member.mode |= 0o444  # a file that the agent cannot read would prove nothing
                archive.extract(member, staging, filter="data")
    except tarfile.FilterError as error:
        raise UnpackError("broken", f"the archive has a member that leads out of it: {error}") from None
    except (FileExistsError, IsADirectoryError, NotADirectoryError) as error:
        raise UnpackError(
            "broken", f"the archive has a file and a directory of one name: {shown(str(error.filename))}"
        ) from None
    except (tarfile.TarError, EOFError, zlib.error, ValueError, KeyError) as error:
        raise UnpackError("broken", f"the archive is corrupt or cut off: {error}") from None
    if not checker.members:
        raise UnpackError("broken", "the archive is empty")


def kind_of(member: tarfile.TarInfo) -> str:
    """Return the kind of a member in the words of :meth:`Checker.admit`."""
    if member.isreg():
        return "file"
    if member.isdir():
        return "directory"
    if member.issym():
        return "symlink"
    if member.islnk():
        return "hardlink"
    if member.ischr() or member.isblk():
        return "device"
    return "pipe" if member.isfifo() else f"member of unknown type {member.type!r}"


def plain_old_tar(archive: Path) -> bool:
    """Say whether a file without a magic number is a tar archive: the oldest format has none."""
    try:
        with tarfile.open(archive, "r:") as opened:
            return opened.next() is not None
    except (tarfile.TarError, OSError, ValueError):
        return False


def unpack_zip(archive: Path, staging: Path, checker: Checker) -> None:
    """Unpack a zip archive with its permissions, times and symbolic links."""
    try:
        with zipfile.ZipFile(archive) as opened:
            for member in opened.infolist():
                mode = member.external_attr >> 16
                link = stat.S_ISLNK(mode)
                if member.flag_bits & 1:
                    raise UnpackError("broken", "the archive is encrypted")
                target = (
                    opened.read(member).decode("utf-8", "replace")
                    if link and member.file_size <= LONGEST_PATH
                    else ""
                )
                path = checker.admit(member.filename, kind_of_zip(member, mode), member.file_size, target)
                if path is not None and path != ".":
                    write_zip_member(opened, member, staging / path, target)
    except (zipfile.BadZipFile, EOFError, zlib.error, NotImplementedError, RuntimeError) as error:
        raise UnpackError("broken", f"the archive is corrupt: {error}") from None
    except (FileExistsError, NotADirectoryError) as error:
        raise UnpackError(
            "broken", f"the archive has a file and a directory of one name: {shown(str(error.filename))}"
        ) from None


def kind_of_zip(member: zipfile.ZipInfo, mode: int) -> str:
    """Return the kind of a zip member in the words of :meth:`Checker.admit`."""
    if member.is_dir():
        return "directory"
    if stat.S_ISLNK(mode):
        return "symlink"
    return "file" if stat.S_IFMT(mode) in {0, stat.S_IFREG} else "device"


def write_zip_member(opened: zipfile.ZipFile, member: zipfile.ZipInfo, path: Path, target: str) -> None:
    """Write one admitted member."""
    if member.is_dir():
        path.mkdir(parents=True, exist_ok=True)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    # A link inside the archive may be a parent of this member; it must not lead out by way of another link.
    if not path.parent.resolve().is_relative_to(path_root(path, member)):
        raise UnpackError("broken", f"the archive has a path that leads out of it: {shown(member.filename)}")
    if target:
        path.symlink_to(target)
        return
    written = 0
    with opened.open(member) as source, path.open("xb") as out:
        while chunk := source.read(CHUNK):
            written += len(chunk)
            if written > member.file_size:
                raise UnpackError("broken", f"the archive lies about the size of {shown(member.filename)}")
            out.write(chunk)
    path.chmod(0o755 if member.external_attr >> 16 & 0o100 else 0o644)
    try:
        moment = time.mktime((*member.date_time, 0, 0, -1))
        os.utime(path, (moment, moment))
    except (ValueError, OverflowError):  # a date that is none: the time of unpacking is as good
        return


def path_root(path: Path, member: zipfile.ZipInfo) -> Path:
    """Return the directory below which ``path`` was built from the member's name."""
    depth = len([part for part in member.filename.split("/") if part not in {"", "."}])
    return path.parents[depth - 1].resolve()


def move_top(staging: Path, directory: Path, checker: Checker) -> None:
    """Move what was unpacked to its place, without the single top directory."""
    entries = [entry for entry in staging.iterdir() if entry.name != "pax_global_header"]
    if not entries:
        raise UnpackError(
            "broken", "the archive has nothing in it" if checker.members else "the archive is empty"
        )
    only = entries[0]
    top = only if len(entries) == 1 and only.is_dir() and not only.is_symlink() else staging
    top.chmod(0o755)
    top.rename(directory)


def what_instead(head: bytes) -> str:
    """Say what stands where an archive was expected."""
    start = head.lstrip().lower()
    if start.startswith((b"<!doctype html", b"<html", b"<?xml", b"<head")):
        return "; the server sent a web page instead"
    if start.startswith(b"version https://git-lfs"):
        return "; it is a Git LFS pointer"
    return "" if head else "; the file is empty"


def tell(result: "dict[str, Any]") -> None:
    """Print a result as the last line."""
    print(MARK + json.dumps(result))  # noqa: T201 - printing is how this program answers


def main(arguments: "list[str]") -> int:
    """Unpack one archive as the module's docstring says."""
    try:
        result = unpack(Path(arguments[0]), Path(arguments[1]))
    except UnpackError as error:
        tell({"trouble": error.trouble, "reason": str(error)})
        return 3
    tell(result)
    return 0


if __name__ == "__main__":
    os.umask(0o022)
    sys.exit(main(sys.argv[1:]))
