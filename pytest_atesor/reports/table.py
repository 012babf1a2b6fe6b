"""The final report of a batch as text: every case, the counts, and an honest pass rate."""

import io
from collections.abc import Mapping, Sequence
from typing import Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from pytest_atesor.core.ledger import Counts, Ledger, count_states
from pytest_atesor.core.outcome import Status
from pytest_atesor.core.plan import BatchKind
from pytest_atesor.core.summary import SummaryRow, summarize
from pytest_atesor.core.text import sanitize_line
from pytest_atesor.reports.styles import STYLES

__all__ = [
    "NARROWEST",
    "format_headline",
    "format_percent",
    "format_report",
    "format_table",
    "render_table",
    "select_rows",
]

NARROWEST: Final = 40
_WIDE: Final = 80


def format_report(
    ledger: Ledger, *, width: int, color: bool = False, log_directory: str = "output/batch_logs"
) -> str:
    """Return the whole final report: the table of the selected cases, then the headline. No final newline."""
    noun = "package" if ledger.plan.kind is BatchKind.PACKAGE_LIST else "case"
    rows = select_rows(ledger)
    counts = count_states(ledger.state(row.case.case_id) for row in rows)
    earlier = _list_earlier(ledger)
    parts = [
        format_table(rows, width=width, color=color, log_directory=log_directory, noun=noun, earlier=earlier),
        format_headline(counts, noun),
    ]
    left_out = len(ledger.plan.cases) - len(rows)
    if left_out:
        parts.append(f"{left_out} of {len(ledger.plan.cases)} planned cases were not selected")
    return "\n\n".join(part for part in parts[:2] if part) + "".join(f"\n{part}" for part in parts[2:])


def format_headline(counts: Counts, noun: str = "package") -> str:
    """Return the counts per status and the pass rate, in two or three lines.

    The rate is PASS over the cases that ran; failures of the environment stay in it and are named apart.
    """
    total = sum(counts.by_status.values()) + counts.open
    by_status = ", ".join(f"{counts.by_status[status]} {status.value}" for status in Status)
    lines = [f"{total} {noun}{'' if total == 1 else 's'}: {by_status}"]
    if counts.open:
        lines[0] += f", {counts.open} without an outcome"
    passed = counts.by_status[Status.PASS]
    if counts.pass_rate is None:
        lines.append(f"pass rate: none, no {noun} ran")
    else:
        lines.append(
            f"pass rate {passed}/{counts.ran} = {format_percent(passed, counts.ran)} %, verified passes only"
        )
    if counts.environment:
        lines.append(
            f"{counts.environment} FAIL of the environment: the {noun} is not to blame, run it again"
        )
    return "\n".join(lines)


def format_table(
    rows: Sequence[SummaryRow],
    *,
    width: int,
    color: bool = False,
    log_directory: str = "output/batch_logs",
    noun: str = "package",
    earlier: Mapping[str, Sequence[str]] | None = None,
) -> str:
    """Return one table row per case in ``width`` columns: case, status, seconds, cause, reason and log.

    ``earlier`` maps case ids to lines about their earlier attempts, which stand below the log.
    Long words are folded, never lost; below 80 columns the cause stands before the reason. Without ``color``
    the text has no escape sequence. Empty without rows.
    """
    if not rows:
        return ""
    width = max(width, NARROWEST)
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    table.add_column(noun.upper(), overflow="fold", min_width=8, max_width=max(10, width // 4))
    table.add_column("STATUS", no_wrap=True)
    table.add_column("SECONDS", justify="right", no_wrap=True)
    if with_cause := width >= _WIDE:
        table.add_column("CAUSE", no_wrap=True)
    table.add_column("DETAILS", overflow="fold", ratio=1)
    for row in rows:
        lines = (earlier or {}).get(row.case.case_id, ())
        table.add_row(*_cells(row, log_directory, lines, with_cause=with_cause))
    return render_table(table, width=width, color=color)


def select_rows(ledger: Ledger) -> tuple[SummaryRow, ...]:
    """Return the rows of the selected cases, in plan order."""
    selected = {case.case_id for case in ledger.selected}
    return tuple(row for row in summarize(ledger, {}) if row.case.case_id in selected)


def render_table(table: Table, *, width: int, color: bool) -> str:
    """Return a table as text in ``width`` columns, without spaces at the ends of lines or a final newline."""
    file = io.StringIO()
    console = Console(
        file=file,
        width=width,
        force_terminal=color,
        color_system="standard" if color else None,
        no_color=not color,
        highlight=False,
        markup=False,
        emoji=False,
    )
    console.print(table)
    return "\n".join(line.rstrip() for line in file.getvalue().rstrip("\n").split("\n"))


def _list_earlier(ledger: Ledger) -> dict[str, tuple[str, ...]]:
    """Return a line for each attempt that was followed by another one, by case id."""
    return {
        case.case_id: tuple(
            f"attempt {attempt.attempt_id}: {attempt.record.status.value}"
            f"{f' ({attempt.record.cause.value})' if attempt.record.cause else ''}"
            for attempt in ledger.attempts(case.case_id)[:-1]
            if attempt.record is not None
        )
        for case in ledger.selected
        if len(ledger.attempts(case.case_id)) > 1
    }


def _cells(
    row: SummaryRow, log_directory: str, earlier: Sequence[str], *, with_cause: bool
) -> tuple[Text, ...]:
    outcome = row.outcome
    status = outcome.status
    shown = status.value if status else outcome.state.replace("_", " ")
    record = outcome.record
    log = f"{log_directory}/{row.case.case_id}.log" if record else ""
    cause = outcome.cause.value if outcome.cause else ""
    reason = "" if status is Status.PASS else sanitize_line(outcome.reason)
    if not with_cause:
        reason = ": ".join(part for part in (cause, reason) if part)
    return (
        Text(sanitize_line(row.case.label)),
        Text(shown, style=STYLES[status] if status else ""),
        Text(f"{record.duration_s:.1f}" if record else ""),
        *((Text(cause),) if with_cause else ()),
        Text("\n".join(line for line in (reason, log, *earlier) if line)),
    )


def format_percent(part: int, whole: int) -> str:
    """Return a percentage with one decimal that says 100.0 only for all and 0.0 only for none."""
    rounded = f"{100 * part / whole:.1f}"
    if part < whole and rounded == "100.0":
        return "99.9"
    return "0.1" if part and rounded == "0.0" else rounded
