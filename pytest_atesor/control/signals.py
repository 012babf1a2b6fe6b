"""Signals to the controller: the first asks the batch to stop, a later one insists.

The handlers only set flags and pass signals on; everything else happens in the session's own time. What they
pass on goes to processes that were identified when they started, never to a process id alone.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from typing import TYPE_CHECKING, Final, Self

import psutil

from pytest_atesor.runners.stop import KILL_NOW, TERMINATE
from pytest_atesor.work.worker import KILL_CHILDREN, STOP_WORKER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType, TracebackType

    from pytest_atesor.runners.stop import StopFlag

__all__ = [
    "STOP_SIGNALS",
    "ProcessBook",
    "SetupInterrupted",
    "StopSignals",
    "signals_blocked",
]

STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

# A terminal, a parent and a CI runner often send the same wish within milliseconds of each other.
_DEBOUNCE_S: Final = 0.2
# Telling everybody takes a moment, and seconds where the machine stands still. Should it hang, who insists
# after that is heard all the same.
_DEALING_S: Final = 10.0
_LAST_RESORT_S: Final = 3.0


class SetupInterrupted(BaseException):
    """A stop signal came before the first case could start."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class ProcessBook:
    """The worker processes, each known by its id and start time."""

    def __init__(self) -> None:
        self._processes: dict[str, psutil.Process] = {}
        self._is_told_to_stop = False

    @property
    def is_told_to_stop(self) -> bool:
        """Whether the workers were asked to end their cases."""
        return self._is_told_to_stop

    def workers(self) -> list[str]:
        """Return the workers that have not ended."""
        return list(self._processes)

    def add(self, worker: str, pid: int) -> None:
        """Remember a worker that is alive now."""
        with contextlib.suppress(psutil.Error):
            self._processes[worker] = psutil.Process(pid)

    def remove(self, worker: str) -> int | None:
        """Forget a worker that ended; return the process id that it had."""
        process = self._processes.pop(worker, None)
        return None if process is None else process.pid

    def kill(self, worker: str) -> None:
        """Kill one worker."""
        process = self._processes.get(worker)
        if process is not None:
            with contextlib.suppress(psutil.Error):
                process.kill()

    def find_stopped(self) -> list[str]:
        """Return the workers that a signal has stopped and none has let go on."""
        stopped = []
        for worker, process in list(self._processes.items()):
            with contextlib.suppress(psutil.Error):
                if process.status() == psutil.STATUS_STOPPED:
                    stopped.append(worker)
        return stopped

    def send(self, number: int) -> None:
        """Send a signal to every worker; psutil checks that the process is still the same one."""
        self._is_told_to_stop = self._is_told_to_stop or number == STOP_WORKER
        for process in list(self._processes.values()):
            with contextlib.suppress(psutil.Error):
                process.send_signal(number)


class StopSignals:
    """Handlers for INT, TERM and HUP; the former handlers come back on leaving. For the main thread.

    An INT or HUP that this process was started to ignore (``nohup``, a script's ``&``) stays ignored.

    Until :meth:`watch` is called the first signal raises SetupInterrupted and a later one ends the process:
    none interrupts the clean-up. From then on the first one calls ``on_stop`` with its number, raises
    ``flag`` to TERMINATE and tells the workers; a later one raises it to KILL_NOW, tells the workers, and
    ends this process for good when the orderly end takes more than three seconds. Signals while the first is
    dealt with, for ten seconds at most, and within 0.2 seconds after that are one wish with it; ``on_stop``
    hears of an INT among them too, since nothing tells which of two signals that are both pending was sent
    first. ``clock`` gives the seconds for that.
    """

    def __init__(
        self, flag: StopFlag, workers: ProcessBook, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._flag = flag
        self._workers = workers
        self._clock = clock
        self._on_stop: Callable[[int], None] | None = None
        self._first: tuple[int, float] | None = None
        self._previous: dict[int, signal._HANDLER] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            heard = [number for number in STOP_SIGNALS if not _is_to_be_ignored(number)]
            self._previous = {number: signal.signal(number, self._handle) for number in heard}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous = {}

    def watch(self, on_stop: Callable[[int], None]) -> None:
        """End the set-up: from now on signals stop the batch in order."""
        self._on_stop = on_stop

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        now = self._clock()
        if self._on_stop is None:
            self._interrupt_setup(number, now)
        elif self._first is None:
            self._first = (number, now + _DEALING_S)  # what comes meanwhile came with it
            try:
                self._on_stop(number)
                self._flag.raise_to(TERMINATE)
                self._workers.send(STOP_WORKER)
            finally:
                self._first = (self._first[0], self._clock())
        elif now - self._first[1] >= _DEBOUNCE_S:
            self._insist(self._first[0])
        elif number == signal.SIGINT:
            self._first = (number, self._first[1])
            self._on_stop(number)

    def _interrupt_setup(self, number: int, now: float) -> None:
        if self._first is None:
            self._first = (number, now)
            raise SetupInterrupted(number)
        if now - self._first[1] >= _DEBOUNCE_S:
            os._exit(128 + number)  # the clean-up after the first one takes too long for the user

    def _insist(self, number: int) -> None:
        is_new = self._flag.level < KILL_NOW
        self._flag.raise_to(KILL_NOW)
        self._workers.send(KILL_CHILDREN)
        if is_new:
            timer = threading.Timer(_LAST_RESORT_S, self._end, (number,))
            timer.daemon = True
            timer.start()

    def _end(self, number: int) -> None:
        self._workers.send(signal.SIGKILL)
        os._exit(128 + number)


def _is_to_be_ignored(number: int) -> bool:
    """Say whether whoever started us wants no end by this signal; by TERM a batch always ends in order."""
    return number != signal.SIGTERM and signal.getsignal(number) == signal.SIG_IGN


@contextlib.contextmanager
def signals_blocked() -> Iterator[None]:
    """Hold stop signals back within the block; processes started in it begin with them blocked."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
