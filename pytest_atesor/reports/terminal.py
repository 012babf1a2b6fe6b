"""The region at the bottom of a terminal while a batch runs: values in, a rich renderable out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.console import Group
from rich.text import Text

from pytest_atesor.core.outcome import Status
from pytest_atesor.core.text import sanitize_line

__all__ = ["Progress", "SlotLine", "bound_remaining", "draw_region", "format_seconds"]

_BAR_CELLS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotLine:
    """What a slot does: ``expected_s`` is None where no earlier batch says how long the case takes."""

    slot: str
    label: str
    elapsed_s: float
    expected_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a batch is; ``remaining_s`` is a lower bound, None where nothing is known."""

    done: int
    total: int
    counts: Mapping[Status, int]
    slots: Sequence[SlotLine]
    remaining_s: float | None


def bound_remaining(remaining: Sequence[float], workers: int) -> float | None:
    """Return the fewest seconds that cases of these remaining seconds take on ``workers`` slots.

    None without any expectation. ``workers`` is at least 1.
    """
    return max(sum(remaining) / workers, *remaining) if remaining else None


def format_seconds(seconds: float) -> str:
    """Return whole seconds as ``45s``, ``3m05s`` or ``2h07m``."""
    whole = int(seconds)
    if whole < 60:  # noqa: PLR2004 - seconds of a minute
        return f"{whole}s"
    if whole < 3600:  # noqa: PLR2004 - seconds of an hour
        return f"{whole // 60}m{whole % 60:02d}s"
    return f"{whole // 3600}h{whole // 60 % 60:02d}m"


def draw_region(progress: Progress, *, width: int, height: int) -> Group:
    """Return the region: progress in one line, then a line per slot, never more than fits the screen."""
    room = max(1, height - 2)
    shown = progress.slots if len(progress.slots) < room else progress.slots[: max(0, room - 2)]
    lines = [_draw_progress(progress), *(_draw_slot(slot) for slot in shown)]
    if len(shown) < len(progress.slots) and room > 1:
        lines.append(Text(f"and {len(progress.slots) - len(shown)} more slots"))
    for line in lines:
        line.no_wrap = True
        line.truncate(max(1, width - 1), overflow="ellipsis")
    return Group(*lines)


def _draw_progress(progress: Progress) -> Text:
    filled = _BAR_CELLS * progress.done // max(1, progress.total)
    counts = " ".join(f"{count} {status.value}" for status, count in progress.counts.items() if count)
    left = "" if progress.remaining_s is None else f"at least {format_seconds(progress.remaining_s)} left"
    parts = [
        f"[{'#' * filled}{'.' * (_BAR_CELLS - filled)}]",
        f"{progress.done}/{progress.total}",
        left,
        counts,
    ]
    return Text(" ".join(part for part in parts if part))


def _draw_slot(slot: SlotLine) -> Text:
    expected = "" if slot.expected_s is None else f" of about {format_seconds(slot.expected_s)}"
    return Text(f"{slot.slot:<3} {format_seconds(slot.elapsed_s)}{expected} {sanitize_line(slot.label, 100)}")
