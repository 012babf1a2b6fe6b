"""Standard output that closes early or is full: one line, and a journal with an end."""

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from lab import SECONDS, Lab


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


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
@pytest.mark.parametrize(("workers", "unbuffered"), [("-n0", "1"), ("-n2", "")], ids=["alone", "workers"])
@pytest.mark.parametrize("why", ["Broken pipe", "No space left on device"])
def test_a_batch_whose_output_is_lost_says_so_once_and_closes_its_books(
    lab: Lab, workers: str, unbuffered: str, why: str
) -> None:
    lab.write_list("two", {"zlib": "pass", "gron": "pass"})
    with lost_output(why) as output:
        run = subprocess.run(
            [sys.executable, "-m", "pytest", "--atesor-list=two", "--atesor-batch-id=b", workers],
            cwd=lab.root,
            env=lab.environment(PYTHONUNBUFFERED=unbuffered),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.PIPE,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    said = f"atesor: error: cannot write to standard output: {why}; the results are in runs/batches/b"
    assert run.stderr.splitlines() == [said]
    assert run.returncode == 1
    last = (lab.root / "runs/batches/b/journal.jsonl").read_text().splitlines()[-1]
    assert json.loads(last)["type"] == "batch_ended"
