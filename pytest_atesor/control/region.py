"""The region at the bottom of the terminal: when there is one, and what it is told.

It writes to its own copy of standard output, so that pytest's capturing does not swallow it. The cursor is
never hidden, so no end of the process leaves it hidden.
"""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, Final

from pytest_atesor.core.outcome import Status
from pytest_atesor.reports.terminal import Progress, SlotLine, bound_remaining, draw_region

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pytest
    from rich.console import Group
    from rich.live import Live

__all__ = ["Region", "has_region"]

_REFRESHES_PER_S: Final = 2


def has_region(config: pytest.Config, environ: Mapping[str, str]) -> bool:
    """Say whether the terminal gets a region: a real one, at normal verbosity, that nobody else writes to."""
    is_plain = config.getoption("verbose", 0) != 0 or config.getoption("capture", "fd") == "no"
    is_poor = environ.get("TERM", "dumb") in {"", "dumb"} or bool(environ.get("CI"))
    return not is_plain and not is_poor and sys.stdout.isatty() and os.isatty(1)


class Region:
    """Shows the running cases until ``stop``. Call ``open`` while pytest does not capture."""

    def __init__(self, expected: Mapping[str, float], workers: int) -> None:
        self._expected = expected
        self._workers = workers
        self._live: Live | None = None
        self._running: dict[str, tuple[str, str, float]] = {}
        self._waiting: set[str] = set()
        self._counts = dict.fromkeys(Status, 0)
        self._total = 0

    def open(self) -> None:
        """Take a copy of standard output."""
        from rich.console import Console, ConsoleDimensions  # noqa: PLC0415 - rich, only for a terminal
        from rich.live import Live  # noqa: PLC0415 - the same

        file = os.fdopen(os.dup(1), "w", encoding="utf-8", errors="replace")

        class Screen(Console):
            """Measures its own file: pytest puts others in the place of 0, 1 and 2."""

            @property  # type: ignore[misc]  # rich's has a setter, which nobody calls
            def size(self) -> ConsoleDimensions:
                return ConsoleDimensions(*os.get_terminal_size(file.fileno()))

            def show_cursor(self, show: bool = True) -> bool:  # noqa: ARG002, FBT001, FBT002 - rich's signature
                return False

        console = Screen(file=file, force_terminal=True, highlight=False, markup=False, emoji=False)
        self._live = Live(
            console=console,
            get_renderable=self._draw,
            refresh_per_second=_REFRESHES_PER_S,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def start(self, slot: str, case_id: str, label: str, waiting: set[str]) -> None:
        """Show a case that runs; ``waiting`` are the ids of the cases without an outcome."""
        self._waiting = waiting - {case_id}
        self._total = self._total or len(waiting)
        self._running = {**self._running, case_id: (slot.rpartition("-")[2] or "-", label, time.monotonic())}

    @property
    def is_due(self) -> bool:
        """Say whether there will be a region that is not shown yet."""
        return self._live is not None and not self._live.is_started

    def show(self) -> None:
        """Draw from now on; before ``open`` nothing happens."""
        if self._live is not None and not self._live.is_started:
            self._live.start(refresh=True)

    def end(self, case_id: str, status: Status) -> None:
        """Count a case that ended."""
        self._running = {key: value for key, value in self._running.items() if key != case_id}
        self._waiting = self._waiting - {case_id}
        self._counts = {**self._counts, status: self._counts[status] + 1}

    def say(self, line: str) -> bool:
        """Print a line above the region; False without one."""
        if self._live is None or not self._live.is_started:
            return False
        self._live.refresh()
        self._live.console.print(line, soft_wrap=True)
        return True

    def stop(self) -> None:
        """Remove the region; what scrolled above it stays."""
        if self._live is not None:
            self._live.stop()

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
        size = self._live.console.size if self._live is not None else None
        return draw_region(progress, width=size.width if size else 80, height=size.height if size else 24)
