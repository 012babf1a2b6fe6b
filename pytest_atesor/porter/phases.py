"""The phases of a run: a banner for each, its seconds and how it ended."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import BinaryIO

__all__ = ["Phase", "Phases"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """One phase that ended; ``status`` is "ok", "failed" or "interrupted"."""

    name: str
    duration_s: float
    status: str


class Phases:
    """Announces phases on ``output`` and keeps their record, in order."""

    def __init__(self, output: BinaryIO, clock: Callable[[], float] = time.monotonic) -> None:
        self.output = output
        self._clock = clock
        self._started = clock()
        self._failed = False
        self.done: list[Phase] = []

    @property
    def elapsed_s(self) -> float:
        """Return the seconds since the run began."""
        return self._clock() - self._started

    def say(self, text: str) -> None:
        """Write one line of our own."""
        self.output.write(f"{text}\n".encode("utf-8", "backslashreplace"))
        self.output.flush()

    def fail(self) -> None:
        """Mark the running phase as failed without ending the run."""
        self._failed = True

    @contextmanager
    def phase(self, name: str, detail: str = "") -> Iterator[None]:
        """Announce a phase and record it when its body ends, however it ends."""
        self.say(f"==> [{self.elapsed_s:6.1f} s] {name}{': ' + detail if detail else ''}")
        began, self._failed = self._clock(), False
        try:
            yield
        finally:
            error = sys.exc_info()[1]
            status = "ok" if error is None and not self._failed else "failed"
            if error is not None and not isinstance(error, Exception):
                status = "interrupted"
            self.done.append(Phase(name=name, duration_s=round(self._clock() - began, 3), status=status))
