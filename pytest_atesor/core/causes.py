"""Failures grouped by what caused them: forty red cases become a handful of signatures.

The signature is the reason's text with everything taken out that differs between cases of the same kind:
paths, numbers, hexadecimal digits, versions and the case's own name. Nothing is guessed from the log here;
the reason is the last meaningful line already, or what the agent said itself.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from pytest_atesor.core.outcome import Cause, Status
from pytest_atesor.core.summary import SummaryRow
from pytest_atesor.core.text import sanitize_line

__all__ = ["CauseGroup", "group_failures", "normalize_reason"]

_LONGEST_SIGNATURE: Final = 160
_REPLACEMENTS: Final = (
    (re.compile(r"\b[a-z][a-z0-9+.-]{1,15}://[^\s'\"<>]+(?<![.,:;)])", re.IGNORECASE), "<url>"),
    (re.compile(r"(?<![\w.<])(?:~|\.{1,2})?(?:/[\w.+@%=~-]+)+/?(?::\d+)*"), "<path>"),
    (re.compile(r"(?<![\w<])[\w.+@-]+(?:/[\w.+@-]+)+(?::\d+)*"), "<path>"),
    (re.compile(r"\b0x[0-9a-f]+\b", re.IGNORECASE), "<hex>"),
    (re.compile(r"\b(?=[a-f]*\d)[0-9a-f]{7,64}\b", re.IGNORECASE), "<hex>"),
    (
        re.compile(r"(?<![\w.])[\w+-]+\.(?:c|cc|cpp|cxx|h|hh|hpp|go|rs|py|s|o|in|ac|am|txt)(?::\d+)*\b"),
        "<file>",
    ),
    (re.compile(r"\bv?\d+(?:[.,:]\d+)*(?![A-Za-z])"), "<n>"),
)
_SPACES: Final = re.compile(r"\s+")


@dataclass(frozen=True, slots=True, kw_only=True)
class CauseGroup:
    """The cases that ended for one reason.

    ``signature`` is the normalized reason, ``line`` the first case's reason as it stands, ``log`` that case's
    log inside the bundle (None where it has none). ``labels`` and ``case_ids`` are in plan order.
    """

    status: Status
    cause: Cause | None
    signature: str
    line: str
    log: str | None
    labels: tuple[str, ...]
    case_ids: tuple[str, ...]


def group_failures(rows: Iterable[SummaryRow]) -> tuple[CauseGroup, ...]:
    """Return the cases with another outcome than PASS by cause: failures first, the largest groups of them.

    Then come those that nothing was proven of, those that did not run, and last those of the environment: no
    package is to blame for them. A case that was skipped as it should be, or has no outcome, is in none.
    """
    groups: dict[tuple[Status, Cause | None, str], list[SummaryRow]] = {}
    for row in rows:
        outcome = row.outcome
        if outcome.status in {None, Status.PASS} or outcome.state not in {"ended", "skipped"}:
            continue
        if outcome.status is Status.SKIPPED and outcome.cause is None:
            continue
        signature = normalize_reason(outcome.reason, row.case.label)
        groups.setdefault((outcome.status, outcome.cause, signature), []).append(row)
    ordered = sorted(groups.items(), key=lambda item: (_rank(item[0][0], item[0][1]), -len(item[1])))
    return tuple(_make_group(*key, members) for key, members in ordered)


def _rank(status: Status, cause: Cause | None) -> int:
    if cause is Cause.ENVIRONMENT:
        return 3
    return {Status.UNVERIFIED: 1, Status.SKIPPED: 2}.get(status, 0)


def normalize_reason(reason: str, label: str = "") -> str:
    """Return a reason without what differs between cases of its kind; empty stays empty."""
    text = sanitize_line(reason, 2 * _LONGEST_SIGNATURE)
    for pattern, replacement in _REPLACEMENTS:
        text = pattern.sub(replacement, text)
    if len(label) > 2 and label in text:  # noqa: PLR2004 - a name of one or two letters would eat words
        text = re.sub(rf"(?<!\w){re.escape(label)}(?!\w)", "<case>", text)
    return sanitize_line(_SPACES.sub(" ", text), _LONGEST_SIGNATURE)


def _make_group(status: Status, cause: Cause | None, signature: str, members: list[SummaryRow]) -> CauseGroup:
    first = members[0]
    record = first.outcome.record
    return CauseGroup(
        status=status,
        cause=cause,
        signature=signature or "no reason was given",
        line=sanitize_line(first.outcome.reason, 300),
        log=record.log if record else None,
        labels=tuple(row.case.label for row in members),
        case_ids=tuple(row.case.case_id for row in members),
    )
