import io
import os
import time

import pytest

from pytest_atesor.sandbox.pump import Pumped, pump_process
from tests.unit.processes import LIMIT_S


def pump(
    script: str, *, timeout_s: float = LIMIT_S, sink: io.BytesIO | None = None, tail_bytes: int = 1000
) -> Pumped:
    return pump_process(
        ["sh", "-c", script], timeout_s=timeout_s, sink=sink, tail_bytes=tail_bytes, on_timeout=lambda: None
    )


def test_both_streams_reach_the_sink_in_full() -> None:
    sink = io.BytesIO()
    done = pump("head -c 1000000 /dev/zero; head -c 1000000 /dev/zero >&2; echo end", sink=sink)
    assert len(sink.getvalue()) == 2_000_004
    assert done.exit_code == 0
    assert not done.timed_out


@pytest.mark.parametrize("tail_bytes", [0, 1, 10, 5000], ids=lambda size: f"{size}-bytes")
def test_the_tail_is_the_last_bytes(tail_bytes: int) -> None:
    sink = io.BytesIO()
    done = pump("seq 100000", sink=sink, tail_bytes=tail_bytes)
    whole = sink.getvalue()
    assert done.tail == whole[len(whole) - tail_bytes :]


def test_a_short_output_is_the_whole_tail() -> None:
    assert pump("printf abc").tail == b"abc"


@pytest.mark.parametrize(
    ("script", "exit_code"), [("exit 7", 7), ("kill -9 $$", -9)], ids=["own-exit-code", "killed-by-a-signal"]
)
def test_the_exit_code_is_the_clients(script: str, exit_code: int) -> None:
    assert pump(script).exit_code == exit_code


def test_stdin_is_closed() -> None:
    assert pump("cat; echo read").tail == b"read\n"


def test_the_deadline_ends_a_client_that_never_writes() -> None:
    asked: list[str] = []
    begun = time.monotonic()
    done = pump_process(
        ["sleep", "600"], timeout_s=0.2, sink=None, tail_bytes=10, on_timeout=lambda: asked.append("now")
    )
    assert done.timed_out
    assert asked == ["now"]
    assert time.monotonic() - begun < LIMIT_S


def test_the_deadline_ends_a_client_that_floods() -> None:
    for timeout_s in (0.3, 3.0, 30.0):  # it has to flood by then
        done = pump("exec timeout 300 cat /dev/zero", timeout_s=timeout_s, tail_bytes=10)
        if done.tail:
            break
    assert done.timed_out
    assert done.tail == bytes(10)


def test_a_background_process_with_the_output_open_does_not_hold_the_command_up() -> None:
    done = pump("sleep 600 & echo $!; exit 3")
    os.kill(int(done.tail), 9)
    assert done.exit_code == 3
    assert not done.timed_out
    assert done.duration_s < LIMIT_S


def test_a_sink_that_fails_ends_the_client() -> None:
    sink = io.BytesIO()
    sink.close()
    with pytest.raises(ValueError, match="closed file"):
        pump("echo x; exec sleep 600", sink=sink)
