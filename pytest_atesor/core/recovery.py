"""What to do with a bundle that was left behind: attempts to adopt or to give up, cases to run.

Everything here is decided from the folded ledger and from what the attempt directories hold.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final, assert_never

from pytest_atesor.core.attempt import AttemptRecord
from pytest_atesor.core.events import AttemptEnded, AttemptLost, AttemptStarted, Event
from pytest_atesor.core.jsontext import show_value
from pytest_atesor.core.ledger import Attempt, Ended, Ledger, NotStarted, Running, Skipped
from pytest_atesor.core.outcome import Cause, Status
from pytest_atesor.core.plan import Plan
from pytest_atesor.core.schema import near_matches
from pytest_atesor.errors import UsageError

__all__ = ["decide_recovery", "decide_rerun", "decide_resume"]

_INTERRUPTED: Final = "its batch was stopped before the attempt ended"


def decide_recovery(
    ledger: Ledger, found: Mapping[str, Mapping[str, AttemptRecord | None]], at: str
) -> tuple[Event, ...]:
    """Return the events that bring a dead controller's ledger up to what is on disk.

    ``found`` maps case ids to their attempt directories' ids and records, None where there is no record.
    Attempts that finished are adopted; those that only started become interrupted. Valid only while nothing
    runs.
    """
    events: list[Event] = []
    for case in ledger.plan.cases:
        known = {attempt.attempt_id: attempt for attempt in ledger.attempts(case.case_id)}
        on_disk = found.get(case.case_id, {})
        for attempt_id in sorted(known.keys() | on_disk.keys(), key=int):
            record = on_disk.get(attempt_id)
            events.extend(_recover(known.get(attempt_id), case.case_id, attempt_id, record, at))
    return tuple(events)


def decide_resume(ledger: Ledger, *, retry_failed: bool = False) -> tuple[str, ...]:
    """Return the ids of the cases that a resume runs, in plan order.

    These are the selected cases (all of the plan when none was ever selected) that have no outcome yet; those
    that were interrupted or skipped for a cause count as such. ``retry_failed`` adds what ended as neither
    PASS nor a skip as it should be.
    """
    candidates = ledger.selected or ledger.plan.cases
    return tuple(
        case.case_id for case in candidates if _is_incomplete(ledger, case.case_id, retry_failed=retry_failed)
    )


def decide_rerun(
    ledger: Ledger, *, failed: bool = False, names: Collection[str] = (), everything: bool = False
) -> tuple[str, ...]:
    """Return the ids of the cases that a rerun runs, in plan order; ``names`` are case ids or labels.

    Raises UsageError unless exactly one selection is given, or for a name that no case has, or two have.
    """
    if failed + bool(names) + everything != 1:
        raise UsageError("a rerun needs exactly one selection; give --failed, --case or --all")
    cases = ledger.plan.cases
    if everything:
        return tuple(case.case_id for case in cases)
    if failed:
        return tuple(case.case_id for case in cases if _has_failed(ledger, case.case_id))
    chosen = set(_find_named(ledger.plan, names))
    return tuple(case.case_id for case in cases if case.case_id in chosen)


def _find_named(plan: Plan, names: Iterable[str]) -> Iterator[str]:
    labels = {case.label: case.case_id for case in plan.cases}
    ids = {case.case_id: case.label for case in plan.cases}
    for name in names:
        if name in ids and labels.get(name, name) != name:
            raise UsageError(
                f"{show_value(name)} is the id of the case {show_value(ids[name])} and the label of another;"
                f" say {show_value(ids[name])} or {labels[name]}"
            )
        if name not in ids and name not in labels:
            hint = near_matches(name, [*labels, *ids]) or "; see batch_plan.json for its cases"
            raise UsageError(f"the batch has no case {show_value(name)}{hint}")
        yield labels.get(name, name)


def _recover(
    known: Attempt | None, case_id: str, attempt_id: str, record: AttemptRecord | None, at: str
) -> tuple[Event, ...]:
    if known is not None and known.record is not None and (record is None or not known.lost):
        return ()
    started: tuple[Event, ...] = ()
    if known is None:
        began = record.started_at if record else at
        slot, machine = (record.slot, record.machine) if record else ("", "")
        started = (
            AttemptStarted(
                at=began, case_id=case_id, attempt_id=attempt_id, slot=slot, worker="", machine=machine
            ),
        )
    if record is not None:
        return (*started, AttemptEnded(at=at, record=record, adopted=True))
    lost = AttemptLost(
        at=at, case_id=case_id, attempt_id=attempt_id, cause=Cause.INTERRUPTED, reason=_INTERRUPTED
    )
    return (*started, lost)


def _is_incomplete(ledger: Ledger, case_id: str, *, retry_failed: bool) -> bool:
    state = ledger.state(case_id)
    match state:
        case NotStarted() | Running():
            return True
        case Skipped(cause=cause):
            return cause is not None
        case Ended(record=record):
            return record.cause is Cause.INTERRUPTED or (retry_failed and _is_bad(record))
        case _:
            assert_never(state)


def _has_failed(ledger: Ledger, case_id: str) -> bool:
    match ledger.state(case_id):
        case (
            Ended(record=record)
            | NotStarted(earlier=AttemptRecord() as record)
            | Skipped(standing=AttemptRecord() as record)
        ):
            return _is_bad(record)
        case Skipped(prevented=is_prevented):
            return is_prevented
        case _:
            return False


def _is_bad(record: AttemptRecord) -> bool:
    return record.status is not Status.PASS and not (record.status is Status.SKIPPED and record.cause is None)
