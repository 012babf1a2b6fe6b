"""The region at the bottom of the terminal: when there is one, and what it is told.

It writes to its own copy of standard output, so that pytest's capturing does not swallow it. The cursor is
never hidden, so no end of the process leaves it hidden. A failure to draw switches the region off: the batch
goes on with plain lines.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from typing import TYPE_CHECKING, Final

import pytest

from pytest_atesor.core.outcome import Status
from pytest_atesor.reports.terminal import Progress, SlotLine, bound_remaining, draw_region

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rich.console import Console, Group
    from rich.live import Live

__all__ = ["Region", "has_region"]

_REFRESHES_PER_S: Final = 2
_FEWEST_COLUMNS: Final = 20
_FEWEST_LINES: Final = 3


def has_region(config: pytest.Config, environ: Mapping[str, str]) -> bool:
    """Say whether the terminal gets a region.

    It must be a real one of some size, at normal verbosity, that nobody writes to but pytest's own reporter.
    """
    reporter = type(config.pluginmanager.getplugin("terminalreporter"))
    is_plain = config.getoption("verbose", 0) != 0 or config.getoption("capture", "fd") == "no"
    is_poor = environ.get("TERM", "dumb") in {"", "dumb"} or bool(environ.get("CI"))
    if reporter is not pytest.TerminalReporter or is_plain or is_poor or not sys.stdout.isatty():
        return False
    try:
        size = os.get_terminal_size(1)
    except OSError:
        return False
    return size.columns >= _FEWEST_COLUMNS and size.lines >= _FEWEST_LINES


class Region:
    """Shows the running cases until ``stop``. Call ``open`` while pytest does not capture.

    No method raises because of the terminal.
    """

    def __init__(self, expected: Mapping[str, float], workers: int) -> None:
        self._expected = expected
        self._workers = workers
        self._console: Console | None = None
        self._live: Live | None = None
        self._has_failed = False
        self._running: dict[str, tuple[str, str, float]] = {}
        self._waiting: set[str] = set()
        self._counts = dict.fromkeys(Status, 0)
        self._total = 0

    def open(self) -> None:
        """Take a copy of standard output."""
        from rich.console import Console, ConsoleDimensions  # noqa: PLC0415 - rich, only for a terminal

        class Screen(Console):
            """Measures its own file: pytest puts others in the place of 0, 1 and 2."""

            @property  # type: ignore[misc]  # rich's has a setter, which nobody calls
            def size(self) -> ConsoleDimensions:
                return ConsoleDimensions(*os.get_terminal_size(self.file.fileno()))

            def show_cursor(self, show: bool = True) -> bool:  # noqa: ARG002, FBT001, FBT002 - rich's signature
                return False

        with contextlib.suppress(OSError):
            file = os.fdopen(os.dup(1), "w", encoding="utf-8", errors="replace")
            self._console = Screen(file=file, force_terminal=True, highlight=False, markup=False, emoji=False)

    def start(self, slot: str, case_id: str, label: str, list_waiting: Callable[[], set[str]]) -> None:
        """Show a case that runs; ``list_waiting`` is asked once for the cases without an outcome."""
        if self._console is None:
            return
        if not self._total:
            self._waiting = list_waiting()
            self._total = len(self._waiting)
        self._waiting = self._waiting - {case_id}
        self._running = {**self._running, case_id: (slot.rpartition("-")[2] or "-", label, time.monotonic())}

    @property
    def is_due(self) -> bool:
        """Say whether there will be a region that is not shown yet, or not now."""
        return self._console is not None and self._live is None

    def show(self) -> None:
        """Draw from now on; before ``open`` nothing happens."""
        if self._console is None or self._live is not None:
            return
        try:
            self._live = self._make_live(self._console)
            self._live.start(refresh=True)
        except Exception:  # noqa: BLE001 - whatever fails here, the batch goes on
            self.stop()

    def pause(self) -> None:
        """Remove the region until ``show``, for lines that others write."""
        if self._live is not None:
            with contextlib.suppress(Exception):
                self._live.stop()
            self._live = None

    def end(self, case_id: str, status: Status) -> None:
        """Count a case that ended."""
        self._running = {key: value for key, value in self._running.items() if key != case_id}
        self._waiting = self._waiting - {case_id}
        self._counts = {**self._counts, status: self._counts[status] + 1}

    def say(self, line: str) -> bool:
        """Print a line above the region; False where the line is still to be printed."""
        if self._has_failed:
            self.stop()
        if self._console is None or self._live is None:
            return False
        try:
            self._live.refresh()
            self._console.print(line, soft_wrap=True)
        except Exception:  # noqa: BLE001 - whatever fails here, the batch goes on
            self.stop()
            return False
        return True

    def stop(self) -> None:
        """Remove the region for good; what scrolled above it stays."""
        self.pause()
        if self._console is not None:
            with contextlib.suppress(OSError, ValueError):
                self._console.file.close()
            self._console = None

    def _make_live(self, console: Console) -> Live:
        from rich.live import Live  # noqa: PLC0415 - rich, only for a terminal

        region = self

        class Careful(Live):
            """Draws in a thread of its own, where an exception would reach nobody but the screen."""

            def refresh(self) -> None:
                if region._has_failed:
                    return
                try:
                    super().refresh()
                except Exception:  # noqa: BLE001 - whatever fails here, the batch goes on
                    region._has_failed = True

        return Careful(
            console=console,
            get_renderable=self._draw,
            refresh_per_second=_REFRESHES_PER_S,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def _draw(self) -> Group:
        now, running, waiting = time.monotonic(), self._running, self._waiting
        slots = [
            SlotLine(slot=slot, label=label, elapsed_s=now - since, expected_s=self._expected.get(case_id))
            for case_id, (slot, label, since) in sorted(running.items(), key=lambda item: item[1])
        ]
        remaining = [max(0.0, s.expected_s - s.elapsed_s) for s in slots if s.expected_s is not None]
        remaining += [
            self._expected[case_id] for case_id in waiting - running.keys() if case_id in self._expected
        ]
        progress = Progress(
            done=sum(self._counts.values()),
            total=self._total,
            counts=self._counts,
            slots=slots,
            remaining_s=bound_remaining(remaining, self._workers),
        )
        size = self._console.size if self._console is not None else None
        return draw_region(progress, width=size.width if size else 80, height=size.height if size else 24)
