"""Ends workers that were stopped (SIGSTOP) and never go on: nobody else would, and the batch would wait.

A worker that is merely slow is left alone, and so is a batch that stands still as a whole (Ctrl-Z): looks
are counted, not seconds, and a stopped controller takes none.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from types import TracebackType

    from pytest_atesor.control.signals import ProcessBook

__all__ = ["StoppedWorkers"]

_LOOK_EVERY_S: Final = 1.0
_LOOKS: Final = 10


class StoppedWorkers:
    """Kills, while entered, each worker that was found stopped ten times in a row, a second apart.

    Its children die with it, and xdist reports its death as any other.
    """

    def __init__(self, processes: ProcessBook) -> None:
        self._processes = processes
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="atesor-stopped-workers", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        seen: dict[str, int] = {}
        while not self._ended.wait(_LOOK_EVERY_S):
            seen = {worker: seen.get(worker, 0) + 1 for worker in self._processes.find_stopped()}
            for worker, looks in seen.items():
                if looks >= _LOOKS:
                    self._processes.kill(worker)
