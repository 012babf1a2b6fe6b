"""The region on a real terminal, as a person sees it: pytest in a pty and an emulator's screen."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path

import pyte
import pytest

from tests.plugin.lab import PYTEST, SECONDS, Lab

BAR = re.compile(r"^\[[#.]{20}\] \d+/\d+", re.MULTILINE)


class Terminal:
    """A pytest process and the screen that it draws."""

    def __init__(self, lab: Lab, *arguments: str, columns: int, lines: int = 60, **environment: str) -> None:
        self.screen = pyte.Screen(columns, lines)
        self._stream = pyte.ByteStream(self.screen)
        self._master, slave = pty.openpty()
        self.resize(columns, lines)
        env = lab.environment(**{"TERM": "xterm-256color", **environment})
        for name in ("COLUMNS", "CI", "NO_COLOR"):
            if name not in environment:
                env.pop(name, None)
        self.process = subprocess.Popen(
            [sys.executable, "-m", *PYTEST, *arguments],
            cwd=lab.root,
            env=env,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
        )
        os.close(slave)
        self.raw = b""

    def resize(self, columns: int, lines: int) -> None:
        """Change the size of the terminal, as a window manager does."""
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self.screen.resize(lines, columns)

    @property
    def text(self) -> str:
        return "\n".join(line.rstrip() for line in self.screen.display).rstrip()

    def read_until(self, is_there: Callable[[str], bool]) -> str:
        """Read until the screen shows it, or the process ends; return the screen."""
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            if is_there(self.text):
                return self.text
            if select.select([self._master], [], [], 1.0)[0]:
                try:
                    data = os.read(self._master, 65536)
                except OSError:
                    break
                self.raw += data
                self._stream.feed(data)
        return self.text

    def finish(self) -> str:
        """Read to the end of the process and return the last screen."""
        self.read_until(lambda _: False)
        self.process.wait(SECONDS)
        os.close(self._master)
        return self.text


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    lab = Lab(tmp_path)
    lab.write_list("demo", {"zlib": "pass", "gron": "fail", "anew": "slow", "jq": "slow"})
    return lab


@pytest.mark.parametrize("columns", [200, 100, 60, 40])
@pytest.mark.parametrize("workers", ["0", "2"])
def test_a_region_is_shown_and_leaves_nothing_behind(lab: Lab, columns: int, workers: str) -> None:
    terminal = Terminal(lab, "--atesor-list", "demo", "-n", workers, columns=columns)
    during = terminal.read_until(lambda text: BAR.search(text) is not None)
    assert len(BAR.findall(during)) == 1
    after = terminal.finish()
    assert terminal.process.returncode == 1
    assert BAR.search(after) is None
    for package in ("zlib", "gron", "anew", "jq"):
        assert len(re.findall(rf"^w\d start {package}$", after, re.MULTILINE)) == 1
        assert len(re.findall(rf"^\[\d/4\] w\d \w+ {package} ", after, re.MULTILINE)) == 1
    assert b"\x1b[?25l" not in terminal.raw


@pytest.mark.parametrize(
    ("arguments", "environment"),
    [
        pytest.param(["-q"], {}, id="quiet"),
        pytest.param(["-v"], {}, id="verbose"),
        pytest.param(["-s"], {}, id="no-capture"),
        pytest.param([], {"CI": "true"}, id="ci"),
        pytest.param([], {"TERM": "dumb"}, id="dumb"),
    ],
)
def test_no_region_where_it_would_be_torn(
    lab: Lab, arguments: list[str], environment: dict[str, str]
) -> None:
    terminal = Terminal(lab, "--atesor-list", "demo", *arguments, columns=100, **environment)
    terminal.finish()
    assert BAR.search(terminal.raw.decode().replace("\r", "")) is None
    assert b"4 packages" in terminal.raw


def test_no_colour_when_nobody_wants_it(lab: Lab) -> None:
    terminal = Terminal(lab, "--atesor-list", "demo", columns=100, NO_COLOR="1")
    terminal.read_until(lambda text: BAR.search(text) is not None)
    terminal.finish()
    assert BAR.search(terminal.raw.decode().replace("\r", "\n").replace("\x1b[2K", "")) is not None
    assert re.search(rb"\x1b\[[0-9;]+m", terminal.raw) is None


@pytest.mark.parametrize("workers", ["0", "2"])
def test_an_interrupt_removes_the_region(lab: Lab, workers: str) -> None:
    lab.write_list("stuck", {"zlib": "hang", "gron": "hang"})
    terminal = Terminal(lab, "--atesor-list", "stuck", "-n", workers, columns=80)
    terminal.read_until(lambda text: BAR.search(text) is not None)
    terminal.process.send_signal(signal.SIGINT)
    after = terminal.finish()
    assert terminal.process.returncode == 130
    assert BAR.search(after) is None


def test_a_wider_window_keeps_one_region(lab: Lab) -> None:
    lab.write_list("stuck", {"zlib": "hang", "gron": "hang"})
    terminal = Terminal(lab, "--atesor-list", "stuck", "-n", "2", columns=60)
    terminal.read_until(lambda text: BAR.search(text) is not None)
    terminal.resize(120, 60)
    later = terminal.read_until(lambda text: "3s" in text)
    assert len(BAR.findall(later)) == 1
    terminal.process.send_signal(signal.SIGINT)
    terminal.finish()
