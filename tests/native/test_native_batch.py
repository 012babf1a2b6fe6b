"""Three small packages as one batch on the machine: built there, verified here, native in name everywhere."""

import json
import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from lab import Run
    from native_lab import NativeLab

NAMES = ("one", "two", "three")
PATIENCE_S = 2400.0


@pytest.fixture(scope="module")
def batch(native_lab: "NativeLab") -> "Run":
    native_lab.write_projects("tiny", dict.fromkeys(NAMES, 0))
    return native_lab.run(
        "--atesor-list=tiny", "--atesor-package", "--junitxml=junit.xml", timeout_s=PATIENCE_S
    )


def test_all_pass_and_are_verified_by_this_machine(batch: "Run", native_lab: "NativeLab") -> None:
    assert batch.code == 0, batch.out + batch.err
    results = native_lab.results()
    assert {case["label"]: case["status"] for case in results["cases"]} == dict.fromkeys(NAMES, "PASS")
    assert results["target"] == "native"


def test_the_header_has_a_row_about_the_machine(batch: "Run") -> None:
    (row,) = (line for line in batch.lines if line.startswith("machine: "))
    assert "cores" in row
    assert "podman" in row


def test_every_record_names_the_target(batch: "Run", native_lab: "NativeLab") -> None:
    assert batch.code == 0
    records = [json.loads(file.read_text()) for file in native_lab.bundles[-1].glob("**/attempt.json")]
    assert [record["target"] for record in records] == ["native"] * len(NAMES)
    plan: dict[str, Any] = json.loads((native_lab.bundles[-1] / "batch_plan.json").read_text())
    assert plan["target"] == "native"
    assert '"target": "native"' in (native_lab.bundles[-1] / "report.html").read_text().replace(
        '"target":"native"', '"target": "native"'
    )


def test_junit_names_the_target(batch: "Run", native_lab: "NativeLab") -> None:
    assert batch.code == 0
    cases = ET.parse(native_lab.root / "junit.xml").iter("testcase")  # noqa: S314 - our own file
    found = [
        item.attrib["value"]
        for case in cases
        for item in case.iter("property")
        if item.get("name") == "target"
    ]
    assert found == ["native"] * len(NAMES)


def test_zips_are_native_by_name(batch: "Run", native_lab: "NativeLab") -> None:
    assert batch.code == 0
    zips = sorted(file.name for file in native_lab.root.rglob("*.zip"))
    assert len(zips) == len(NAMES)
    assert all(name.endswith("-native.zip") for name in zips)


def test_state_is_kept_apart(batch: "Run", native_lab: "NativeLab") -> None:
    assert batch.code == 0
    assert {one.name for one in (native_lab.root / "state").iterdir()} == {"native"}


def test_nothing_stays_there(batch: "Run", native_lab: "NativeLab") -> None:
    assert batch.code == 0
    assert native_lab.left_there() == []


def test_more_workers_than_cores_are_refused_before_anything_is_done(native_lab: "NativeLab") -> None:
    native_lab.write_projects("refused", {"refused": 0})
    before = len(native_lab.bundles)
    run = native_lab.run("--atesor-list=refused", "-n900", timeout_s=PATIENCE_S)
    assert run.code == 2
    assert "bad worker count 900; on the native machine it must be from 1 to " in run.err
    assert len(native_lab.bundles) == before
