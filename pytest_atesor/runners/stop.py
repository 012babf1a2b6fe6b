"""The wish to stop, from a signal handler to whoever waits for a child.

Level 1 asks: children get TERM and their grace. Level 2 insists: children are killed now. A level is never
taken back. Which signal means which level is the session's business.
"""

import contextlib
import os
from types import TracebackType
from typing import Final, Protocol, Self, final

__all__ = ["KILL_NOW", "TERMINATE", "StopFlag", "StopSignal"]

TERMINATE: Final = 1
KILL_NOW: Final = 2


class StopSignal(Protocol):
    """What a waiting loop needs: the level now, and something to wait on for each level."""

    @property
    def level(self) -> int:
        """0 (go on), TERMINATE or KILL_NOW."""

    def fileno(self, level: int = TERMINATE) -> int:
        """Return a descriptor that is readable from the moment the level is reached. Nobody reads from it."""


@final
class StopFlag:
    """A StopSignal on two eventfds, one per level, so that any number of loops can wait without reading.

    :meth:`raise_to` may be called from a Python signal handler and from any thread.
    """

    __slots__ = ("_descriptors", "_kill", "_terminate")

    def __init__(self) -> None:
        self._terminate = False
        self._kill = False
        flags = os.EFD_CLOEXEC | os.EFD_NONBLOCK
        self._descriptors = {TERMINATE: os.eventfd(0, flags), KILL_NOW: os.eventfd(0, flags)}

    @property
    def level(self) -> int:
        """0, TERMINATE or KILL_NOW."""
        if self._kill:
            return KILL_NOW
        return TERMINATE if self._terminate else 0

    def fileno(self, level: int = TERMINATE) -> int:
        """Return the descriptor that becomes readable when the level is reached."""
        return self._descriptors[level]

    def raise_to(self, level: int) -> None:
        """Reach ``level`` (and those below it); nothing happens when it was reached before."""
        # Two booleans and no comparison: a handler that interrupts another handler here cannot lose a level.
        self._terminate = True
        if level >= KILL_NOW:
            self._kill = True
        for each, descriptor in self._descriptors.items():
            if each <= level:
                with contextlib.suppress(BlockingIOError):  # a full counter is readable, which is all we want
                    os.eventfd_write(descriptor, 1)

    def close(self) -> None:
        """Close the descriptors; nobody may wait on them any more."""
        for descriptor in self._descriptors.values():
            os.close(descriptor)
        self._descriptors = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
