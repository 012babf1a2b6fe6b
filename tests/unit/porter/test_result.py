import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from pytest_atesor.core.outcome import Cause, Verdict
from pytest_atesor.core.plan import Platform, Target
from pytest_atesor.porter.agent import _finish
from pytest_atesor.porter.builders.interface import Suite
from pytest_atesor.porter.context import Run
from pytest_atesor.porter.counts import Counts
from pytest_atesor.porter.elf import ElfFacts, ElfType
from pytest_atesor.porter.kept import keep_artifacts
from pytest_atesor.porter.package import package_name, write_package
from pytest_atesor.porter.package_tests import SuiteResult, SuiteStatus
from pytest_atesor.porter.phases import Phase, Phases
from pytest_atesor.porter.proofs import Proof, Start, StartStatus
from pytest_atesor.porter.result import Report, copy_artifacts, format_result, safe_path, write_result
from pytest_atesor.porter.scan import Artifact, Before, scan_tree
from pytest_atesor.porter.settings import Settings
from pytest_atesor.porter.tree import read_tree
from pytest_atesor.porter.verdict import Outcome, failed

_SCHEMA = Path(__file__).parents[3] / "pytest_atesor/core/schemas/result_v1.schema.json"
_VERIFIED = Outcome(verdict=Verdict.VERIFIED, cause=None, reason="", exit_code=0)
_START = Start(argument="--version", status=StartStatus.STARTED, exit_code=0, said="x 1")
_SOURCE = {
    "url": "https://github.com/o/r",
    "url_used": "deb:r",
    "kind": "deb",
    "commit": None,
    "sha256": "0" * 64,
}


def _settings(attempt_directory: Path | None = None) -> Settings:
    return Settings(
        url="https://github.com/o/r",
        ref=None,
        mirrors=(),
        max_attempts=1,
        container="c",
        platform=Platform.DEBIAN,
        target=Target.QEMU,
        package=True,
        engine="auto",
        attempt_directory=attempt_directory,
        kill_at=None,
    )


def _artifact(path: str) -> Artifact:
    facts = ElfFacts(
        type=ElfType.EXECUTABLE,
        machine="riscv",
        bits=64,
        little_endian=True,
        float_abi="double",
        compressed=True,
        abi="lp64d",
        interpreter="/lib/ld.so",
        needed=("libc.so.6",),
        stripped=False,
        has_content=True,
        architecture="rv64i2p1",
    )
    return Artifact(path=path, size_bytes=4, type="executable", sha256="0" * 64, facts=facts)


def test_a_result_is_valid_against_the_schema() -> None:
    report = Report(
        outcome=_VERIFIED,
        source=_SOURCE,
        target=Target.NATIVE,
        machine="board",
        build_system="make",
        phases=(Phase(name="fetch", duration_s=0.5, status="ok"),),
        artifacts=(_artifact("build/x/tool"),),
        native_tools={"make": "4.4.1-2"},
        proofs={"0" * 64: Proof(missing=("libx.so",), start=_START)},
        metrics={"attempts": 1},
        notes=("a note",),
        package_tests=SuiteResult(
            status=SuiteStatus.FAILED,
            suite=Suite(framework="make", command="make check", script="make check"),
            exit_code=2,
            duration_s=1.5,
            counts=Counts(passed=3, failed=1),
        ),
    )
    document = json.loads(format_result(report))
    Draft202012Validator(json.loads(_SCHEMA.read_text())).validate(document)
    assert document["artifacts"][0]["abi"] == "lp64d"
    assert document["artifacts"][0]["class"] == "ELF64"
    assert document["artifacts"][0]["missing_libraries"] == ["libx.so"]
    assert document["artifacts"][0]["start"] == {
        "argument": "--version",
        "status": "started",
        "exit_code": 0,
        "said": "x 1",
    }
    assert (document["target"], document["machine"]) == ("native", "board")
    assert document["native_tools"] == {"make": "4.4.1-2"}
    assert document["package_tests"] == {
        "status": "failed",
        "framework": "make",
        "command": "make check",
        "exit_code": 2,
        "duration_s": 1.5,
        "counts": {"passed": 3, "failed": 1, "skipped": 0},
        "reason": "",
    }
    assert document["verdict"] == "verified"


def test_hostile_names_and_texts_are_sanitized() -> None:
    report = Report(
        outcome=failed(Cause.BUILD, "bad \x1b[31mthing\nsecond line\x00"),
        source=_SOURCE,
        artifacts=(_artifact("build/a\nb/\udcff\x1b]0;t\x07" + "x" * 3000),),
        notes=("\u202eevil",),
    )
    text = format_result(report)
    assert text.isascii()
    document = json.loads(text)
    assert document["reason"] == "bad thing second line"
    assert "\n" not in document["artifacts"][0]["path"]
    assert len(document["artifacts"][0]["path"]) <= 1000


def test_long_lists_are_cut_and_counted() -> None:
    report = Report(
        outcome=_VERIFIED, source=_SOURCE, artifacts=tuple(_artifact(f"build/{n}") for n in range(600))
    )
    document = json.loads(format_result(report))
    assert len(document["artifacts"]) == 500
    assert document["notes"] == ["100 more artifacts are not listed"]


def test_a_result_replaces_the_old_one_and_leaves_nothing_else(tmp_path: Path) -> None:
    write_result(tmp_path, "old")
    write_result(tmp_path, "new")
    assert [(one.name, one.read_text()) for one in tmp_path.iterdir()] == [("result.json", "new")]


@pytest.mark.parametrize(
    ("path", "safe"),
    [
        ("stage/usr/lib/libz.so.1", "stage/usr/lib/libz.so.1"),
        ("../../etc/passwd", "etc/passwd"),
        ("/abs", "abs"),
        ("", "artifact"),
    ],
)
def test_paths_stay_below_their_directory(path: str, safe: str) -> None:
    assert safe_path(path) == safe


@pytest.mark.parametrize("path", ["a\nb", "\udcff", "-rf", "x" * 300, "/".join("d" * 60), "a b"], ids=repr)
def test_hostile_paths_become_harmless_and_stay_distinct(path: str) -> None:
    made = safe_path(path)
    assert made.isascii()
    assert not [part for part in made.split("/") if part.startswith("-") or len(part) > 120]
    assert safe_path(path + "\u00e9") != made


def test_only_what_was_kept_is_copied(tmp_path: Path, elf: Callable[..., bytes]) -> None:
    root = tmp_path / "w"
    (root / "stage").mkdir(parents=True)
    for name in ("good", "bad"):
        (root / "stage" / name).write_bytes(elf(flags=5 if name == "good" else 4))
    scan = scan_tree(read_tree(root), Before())
    (root / "stage/bad").unlink()
    (root / "stage/bad").symlink_to("/etc/passwd")
    keep_artifacts(scan.products, root, tmp_path / "kept")
    (root / "stage/good").write_text("changed by a test that ran after the scan")
    copies = copy_artifacts(scan.products, tmp_path / "kept", tmp_path / "out")
    assert copies == {"stage/good": "stage/good"}
    assert {one.name: one.read_bytes() for one in (tmp_path / "out/stage").iterdir()} == {
        "good": elf(flags=5)
    }


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://github.com/madler/zlib.git", "madler-zlib-20260102-030405-debian.zip"),
        ("https://example.org/x/y-1.0.tar.gz", None),
        ("::", "local-package-20260102-030405-debian.zip"),
    ],
    ids=["git", "tarball", "neither"],
)
def test_the_zip_is_named_after_owner_and_repository(url: str, name: str | None) -> None:
    made = package_name(url, "debian", "20260102-030405")
    assert "/" not in made
    assert made.endswith("-20260102-030405-debian.zip")
    assert name is None or made == name


def test_the_zip_has_a_manifest_and_regular_files_only(tmp_path: Path, elf: Callable[..., bytes]) -> None:
    workspace = tmp_path / "w"
    (workspace / "stage").mkdir(parents=True)
    (workspace / "stage/tool").write_bytes(elf(kind=2))
    (workspace / "stage/forged").write_bytes(elf(kind=3))
    Path(workspace / "stage/link").symlink_to("/etc/passwd")
    scan = scan_tree(read_tree(workspace), Before())
    settings = _settings()
    (workspace / "stage/forged").write_bytes(elf(kind=2))
    keep_artifacts(scan.products, workspace, tmp_path / "kept")
    report = Report(outcome=_VERIFIED, source=_SOURCE, artifacts=scan.products)
    path = write_package(tmp_path, settings, report, tmp_path / "kept")
    assert [one.name for one in (tmp_path / "workspace/packages").iterdir()] == [path.name]
    with zipfile.ZipFile(path) as archive:
        assert sorted(archive.namelist()) == ["artifacts/stage/tool", "manifest.json"]
        manifest = json.loads(archive.read("manifest.json"))
    assert manifest["verdict"] == "verified"
    assert {one["path"]: one["copy"] for one in manifest["artifacts"]} == {
        "stage/tool": "stage/tool",
        "stage/forged": None,
    }


def test_a_zip_that_cannot_be_written_does_not_cost_the_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "workspace").write_text("no directory")
    output = io.BytesIO()
    _finish(
        _settings(tmp_path), Run(outcome=_VERIFIED, source={**_SOURCE}), Phases(output), tmp_path / "kept"
    )
    said = json.loads((tmp_path / "result.json").read_text())
    assert said["verdict"] == "verified"
    assert said["notes"][0].startswith("the zip could not be written: ")
    assert output.getvalue().startswith(b"atesor: error: the zip cannot be written: ")
