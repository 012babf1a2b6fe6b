"""Every file of a real bundle against its JSON Schema, by the validator itself; and disks that refuse."""

import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from disks import memory_disk, mount
from jsonschema import Draft202012Validator
from lab import Lab, finish

import pytest_atesor

SCHEMAS = Path(pytest_atesor.__file__).parent / "core" / "schemas"


def check(document: Any, name: str) -> None:
    """Check with nothing of ours between the schema and the document."""
    schema = json.loads((SCHEMAS / f"{name}.schema.json").read_text())
    Draft202012Validator.check_schema(schema)
    Draft202012Validator(schema).validate(document)


def check_bundle(bundle: Path) -> set[str]:
    """Check every JSON file below a bundle and return the schemas that were met."""
    met = set()
    for path in sorted(bundle.rglob("*.json")):
        if path.name == "metrics.json" or "artifacts" in path.parts:
            continue
        document = json.loads(path.read_text())
        check(document, document["schema_version"])
        met.add(document["schema_version"])
        if path.name == "runspec.json":
            kind = document["kind"]
            check(document[kind], f"runspec_{kind}_v1")
    for line in (bundle / "journal.jsonl").read_text().splitlines():
        event = json.loads(line)
        check(event, event["schema"])
    return met


def test_the_bundle_of_a_manifest_fits_the_schemas(lab: Lab) -> None:
    script = 'echo \'{"speed": {"mean": 3}}\' > m.json; echo > out'
    lab.write_manifest(
        {"good": script, "bad": "exit 1", "late": "exec sleep 3000"},
        good={"metrics": "m.json", "outputs": ["out"]},
    )
    runspec = lab.root / "specs" / "late.json"
    runspec.write_text(json.dumps({**json.loads(runspec.read_text()), "timeout_seconds": 1}))
    manifest = json.loads((lab.root / "m.yaml").read_text())
    manifest["batch"]["summary"] = {"fields": ["speed.mean", "artifacts.0.size_bytes"], "write_csv": True}
    (lab.root / "m.yaml").write_text(json.dumps(manifest))
    assert lab.run("m.yaml", "-n2", "-q").code == 4
    bundle = lab.bundles[-1]
    assert lab.batch("rerun", str(bundle), "--case", "bad", "--", "-q").code == 4
    assert check_bundle(bundle) == {
        "batch_plan_v1",
        "batch_results_v1",
        "batch_attempts_v1",
        "batch_summary_v1",
        "runspec_v1",
        "attempt_v1",
        "result_v1",
    }
    rows = json.loads((bundle / "batch_summary.json").read_text())["rows"]
    assert [row["status"] for row in rows] == ["PASS", "FAIL", "TIMEOUT"]
    assert rows[0]["values"] == {"speed.mean": 3, "artifacts.0.size_bytes": 1}


def test_the_bundle_of_a_package_list_fits_the_schemas(lab: Lab) -> None:
    lab.write_list("mixed", {"a": "pass", "b": "unverified", "c": "fail", "d": "kill-worker", "e": "pass"})
    assert lab.run("--atesor-list=mixed", "-n2", "-q").code == 1
    met = check_bundle(lab.bundles[-1])
    assert {"batch_plan_v1", "runspec_v1", "attempt_v1"} <= met


@pytest.fixture
def small_disk(lab: Lab) -> Iterator[Path]:
    """A file system of 512 KiB, mounted at ``runs`` in the rootdir."""
    place = lab.root / "runs"
    place.mkdir()
    with ExitStack() as held:
        try:
            held.enter_context(memory_disk(place, "512k"))
        except (OSError, subprocess.CalledProcessError):
            pytest.skip("needs the right to mount a tmpfs")
        yield place


@pytest.mark.parametrize("workers", ["-n0", "-n2"])
def test_a_full_disk_ends_the_batch_with_its_reason_and_the_rest_runs_later(
    lab: Lab, small_disk: Path, workers: str
) -> None:
    fill = f"[ -e filled ] || head -c 1000000 /dev/zero > {small_disk}/filler 2>/dev/null; touch filled"
    fill = f"cd {lab.root}; {fill}"
    names = [f"case{number}" for number in range(6)]
    lab.write_manifest({name: fill if name == "case1" else "sleep 0.1" for name in names})
    done = lab.run("m.yaml", workers, "-q", "--atesor-batch-id=b")
    assert done.code not in {0, 2}, done.out + done.err
    assert "no space is left on the device; free some and resume the batch" in done.out + done.err
    assert "INTERNALERROR" not in done.out
    assert "Traceback" not in done.out + done.err
    (small_disk / "filler").unlink()
    done = lab.batch("resume", "runs/batches/b", "--retry-failed", "--", "-q")
    assert done.code == 0, done.out + done.err
    results = json.loads((small_disk / "batches/b/batch_results.json").read_text())
    assert {case["status"] for case in results["cases"]} == {"PASS"}
    check_bundle(small_disk / "batches" / "b")


def test_a_read_only_root_is_told_before_anything_runs(lab: Lab, small_disk: Path) -> None:
    lab.write_manifest({"a": f"touch {lab.root}/ran"})
    mount("-o", "remount,ro", small_disk)
    done = lab.batch("run", "m.yaml")
    assert done.code == 1
    assert done.err == (
        f"atesor: error: cannot use {small_disk}/batches as the output root: {small_disk} is not writable;"
        " choose another place\n"
    )
    assert not (lab.root / "ran").exists()


def test_a_bundle_goes_on_where_only_the_bundle_can_be_written(lab: Lab, small_disk: Path) -> None:
    lab.write_manifest({"a": f"[ -e {lab.root}/mended ]"})
    assert lab.run("m.yaml", "--atesor-batch-id=b", "-n0").code == 4
    bundle = small_disk / "batches" / "b"
    mount("--bind", bundle, bundle)
    mount("-o", "remount,bind,ro", small_disk)
    (lab.root / "mended").touch()
    done = lab.batch("rerun", "runs/batches/b", "--failed")
    assert done.code == 0, done.out + done.err
    assert [case["status"] for case in lab.results()["cases"]] == ["PASS"]


@pytest.mark.parametrize(
    ("place", "arguments", "message"),
    [
        pytest.param("output", [], "as the log directory: ", id="log directory"),
        pytest.param("out", ["--junitxml=out/junit.xml"], "as the directory of the JUnit file: ", id="JUnit"),
        pytest.param("runs", [], "as the output root: ", id="output root"),
    ],
)
def test_places_that_cannot_be_written_are_told_before_anything_runs(
    lab: Lab, place: str, arguments: list[str], message: str
) -> None:
    lab.write_manifest({"a": f"touch {lab.root}/ran"})
    (lab.root / place).write_text("in the way")
    done = lab.run("m.yaml", *arguments)
    assert done.code == 1
    assert message in done.err
    assert len(done.err.splitlines()) == 1
    assert not (lab.root / "ran").exists()


@pytest.mark.parametrize("workers", ["0", "2"])
def test_the_page_shows_a_heartbeat_while_nothing_ends(lab: Lab, workers: str) -> None:
    (lab.root / "conftest.py").write_text("""
from pytest_atesor.control import controller, heartbeat

controller.Heartbeat = lambda beat: heartbeat.Heartbeat(beat, interval_s=0.05)
""")
    lab.write_list("long", {"zlib": "after-look"})
    process = lab.start("--atesor-list", "long", "-n", workers)
    lab.wait_for_events("start zlib")
    beats: dict[str, int] = {}

    def has_beaten() -> bool:
        report = lab.bundles[-1] / "report.html"
        page = report.read_text() if report.exists() else ""
        if '"outcome":"running"' in page:
            found = re.search(r'"updated_at":"([^"]*)"', page)
            beats[found.group(1) if found else ""] = len(lab.journal())
        return len(beats) > 3

    lab.wait_until(has_beaten)
    assert len(set(beats.values())) == 1
    with (lab.root / "events").open("a") as events:
        events.write("end look\n")
    assert finish(process).code == 0
