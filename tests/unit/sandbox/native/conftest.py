"""A real OpenSSH server for each test, without a port: the client starts it in place of a connection."""

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[3] / "native"))

from ssh_server import SSHD, Server, make_server


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Server:
    if SSHD is None:
        pytest.skip("sshd is not installed; apt-get install openssh-server")
    made = make_server(tmp_path)
    monkeypatch.setenv("PATH", f"{made.programs}:{os.environ['PATH']}")
    return made
