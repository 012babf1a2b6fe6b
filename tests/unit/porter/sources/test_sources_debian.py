"""Debian source descriptions, and what apt's failures mean."""

import pytest

from pytest_atesor.porter.sources.debian import (
    DebianFiles,
    decide_apt_failure,
    parse_records,
    plan_notes,
    upstream_version,
)
from pytest_atesor.porter.sources.interface import Trouble

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
