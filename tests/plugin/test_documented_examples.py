"""The examples of docs/runspec.md, run as they stand there."""

import json
import re
from pathlib import Path

import pytest
from lab import Lab

PAGE = Path(__file__).parents[2] / "docs" / "runspec.md"
EXAMPLE = re.compile(r"^```yaml\n# file: (?P<path>\S+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture
def examples(lab: Lab) -> list[str]:
    """Write every example of the page below the lab's root and return their paths."""
    found = list(EXAMPLE.finditer(PAGE.read_text()))
    for example in found:
        path = lab.root / example["path"]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(example["text"])
    return [example["path"] for example in found]


def test_the_documented_manifest_runs_and_its_summary_has_the_promised_values(
    lab: Lab, examples: list[str]
) -> None:
    assert examples[0] == "comparison.yaml"
    run = lab.batch("run", "comparison.yaml", "--workers", "2", "--", "-q")
    assert run.code == 0, run.out + run.err
    bundle = lab.bundles[-1]
    rows = json.loads((bundle / "batch_summary.json").read_text())["rows"]
    assert [(row["label"], row["values"]) for row in rows] == [
        ("greeting", {"artifacts.0.size_bytes": 13}),
        ("figures", {"speed.mean": 3.5, "artifacts.0.size_bytes": 4}),
    ]
    assert (bundle / "cases/greeting/attempts/001/artifacts/hello.txt").read_text() == "hello, world\n"
    plan = json.loads((bundle / "batch_plan.json").read_text())
    assert [(file["role"], file["path"], file["imports"]) for file in plan["inputs"]] == [
        ("manifest", "comparison.yaml", []),
        ("runspec", "cases/greeting.yaml", []),
        ("runspec", "cases/figures.yaml", ["profiles/measured.yaml"]),
        ("import", "profiles/measured.yaml", []),
    ]
    assert [case["timeout_s"] for case in plan["cases"]] == [60, 30]
    assert plan["settings"]["engine"] == "none"


def test_the_documented_port_is_run_by_the_agent(lab: Lab, examples: list[str]) -> None:
    assert "cases/zlib.yaml" in examples
    (lab.root / "agent").write_text('#!/bin/sh\necho "$@ ref=$ATESOR_REF mirrors=$ATESOR_MIRRORS"\n')
    cases = [{"label": "zlib", "runspec": "cases/zlib.yaml"}]
    (lab.root / "m.json").write_text(json.dumps({"schema_version": "batch_v1", "batch": {"cases": cases}}))
    run = lab.run("m.json", "-q", ATESOR_PLATFORM="ubuntu")
    assert run.code == 0, run.out + run.err
    log = (lab.root / "output/batch_logs/zlib.log").read_text()
    assert "--repo https://github.com/madler/zlib " in log
    assert "--platform debian" in log
    assert 'ref=v1.3.1 mirrors=["deb:zlib"]' in log


def test_platforms_that_differ_are_refused(lab: Lab, examples: list[str]) -> None:
    assert examples
    (lab.root / "cases/two.yaml").write_text(
        (lab.root / "cases/zlib.yaml").read_text().replace("debian", "alpine")
    )
    cases = [{"label": "one", "runspec": "cases/zlib.yaml"}, {"label": "two", "runspec": "cases/two.yaml"}]
    (lab.root / "m.json").write_text(json.dumps({"schema_version": "batch_v1", "batch": {"cases": cases}}))
    run = lab.batch("plan", "m.json")
    assert run.code == 1
    assert "one batch has one platform, and its cases ask for several: debian (one), alpine (two)" in run.err
