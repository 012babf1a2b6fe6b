"""The region on a real terminal, as a person sees it: pytest in a pty and an emulator's screen."""

import codecs
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

pytestmark = pytest.mark.skipif(
    not hasattr(pytest, "TerminalReporter"), reason="with this pytest there are only plain lines"
)

CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
BAR = re.compile(r"^\[[#.]{10,20}\] \d+/\d+", re.MULTILINE)


class Terminal:
    """A pytest process and the screen that it draws."""

    def __init__(self, lab: Lab, *arguments: str, columns: int, lines: int = 100, **environment: str) -> None:
        self.screen = pyte.Screen(max(1, columns), max(1, lines))
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
        self.screen.resize(max(1, lines), max(1, columns))

    @property
    def raw_text(self) -> str:
        """Everything that was ever written, a line for each drawing of one."""
        text = codecs.getincrementaldecoder("utf-8")().decode(self.raw)  # the last letter may be half read
        return CONTROL.sub("", text.replace("\r", "\n"))

    @property
    def text(self) -> str:
        return "\n".join(line.rstrip() for line in self.screen.display).rstrip()

    def read_until(self, is_there: Callable[[str], object]) -> str:
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
    lab.write_list("demo", {"zlib": "pass", "gron": "fail", "anew": "pass", "jq": "pass"})
    lab.write_list("watched", {"zlib": "pass", "gron": "fail", "anew": "after-look", "jq": "after-look"})
    lab.write_list("stuck", {"zlib": "hang", "gron": "hang"})
    return lab


def has_region(text: str) -> bool:
    return BAR.search(text) is not None


def go_on(lab: Lab, event: str = "look") -> None:
    """Let the cases go on that wait for this event."""
    with (lab.root / "events").open("a") as file:
        file.write(f"end {event}\n")


@pytest.mark.parametrize("columns", [200, 100, 60, 40])
@pytest.mark.parametrize("workers", ["0", "2"])
def test_a_region_is_shown_and_leaves_nothing_behind(lab: Lab, columns: int, workers: str) -> None:
    terminal = Terminal(lab, "--atesor-list", "watched", "-n", workers, columns=columns)
    during = terminal.read_until(has_region)
    assert len(BAR.findall(during)) == 1
    go_on(lab)
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
        pytest.param(["-p", "no:terminal"], {}, id="no-reporter"),
        pytest.param([], {"CI": "true"}, id="ci"),
        pytest.param([], {"TERM": "dumb"}, id="dumb"),
    ],
)
def test_no_region_where_it_would_be_torn(
    lab: Lab, arguments: list[str], environment: dict[str, str]
) -> None:
    terminal = Terminal(lab, "--atesor-list", "demo", *arguments, columns=100, **environment)
    terminal.finish()
    assert terminal.process.returncode == 1
    assert not has_region(terminal.raw_text)
    assert ("4 packages" in terminal.raw_text) is ("no:terminal" not in arguments)


@pytest.mark.parametrize(("columns", "lines"), [(0, 0), (19, 100), (100, 2)])
def test_a_terminal_without_room_gets_plain_lines(lab: Lab, columns: int, lines: int) -> None:
    terminal = Terminal(lab, "--atesor-list", "demo", columns=columns, lines=lines)
    terminal.finish()
    assert terminal.process.returncode == 1
    assert re.search(r"\[[#.]{5}", terminal.raw_text) is None
    assert terminal.raw.count(b"w1 start zlib") == 1


def test_another_reporter_gets_plain_lines(lab: Lab) -> None:
    (lab.root / "conftest.py").write_text("""
import pytest

class Other(pytest.TerminalReporter):
    pass

@pytest.hookimpl(trylast=True)
def pytest_configure(config):
    config.pluginmanager.unregister(name="terminalreporter")
    config.pluginmanager.register(Other(config), "terminalreporter")
""")
    terminal = Terminal(lab, "--atesor-list", "demo", columns=100)
    terminal.finish()
    assert terminal.process.returncode == 1
    assert not has_region(terminal.raw_text)
    assert terminal.raw.count(b"w1 start zlib") == 1


@pytest.mark.parametrize("drawings", [0, 1, 4])
@pytest.mark.parametrize("workers", ["0", "2"])
def test_a_region_that_fails_is_switched_off(lab: Lab, drawings: int, workers: str) -> None:
    (lab.root / "conftest.py").write_text(f"""
from pytest_atesor.control import region

draw, drawn = region.draw_region, []

def draw_some(*args, **kwargs):
    drawn.append(1)
    if len(drawn) > {drawings}:
        with open("events", "a") as file:
            file.write("end look\\n")
        raise RuntimeError("cannot draw")
    return draw(*args, **kwargs)

region.draw_region = draw_some
""")
    terminal = Terminal(lab, "--atesor-list", "watched", "-n", workers, columns=100)
    after = terminal.finish()
    assert terminal.process.returncode == 1
    assert "end look" in lab.events()
    assert "cannot draw" not in terminal.raw_text
    assert not has_region(after)
    for package in ("zlib", "gron", "anew", "jq"):
        assert len(re.findall(rf"^w\d start {package}$", after, re.MULTILINE)) == 1


def test_a_workers_death_leaves_whole_lines(lab: Lab) -> None:
    lab.write_list("deadly", {"dead": "kill-after-look", "slow": "after-more", "late": "after-more"})
    terminal = Terminal(lab, "--atesor-list", "deadly", "-n", "2", columns=100)
    terminal.read_until(has_region)
    go_on(lab)
    again = terminal.read_until(lambda text: "start late" in text and has_region(text))
    assert len(BAR.findall(again)) == 1
    go_on(lab, "more")
    after = terminal.finish()
    assert not has_region(after)
    for line in (
        r"\[gw\d\] node down: Not properly terminated",
        r"replacing crashed worker gw\d",
        *(rf"w\d start {package}" for package in ("dead", "slow", "late")),
    ):
        assert len(re.findall(f"^{line}$", after, re.MULTILINE)) == 1, after


@pytest.mark.parametrize("workers", ["0", "2"])
def test_a_slot_shows_the_phase_of_its_case(lab: Lab, workers: str) -> None:
    (lab.root / "agent").write_text("""#!/bin/sh
echo "==> [   0.1 s] fetch: x"
until [ -e events ]; do sleep 0.05; done
printf '==> [   2.5 s] build\\033[2J: make\\n'
until grep -qx "end look" events; do sleep 0.05; done
""")
    terminal = Terminal(lab, "--atesor-list", "watched", "-n", workers, "-k", "zlib", columns=100)
    # A screen is read in pieces: what is waited for is the whole line.
    fetching = terminal.read_until(re.compile(r"^w\d +\S+s  zlib  fetch: x$", re.MULTILINE).search)
    assert re.search(r"^w\d +\S+s  zlib  fetch: x$", fetching, re.MULTILINE), fetching
    (lab.root / "events").write_text("")
    building = terminal.read_until(re.compile(r"^w\d +\S+s  zlib  build: make$", re.MULTILINE).search)
    assert re.search(r"^w\d +\S+s  zlib  build: make$", building, re.MULTILINE), building
    go_on(lab)
    assert "build" not in terminal.finish()
    assert terminal.process.returncode == 0


@pytest.mark.parametrize(
    ("option", "lines"),
    [
        pytest.param("-v", ["packages/watched.json::zlib", "packages/watched.json::anew"], id="verbose"),
        pytest.param("-q", [r"[.F]{4} +\[100%\]"], id="quiet"),
        pytest.param("-s", ["2 workers", r"w\d start zlib", r"w\d start anew"], id="no-capture"),
    ],
)
def test_what_xdist_says_of_its_workers_tears_no_line(lab: Lab, option: str, lines: list[str]) -> None:
    (lab.root / "conftest.py").write_text("""
import os, time
import pytest

@pytest.hookimpl(tryfirst=True)  # before xdist tells the controller
def pytest_collection_finish(session):
    if os.environ.get("PYTEST_XDIST_WORKER") == "gw1":  # the cases of gw0 begin before this one is ready
        while not os.path.exists("events"):
            time.sleep(0.05)
""")
    terminal = Terminal(lab, "--atesor-list", "watched", "-n", "2", option, columns=100)
    lab.wait_for_events("start zlib")
    go_on(lab)
    after = terminal.finish()
    for line in lines:
        assert len(re.findall(f"^{line}$", after, re.MULTILINE)) == 1, after
    assert "collecting" not in after


@pytest.mark.parametrize("option", ["-q", "-s"])
def test_a_worker_that_is_ready_when_nothing_waits_tears_no_line(lab: Lab, option: str) -> None:
    (lab.root / "agent").write_text("""#!/bin/sh
echo start >> events
[ $(grep -c start events) -lt 4 ] || until grep -qx ready events; do sleep 0.05; done
""")
    (lab.root / "conftest.py").write_text("""
import os, time
import pytest

@pytest.hookimpl(tryfirst=True)  # before xdist tells the controller
def pytest_collection_finish(session):
    if os.environ.get("PYTEST_XDIST_WORKER") == "gw1":
        while not os.path.exists("events") or open("events").read().count("start") < 4:
            time.sleep(0.05)

@pytest.hookimpl(optionalhook=True)
def pytest_xdist_node_collection_finished(node):
    if node.gateway.id == "gw1":
        with open("events", "a") as file:
            file.write("ready\\n")
""")
    terminal = Terminal(lab, "--atesor-list", "demo", "-n", "2", option, columns=100)
    after = terminal.finish()
    assert terminal.process.returncode == 0
    whole = r"^\.{4} +\[100%\]$" if option == "-q" else r"^w1 start \w+\n\[4/4\] w1 PASS"
    assert re.search(whole, after, re.MULTILINE), after


def test_no_colour_when_nobody_wants_it(lab: Lab) -> None:
    terminal = Terminal(lab, "--atesor-list", "watched", columns=100, NO_COLOR="1")
    terminal.read_until(has_region)
    go_on(lab)
    terminal.finish()
    assert has_region(terminal.raw_text)
    assert re.search(rb"\x1b\[[0-9;]+m", terminal.raw) is None


@pytest.mark.parametrize("workers", ["0", "2"])
def test_an_interrupt_removes_the_region(lab: Lab, workers: str) -> None:
    terminal = Terminal(lab, "--atesor-list", "stuck", "-n", workers, columns=80)
    terminal.read_until(has_region)
    terminal.process.send_signal(signal.SIGINT)
    after = terminal.finish()
    assert terminal.process.returncode == 130
    assert BAR.search(after) is None


def test_a_wider_window_keeps_one_region(lab: Lab) -> None:
    terminal = Terminal(lab, "--atesor-list", "stuck", "-n", "2", columns=60)
    terminal.read_until(has_region)
    terminal.resize(120, 60)
    drawn = len(terminal.raw_text)
    later = terminal.read_until(
        lambda text: len(BAR.findall(terminal.raw_text[drawn:])) > 2 and has_region(text)
    )
    assert len(BAR.findall(terminal.raw_text[drawn:])) > 2, terminal.raw[-400:]
    assert len(BAR.findall(later)) == 1
    terminal.process.send_signal(signal.SIGINT)
    terminal.finish()
