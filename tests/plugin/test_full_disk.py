"""A full disk below the bundle: one line, exit 1, nothing lost, and the batch goes on once there is room."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from disks import memory_disk
from lab import Lab

from pytest_atesor.runners.outputs import collect_outputs

FILLER = """#!/bin/sh
if [ ! -e was-full ]; then
    : > was-full
    dd if=/dev/zero of=runs/filler bs=64k 2> /dev/null
    dd if=/dev/zero of=runs/rest bs=1 2> /dev/null
fi
exit 0
"""
NO_SPACE = "no space is left on the device; free some and resume the batch"


@pytest.fixture
def small_disk(lab: Lab) -> Iterator[Path]:
    """Mount one MiB of memory where the lab's bundles go."""
    runs = lab.root / "runs"
    runs.mkdir()
    with memory_disk(runs, "1m") as disk:
        yield disk


@pytest.mark.parametrize("workers", ["-n0", "-n2"])
def test_a_disk_that_fills_up_ends_the_batch_and_loses_nothing(
    lab: Lab, small_disk: Path, workers: str
) -> None:
    (lab.root / "agent").write_text(FILLER)
    names = [f"p{number}" for number in range(8)]
    lab.write_list("disk", dict.fromkeys(names, "pass"))
    run = lab.run("--atesor-list", "disk", workers, "--junitxml=junit.xml")
    assert (lab.root / "was-full").exists(), "the disk was never full: the test tests nothing"
    assert run.code == 1, run.out + run.err
    (line,) = [line for line in run.lines if line.startswith("atesor: error: ")]
    assert line.endswith(NO_SPACE), line
    assert "INTERNALERROR" not in run.out
    assert (lab.root / "junit.xml").read_text().count("<testcase") == 8
    assert " 0 FAIL, 0 TIMEOUT, " in run.out, "a full disk was charged to a package"

    (small_disk / "filler").unlink()
    (small_disk / "rest").unlink()
    (bundle,) = lab.bundles
    again = lab.batch("resume", str(bundle), "--workers=2")
    assert again.code == 0, again.out + again.err
    assert {case["label"]: case["status"] for case in lab.results()["cases"]} == dict.fromkeys(names, "PASS")
    tally = lab.results()["tally"]
    assert (tally["planned"], tally["done"]) == (8, 8)
    ended = [line["record"]["case_id"] for line in lab.journal() if line["type"] == "attempt_ended"]
    assert sorted(ended) == names, "a case ran again although its end was known, or never ended"


def test_a_disk_that_is_full_from_the_start_is_one_line(lab: Lab, small_disk: Path) -> None:
    command = f"dd if=/dev/zero of={small_disk}/filler bs=4k"
    filled = subprocess.run(["sh", "-c", command], check=False)  # noqa: S607 - PATH
    assert filled.returncode == 1
    lab.write_list("disk", {"a": "pass"})
    run = lab.run("--atesor-list", "disk", "-n1")
    assert run.code == 1, run.out + run.err
    (line,) = run.err.splitlines()
    assert line.startswith("atesor: error: cannot ")
    assert line.endswith(NO_SPACE)
    assert lab.events() == []
    assert not lab.bundles, "half a bundle was left"


@pytest.mark.parametrize("output", ["link", "link/a"])
def test_a_disk_that_is_full_before_an_output_is_copied_is_no_fault_of_its_command(
    small_disk: Path, output: str
) -> None:
    work = small_disk / "work"
    (work / "d").mkdir(parents=True)
    (work / "d" / "a").write_bytes(bytes(700_000))
    (work / "link").symlink_to("d")
    with pytest.raises(OSError, match="No space left"):
        collect_outputs([output], work, small_disk / "artifacts")
