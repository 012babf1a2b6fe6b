"""The comparison of a batch: one row per case, with figures picked from its evidence by dotted path."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, assert_never

from pytest_atesor.core.attempt import AttemptRecord
from pytest_atesor.core.ledger import CaseState, Ended, Ledger, NotStarted, Running, Skipped
from pytest_atesor.core.outcome import Cause, Status
from pytest_atesor.core.plan import Case, Json

__all__ = ["Missing", "Outcome", "SummaryRow", "describe_outcome", "pick_field", "summarize"]

_INDEX: Final = re.compile(r"[0-9]{1,9}")


@dataclass(frozen=True, slots=True)
class Missing:
    """The evidence has no such field: not the same as a null in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A case's state in the flat form of the views.

    ``state`` is "not_started", "running", "ended" or "skipped"; ``record`` is the latest attempt's, if it
    ended. A case that was to run again and was not reached keeps status and record of before.
    """

    state: str
    status: Status | None
    cause: Cause | None
    reason: str
    attempt_id: str | None
    record: AttemptRecord | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryRow:
    """One case: where it stands and the values of the summary's fields."""

    case: Case
    outcome: Outcome
    attempts: int
    values: Mapping[str, Json | Missing]


def describe_outcome(state: CaseState) -> Outcome:
    """Return a state in the flat form of the views."""
    match state:
        case NotStarted(earlier=earlier):
            return _flat("not_started") if earlier is None else _of_record("not_started", earlier)
        case Running(attempt_id=attempt_id):
            return _flat("running", attempt_id=attempt_id)
        case Ended(record=record):
            return _of_record("ended", record)
        case Skipped(standing=AttemptRecord() as record):
            return _of_record("skipped", record)
        case Skipped(reason=reason, cause=cause):
            return _flat("skipped", status=Status.SKIPPED, cause=cause, reason=reason)
        case _:
            assert_never(state)


def pick_field(evidence: Json, path: str) -> Json | Missing:
    """Return the value at a dotted path (``coverage.union``, ``artifacts.0.size_bytes``) of a JSON document.

    A key that has dots itself is found too: the longest key that fits is tried first at every step.
    """
    return _pick(evidence, path.split("."))


def summarize(ledger: Ledger, values: Mapping[str, Mapping[str, Json | Missing]]) -> tuple[SummaryRow, ...]:
    """Return one row per planned case, in plan order.

    ``values`` maps case ids to the fields of their evidence; what a sweep set cannot be claimed otherwise.
    """
    return tuple(
        SummaryRow(
            case=case,
            outcome=describe_outcome(ledger.state(case.case_id)),
            attempts=len(ledger.attempts(case.case_id)),
            values={**values.get(case.case_id, {}), **case.parameters},
        )
        for case in ledger.plan.cases
    )


def _pick(value: Json, steps: Sequence[str]) -> Json | Missing:
    if not steps:
        return value
    if isinstance(value, list):
        index = steps[0]
        fits = _INDEX.fullmatch(index) is not None and int(index) < len(value)
        return _pick(value[int(index)], steps[1:]) if fits else Missing()
    if isinstance(value, dict):
        for width in range(len(steps), 0, -1):
            key = ".".join(steps[:width])
            if key in value and not isinstance(found := _pick(value[key], steps[width:]), Missing):
                return found
    return Missing()


def _flat(
    state: str,
    *,
    status: Status | None = None,
    cause: Cause | None = None,
    reason: str = "",
    attempt_id: str | None = None,
) -> Outcome:
    return Outcome(state=state, status=status, cause=cause, reason=reason, attempt_id=attempt_id, record=None)


def _of_record(state: str, record: AttemptRecord) -> Outcome:
    return Outcome(
        state=state,
        status=record.status,
        cause=record.cause,
        reason=record.reason,
        attempt_id=record.attempt_id,
        record=record,
    )
