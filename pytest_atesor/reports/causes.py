"""The end of the final report: the cases that did not pass, by what caused it."""

from typing import Final

from rich.table import Table
from rich.text import Text

from pytest_atesor.core.causes import CauseGroup, group_failures
from pytest_atesor.core.ledger import Ledger
from pytest_atesor.core.plan import BatchKind
from pytest_atesor.core.text import sanitize_line
from pytest_atesor.reports.styles import STYLES
from pytest_atesor.reports.table import NARROWEST, render_table, select_rows

__all__ = ["format_causes"]

_MOST_GROUPS: Final = 20
_MOST_NAMES: Final = 20
_LONGEST_NAME: Final = 60


def format_causes(
    ledger: Ledger, *, width: int, color: bool = False, log_directory: str = "output/batch_logs"
) -> str:
    """Return a table row per cause in ``width`` columns: number of cases, status, reason, names and log.

    Reason and log are the first case's. Of many causes, and of many names of one, the first 20 are shown and
    the rest is counted. Empty where every selected case passed or has no outcome. No final newline.
    """
    noun = "package" if ledger.plan.kind is BatchKind.PACKAGE_LIST else "case"
    groups = group_failures(select_rows(ledger))
    if not groups:
        return ""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    table.add_column(f"{noun.upper()}S", justify="right", no_wrap=True)
    table.add_column("STATUS", no_wrap=True)
    table.add_column("DETAILS", overflow="fold", ratio=1)
    for group in groups[:_MOST_GROUPS]:
        table.add_row(
            Text(str(len(group.labels))),
            Text(group.status.value, style=STYLES[group.status]),
            Text(_describe(group, log_directory)),
        )
    total = sum(len(group.labels) for group in groups)
    parts = [
        f"{_count(total, noun)} did not pass, by cause:",
        render_table(table, width=max(width, NARROWEST), color=color),
    ]
    if rest := groups[_MOST_GROUPS:]:
        cases = sum(len(group.labels) for group in rest)
        parts.append(f"and {_count(len(rest), 'more cause')} of {_count(cases, noun)}")
    return "\n".join(parts)


def _describe(group: CauseGroup, log_directory: str) -> str:
    reason = group.line or group.signature
    names = [sanitize_line(label, _LONGEST_NAME) for label in group.labels[:_MOST_NAMES]]
    more = len(group.labels) - len(names)
    lines = [
        f"{group.cause.value}: {reason}" if group.cause else reason,
        ", ".join(names) + (f" and {more} more" if more else ""),
        f"{log_directory}/{group.case_ids[0]}.log" if group.log else "",
    ]
    return "\n".join(line for line in lines if line)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
