"""A disk below the bundle that gives itself up while a batch runs: the batch ends, and says so."""

import pytest
from disks import give_up_disk, journaled_disk
from lab import Lab, finish


@pytest.mark.parametrize("workers", ["-n0", "-n1"])
def test_a_disk_that_turns_read_only_ends_the_batch_with_its_reports(lab: Lab, workers: str) -> None:
    runs = lab.root / "runs"
    runs.mkdir()
    with journaled_disk(runs, lab.root / "image") as disk:
        lab.write_list("disk", {"a": "after-look", "b": "pass"})
        process = lab.start("--atesor-list", "disk", workers, "--junitxml=junit.xml")
        lab.wait_for_events("start a")
        give_up_disk(disk)
        with (lab.root / "events").open("a") as events:
            events.write("end look\n")
        run = finish(process)
    assert run.code == 1, run.out + run.err
    assert "Traceback" not in run.out + run.err
    assert "INTERNALERROR" not in run.out
    (line,) = [line for line in run.lines if line.startswith("atesor: error: ")]
    assert "the file system is read-only" in line or "the device reports an I/O error" in line, line
    assert (lab.root / "junit.xml").read_text().count("<testcase") == 2
    assert " 0 FAIL, 0 TIMEOUT, " in run.out, "a dead disk was charged to a package"
