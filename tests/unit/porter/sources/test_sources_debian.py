"""Debian source descriptions, what apt's failures mean, and archives that were downloaded before."""

import hashlib
import io
import os
import shutil
import tarfile
import time
from io import BytesIO
from pathlib import Path

import pytest

from pytest_atesor.porter.download_pool import DownloadPool
from pytest_atesor.porter.sources.debian import (
    DebianFiles,
    decide_apt_failure,
    fetch_deb,
    parse_records,
    plan_notes,
    upstream_version,
)
from pytest_atesor.porter.sources.interface import RunsCommands, Trouble
from pytest_atesor.porter.sources.job import Job

SUM = "0" * 64


def describe(version: str, *files: str) -> str:
    sums = "\n".join(f" {SUM} 123 {name}" for name in files)
    return f"""Package: lib
Binary: lib1, lib-dev,
 lib-tools
Version: {version}
Format: 3.0 (quilt)
Files:
 {"2" * 32} 123 {files[0]}
Checksums-Sha256:
{sums}
Directory: pool/main/l/lib
"""


def describe_one(version: str, *files: str) -> DebianFiles:
    (record,) = parse_records(describe(version, *files))
    return record


def test_only_the_upstream_archives_are_taken() -> None:
    files = describe_one(
        "1:1.2-3",
        "lib_1.2.orig-extra.tar.xz",
        "lib_1.2.orig.tar.gz",
        "lib_1.2.orig.tar.gz.asc",
        "lib_1.2-3.debian.tar.xz",
    )
    assert (files.version, files.main, files.native) == ("1:1.2-3", "lib_1.2.orig.tar.gz", False)
    assert files.components == (("extra", "lib_1.2.orig-extra.tar.xz"),)


def test_a_native_package_is_its_only_archive() -> None:
    files = describe_one("1.2", "lib_1.2.tar.xz")
    assert (files.main, files.native) == ("lib_1.2.tar.xz", True)
    assert "native" in plan_notes(files, None)[0]


def test_a_version_without_an_archive_is_left_out() -> None:
    text = "\n".join((describe("1.2-1", "lib_1.2-1.debian.tar.xz"), describe("1.1-1", "lib_1.1.orig.tar.xz")))
    assert [record.version for record in parse_records(text)] == ["1.1-1"]


@pytest.mark.parametrize(
    ("version", "upstream"),
    [
        ("1.8.1-1", "1.8.1"),
        ("1:1.3.dfsg+really1.3.1-1", "1.3.1"),
        ("0.27+dfsg-4", "0.27"),
        ("2.0~ds1-1", "2.0"),
        ("1.10.0-4", "1.10.0"),
        ("3.1", "3.1"),
        ("1.2-rc1-1", "1.2-rc1"),
    ],
)
def test_the_upstream_version_is_read_from_debians(version: str, upstream: str) -> None:
    assert upstream_version(version) == upstream


@pytest.mark.parametrize(
    ("version", "ref", "noted"),
    [
        pytest.param("1.10.0-4", "v1.10.0", "", id="the-same"),
        pytest.param("2.8.1-1", "R_2_8_1", "", id="underscores"),
        pytest.param("1.4.0-1", "v1.5.0", "ref v1.5.0 was asked for", id="another"),
        pytest.param("1.4.0-1", None, "", id="none-asked-for"),
    ],
)
def test_another_version_than_the_ref_is_noted(version: str, ref: str | None, noted: str) -> None:
    files = describe_one(version, "lib_1.orig.tar.gz")
    assert noted in "".join(plan_notes(files, ref))
    assert bool(noted) is bool(plan_notes(files, ref))


def test_a_repacked_archive_is_noted() -> None:
    files = describe_one("1.2+dfsg-1", "lib_1.2+dfsg.orig.tar.xz")
    assert "repacked" in plan_notes(files, None)[0]


@pytest.mark.parametrize(
    ("output", "trouble"),
    [
        pytest.param(
            "E: Unable to find a source package for nosuch", Trouble.UNREACHABLE, id="no-such-package"
        ),
        pytest.param(
            "Err:1 http://x.example t InRelease\nE: Failed to fetch http://x.example/a  Could not resolve",
            Trouble.UNREACHABLE,
            id="no-network",
        ),
        pytest.param(
            "E: Failed to fetch http://x.example/a  Hash Sum mismatch", Trouble.BROKEN, id="checksum"
        ),
        pytest.param(
            "E: The repository 'http://x.example t' is not signed.", Trouble.BROKEN, id="not-signed"
        ),
    ],
)
def test_apts_failures_say_whether_a_mirror_can_help(output: str, trouble: Trouble) -> None:
    error = decide_apt_failure(output, ("a proxy cannot be seen",))
    assert error.trouble is trouble
    assert ("proxy" in str(error)) is (trouble is Trouble.UNREACHABLE)


_APT_GET = """#!/bin/sh
case $1 in
  indextargets) echo "$0";;
  source) [ -s lib_1.orig.tar.gz ] || { echo Get:1; cat "${0%/*}/archive" > lib_1.orig.tar.gz; };;
esac
"""
_FULL_CP = """#!/bin/sh
for last; do :; done
echo half > "$last/lib_1.orig.tar.gz"
echo "cp: error writing: No space left on device" >&2
exit 1
"""


class Mirror:
    """Commands in front of the PATH that stand for apt and a mirror with one source package."""

    def __init__(self, place: Path) -> None:
        self.commands = place / "bin"
        self.commands.mkdir()
        content = BytesIO()
        with tarfile.open(fileobj=content, mode="w:gz") as archive:
            member = tarfile.TarInfo("lib-1/Makefile")
            archive.addfile(member, io.BytesIO())
        self.archive = content.getvalue()
        (self.commands / "archive").write_bytes(self.archive)
        digest = hashlib.sha256(self.archive).hexdigest()
        record = describe("1-1", "lib_1.orig.tar.gz").replace(SUM, digest)
        self.add("apt-get", _APT_GET)
        self.add("apt-cache", f"#!/bin/sh\ncat <<'END'\n{record}\nEND\n")

    def add(self, name: str, script: str) -> None:
        (self.commands / name).write_text(script)
        (self.commands / name).chmod(0o755)


@pytest.mark.parametrize("is_full", [False, True], ids=["copied", "no room for a copy"])
def test_an_archive_that_cannot_be_copied_inside_is_downloaded(
    sandbox: RunsCommands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_full: bool
) -> None:
    mirror = Mirror(tmp_path)
    monkeypatch.setenv("PATH", f"{mirror.commands}:{os.environ['PATH']}")
    pool, log = DownloadPool(tmp_path / "downloads", spare_bytes=0), BytesIO()
    job = Job(
        sandbox=sandbox,
        workspace=tmp_path / "workspace",
        sink=log,
        deadline=time.monotonic() + 300,
        clock=time.monotonic,
        environ={},
        pool=pool,
    )
    fetch_deb(job, "lib", None, "/workspace/src/package")
    assert log.getvalue().count(b"Get:1") == 1
    shutil.rmtree(tmp_path / "workspace/src/package")
    if is_full:
        mirror.add("cp", _FULL_CP)
    fetch_deb(job, "lib", None, "/workspace/src/package")
    assert log.getvalue().count(b"Get:1") == (2 if is_full else 1)
    assert (tmp_path / "workspace/src/package/Makefile").is_file()
