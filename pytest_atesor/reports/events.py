"""The live lines of a batch: one plain line per start and end, readable in any log."""

from pytest_atesor.core.attempt import AttemptRecord
from pytest_atesor.core.outcome import Status
from pytest_atesor.core.text import sanitize_line

__all__ = ["format_ended", "format_retried", "format_skipped", "format_started"]

_LABEL_CHARACTERS = 100


def format_started(slot: str, label: str, *, attempt_id: str = "001") -> str:
    """Return the line for an attempt that starts: ``w1 start zlib``, with the number of a later attempt."""
    again = "" if int(attempt_id) == 1 else f" (attempt {int(attempt_id)})"
    return f"{_slot(slot)} start {sanitize_line(label, _LABEL_CHARACTERS)}{again}"


def format_ended(record: AttemptRecord, label: str, *, done: int, total: int) -> str:
    """Return the line for an attempt that ended.

    ``[3/8] w1 PASS zlib 12.3 s``, with cause and reason unless PASS.
    """
    name = sanitize_line(label, _LABEL_CHARACTERS)
    line = f"[{done}/{total}] {_slot(record.slot)} {record.status.value} {name} {record.duration_s:.1f} s"
    if record.status is Status.PASS:
        return line
    why = ": ".join(
        part for part in (record.cause.value if record.cause else "", sanitize_line(record.reason)) if part
    )
    return f"{line} - {why}" if why else line


def format_retried(record: AttemptRecord, label: str) -> str:
    """Return the line for an attempt after which the same case is tried again."""
    name = sanitize_line(label, _LABEL_CHARACTERS)
    why = f"{record.cause.value if record.cause else 'no cause'}: {sanitize_line(record.reason)}"
    return f"{_slot(record.slot)} retry {name} after {record.duration_s:.1f} s - {why}"


def format_skipped(labels: tuple[str, ...], reason: str) -> str:
    """Return the one line for cases that will not start: how many, the first few names, and why."""
    shown = ", ".join(sanitize_line(label, _LABEL_CHARACTERS) for label in labels[:3])
    more = f" and {len(labels) - 3} more" if len(labels) > 3 else ""  # noqa: PLR2004 - as many as are shown
    return f"SKIPPED {shown}{more}: {sanitize_line(reason)}"


def _slot(slot: str) -> str:
    """Return the short form of a slot's container name: its ``w1``."""
    return slot.rpartition("-")[2] or "-"
