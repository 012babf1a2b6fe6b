"""The views of a bundle as text: derived from the ledger, rebuilt at will, never read back as truth."""

import csv
import io
from collections.abc import Sequence
from typing import Final

from pytest_atesor.core.jsontext import format_json, format_json_line
from pytest_atesor.core.ledger import Attempt, Counts, Ledger, count_states
from pytest_atesor.core.plan import Case, Json
from pytest_atesor.core.summary import Missing, Outcome, SummaryRow, describe_outcome
from pytest_atesor.core.text import sanitize

__all__ = ["format_attempts", "format_results", "format_summary", "format_summary_csv"]

_FORMULA_STARTS: Final = ("=", "+", "-", "@", "\t", "\r", "\n")
_CSV_COLUMNS: Final = (
    "case_id",
    "label",
    "state",
    "status",
    "cause",
    "reason",
    "attempts",
    "attempt_id",
    "duration_s",
)


def format_results(ledger: Ledger, updated_at: str) -> str:
    """Return the text of ``batch_results.json``: the current outcome of every case, and the sums."""
    plan, tally = ledger.plan, ledger.tally()
    states = ledger.states()
    counts = count_states(states[case.case_id] for case in ledger.selected)
    cases = [
        _dump_case(case, describe_outcome(states[case.case_id]), len(ledger.attempts(case.case_id)))
        for case in plan.cases
    ]
    return format_json({
        "schema_version": "batch_results_v1",
        "batch_id": plan.batch_id,
        "kind": plan.kind.value,
        "name": plan.name,
        "source": plan.source,
        "platform": plan.platform.value,
        "target": plan.target.value,
        "updated_at": updated_at,
        "exit_code": _exit_code(ledger),
        "tally": {
            "planned": tally.planned,
            "done": tally.done,
            "interrupted": tally.interrupted,
            "not_started": tally.not_started,
            "unselected": tally.unselected,
        },
        "counts": _dump_counts(counts),
        "cases": cases,
    })


def format_attempts(ledger: Ledger, updated_at: str) -> str:
    """Return the text of ``batch_attempts.json``: every session and every attempt that there ever was."""
    sessions: list[Json] = [
        {
            "started_at": started.at,
            "host": started.host,
            "pid": started.pid,
            "version": started.version,
            "workers": started.workers,
            **({} if started.image is None else {"image": started.image}),
            **({"image_ids": list(started.image_ids)} if started.image_ids else {}),
            "ended_at": ended.at if ended else None,
            "exit_code": ended.exit_code if ended else None,
            "reason": ended.reason if ended else None,
        }
        for started, ended in ledger.sessions
    ]
    attempts = [
        _dump_attempt(attempt, case.label)
        for case in ledger.plan.cases
        for attempt in ledger.attempts(case.case_id)
    ]
    return format_json({
        "schema_version": "batch_attempts_v1",
        "batch_id": ledger.plan.batch_id,
        "target": ledger.plan.target.value,
        "updated_at": updated_at,
        "sessions": sessions,
        "attempts": attempts,
    })


def format_summary(ledger: Ledger, rows: Sequence[SummaryRow], fields: Sequence[str], updated_at: str) -> str:
    """Return the text of ``batch_summary.json``: one row per case.

    A field that a case does not have is left out.
    """
    return format_json({
        "schema_version": "batch_summary_v1",
        "batch_id": ledger.plan.batch_id,
        "updated_at": updated_at,
        "fields": list(fields),
        "rows": [_dump_row(row) for row in rows],
    })


def format_summary_csv(rows: Sequence[SummaryRow], fields: Sequence[str]) -> str:
    """Return the rows as CSV (RFC 4180) with a header line.

    A field that is called like another column is ``values.`` and its name there, as it is in the JSON
    summary. Text is sanitized, and what a spreadsheet would run as a formula gets an apostrophe in front;
    numbers stay numbers. What is missing or null is empty; arrays and objects are JSON.
    """
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\r\n")
    writer.writerow(_name_columns(fields))
    for row in rows:
        dumped = _dump_row(row)
        cells = [dumped[column] for column in _CSV_COLUMNS]
        writer.writerow([
            _cell(cell) for cell in (*cells, *(row.values.get(field, Missing()) for field in fields))
        ])
    return file.getvalue()


def _name_columns(fields: Sequence[str]) -> list[str]:
    names = list(_CSV_COLUMNS)
    for field in fields:
        name = _defuse(field)
        while name in names:
            name = f"values.{name}"
        names.append(name)
    return names


def _dump_case(case: Case, outcome: Outcome, attempts: int) -> dict[str, Json]:
    record = outcome.record
    return {
        "case_id": case.case_id,
        "label": case.label,
        "state": outcome.state,
        "status": outcome.status.value if outcome.status else None,
        "cause": outcome.cause.value if outcome.cause else None,
        "reason": outcome.reason,
        "attempts": attempts,
        "attempt_id": outcome.attempt_id,
        "duration_s": record.duration_s if record else None,
        "exit_code": record.exit_code if record else None,
        "slot": record.slot if record else None,
        "log": record.log if record else None,
    }


def _dump_attempt(attempt: Attempt, label: str) -> dict[str, Json]:
    record = attempt.record
    return {
        "case_id": attempt.case_id,
        "label": label,
        "attempt_id": attempt.attempt_id,
        "path": f"cases/{attempt.case_id}/attempts/{attempt.attempt_id}",
        "slot": attempt.slot,
        "machine": attempt.machine,
        "worker": attempt.worker,
        "adopted": attempt.adopted,
        "started_at": attempt.started_at,
        "ended_at": record.ended_at if record else None,
        "status": record.status.value if record else None,
        "cause": record.cause.value if record and record.cause else None,
        "reason": record.reason if record else "",
        "exit_code": record.exit_code if record else None,
        "duration_s": record.duration_s if record else None,
        "log": record.log if record else None,
        "log_bytes": record.log_bytes if record else None,
        "log_dropped_bytes": record.log_dropped_bytes if record else None,
        "leaks": list(record.leaks) if record else [],
    }


def _dump_row(row: SummaryRow) -> dict[str, Json]:
    outcome = row.outcome
    values = {field: value for field, value in row.values.items() if not isinstance(value, Missing)}
    return {
        "case_id": row.case.case_id,
        "label": row.case.label,
        "state": outcome.state,
        "status": outcome.status.value if outcome.status else None,
        "cause": outcome.cause.value if outcome.cause else None,
        "reason": outcome.reason,
        "attempts": row.attempts,
        "attempt_id": outcome.attempt_id,
        "duration_s": outcome.record.duration_s if outcome.record else None,
        "values": values,
    }


def _dump_counts(counts: Counts) -> dict[str, Json]:
    by_status: dict[str, Json] = {status.value: count for status, count in counts.by_status.items()}
    return {
        **by_status,
        "open": counts.open,
        "ran": counts.ran,
        "environment": counts.environment,
        "pass_rate": counts.pass_rate,
    }


def _exit_code(ledger: Ledger) -> int | None:
    ended = ledger.sessions[-1][1] if ledger.sessions else None
    return ended.exit_code if ended else None


def _cell(value: Json | Missing) -> str | int | float:
    match value:
        case Missing() | None:
            return ""
        case bool():
            return "true" if value else "false"
        case int() | float():
            return value
        case str():
            return _defuse(sanitize(value))
        case _:
            return sanitize(format_json_line(value).rstrip("\n"))


def _defuse(text: str) -> str:
    return f"'{text}" if text.startswith(_FORMULA_STARTS) else text
