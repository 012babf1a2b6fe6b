"""The region at the bottom of a terminal while a batch runs: values in, a rich renderable out."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from rich.cells import cell_len, set_cell_size
from rich.console import Group
from rich.text import Text

from pytest_atesor.core.outcome import Status
from pytest_atesor.core.text import sanitize_line
from pytest_atesor.reports.styles import STYLES

__all__ = [
    "Progress",
    "SlotLine",
    "bound_remaining",
    "draw_region",
    "find_phase",
    "format_seconds",
    "paint_line",
]

_WIDE: Final = 60
_WIDEST_LABEL: Final = 24
_PHASE: Final = re.compile(rb"^==> \[ *\d+\.\d s\] ([^\r\n]+)\r?\n", re.MULTILINE)
_PHASE_BYTES: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotLine:
    """What a slot does: ``expected_s`` is None where no earlier batch says how long the case takes.

    ``phase`` is empty where the agent does not say.
    """

    slot: str
    label: str
    elapsed_s: float
    expected_s: float | None
    phase: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a batch is.

    ``estimate_s`` is the expected time left, with the mean for cases that nothing is known of, ``bound_s``
    the lower bound by those that something is known of; both are None where nothing is known.
    """

    done: int
    total: int
    counts: Mapping[Status, int]
    slots: Sequence[SlotLine]
    estimate_s: float | None
    bound_s: float | None
    is_stopping: bool = False


def bound_remaining(sum_s: float, longest_s: float, workers: int) -> float:
    """Return the fewest seconds that cases of these seconds take on ``workers`` slots, at least 1."""
    return max(sum_s / workers, longest_s)


def format_seconds(seconds: float) -> str:
    """Return whole seconds as ``45s``, ``3m05s`` or ``2h07m``."""
    whole = int(seconds)
    if whole < 60:  # noqa: PLR2004 - seconds of a minute
        return f"{whole}s"
    if whole < 3600:  # noqa: PLR2004 - seconds of an hour
        return f"{whole // 60}m{whole % 60:02d}s"
    return f"{whole // 3600}h{whole // 60 % 60:02d}m"


def find_phase(output: bytes) -> str | None:
    """Return the last phase that the built-in agent announced in a piece of its log, None when it has none.

    The log is a stranger's: a build can print such a line too, and then it is shown.
    """
    found = _PHASE.findall(output)
    return sanitize_line(found[-1][:_PHASE_BYTES], 60) if found else None


def draw_region(progress: Progress, *, width: int, height: int) -> Group:
    """Return the region: progress in one or two lines, then a line per slot, never more than fits."""
    room = max(1, height - 2)
    lines = _draw_progress(progress, width - 1)[:room]
    room -= len(lines)
    shown = progress.slots if len(progress.slots) <= room else progress.slots[: max(0, room - 1)]
    lines += _draw_slots(shown)
    if len(shown) < len(progress.slots) and room > 0:
        lines.append(Text(f"and {len(progress.slots) - len(shown)} more slots"))
    for line in lines:
        line.no_wrap = True
        line.truncate(max(1, width - 1), overflow="ellipsis")
    return Group(*lines)


def paint_line(line: str, status: Status | None) -> Text:
    """Return a line for above the region, with the status in its colour where it stands first."""
    text = Text(line)
    if status is not None and (place := line.find(f" {status.value} ")) >= 0:
        text.stylize(STYLES[status], place + 1, place + 1 + len(status.value))
    return text


def _draw_progress(progress: Progress, width: int) -> list[Text]:
    cells = 20 if width >= _WIDE else 10
    filled = cells * progress.done // max(1, progress.total)
    head = Text(f"[{'#' * filled}{'.' * (cells - filled)}] {progress.done}/{progress.total}")
    if left := _describe_left(progress, with_bound=width >= _WIDE):
        head.append(f" {left}")
    counts = Text(" ").join(
        Text(f"{count} {status.value}", style=STYLES[status])
        for status, count in progress.counts.items()
        if count
    )
    if not counts:
        return [head]
    whole = Text(" ").join([head, counts])
    return [whole] if whole.cell_len <= width else [head, counts]


def _describe_left(progress: Progress, *, with_bound: bool) -> str:
    if progress.is_stopping:
        return "stopping, Ctrl-C kills"
    if progress.estimate_s is None:
        return ""
    left, bound = format_seconds(progress.estimate_s), format_seconds(progress.bound_s or 0)
    says_more = with_bound and bound not in {left, "0s"}
    return f"about {left} left, at least {bound}" if says_more else f"about {left} left"


def _draw_slots(slots: Sequence[SlotLine]) -> list[Text]:
    times = [
        format_seconds(slot.elapsed_s)
        + ("" if slot.expected_s is None else f" of ~{format_seconds(slot.expected_s)}")
        for slot in slots
    ]
    labels = [sanitize_line(slot.label, 100) for slot in slots]
    widest = min(_WIDEST_LABEL, max(map(cell_len, labels), default=0))
    lines = []
    for slot, time, label in zip(slots, times, labels, strict=True):
        padded = set_cell_size(label, widest) if slot.phase and cell_len(label) < widest else label
        head = f"{slot.slot:<3} {time:>{max(map(len, times))}}  {padded}"
        lines.append(Text.assemble(head, ("  " + slot.phase, "dim")) if slot.phase else Text(head))
    return lines
