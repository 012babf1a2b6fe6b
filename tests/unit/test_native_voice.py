"""What happens to a riscv64 machine is said at once, whoever captures standard error meanwhile."""

import os
import subprocess
import sys
from pathlib import Path

CONFTEST = """
from contextlib import ExitStack
import pytest
from pytest_atesor.intake.native import open_voice

def pytest_configure(config):
    stack = ExitStack()
    config.add_cleanup(stack.close)
    config.voice = open_voice(stack, print)
"""
CASE = """
import os

def test_it(pytestconfig):
    pytestconfig.voice("the connection\\n\\x1b[31m is lost")
    os.kill(os.getpid(), 9)  # before any report
"""


def test_a_line_is_out_while_a_case_is_captured(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_case.py").write_text(CASE)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert ended.stderr == "atesor: the connection is lost\n"


def test_who_has_stopped_listening_stops_nobody_from_speaking() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    script = (
        "from contextlib import ExitStack\n"
        "from pytest_atesor.intake.native import open_voice\n"
        "with ExitStack() as stack:\n"
        "    open_voice(stack, print)('lost')\n"
        "raise SystemExit(3)\n"
    )
    ended = subprocess.run([sys.executable, "-c", script], stderr=writer, check=False, timeout=300)
    os.close(writer)
    assert ended.returncode == 3
