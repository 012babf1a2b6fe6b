"""The state of a batch, folded from its events: which case stands where, and how the sums close.

A :class:`Ledger` accumulates: it starts from the plan and takes one event at a time, in journal order, in
constant time per case named. The same events always give the same ledger, whether they come live or from the
journal.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import assert_never

from pytest_atesor.core.attempt import AttemptRecord
from pytest_atesor.core.events import (
    AttemptEnded,
    AttemptLost,
    AttemptStarted,
    BatchEnded,
    BatchStarted,
    CasesSelected,
    CasesSkipped,
    Event,
)
from pytest_atesor.core.jsontext import show_value
from pytest_atesor.core.outcome import Cause, Status
from pytest_atesor.core.plan import Case, Plan
from pytest_atesor.errors import BundleError

__all__ = [
    "Attempt",
    "CaseState",
    "Counts",
    "Ended",
    "Ledger",
    "NotStarted",
    "Running",
    "Skipped",
    "Tally",
    "count_states",
    "fold_events",
]


@dataclass(frozen=True, slots=True)
class NotStarted:
    """The case has not run (since it was last selected).

    ``earlier`` is what it had ended as before, if anything.
    """

    earlier: AttemptRecord | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """The latest attempt has no end yet: it runs, or its batch was killed."""

    attempt_id: str
    slot: str
    started_at: str


@dataclass(frozen=True, slots=True)
class Ended:
    """The latest attempt ended; an interrupted one has the cause interrupted."""

    record: AttemptRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """The case was selected and will not start; ``cause`` is None when that is as it should be.

    ``earlier`` is what it had ended as before, if anything; ``prevented``: a hook raised at its turn.
    """

    reason: str
    cause: Cause | None
    earlier: AttemptRecord | None = None
    prevented: bool = False

    @property
    def standing(self) -> AttemptRecord | None:
        """What still counts as the case's outcome: the earlier one, when the batch did not reach the case."""
        return None if self.cause is None or self.prevented else self.earlier


CaseState = NotStarted | Running | Ended | Skipped


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One attempt in a case's history; ``record`` is None until it ends.

    ``adopted`` says that the record was found on disk by a later session, ``lost`` that it only stands in for
    one that was never written. ``machine`` is where it ran, "" for this one.
    """

    case_id: str
    attempt_id: str
    slot: str
    worker: str
    started_at: str
    record: AttemptRecord | None
    adopted: bool = False
    lost: bool = False
    machine: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """How far the plan is: ``planned == done + interrupted + not_started``.

    ``unselected`` is part of the last.
    """

    planned: int
    done: int
    interrupted: int
    not_started: int
    unselected: int

    def __str__(self) -> str:
        line = (
            f"planned {self.planned} = done {self.done} + interrupted {self.interrupted}"
            f" + not started {self.not_started}"
        )
        return f"{line} ({self.unselected} never selected)" if self.unselected else line


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """The selected cases by status; ``environment`` of the FAILs are not the packages' fault.

    ``ran`` counts what is not SKIPPED; ``open`` counts cases that have no outcome yet.
    """

    by_status: Mapping[Status, int]
    environment: int
    ran: int
    open: int

    @property
    def pass_rate(self) -> float | None:
        """PASS over the cases that ran, None when none ran."""
        return self.by_status[Status.PASS] / self.ran if self.ran else None


class Ledger:
    """Where every planned case stands. Feed it with :meth:`apply`; read it at any time."""

    __slots__ = ("_attempts", "_fresh", "_plan", "_selected", "_skips", "sessions")

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._attempts: dict[str, dict[str, Attempt]] = {case.case_id: {} for case in plan.cases}
        self._selected: dict[str, None] = {}
        self._fresh: set[str] = set()  # selected, and no attempt since
        self._skips: dict[str, Skipped] = {}
        self.sessions: list[tuple[BatchStarted, BatchEnded | None]] = []

    @property
    def plan(self) -> Plan:
        """The plan that the ledger folds over."""
        return self._plan

    @property
    def selected(self) -> tuple[Case, ...]:
        """The cases that were ever selected, in plan order."""
        return tuple(case for case in self._plan.cases if case.case_id in self._selected)

    def apply(self, event: Event) -> None:
        """Take one event. Raises BundleError when it names a case that the plan does not have."""
        match event:
            case BatchStarted():
                if not self.sessions or self.sessions[-1][0] != event:
                    self.sessions.append((event, None))
            case BatchEnded() if self.sessions:
                self.sessions[-1] = (self.sessions[-1][0], event)
            case BatchEnded():
                pass
            case CasesSelected():
                self._select(event.case_ids)
            case AttemptStarted():
                self._start(event)
            case AttemptEnded():
                self._end(event.record, adopted=event.adopted)
            case AttemptLost():
                self._lose(event)
            case CasesSkipped():
                self._skip(event)
            case _:
                assert_never(event)

    def attempts(self, case_id: str) -> tuple[Attempt, ...]:
        """Return a case's attempts, in the order of their numbers."""
        return tuple(self._history(case_id).values())

    def state(self, case_id: str) -> CaseState:
        """Return where a case stands: its latest attempt, or its skip, or nothing yet."""
        history = self._history(case_id)
        latest = next(reversed(history.values())) if history else None
        if case_id in self._skips:
            return self._skips[case_id]
        if latest is None or case_id in self._fresh:
            return NotStarted(latest.record if latest else None)
        if latest.record is None:
            return Running(attempt_id=latest.attempt_id, slot=latest.slot, started_at=latest.started_at)
        return Ended(latest.record)

    def states(self) -> dict[str, CaseState]:
        """Return the state of every planned case, in plan order."""
        return {case.case_id: self.state(case.case_id) for case in self._plan.cases}

    def tally(self) -> Tally:
        """Return how far the plan is; the sum closes by construction."""
        done = interrupted = 0
        for case_id in self._attempts:
            match self.state(case_id):
                case Ended(record=record) if record.cause is not Cause.INTERRUPTED:
                    done += 1
                case Running() | Ended():
                    interrupted += 1
                case Skipped(cause=None):
                    done += 1
                case NotStarted() | Skipped():
                    pass
        planned = len(self._attempts)
        return Tally(
            planned=planned,
            done=done,
            interrupted=interrupted,
            not_started=planned - done - interrupted,
            unselected=planned - len(self._selected),
        )

    def _history(self, case_id: str) -> dict[str, Attempt]:
        try:
            return self._attempts[case_id]
        except KeyError:
            raise BundleError(
                f"the journal names case {show_value(case_id)}, which the plan does not have"
            ) from None

    def _select(self, case_ids: Iterable[str]) -> None:
        for case_id in case_ids:
            self._history(case_id)
            self._selected[case_id] = None
            self._fresh.add(case_id)
            self._skips.pop(case_id, None)

    def _skip(self, event: CasesSkipped) -> None:
        for case_id in event.case_ids:
            history = self._history(case_id)
            latest = next(reversed(history.values())).record if history else None
            self._selected[case_id] = None
            self._skips[case_id] = Skipped(
                reason=event.reason, cause=event.cause, earlier=latest, prevented=event.prevented
            )

    def _start(self, event: AttemptStarted) -> None:
        history = self._history(event.case_id)
        if event.attempt_id not in history:
            history[event.attempt_id] = Attempt(
                case_id=event.case_id,
                attempt_id=event.attempt_id,
                slot=event.slot,
                worker=event.worker,
                started_at=event.at,
                record=None,
                machine=event.machine,
            )
        self._selected[event.case_id] = None
        self._fresh.discard(event.case_id)
        self._skips.pop(event.case_id, None)

    def _end(self, record: AttemptRecord, *, adopted: bool = False, lost: bool = False) -> None:
        history = self._history(record.case_id)
        started = history.get(record.attempt_id)
        history[record.attempt_id] = Attempt(
            case_id=record.case_id,
            attempt_id=record.attempt_id,
            slot=record.slot,
            worker=started.worker if started else "",
            started_at=started.started_at if started else record.started_at,
            record=record,
            adopted=adopted,
            lost=lost,
            machine=record.machine,
        )
        self._selected[record.case_id] = None
        self._fresh.discard(record.case_id)
        self._skips.pop(record.case_id, None)

    def _lose(self, event: AttemptLost) -> None:
        started = self._history(event.case_id).get(event.attempt_id)
        if started is not None and started.record is not None:
            return  # the worker wrote its record and died afterwards: the record is the truth
        self._end(
            AttemptRecord(
                case_id=event.case_id,
                attempt_id=event.attempt_id,
                status=Status.SKIPPED if event.cause is Cause.INTERRUPTED else Status.FAIL,
                cause=event.cause,
                reason=event.reason,
                exit_code=None,
                slot=started.slot if started else "",
                started_at=started.started_at if started else event.at,
                ended_at=event.at,
                duration_s=event.duration_s,
                log=f"cases/{event.case_id}/attempts/{event.attempt_id}/run.log",
                log_bytes=0,
                log_dropped_bytes=0,
                target=self.plan.target.value,
                machine=started.machine if started else "",
            ),
            lost=True,
        )


def fold_events(plan: Plan, events: Iterable[Event]) -> Ledger:
    """Return the ledger of a plan after these events.

    Raises BundleError for an event that does not fit the plan.
    """
    ledger = Ledger(plan)
    for event in events:
        ledger.apply(event)
    return ledger


def count_states(states: Iterable[CaseState]) -> Counts:
    """Return the counts of these states.

    A case selected again that waits or was not reached counts as what it had ended as.
    """
    statuses: Counter[Status] = Counter()
    environment = unfinished = 0
    for state in states:
        match state:
            case (
                Ended(record=record)
                | NotStarted(earlier=AttemptRecord() as record)
                | Skipped(standing=AttemptRecord() as record)
            ):
                statuses[record.status] += 1
                environment += record.status is Status.FAIL and record.cause is Cause.ENVIRONMENT
            case Skipped():
                statuses[Status.SKIPPED] += 1
            case Running() | NotStarted():
                unfinished += 1
    by_status = {status: statuses[status] for status in Status}
    ran = sum(by_status.values()) - by_status[Status.SKIPPED]
    return Counts(by_status=by_status, environment=environment, ran=ran, open=unfinished)
