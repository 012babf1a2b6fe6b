"""What GitHub Actions shows of a batch: a step summary in Markdown, and one error annotation per cause.

Strangers' text cannot leave its place: in Markdown it is escaped as HTML with every mark spelled out, in a
workflow command percent signs and line ends are encoded.
"""

import html
import re
from collections.abc import Mapping
from typing import Final

from pytest_atesor.core.causes import group_failures
from pytest_atesor.core.ledger import Ledger
from pytest_atesor.core.outcome import Cause
from pytest_atesor.core.summary import summarize
from pytest_atesor.core.text import sanitize_line

__all__ = ["format_annotations", "format_step_summary"]

_MOST_ANNOTATIONS: Final = 10  # GitHub shows no more of one step
_MOST_GROUPS: Final = 50
_MOST_NAMES: Final = 20
_MARKS: Final = re.compile(r"[\\`*_{}\[\]()#+!|~@:-]")


def format_step_summary(ledger: Ledger, counts: Mapping[str, int]) -> str:
    """Return the batch as Markdown; ``counts`` has every planned case once, by outcome."""
    shown = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
    lines = [f"### {_escape(ledger.plan.batch_id)}", "", f"{sum(counts.values())} planned: {shown}", ""]
    groups = group_failures(summarize(ledger, {}))
    if groups:
        lines += ["| cases | status | cause | reason | names |", "| ---: | --- | --- | --- | --- |"]
    for group in groups[:_MOST_GROUPS]:
        names = ", ".join(_escape(label) for label in group.labels[:_MOST_NAMES])
        more = len(group.labels) - _MOST_NAMES
        cause = group.cause.value if group.cause else ""
        line = _escape(group.line or group.signature)
        lines.append(
            f"| {len(group.labels)} | {group.status.value} | {cause} | {line}"
            f" | {names}{f' and {more} more' if more > 0 else ''} |"
        )
    if len(groups) > _MOST_GROUPS:
        lines += ["", f"and {len(groups) - _MOST_GROUPS} more causes"]
    return "\n".join(lines) + "\n"


def format_annotations(ledger: Ledger) -> tuple[str, ...]:
    """Return workflow commands, one per cause; a failure of the environment is a warning."""
    return tuple(
        f"::{'warning' if group.cause is Cause.ENVIRONMENT else 'error'} "
        f"title={_encode(f'{len(group.labels)} {group.status.value}', is_property=True)}::"
        + _encode(f"{group.line or group.signature} ({', '.join(group.labels[:_MOST_NAMES])})")
        for group in group_failures(summarize(ledger, {}))[:_MOST_ANNOTATIONS]
    )


def _escape(text: str) -> str:
    return _MARKS.sub(lambda found: f"&#{ord(found.group())};", html.escape(sanitize_line(text), quote=False))


def _encode(text: str, *, is_property: bool = False) -> str:
    encoded = sanitize_line(text, 500).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    return encoded.replace(":", "%3A").replace(",", "%2C") if is_property else encoded
