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
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pytest

from pytest_atesor.control.pace import Pace
from pytest_atesor.control.phase import PhaseReader
from pytest_atesor.core.outcome import Status
from pytest_atesor.reports.terminal import Progress, SlotLine, draw_region, paint_line

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from rich.console import Console, Group
    from rich.live import Live

    from pytest_atesor.core.attempt import AttemptRecord

__all__ = ["Region", "has_region"]

_REFRESHES_PER_S: Final = 2
_FEWEST_COLUMNS: Final = 20
_FEWEST_LINES: Final = 3


def has_region(config: pytest.Config, environ: Mapping[str, str]) -> bool:
    """Say whether the terminal gets a region.

    It must be a real one of some size, at normal verbosity, that nobody writes to but pytest's own reporter
    (which has a public name from pytest 8.4 on; before that, lines are plain).
    """
    reporter = type(config.pluginmanager.getplugin("terminalreporter"))
    own = getattr(pytest, "TerminalReporter", None)
    is_plain = config.getoption("verbose", 0) != 0 or config.getoption("capture", "fd") == "no"
    is_poor = environ.get("TERM", "dumb") in {"", "dumb"} or bool(environ.get("CI"))
    if reporter is not own or is_plain or is_poor or not sys.stdout.isatty():
        return False
    try:
        size = os.get_terminal_size(1)
    except OSError:
        return False
    return size.columns >= _FEWEST_COLUMNS and size.lines >= _FEWEST_LINES


@dataclass(frozen=True, slots=True, kw_only=True)
class _Running:
    """A case that runs, since a monotonic moment."""

    slot: str
    label: str
    since_s: float
    phase: PhaseReader


class Region:
    """Shows the running cases until ``stop``. Call ``open`` while pytest does not capture.

    ``is_stopping`` is asked whether the batch was told to stop. No method raises because of the terminal.
    """

    def __init__(
        self, expected: Mapping[str, float], workers: int, is_stopping: Callable[[], bool] = lambda: False
    ) -> None:
        self._pace = Pace(expected, workers)
        self._is_stopping = is_stopping
        self._console: Console | None = None
        self._live: Live | None = None
        self._has_failed = False
        # Replaced whole and never changed: a thread draws them.
        self._running: dict[str, _Running] = {}
        self._waiting: frozenset[str] = frozenset()
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

    def start(
        self, slot: str, case_id: str, label: str, log: Path, list_waiting: Callable[[], set[str]]
    ) -> None:
        """Show a case that runs; ``list_waiting`` is asked once for the cases without an outcome."""
        if self._console is None:
            return
        if not self._total:
            self._waiting = frozenset(list_waiting())
            self._total = len(self._waiting)
        self._waiting = self._waiting - {case_id}
        running = _Running(
            slot=slot.rpartition("-")[2] or "-",
            label=label,
            since_s=time.monotonic(),
            phase=PhaseReader(log),
        )
        self._running = {**self._running, case_id: running}

    @property
    def is_due(self) -> bool:
        """Say whether there will be a region that is not shown yet, or not now."""
        return self._console is not None and self._live is None

    @property
    def is_busy(self) -> bool:
        """Say whether a case runs."""
        return bool(self._running)

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

    def end(self, case_id: str, record: AttemptRecord) -> None:
        """Count a case that ended."""
        if self._console is None:
            return
        self._running = {key: value for key, value in self._running.items() if key != case_id}
        self._waiting = self._waiting - {case_id}
        self._counts = {**self._counts, record.status: self._counts[record.status] + 1}
        self._pace.note(record)

    def say(self, line: str, status: Status | None = None) -> bool:
        """Print a line above the region, its status in colour; False where it is still to be printed."""
        if self._has_failed:
            self.stop()
        if self._console is None or self._live is None:
            return False
        try:
            self._live.refresh()
            self._console.print(paint_line(line, status), soft_wrap=True)
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
        now_s, running = time.monotonic(), self._running
        expected = self._pace.expected
        slots = [
            SlotLine(
                slot=case.slot,
                label=case.label,
                elapsed_s=now_s - case.since_s,
                expected_s=expected.get(case_id),
                phase=case.phase.read(now_s),
            )
            for case_id, case in sorted(running.items(), key=lambda item: (len(item[1].slot), item[1].slot))
        ]
        estimate_s, bound_s = self._pace.judge(slots, self._waiting)
        progress = Progress(
            done=sum(self._counts.values()),
            total=self._total,
            counts=self._counts,
            slots=slots,
            estimate_s=estimate_s,
            bound_s=bound_s,
            is_stopping=self._is_stopping(),
        )
        size = self._console.size if self._console is not None else None
        return draw_region(progress, width=size.width if size else 80, height=size.height if size else 24)
