"""What run_child promises about the process it runs in: memory, signals, limits, and its sudden death."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.processes import LIMIT_S, have_ended, watching

HARNESS = """
import json, os, resource, signal, sys, time
from pathlib import Path
from pytest_atesor.runners import process
from pytest_atesor.runners.process import ChildSpec, run_child
from pytest_atesor.runners.stop import KILL_NOW, TERMINATE, StopFlag

settings = json.loads(sys.argv[1])
if "file_limit" in settings:
    resource.setrlimit(resource.RLIMIT_FSIZE, (settings["file_limit"], settings["file_limit"]))
if "kill_s" in settings:
    process._KILL_PATIENCE_S = process._KILL_LIMIT_S = settings["kill_s"]
if "stop_before_kill" in settings:
    kills = []

    def stop_before_kill(event, arguments):
        if event == "os.killpg" and arguments[1] == signal.SIGKILL:
            kills.append(arguments[0])
            if len(kills) == settings["stop_before_kill"]:
                os.kill(os.getpid(), signal.SIGSTOP)

    sys.addaudithook(stop_before_kill)
stop = StopFlag()
signal.signal(signal.SIGINT, lambda number, frame: stop.raise_to(KILL_NOW if stop.level else TERMINATE))
signal.signal(signal.SIGTERM, lambda number, frame: stop.raise_to(KILL_NOW if stop.level else TERMINATE))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
end = run_child(
    ChildSpec(
        argv=("bash", "-c", settings["script"]),
        env=dict(os.environ),
        cwd=Path.cwd(),
        log_path=Path("run.log"),
        deadline=time.monotonic() + 600,
    ),
    stop=stop,
)
grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
print(json.dumps({
    "exit_code": end.exit_code, "signal": end.signal,
    "interrupted": end.interrupted, "timed_out": end.timed_out,
    "leaks": end.leaks,
    "log_bytes": end.log_bytes, "dropped_bytes": end.dropped_bytes, "log_error": end.log_error,
    "grown_kib": grown,
}))
"""

PROMPT_S = LIMIT_S
"""Far below the 600 s that the children sleep."""


class Harness:
    """A Python process that runs one child; its children say by a FIFO that they are ready."""

    def __init__(self, directory: Path, script: str, **settings: object) -> None:
        self._directory = directory
        self._fifo = directory / "ready"
        os.mkfifo(self._fifo)
        argument = json.dumps({"script": script, **settings})
        self.process = subprocess.Popen(
            [sys.executable, "-c", HARNESS, argument],
            cwd=directory,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            stdout=subprocess.PIPE,
            start_new_session=True,
        )

    def wait_until_ready(self) -> tuple[int, ...]:
        """Return the process ids that the child wrote into the FIFO ``ready``."""
        return tuple(map(int, self._fifo.read_text().split()))

    def finish(self) -> Any:
        """Return the facts that the harness printed."""
        output, _ = self.process.communicate(timeout=2 * LIMIT_S)
        return json.loads(output)


@pytest.fixture
def harnesses() -> Iterator[list[Harness]]:
    """Those started; ended whatever the test did."""
    started: list[Harness] = []
    yield started
    for harness in started:
        harness.process.kill()
        harness.process.communicate()


TREE = """
exec 9>ready
bash -c 'trap "" TERM; echo $$ >&9; exec 9>&-; sleep 600; sleep 600' &
setsid bash -c 'trap "" TERM; echo $$ >&9; exec 9>&-; sleep 600; sleep 600' &
(env -i setsid bash -c 'echo $$ >&9; exec 9>&-; sleep 600; sleep 600' &)
echo $$ >&9
exec 9>&-
wait
"""


def test_a_killed_harness_takes_the_whole_tree_with_it(tmp_path: Path, harnesses: list[Harness]) -> None:
    harness = Harness(tmp_path, TREE)
    harnesses.append(harness)
    pids = harness.wait_until_ready()
    assert len(pids) == 4
    with watching(pids) as tree:
        harness.process.send_signal(signal.SIGKILL)
        assert have_ended(tree)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["INT", "TERM"])
def test_a_signal_to_the_harness_ends_an_obedient_child_promptly(
    tmp_path: Path, harnesses: list[Harness], number: signal.Signals
) -> None:
    harness = Harness(tmp_path, "echo $$ >ready; exec sleep 600")
    harnesses.append(harness)
    harness.wait_until_ready()
    asked = time.monotonic()
    harness.process.send_signal(number)
    end = harness.finish()
    assert time.monotonic() - asked < PROMPT_S
    assert (end["interrupted"], end["timed_out"], end["signal"]) == (True, False, signal.SIGTERM)


def test_a_second_signal_kills_a_child_that_ignores_the_first(
    tmp_path: Path, harnesses: list[Harness]
) -> None:
    os.mkfifo(tmp_path / "asked")
    script = 'trap "echo >asked" TERM; echo $$ >ready; while :; do sleep 600 & wait; done'
    harness = Harness(tmp_path, script)
    harnesses.append(harness)
    harness.wait_until_ready()
    harness.process.send_signal(signal.SIGINT)
    (tmp_path / "asked").read_bytes()
    insisted = time.monotonic()
    harness.process.send_signal(signal.SIGINT)
    end = harness.finish()
    assert time.monotonic() - insisted < PROMPT_S
    assert (end["interrupted"], end["signal"]) == (True, signal.SIGKILL)


# Each layer starts the next in a session of its own; the last one says which they all are.
LAYERS = """
echo $$ >>pids
if [ "$1" = 0 ]; then cat pids >ready; else setsid bash layers $(($1 - 1)) & fi
sleep 600 & wait
"""


def start_layers(directory: Path, count: int, **settings: object) -> Harness:
    """Start a child that leaves that many layers behind as soon as somebody writes into the FIFO ``go``."""
    (directory / "layers").write_text(LAYERS)
    os.mkfifo(directory / "go")
    return Harness(directory, f"setsid bash layers {count - 1} & cat go; exit 3", **settings)


def test_a_harness_that_stood_still_while_it_killed_goes_on_killing(
    tmp_path: Path, harnesses: list[Harness]
) -> None:
    harness = start_layers(tmp_path, 60, stop_before_kill=10)
    harnesses.append(harness)
    with watching(harness.wait_until_ready()) as layers:
        (tmp_path / "go").write_text("")
        news = os.waitid(os.P_PID, harness.process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        assert news is not None
        assert news.si_code == os.CLD_STOPPED
        assert not have_ended(layers, 6)  # longer than its patience with what does not die
        harness.process.send_signal(signal.SIGCONT)
        end = harness.finish()
        assert have_ended(layers, 30)
    assert (end["exit_code"], [leak for leak in end["leaks"] if "survived" in leak]) == (3, [])


def test_killing_ends_when_its_time_is_up_though_more_is_left(
    tmp_path: Path, harnesses: list[Harness]
) -> None:
    harness = start_layers(tmp_path, 10, kill_s=0)
    harnesses.append(harness)
    with watching(harness.wait_until_ready()) as layers:
        (tmp_path / "go").write_text("")
        end = harness.finish()
        assert not have_ended(layers, 0.5)
        assert have_ended(layers[:1])
    assert (end["exit_code"], [leak for leak in end["leaks"] if "survived" in leak]) == (3, [])


def test_a_line_of_200_megabytes_needs_little_memory(tmp_path: Path, harnesses: list[Harness]) -> None:
    harness = Harness(tmp_path, "head -c 200000000 /dev/zero | tr '\\0' x")
    harnesses.append(harness)
    end = harness.finish()
    assert (end["exit_code"], end["log_bytes"] + end["dropped_bytes"]) == (0, 200_000_000)
    assert end["log_bytes"] == 64 * 1024 * 1024
    assert end["grown_kib"] < 24 * 1024


def test_a_file_size_limit_is_a_full_disk_too(tmp_path: Path, harnesses: list[Harness]) -> None:
    harness = Harness(tmp_path, "seq 100000; exit 3", file_limit=100_000)
    harnesses.append(harness)
    end = harness.finish()
    assert (end["exit_code"], end["log_error"]) == (3, "File too large")
    assert (end["log_bytes"], end["dropped_bytes"]) == (100_000, 488_895)
    assert (tmp_path / "run.log").read_bytes().startswith(b"1\n2\n3\n")
