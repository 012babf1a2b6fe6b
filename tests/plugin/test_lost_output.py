"""Standard output that closes early or is full: all cases run, one line, and a journal with an end."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from lab import PYTEST, SECONDS, Lab, finish

SAID = "atesor: error: cannot write to standard output: {}; the results are in runs/batches/b"
NEEDS_FULL = pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
REASONS = ["Broken pipe", pytest.param("No space left on device", marks=NEEDS_FULL)]


@contextlib.contextmanager
def lost_output(why: str) -> Iterator[int]:
    """Yield a descriptor that cannot be written to, for this reason."""
    if why == "Broken pipe":
        reading, writing = os.pipe()
        os.close(reading)
    else:
        writing = os.open("/dev/full", os.O_WRONLY)
    try:
        yield writing
    finally:
        os.close(writing)


def run_blind(
    lab: Lab, why: str, *arguments: str, errors: int = subprocess.PIPE, unbuffered: str = ""
) -> "subprocess.CompletedProcess[str]":
    """Run pytest in the rootdir with an output that is lost from the start."""
    with lost_output(why) as output:
        return subprocess.run(
            [sys.executable, "-m", *PYTEST, *arguments],
            cwd=lab.root,
            env=lab.environment(PYTHONUNBUFFERED=unbuffered),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            text=True,
            timeout=SECONDS,
            check=False,
        )


def assert_all_ran(lab: Lab, *names: str) -> None:
    """Assert that each of these cases came to its end, and that the journal has the exit code 1."""
    assert sorted(line for line in lab.events() if line.startswith("end ")) == [f"end {one}" for one in names]
    last = lab.journal()[-1]
    assert (last["type"], last["exit_code"]) == ("batch_ended", 1)


@pytest.mark.parametrize(("workers", "unbuffered"), [("-n0", "1"), ("-n2", "")], ids=["alone", "workers"])
@pytest.mark.parametrize("why", REASONS)
def test_a_batch_whose_output_is_lost_from_the_start_runs_and_says_so_once(
    lab: Lab, workers: str, unbuffered: str, why: str
) -> None:
    lab.write_list("two", {"zlib": "pass", "gron": "pass"})
    run = run_blind(lab, why, "--atesor-list=two", "--atesor-batch-id=b", workers, unbuffered=unbuffered)
    assert run.stderr.splitlines() == [SAID.format(why)]
    assert run.returncode == 1
    assert_all_ran(lab, "gron", "zlib")


@pytest.mark.parametrize("flags", [("-n0",), ("-n0", "-v"), ("-n1",), ("-n1", "-v")], ids=" ".join)
def test_a_batch_whose_reader_leaves_after_the_first_case_runs_to_its_end(
    lab: Lab, flags: tuple[str, ...]
) -> None:
    lab.write_list("four", {"a": "pass", "b": "after-reader", "c": "pass", "d": "pass"})
    process = lab.start(
        "--atesor-list=four", "--atesor-batch-id=b", *flags, "-p", "no:randomly", PYTHONUNBUFFERED="1"
    )
    assert process.stdout is not None
    while "PASS" not in (line := process.stdout.readline()):
        assert line, "the output ended before the first case did"
    process.stdout.close()
    with (lab.root / "events").open("a") as events:
        events.write("end reader\n")
    run = finish(process)
    assert run.err.splitlines() == [SAID.format("Broken pipe")]
    assert run.code == 1
    assert_all_ran(lab, "a", "b", "c", "d", "reader")


@pytest.mark.parametrize(
    ("unbuffered", "dotenv"),
    [("", ""), ("1", ""), ("", "ATESOR_ENGIN=none\n")],
    ids=["buffered", "unbuffered", "with a warning"],
)
@pytest.mark.parametrize("why", REASONS)
def test_a_batch_whose_standard_error_is_lost_too_runs_and_ends_with_1(
    lab: Lab, unbuffered: str, dotenv: str, why: str
) -> None:
    (lab.root / ".env").write_text(dotenv)
    lab.write_list("one", {"zlib": "pass"})
    with lost_output(why) as errors:
        arguments = ("--atesor-list=one", "--atesor-batch-id=b", "-n0")
        run = run_blind(lab, why, *arguments, errors=errors, unbuffered=unbuffered)
    assert run.returncode == 1
    assert_all_ran(lab, "zlib")


@pytest.mark.parametrize("unbuffered", ["", "1"], ids=["buffered", "unbuffered"])
@pytest.mark.parametrize("why", REASONS)
def test_a_batch_with_nothing_to_run_says_that_its_output_is_lost(
    lab: Lab, unbuffered: str, why: str
) -> None:
    lab.write_list("one", {"zlib": "pass"})
    assert lab.run("--atesor-list=one", "--atesor-batch-id=b", "-n0").code == 0
    run = run_blind(lab, why, "--atesor-resume=runs/batches/b", unbuffered=unbuffered)
    assert run.stderr.splitlines() == [SAID.format(why)]
    assert run.returncode == 1


@pytest.mark.parametrize("why", REASONS)
def test_a_warning_that_cannot_be_written_before_the_first_case_costs_nothing(lab: Lab, why: str) -> None:
    lab.write_list("one", {"zlib": "pass"})
    assert lab.run("--atesor-list=one", "-n0").code == 0
    (durations,) = (lab.root / "state" / "history").glob("durations_v1-*.json")
    durations.write_text("{")
    with lost_output(why) as errors:
        run = subprocess.run(
            [sys.executable, "-m", *PYTEST, "--atesor-list=one", "--atesor-batch-id=b", "-n0"],
            cwd=lab.root,
            env=lab.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    assert run.returncode == 0, run.stdout
    assert lab.journal()[-1]["exit_code"] == 0
