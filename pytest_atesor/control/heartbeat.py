"""Shows, while a batch runs, that somebody runs it: no event comes while long builds go on for an hour."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Self

from pytest_atesor.errors import BundleError
from pytest_atesor.reports.html.page import HEARTBEAT_S

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

__all__ = ["Heartbeat"]


class Heartbeat:
    """Calls ``beat`` every ten seconds while entered, in a thread of its own.

    It ends with the first BundleError: what the disk refuses, the batch learns with its next event.
    """

    def __init__(self, beat: Callable[[], None], interval_s: float = HEARTBEAT_S) -> None:
        self._beat = beat
        self._interval_s = interval_s
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="atesor-heartbeat", daemon=True)

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
        self.join()

    def join(self) -> None:
        """Wait for its end, which only an error brings before the block's."""
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(self._interval_s):
            try:
                self._beat()
            except BundleError:
                return
