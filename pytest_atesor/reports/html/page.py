"""The report page as text: a template, its style and script, and the batch as JSON inside it.

Nothing a stranger wrote becomes markup: the data is JSON in which ``<``, ``>`` and ``&`` are escaped, and
the script puts it on the page as text only. The page's policy lets no other script, style, picture or
connection in.
"""

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Final

import jinja2
from markupsafe import Markup

from pytest_atesor.core.causes import group_failures
from pytest_atesor.core.excerpt import Excerpt
from pytest_atesor.core.ledger import Attempt, Ledger
from pytest_atesor.core.outcome import Cause, Status
from pytest_atesor.core.plan import Json
from pytest_atesor.core.summary import SummaryRow, summarize
from pytest_atesor.core.text import sanitize_line
from pytest_atesor.reports.table import format_percent

__all__ = ["HEARTBEAT_S", "count_outcomes", "digest_part", "find_heartbeat", "format_page", "read_part"]

HEARTBEAT_S: Final = 10.0
"""How often a running batch renews the page's last sign of life."""

_EMPTY: Final = Excerpt(tail="")
_MISSED_BEATS: Final = 6
_HEARTBEAT: Final = '"updated_at":"'
_OUTCOMES: Final = (
    Status.PASS.value,
    Status.UNVERIFIED.value,
    Status.FAIL.value,
    Status.TIMEOUT.value,
    Cause.ENVIRONMENT.value,
    Status.SKIPPED.value,
    "running",
    "open",
    "unselected",
)


def format_page(ledger: Ledger, excerpts: Mapping[str, Excerpt], updated_at: str) -> str:
    """Return the whole of ``report.html``; ``updated_at`` is UTC in ISO 8601, the last sign of life."""
    script, style = read_part("page.js"), read_part("page.css")
    data = json.dumps(
        _describe_batch(ledger, excerpts, updated_at), ensure_ascii=False, separators=(",", ":")
    )
    for character in "<>&\u2028\u2029":
        data = data.replace(character, f"\\u{ord(character):04x}")
    return _template().render(
        title=sanitize_line(ledger.plan.batch_id),
        # Our own two files, and JSON without a character that HTML knows.
        script=Markup(script),  # noqa: S704 - the package's own file
        style=Markup(style),  # noqa: S704 - the same
        data=Markup(data),  # noqa: S704 - escaped above
        script_hash=digest_part(script),
        style_hash=digest_part(style),
    )


def find_heartbeat(page: str) -> int:
    """Return where the last sign of life stands in a page, in characters.

    No stranger's text can stand for it: a quotation mark within one is escaped.
    """
    return page.index(_HEARTBEAT) + len(_HEARTBEAT)


def count_outcomes(ledger: Ledger) -> dict[str, int]:
    """Return how many planned cases stand where; each is counted once, so the sum is the plan's length.

    A FAIL of the environment counts as "environment" and not as FAIL.
    """
    selected = {case.case_id for case in ledger.selected}
    counts = dict.fromkeys(_OUTCOMES, 0)
    for row in summarize(ledger, {}):
        counts[_name_outcome(row, selected)] += 1
    return counts


def _describe_batch(ledger: Ledger, excerpts: Mapping[str, Excerpt], updated_at: str) -> dict[str, Json]:
    rows = summarize(ledger, {})
    selected = {case.case_id for case in ledger.selected}
    counts = count_outcomes(ledger)
    slots = {attempt.slot for row in rows for attempt in ledger.attempts(row.case.case_id) if attempt.slot}
    # A batch's sandboxes have the same tools but for few: each list stands on the page once.
    lists = dict.fromkeys(one.native_tools for one in excerpts.values() if one.native_tools)
    tools = {text: number for number, text in enumerate(lists)}
    return {
        "batch": _describe_plan(ledger, updated_at),
        "headline": _format_counts(counts),
        "counts": dict(counts),
        "slots": [*sorted(slots, key=lambda slot: (len(slot), slot))],
        "groups": _describe_groups(rows),
        "cases": [_describe_case(row, ledger.attempts(row.case.case_id), selected) for row in rows],
        "tools": [*tools],
        "excerpts": {
            case_id: _describe_excerpt(excerpt, tools)
            for case_id, excerpt in excerpts.items()
            if excerpt != _EMPTY
        },
    }


def _describe_plan(ledger: Ledger, updated_at: str) -> Json:
    plan = ledger.plan
    started, ended = ledger.sessions[-1] if ledger.sessions else (None, None)
    return {
        "id": sanitize_line(plan.batch_id),
        "source": sanitize_line(plan.source),
        "platform": plan.platform.value,
        "target": plan.target.value,
        "engine": sanitize_line(str(plan.settings.get("engine") or "")),
        "version": started.version if started else "",
        "workers": started.workers if started else 0,
        "updated_at": updated_at,
        "quiet_s": _MISSED_BEATS * HEARTBEAT_S,
        "ended": ended is not None or started is None,
    }


def _describe_groups(rows: Sequence[SummaryRow]) -> Json:
    position = {row.case.case_id: index for index, row in enumerate(rows)}
    return [
        {
            "status": group.status.value,
            "cause": group.cause.value if group.cause else "",
            "signature": group.signature,
            "line": group.line,
            "log": group.log,
            "cases": [position[case_id] for case_id in group.case_ids],
        }
        for group in group_failures(rows)
    ]


def _describe_excerpt(excerpt: Excerpt, tools: Mapping[str, int]) -> Json:
    return {
        "tail": excerpt.tail,
        "phases": list(excerpt.phases),
        "artifacts": list(excerpt.artifacts),
        "tests": excerpt.tests,
        "tools": tools.get(excerpt.native_tools),
    }


def _describe_case(row: SummaryRow, attempts: Sequence[Attempt], selected: set[str]) -> Json:
    outcome = row.outcome
    return {
        "id": row.case.case_id,
        "label": sanitize_line(row.case.label),
        "outcome": _name_outcome(row, selected),
        "cause": outcome.cause.value if outcome.cause else "",
        "reason": sanitize_line(outcome.reason),
        "duration": round(outcome.record.duration_s, 2) if outcome.record else None,
        "attempts": [_describe_attempt(attempt) for attempt in attempts],
    }


def _describe_attempt(attempt: Attempt) -> Json:
    record = attempt.record
    return {
        "id": attempt.attempt_id,
        "slot": attempt.slot,
        "machine": attempt.machine,
        "started_at": attempt.started_at,
        "ended_at": record.ended_at if record else None,
        "status": record.status.value if record else "",
        "cause": record.cause.value if record and record.cause else "",
        "duration": round(record.duration_s, 2) if record else None,
        "exit_code": record.exit_code if record else None,
    }


def _name_outcome(row: SummaryRow, selected: set[str]) -> str:
    outcome = row.outcome
    if outcome.state == "running":
        return "running"
    if row.case.case_id not in selected:
        return "unselected"
    if outcome.state == "not_started" or outcome.status is None:
        return "open"
    if outcome.status is Status.FAIL and outcome.cause is Cause.ENVIRONMENT:
        return Cause.ENVIRONMENT.value
    return outcome.status.value


def _format_counts(counts: Mapping[str, int]) -> str:
    planned = sum(counts.values())
    passed = counts[Status.PASS]
    ran = passed + counts[Status.UNVERIFIED] + counts[Status.FAIL] + counts[Status.TIMEOUT]
    line = f"{planned} planned"
    if ran:
        line += f"; {passed} of the {ran} that were tried pass with proof ({format_percent(passed, ran)} %)"
    if counts["environment"]:
        line += f"; {counts['environment']} failed by the environment and say nothing of the package"
    return f"{line}."


def read_part(name: str) -> str:
    """Return the text of one of the pages' own files."""
    return files(__package__).joinpath(name).read_text(encoding="utf-8").strip()


def digest_part(text: str) -> str:
    """Return a text's SHA-256 as a page's policy names it."""
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


@cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader(__package__, "."), autoescape=True, undefined=jinja2.StrictUndefined
    )
    return environment.get_template("page.html.j2")
