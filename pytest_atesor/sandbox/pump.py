"""Runs one client process and moves its output in bounded memory, until its end or a deadline.

Knows nothing of containers. Bytes in, bytes out: the sink gets everything, the caller the last bytes.
"""

import os
import select
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, unique
from typing import BinaryIO

from pytest_atesor.sandbox.kernel import open_process
from pytest_atesor.sandbox.stall import StallWatch

__all__ = ["NOWHERE", "Pumped", "pump_process"]

NOWHERE = "/proc"
"""Where clients work: podman's monitor notes a lack of memory in a file there, and nothing can be written."""

_CHUNK = 65_536
_LINGER_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Pumped:
    """How the client ended: exit code (negative: a signal), last bytes, wall seconds, out of time or not.

    What stalled is out of time, too.
    """

    exit_code: int
    tail: bytes
    duration_s: float
    timed_out: bool
    is_stalled: bool = False


@unique
class _End(Enum):
    OWN = "its own"
    LATE = "late"
    STALLED = "stalled"


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
    watch: StallWatch | None = None,
) -> Pumped:
    """Run ``argv`` with stdin closed and both streams in one; return how it ended.

    When the deadline passes, or ``watch`` says that it stalls, the client is killed and ``on_timeout`` called
    once. After the client's own end, output that somebody else still holds open is read for 2 seconds.
    Raises SandboxError where the end of a process cannot be waited for.
    """
    started = time.monotonic()
    tail = _Tail(tail_bytes)

    def feed(chunk: bytes) -> None:
        tail.feed(chunk)
        if sink is not None:
            sink.write(chunk)

    with subprocess.Popen(
        argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=NOWHERE
    ) as process:
        try:
            end = _move_output(process, started + timeout_s, feed, watch)
            if end is not _End.OWN:
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
        timed_out=end is not _End.OWN,
        is_stalled=end is _End.STALLED,
    )


def _move_output(
    process: "subprocess.Popen[bytes]",
    deadline: float,
    feed: Callable[[bytes], None],
    watch: StallWatch | None,
) -> _End:
    """Feed the output until the process has ended and closed it, or the deadline or a stall comes first."""
    if process.stdout is None:
        return _End.OWN
    next_look = time.monotonic() + watch.interval_s if watch is not None else deadline
    stream = process.stdout.fileno()
    ended = open_process(process.pid)
    waiting = {stream, ended}
    try:
        while waiting:
            now = time.monotonic()
            if now >= deadline:
                return _End.LATE if ended in waiting else _End.OWN
            if watch is not None and now >= next_look:
                if ended in waiting and watch.is_stalled(now):
                    return _End.STALLED
                next_look = now + watch.interval_s
            ready, _, _ = select.select(waiting, (), (), max(0.0, min(deadline, next_look) - now))
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
    return _End.OWN
