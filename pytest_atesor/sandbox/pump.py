"""Runs one client process and moves its output in bounded memory, until its end or a deadline.

Knows nothing of containers. Bytes in, bytes out: the sink gets everything, the caller the last bytes.
"""

import os
import select
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import BinaryIO

__all__ = ["Pumped", "pump_process"]

_CHUNK = 65_536
_LINGER_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Pumped:
    """How the client ended: exit code (negative: a signal), last bytes, wall seconds, out of time or not."""

    exit_code: int
    tail: bytes
    duration_s: float
    timed_out: bool


class _Tail:
    """The last ``limit`` bytes of what was fed, never much more than twice that in memory."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held = bytearray()

    def feed(self, chunk: bytes) -> None:
        self._held += chunk
        if len(self._held) > 2 * self._limit + _CHUNK:
            del self._held[: len(self._held) - self._limit]

    def value(self) -> bytes:
        return bytes(self._held[-self._limit :]) if self._limit else b""


def pump_process(
    argv: Sequence[str],
    *,
    timeout_s: float,
    sink: BinaryIO | None,
    tail_bytes: int,
    on_timeout: Callable[[], None],
) -> Pumped:
    """Run ``argv`` with stdin closed and both streams in one; return how it ended.

    When the deadline passes, the client is killed and ``on_timeout`` called once. After the client's own end,
    output that somebody else still holds open is read for at most 2 seconds.
    """
    started = time.monotonic()
    tail = _Tail(tail_bytes)

    def feed(chunk: bytes) -> None:
        tail.feed(chunk)
        if sink is not None:
            sink.write(chunk)

    with subprocess.Popen(
        argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        try:
            timed_out = not _move_output(process, started + timeout_s, feed)
            if timed_out:
                # engines wait for a client that stands in the way of a flood of output
                process.kill()
                on_timeout()
        except BaseException:
            process.kill()
            raise
    return Pumped(
        exit_code=process.returncode,
        tail=tail.value(),
        duration_s=time.monotonic() - started,
        timed_out=timed_out,
    )


def _move_output(process: "subprocess.Popen[bytes]", deadline: float, feed: Callable[[bytes], None]) -> bool:
    """Feed the output until the process has ended and closed it; False when the deadline came first."""
    if process.stdout is None:
        return True
    stream = process.stdout.fileno()
    ended = os.pidfd_open(process.pid)
    waiting = {stream, ended}
    try:
        while waiting:
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                return ended not in waiting
            ready, _, _ = select.select(waiting, (), (), remaining)
            if stream in ready:
                chunk = os.read(stream, _CHUNK)
                feed(chunk)
                if not chunk:
                    waiting.discard(stream)
            elif ended in ready:
                waiting.discard(ended)
                deadline = min(deadline, time.monotonic() + _LINGER_S)
    finally:
        os.close(ended)
    return True
