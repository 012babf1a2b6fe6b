"""Where a running attempt is, by its log: the last phase that its agent announced."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, Final

from pytest_atesor.reports.terminal import find_phase

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["PhaseReader"]

_LOOK_EVERY_S: Final = 1.0
_MOST_BYTES: Final = 256 * 1024
_OVERLAP_BYTES: Final = 512  # the last look may have ended within a line
_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class PhaseReader:
    """Follows the log of one attempt: at most once a second, and only what is new in it."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._due_s = 0.0
        self._seen_bytes = 0
        self._phase = ""

    def read(self, now_s: float) -> str:
        """Return the phase, empty while none is known; ``now_s`` is monotonic.

        The log is a stranger's file: no link is followed, nothing is waited for, and of a flood only the end
        is read.
        """
        if now_s >= self._due_s:
            self._due_s = now_s + _LOOK_EVERY_S
            try:
                descriptor = os.open(self._log, _FLAGS)
            except OSError:
                return self._phase
            try:
                self._phase = find_phase(self._read_news(descriptor)) or self._phase
            except OSError:
                pass  # the phase is a courtesy
            finally:
                os.close(descriptor)
        return self._phase

    def _read_news(self, descriptor: int) -> bytes:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size == self._seen_bytes:
            return b""
        begin = max(0, self._seen_bytes - _OVERLAP_BYTES, status.st_size - _MOST_BYTES)
        self._seen_bytes = status.st_size
        return os.pread(descriptor, _MOST_BYTES, begin)
