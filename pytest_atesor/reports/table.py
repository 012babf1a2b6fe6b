"""The final report of a batch as text: every case once, failures first and by cause, an honest pass rate."""

import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pytest_atesor.core.causes import CauseGroup, group_failures
from pytest_atesor.core.ledger import Counts, Ledger, count_states
from pytest_atesor.core.outcome import Cause, Status
from pytest_atesor.core.plan import BatchKind
from pytest_atesor.core.summary import SummaryRow, summarize
from pytest_atesor.core.text import count_of, sanitize_line
from pytest_atesor.reports.styles import STYLES

__all__ = ["format_headline", "format_percent", "format_report", "format_table"]

_NARROWEST: Final = 40
_MOST_ROWS: Final = 20  # of cases that need no look: more of them stand beside each other
_SHORTEST_NAME: Final = 8
_STATUS_CELLS: Final = max(map(len, Status))
_SECONDS_CELLS: Final = 7
_GAP: Final = 2
_WIDE: Final = 80
_STYLES: Final = {status.value: style for status, style in STYLES.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Section:
    """Rows under one heading; ``is_bad`` says that each wants to be looked at, so each shows its log."""

    heading: Text
    rows: tuple[SummaryRow, ...]
    is_bad: bool


def format_report(
    ledger: Ledger,
    *,
    width: int,
    folds: bool = True,
    color: bool = False,
    log_directory: str = "output/batch_logs",
) -> str:
    """Return the whole final report: the table of the selected cases, then the headline. No final newline.

    ``width`` and ``folds`` are as for :func:`format_table`.
    """
    noun = "package" if ledger.plan.kind is BatchKind.PACKAGE_LIST else "case"
    selected = {case.case_id for case in ledger.selected}
    rows = tuple(row for row in summarize(ledger, {}) if row.case.case_id in selected)
    counts = count_states(ledger.state(row.case.case_id) for row in rows)
    earlier = _list_earlier(ledger)
    parts = [
        format_table(
            rows,
            width=width,
            folds=folds,
            color=color,
            log_directory=log_directory,
            noun=noun,
            earlier=earlier,
        ),
        format_headline(counts, noun),
    ]
    left_out = len(ledger.plan.cases) - len(rows)
    if left_out:
        parts[1] += f"\n{left_out} of {len(ledger.plan.cases)} planned cases were not selected"
    return "\n\n".join(part for part in parts if part)


def format_headline(counts: Counts, noun: str = "package") -> str:
    """Return the counts per status and the pass rate, in two or three lines.

    The rate is PASS over the cases that ran; failures of the environment stay in it and are named apart.
    """
    total = sum(counts.by_status.values()) + counts.open
    by_status = ", ".join(f"{counts.by_status[status]} {status.value}" for status in Status)
    lines = [f"{count_of(noun, total)}: {by_status}"]
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
        blame = (
            f"{noun} is not to blame, run it"
            if counts.environment == 1
            else f"{noun}s are not to blame, run them"
        )
        lines.append(f"{counts.environment} FAIL of the environment: the {blame} again")
    return "\n".join(lines)


def format_table(  # noqa: PLR0913 - keyword-only, most with a default
    rows: Sequence[SummaryRow],
    *,
    width: int,
    folds: bool = True,
    color: bool = False,
    log_directory: str = "output/batch_logs",
    noun: str = "package",
    earlier: Mapping[str, Sequence[str]] | None = None,
) -> str:
    """Return the cases in ``width`` columns, under a heading per cause: the largest first, the passes last.

    A heading has the number of its cases, their status and cause, and their reason: the last meaningful line.
    A row has case, status, seconds and log; below 80 columns the head says where the logs are. ``earlier``
    maps case ids to lines about their earlier attempts, which stand below the log. Of many cases that did not
    fail the logs are left out, and several stand in a line. What is longer than its place is folded, or of
    those many cut; without ``folds``, for what is no terminal, names, reasons and paths stay whole, on one
    line each, whatever the width. Without ``color`` the text has no escape sequence. Empty without rows.
    """
    if not rows:
        return ""
    width = max(width, _NARROWEST)
    longest = max(cell_len(sanitize_line(row.case.label)) for row in rows)
    name_cells = max(_SHORTEST_NAME, min(longest, max(10, width // 4)))
    console = _make_console(width, color=color)
    heads = (
        f"{noun.upper():<{name_cells}}",
        f"{'STATUS':<{_STATUS_CELLS}}",
        f"{'SECONDS':>{_SECONDS_CELLS}}",
    )
    is_wide = width >= _WIDE or not folds
    head = "LOG" if is_wide else f"LOG in {log_directory}/"
    prefix = f"{log_directory}/" if is_wide else ""
    console.print(Text((" " * _GAP).join((*heads, head)), style="bold"))
    for section in _divide(rows):
        console.print()
        console.print(section.heading, soft_wrap=not folds)
        lines = [(row, (earlier or {}).get(row.case.case_id, ())) for row in section.rows]
        if not section.is_bad and len(lines) > _MOST_ROWS:
            several = [row for row, more in lines if not more]
            lines = [(row, more) for row, more in lines if more]
            console.print(_lay_out(several, name_cells, width, cuts=folds), soft_wrap=not folds)
        shown = [_cells(row, prefix, more) for row, more in lines]
        if shown and folds:
            table = _make_table(name_cells)
            for cells in shown:
                table.add_row(*cells)
            console.print(table)
        elif shown:
            for cells in shown:
                console.print(_join_cells(cells, name_cells), soft_wrap=True)
    return _read(console)


def _divide(rows: Sequence[SummaryRow]) -> Iterator[_Section]:
    """Yield every row in one section.

    Failures come first, by cause; then those of the environment, what was not run, and last the passes.
    """
    by_id = {row.case.case_id: row for row in rows}
    for group in sorted(group_failures(rows), key=lambda group: group.status is Status.SKIPPED):
        members = tuple(by_id.pop(case_id) for case_id in group.case_ids)
        is_bad = group.status is not Status.SKIPPED
        yield _Section(heading=_head_group(group, members), rows=members, is_bad=is_bad)
    others: dict[str, list[SummaryRow]] = {}
    for row in by_id.values():
        others.setdefault(_name_state(row), []).append(row)
    for name, rest in sorted(others.items(), key=lambda item: item[0] == Status.PASS):
        heading = Text(f"{len(rest)} {name}", style=f"bold {_STYLES.get(name, '')}".strip())
        yield _Section(heading=heading, rows=tuple(rest), is_bad=False)


def _head_group(group: CauseGroup, members: Sequence[SummaryRow]) -> Text:
    cause = group.cause.value if group.cause else ""
    if group.cause is Cause.ENVIRONMENT:
        cause += ", not the package's fault"
    what = f"{len(members)} {group.status.value}" + (f" ({cause})" if cause else "")
    heading = Text.assemble((what, f"bold {STYLES[group.status]}"), ": ")
    is_one = len({row.outcome.reason for row in members}) == 1
    if is_one and group.line:
        return heading.append(group.line)
    heading.append(group.signature)
    return heading.append(f"\nfor example: {group.line}") if group.line else heading


def _name_state(row: SummaryRow) -> str:
    outcome = row.outcome
    if outcome.state in {"ended", "skipped"} and outcome.status is not None:
        return outcome.status.value
    return outcome.state.replace("_", " ")


def _cells(row: SummaryRow, prefix: str, earlier: Sequence[str]) -> tuple[Text, ...]:
    record, state = row.outcome.record, _name_state(row)
    log = f"{prefix}{row.case.case_id}.log" if record else ""
    return (
        Text(sanitize_line(row.case.label)),
        Text(state, style=_STYLES.get(state, "")),
        Text(f"{record.duration_s:.1f}" if record else ""),
        Text("\n".join(line for line in (log, *earlier) if line)),
    )


def _join_cells(cells: tuple[Text, ...], name_cells: int) -> Text:
    """Return a row whose name and log are whole; what is below the log stands on lines of its own."""
    name, state, seconds, logs = cells
    gap = " " * _GAP
    log, *earlier = logs.plain.split("\n")
    head = Text.assemble(
        name.plain,
        " " * (name_cells - name.cell_len),
        gap,
        state,
        " " * (_STATUS_CELLS - state.cell_len),
        f"{gap}{seconds.plain:>{_SECONDS_CELLS}}{gap}{log}",
    )
    indent = " " * (name_cells + _STATUS_CELLS + _SECONDS_CELLS + 3 * _GAP)
    return Text("\n").join([head, *(Text(f"{indent}{line}") for line in earlier)])


def _lay_out(rows: Sequence[SummaryRow], name_cells: int, width: int, *, cuts: bool) -> Text:
    """Return cases without their logs, as many in a line as fit; a long name is cut, or pushes the rest."""
    shown = []
    for row in rows:
        name, state, seconds, _ = _cells(row, "", ())
        if name.cell_len > name_cells and cuts:
            name = Text(set_cell_size(name.plain, name_cells - 1) + "…")
        shown.append((set_cell_size(name.plain, max(name_cells, name.cell_len)), state, seconds.plain))
    state_cells = max(state.cell_len for _, state, _ in shown)
    seconds_cells = max(len(seconds) for _, _, seconds in shown)
    cells = name_cells + state_cells + seconds_cells + 2 * _GAP
    in_a_line = max(1, (width + 2 * _GAP) // (cells + 2 * _GAP))
    gap = " " * _GAP
    whole = [
        Text.assemble(
            name, gap, state, " " * (state_cells - state.cell_len), gap, f"{seconds:>{seconds_cells}}"
        )
        for name, state, seconds in shown
    ]
    lines = [whole[at : at + in_a_line] for at in range(0, len(whole), in_a_line)]
    return Text("\n").join(Text(2 * gap).join(line) for line in lines)


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


def format_percent(part: int, whole: int) -> str:
    """Return a percentage with one decimal that says 100.0 only for all and 0.0 only for none."""
    rounded = f"{100 * part / whole:.1f}"
    if part < whole and rounded == "100.0":
        return "99.9"
    return "0.1" if part and rounded == "0.0" else rounded


def _make_table(name_cells: int) -> Table:
    table = Table(box=None, padding=(0, _GAP, 0, 0), pad_edge=False, show_header=False)
    table.add_column(overflow="fold", width=name_cells)
    table.add_column(no_wrap=True, width=_STATUS_CELLS)
    table.add_column(justify="right", no_wrap=True, min_width=_SECONDS_CELLS)
    table.add_column(overflow="fold", ratio=1)
    return table


def _make_console(width: int, *, color: bool) -> Console:
    return Console(
        file=io.StringIO(),
        width=width,
        force_terminal=color,
        color_system="standard" if color else None,
        no_color=not color,
        highlight=False,
        markup=False,
        emoji=False,
    )


def _read(console: Console) -> str:
    """Return what was printed, without spaces at the ends of lines or a final newline."""
    text: str = console.file.getvalue()  # type: ignore[attr-defined]  # _make_console's own StringIO
    return "\n".join(line.rstrip() for line in text.rstrip("\n").split("\n"))
