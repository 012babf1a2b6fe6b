"""SIGKILL of the controller, of a worker, of everything, at random moments: nothing is lost or doubled."""

import random
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[2] / "tools" / "kill_loop.py"


@pytest.mark.parametrize("source", ["manifest", "list"])
def test_nothing_is_lost_or_doubled(tmp_path: Path, source: str) -> None:
    seed = random.SystemRandom().randrange(10**6)
    command = [sys.executable, str(PROGRAM), "--rounds=4", "--cases=16", f"--seed={seed}"]
    command += ["--list"] if source == "list" else []
    done = subprocess.run(
        [*command, f"--directory={tmp_path}"], capture_output=True, text=True, check=False, timeout=900
    )
    assert done.returncode == 0, done.stdout + done.stderr
