"""A deadline that comes when the child is ready for it, and not after some seconds that may be too few."""

import os
import select
from pathlib import Path

from pytest_atesor.runners.stop import TERMINATE, StopFlag
from tests.unit.processes import LIMIT_S


class ReadyFirst:
    """A stop signal that lets nothing begin before the child has written into the FIFO ``ready``.

    It is asked for its descriptor when the child runs and nobody has looked at the clock yet; so a deadline
    that has passed by then finds a child that is ready, however long that took.
    """

    def __init__(self, flag: StopFlag, ready: Path) -> None:
        self._flag = flag
        self._ready = ready
        self._is_ready = False
        os.mkfifo(ready)

    @property
    def level(self) -> int:
        return self._flag.level

    def fileno(self, level: int = TERMINATE) -> int:
        if not self._is_ready:
            reader = os.open(self._ready, os.O_RDONLY | os.O_NONBLOCK)
            try:
                assert select.select([reader], [], [], LIMIT_S)[0], "the child never said that it was ready"
            finally:
                os.close(reader)
            self._is_ready = True
        return self._flag.fileno(level)
