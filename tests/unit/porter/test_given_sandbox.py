"""The agent in a batch: its sandbox stands there already, and the image is the batch's business."""

import json
import os
import subprocess
import sys
from pathlib import Path

SEED = ("--repo", "file:///nowhere", "--force", "--container", "c-w1", "--platform", "debian")

# A client that knows one running sandbox and no image, and notes what it is asked.
DOCKER = """#!/bin/sh
echo "$*" >> "$0.asked"
case "$*" in
'container inspect c-w1') cat "$0.json" ;;
*inspect*) echo 'Error: No such object' >&2; exit 1 ;;
*) exit 1 ;;
esac
"""


def test_an_agent_takes_the_sandbox_that_its_batch_made(tmp_path: Path) -> None:
    client = tmp_path / "docker"
    client.write_text(DOCKER)
    client.chmod(0o755)
    found = {
        "Id": "1",
        "Image": "sha256:2",
        "State": {"Running": True},
        "NetworkSettings": {"Networks": {"bridge": {}}},
        "Config": {"Labels": {"org.pytest-atesor.slot": "c-w1"}},
    }
    (tmp_path / "docker.json").write_text(json.dumps([found]))
    environ = {
        "PATH": f"{tmp_path}:{os.defpath}",
        "ATESOR_ATTEMPT_DIR": str(tmp_path),
        "ATESOR_STATE_DIR": str(tmp_path / "state"),
        "ATESOR_ENGINE": "docker",
    }
    ended = subprocess.run(
        [sys.executable, "-m", "pytest_atesor.porter", *SEED],
        env=environ,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "FAILED (" in ended.stdout, ended.stdout + ended.stderr
    asked = (tmp_path / "docker.asked").read_text().splitlines()
    assert any(line.startswith("exec ") for line in asked)
    assert not [line for line in asked if line.startswith(("image ", "manifest ", "load ", "run "))]
