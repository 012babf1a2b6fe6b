"""The examples that come with the wheel, copied and run as their own comments say."""

import json

import pytest
from lab import Lab

from pytest_atesor.cli import main

EXAMPLES = "atesor-resources/examples/user"


@pytest.fixture
def copied(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> Lab:
    """A lab with a copy of the resources in the default place."""
    monkeypatch.chdir(lab.root)
    assert main(["resources", "copy"]) == 0
    return lab


def test_the_architecture_comparison_runs_and_its_summary_has_the_coverage_of_both(copied: Lab) -> None:
    pytest.importorskip("numpy", reason="the extra coverage is not installed")
    run = copied.batch(
        "run", f"{EXAMPLES}/architecture-comparison-batch.yaml", "--workers", "2", "--write-summary-csv"
    )
    assert run.code == 0, run.out + run.err
    (bundle,) = copied.bundles
    rows = {
        row["label"]: row["values"] for row in json.loads((bundle / "batch_summary.json").read_text())["rows"]
    }
    assert list(rows) == ["architecture-polar-walker", "architecture-molniya"]
    fractions = [row["coverage.union_coverage_fraction"] for row in rows.values()]
    assert 0.3 < fractions[0] < 0.5
    assert fractions[1] == pytest.approx(1.0)
    header, *lines = (bundle / "batch_summary.csv").read_text().splitlines()
    assert header.endswith(",coverage.union_coverage_fraction")
    assert len(lines) == 2


@pytest.mark.parametrize(
    "arguments",
    [
        ("command-batch.yaml",),
        ("profiled-batch.yaml", "--profile-root", "atesor-resources/profiles"),
    ],
    ids=["command", "profiled"],
)
def test_the_other_batches_run(copied: Lab, arguments: tuple[str, ...]) -> None:
    name, *more = arguments
    run = copied.batch("run", f"{EXAMPLES}/{name}", *more, "--", "-q")
    assert run.code == 0, run.out + run.err
    assert copied.results()["cases"]
