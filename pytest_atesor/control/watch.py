"""Ends workers that stand still: nobody else would, and the batch would wait for them for ever.

A worker stands still when a signal stopped it (SIGSTOP) and none lets it go on, or when it owes the
controller news and none comes: a deadlock in it, or in a plugin of the user's, is no death that anybody
notices. A worker that is merely slow is left alone, and so is a batch that stands still as a whole (Ctrl-Z):
looks are counted, not seconds, and a stopped controller takes none.
"""

from __future__ import annotations

import contextlib
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_atesor.control.signals import ProcessBook

__all__ = ["PATIENCE", "Patience", "WorkerWatch"]

_LOOK_EVERY_S: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How many seconds a worker may take before it is killed.

    ``answer_s`` for a new process to say its first word, ``start_s`` to collect the plan, ``margin_s`` for
    news of its case beyond the case's own time limit (sandboxes and kill ladders take their time), ``end_s``
    to end when nothing is left to do, ``stop_s`` to end when it was told to stop, ``pause_s`` to go on when
    a signal stopped it.
    """

    answer_s: float = 60.0
    start_s: float = 600.0
    margin_s: float = 300.0
    end_s: float = 300.0
    stop_s: float = 60.0
    pause_s: float = 10.0


PATIENCE = Patience()
"""What batches have."""


@dataclass(frozen=True, slots=True, eq=False)
class _Duty:
    """Something that a worker must do in time; ``words`` follow "it". Each duty is one of its own."""

    limit_s: float
    words: str


class WorkerWatch:
    """Kills each worker that does not do in time what it was last expected to do.

    What is expected is told from the main thread, the looks are another's. A killed worker's children die
    with it, and xdist reports its death as any other.
    """

    def __init__(self, processes: ProcessBook, patience: Patience | None = None) -> None:
        self._processes = processes
        self._patience = patience or PATIENCE
        self._duties: dict[str, _Duty] = {}
        self._looks: dict[str, tuple[_Duty, int]] = {}
        self._killed: dict[str, str] = {}
        self._pause, self._stop, self._end = (
            _Duty(limit_s, words)
            for limit_s, words in (
                (self._patience.pause_s, "was stopped by a signal and did not go on"),
                (self._patience.stop_s, "was told to stop and did not end"),
                (self._patience.end_s, "had nothing left to do and did not end"),
            )
        )

    def expect_collection(self, worker: str) -> None:
        """Expect a new worker to collect the plan."""
        self._duties[worker] = _Duty(self._patience.start_s, "did not collect its cases")

    def expect_news(self, worker: str, timeout_s: float) -> None:
        """Expect news of the case that the worker runs, whose time limit is ``timeout_s``; once more."""
        words = f"gave no news of its case, whose time limit is {timeout_s:g} s,"
        self._duties[worker] = _Duty(timeout_s + self._patience.margin_s, words)

    def expect_nothing(self, worker: str) -> None:
        """Let a worker wait for its next case."""
        self._duties.pop(worker, None)

    def explain(self, worker: str) -> str:
        """Return why the worker was killed, as what follows "it"; empty when it was not killed here."""
        return self._killed.get(worker, "")

    @contextlib.contextmanager
    def watching(self, is_ending: Callable[[], bool]) -> Iterator[None]:
        """Take a look every second within the block; ``is_ending`` says that idle workers were sent home."""
        ended = threading.Event()

        def watch() -> None:
            while not ended.wait(_LOOK_EVERY_S):
                self.look(is_ending=is_ending())

        thread = threading.Thread(target=watch, name="atesor-worker-watch", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def look(self, *, is_ending: bool) -> None:
        """Count one second more against every worker that owes something, and kill those whose time is up."""
        stopped = self._processes.find_stopped()
        looks: dict[str, tuple[_Duty, int]] = {}
        for worker in self._processes.workers():
            duty = self._find_duty(worker, is_stopped=worker in stopped, is_ending=is_ending)
            if duty is None:
                continue
            before, count = self._looks.get(worker, (duty, 0))
            count = count + 1 if before is duty else 1
            looks[worker] = (duty, count)
            if count * _LOOK_EVERY_S >= duty.limit_s:
                self._killed.setdefault(worker, f"{duty.words} within {duty.limit_s:g} s")
                self._processes.kill(worker)
        self._looks = looks

    def _find_duty(self, worker: str, *, is_stopped: bool, is_ending: bool) -> _Duty | None:
        """Return the most urgent of what a worker owes. An ending batch still waits for running cases."""
        if is_stopped:
            return self._pause
        if self._processes.is_told_to_stop:
            return self._stop
        return self._duties.get(worker, self._end if is_ending else None)
