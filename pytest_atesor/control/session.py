"""The controller's side of a running batch: what waits, what runs, what ended, and why the batch stops early.

It speaks of cases by node id to the scheduler and to pytest, and by case id to the bundle. It knows no
pytest hook and sends no signal. When the bundle cannot be written any more the batch stops; what is known
stays in memory for the reports.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from pytest_atesor.bundle.attempts import list_attempts, read_attempt
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
from pytest_atesor.core.exit_code import EXIT_OK, EXIT_USAGE, decide_exit_code
from pytest_atesor.core.ledger import Ended, NotStarted, Skipped
from pytest_atesor.core.outcome import Cause
from pytest_atesor.core.schedule import CaseQueue
from pytest_atesor.errors import BundleError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pytest_atesor.bundle.writer import Bundle
    from pytest_atesor.control.watch import WorkerWatch
    from pytest_atesor.core.attempt import AttemptRecord
    from pytest_atesor.core.clock import Clock
    from pytest_atesor.core.plan import Case, Plan

__all__ = ["BatchSession", "Observer", "Stop"]

_NEVER_STARTED_LIMIT: Final = 3
_REST_S: Final = 300.0
"""How long a batch waits for a machine when none can be reached and nothing runs."""


class Observer(Protocol):
    """Learns what happens, as it happens."""

    def case_started(self, case: Case, slot: str, attempt_id: str) -> None:
        """Learn that an attempt began."""

    def case_ended(self, case: Case, record: AttemptRecord) -> None:
        """Learn that an attempt has its record."""

    def case_retried(self, case: Case, record: AttemptRecord) -> None:
        """Learn that an attempt has its record, and that another one follows at once."""

    def case_lost(self, case: Case, record: AttemptRecord) -> None:
        """Learn that an attempt ended without its worker's report; ``record`` stands for it."""


class Stop(NamedTuple):
    """Why no more cases start: words, the cause of the cases left, the signal that came, if any.

    ``by_signal`` says that the words are the signal's.
    """

    reason: str
    cause: Cause
    signal: int | None
    by_signal: bool = False


class BatchSession:
    """One run over a bundle, from the selection to the exit code. It is the scheduler's board.

    ``watch`` is told what to expect of the workers, and asked why one died. ``can_reach`` says whether the
    machine that a worker's slot is on can be reached.
    """

    def __init__(
        self,
        bundle: Bundle,
        observer: Observer,
        clock: Clock,
        watch: WorkerWatch,
        can_reach: Callable[[str], bool] = lambda _worker: True,
    ) -> None:
        self._bundle = bundle
        self._observer = observer
        self._clock = clock
        self._watch = watch
        self._can_reach = can_reach
        self._rests_since_s: float | None = None
        self._cases = {f"{bundle.plan.source}::{case.label}": case for case in bundle.plan.cases}
        self._offered = tuple(self._cases)
        self._queue: CaseQueue | None = None
        self._has_selected = False
        self._nodes: dict[str, object] = {}
        self._served: set[str] = set()
        self._begun_s: dict[str, float] = {}
        self._refused: dict[str, int] = {}
        self._stop: Stop | None = None
        self._is_disk_given_up = False
        self.defects: list[str] = []

    @property
    def plan(self) -> Plan:
        """The frozen plan."""
        return self._bundle.plan

    @property
    def stop_order(self) -> Stop | None:
        """Why the batch stops early, None while it goes on."""
        return self._stop

    def case(self, nodeid: str) -> Case | None:
        """Return the case of a node id, None for a stranger's."""
        return self._cases.get(nodeid)

    def nodeid(self, case: Case) -> str:
        """Return the node id of a case."""
        return f"{self.plan.source}::{case.label}"

    def is_open(self, nodeid: str) -> bool:
        """Say whether the case has no outcome: it never started, was skipped, or was interrupted."""
        state = self._bundle.ledger.state(self._cases[nodeid].case_id)
        return not isinstance(state, Ended) or state.record.cause is Cause.INTERRUPTED

    def node(self, nodeid: str) -> object | None:
        """Return xdist's node that was given the case last, None without xdist."""
        return self._nodes.get(nodeid)

    def has_case(self, worker: str) -> bool:
        """Say whether a worker has been given a case at all."""
        return worker in self._served

    def skip_reason(self, case: Case) -> str:
        """Return why a case was skipped without an attempt."""
        state = self._bundle.ledger.state(case.case_id)
        return state.reason if isinstance(state, Skipped) else ""

    def begin(
        self,
        *,
        host: str,
        pid: int,
        version: str,
        workers: int,
        image: str = "",
        image_ids: tuple[str, ...] = (),
    ) -> None:
        """Write down who runs the batch, and in which image."""
        self._record(
            BatchStarted(
                at=self._clock.now(),
                host=host,
                pid=pid,
                version=version,
                workers=workers,
                image=image,
                image_ids=image_ids,
            )
        )

    def offer(self, cases: Sequence[Case]) -> None:
        """Take the cases that this session may select from, when they are not all of the plan."""
        self._offered = tuple(self.nodeid(case) for case in cases)

    # The scheduler's board.

    def set_selection(self, nodeids: Sequence[str]) -> None:
        """Take what pytest selected, in the order in which it wants to run it."""
        cases = [self._cases[nodeid] for nodeid in nodeids]
        self._has_selected = bool(cases)
        self._record(CasesSelected(at=self._clock.now(), case_ids=tuple(case.case_id for case in cases)))
        # The order was decided when the items were sorted; equal expectations keep it.
        self._queue = CaseQueue(cases)

    def take(self) -> str | None:
        """Take the next case that may start."""
        if self._stop is not None or self._queue is None:
            return None
        case = self._queue.take()
        return None if case is None else self.nodeid(case)

    def put_back(self, nodeid: str) -> None:
        """Let a case wait again."""
        if self._queue is not None:
            case = self._cases[nodeid]
            self._queue.release(case.derived_name)
            self._queue.put(case)

    def has_waiting(self) -> bool:
        """Say whether cases may still start; before the selection is known, yes."""
        if self._stop is not None:
            return False
        return self._queue is None or len(self._queue) > 0

    def can_work(self, node: object) -> bool:
        """Say whether a case that this worker gets now would find its machine."""
        return self._can_reach(_name_worker(node))

    def note_rest(self, *, is_all: bool) -> None:
        """Take note of whether all rest because no machine can be reached; after a while that is the end."""
        now_s = self._clock.monotonic()
        if not is_all:
            self._rests_since_s = None
            return
        if self._rests_since_s is None:
            self._rests_since_s = now_s
        if now_s - self._rests_since_s > _REST_S and self._stop is None:
            self.stop(f"no machine could be reached for {_REST_S:.0f} s", Cause.ENVIRONMENT)
            self.defects.append(f"the batch was stopped: no machine could be reached for {_REST_S:.0f} s")

    def case_sent(self, node: object, nodeid: str) -> None:
        """Remember which worker has the case."""
        self._nodes[nodeid] = node
        self._served.add(_name_worker(node))
        self._begun_s[nodeid] = self._clock.monotonic()
        self._expect_news(nodeid)

    def case_done(self, node: object, nodeid: str) -> None:
        """Free the case's derived name; an attempt that began and has no record by now never will."""
        case = self._cases[nodeid]
        self._watch.expect_nothing(_name_worker(node))
        if self._queue is not None:
            self._queue.release(case.derived_name)
        for attempt_id in self._open_attempts(case):
            self._lose(case, attempt_id, Cause.ENVIRONMENT, "the worker ended the case without a record")

    def case_lost(self, node: object, nodeid: str) -> None:
        """Charge one attempt to a case whose worker died in it; a case that had not begun waits again."""
        case = self._cases[nodeid]
        worker = _name_worker(node)
        if self._queue is not None:
            self._queue.release(case.derived_name)
        self._discover(case, worker)
        attempts = self._open_attempts(case)
        if attempts:
            # Whether the case itself was late is not known: nobody kept its time.
            killed = self._watch.explain(worker)
            reason = f"worker {worker} died while the case ran"
            reason = f"{reason}: it {killed}, so it was killed" if killed else reason
            for attempt_id in attempts:
                self._settle(case, attempt_id, reason, is_last=attempt_id == attempts[-1])
        elif self.is_open(nodeid):
            self._refused[nodeid] = self._refused.get(nodeid, 0) + 1
            if self._refused[nodeid] < _NEVER_STARTED_LIMIT:
                self.put_back(nodeid)
            else:
                self.defects.append(f"{case.label}: {_NEVER_STARTED_LIMIT} workers died before it began")

    # What the reports of the workers say.

    def attempt_began(self, nodeid: str, begun: Mapping[str, str]) -> None:
        """Take the news of a begun attempt: its id and slot, or the reason why the disk refused it."""
        case = self._cases[nodeid]
        if "error" in begun:
            self._give_up_disk(begun["error"])
            return
        self._begun_s[nodeid] = self._clock.monotonic()
        self._expect_news(nodeid)
        self._record(
            AttemptStarted(
                at=begun["started_at"],
                case_id=case.case_id,
                attempt_id=begun["attempt_id"],
                slot=begun["slot"],
                worker=begun["worker"],
                machine=begun["machine"],
            )
        )
        self._observer.case_started(case, begun["slot"], begun["attempt_id"])

    def case_prevented(self, nodeid: str, reason: str, cause: Cause | None) -> None:
        """Take the news that a hook of somebody else's kept a case from starting."""
        case_id = self._cases[nodeid].case_id
        self._record(
            CasesSkipped(
                at=self._clock.now(),
                case_ids=(case_id,),
                reason=reason,
                cause=cause,
                prevented=cause is not None,
            )
        )

    def attempt_ended(self, nodeid: str, record: AttemptRecord) -> None:
        """Take the record of an attempt."""
        self._expect_news(nodeid)
        self._record(AttemptEnded(at=self._clock.now(), record=record))
        self._observer.case_ended(self._cases[nodeid], record)

    def attempt_retried(self, nodeid: str, record: AttemptRecord, begun: Mapping[str, str]) -> None:
        """Take the record of an attempt that is made again, and the news of the next one."""
        self._record(AttemptEnded(at=self._clock.now(), record=record))
        self._observer.case_retried(self._cases[nodeid], record)
        self.attempt_began(nodeid, begun)

    # The end.

    def stop(self, reason: str, cause: Cause = Cause.INTERRUPTED, signal: int | None = None) -> None:
        """Start no more cases. The first reason stands; of signals the last one named counts."""
        if self._stop is None or (self._stop.by_signal and signal is not None):
            self._stop = Stop(reason, cause, signal, by_signal=signal is not None)
        elif signal is not None:
            self._stop = self._stop._replace(signal=signal)

    def settle_rest(self, reason: str) -> tuple[Case, ...]:
        """Close the books: give up what counts as running, skip what never started; return the latter.

        ``reason`` stands in when nothing told the batch to stop.
        """
        if self._queue is None and self._stop is not None:
            self.set_selection(self._offered)
        ledger = self._bundle.ledger
        for case in ledger.selected:
            for attempt_id in self._open_attempts(case):
                self._settle(case, attempt_id, "the batch ended before the attempt did")
        rest = tuple(case for case in ledger.selected if isinstance(ledger.state(case.case_id), NotStarted))
        if rest:
            stop = self._stop or Stop(reason, Cause.INTERRUPTED, None)
            ids = tuple(case.case_id for case in rest)
            self._record(
                CasesSkipped(
                    at=self._clock.now(), case_ids=ids, reason=f"not started: {stop.reason}", cause=stop.cause
                )
            )
        return rest

    def finish(self) -> int:
        """Write the last event and the final views, and return the exit code."""
        ledger = self._bundle.ledger
        selected = ledger.selected
        states = [ledger.state(case.case_id) for case in selected]
        stopped_by = self._stop.signal if self._stop is not None else None
        code = decide_exit_code(self.plan.kind, states, stopped_by=stopped_by)
        # In a bundle that goes on, what earlier sessions selected is no answer to this one's flags.
        is_empty = self._queue is not None and not self._has_selected
        if stopped_by is None and (is_empty or (code == EXIT_OK and self.plan.cases and not selected)):
            self.defects.append(f"no case of {self.plan.source} was selected; check -k, -m and --deselect")
            code = EXIT_USAGE
        if code == EXIT_OK and self.defects:
            code = 1
        reason = self._stop.reason if self._stop is not None else ""
        self._record(BatchEnded(at=self._clock.now(), exit_code=code, reason=reason))
        try:
            self._bundle.close()
        except BundleError as error:
            self._give_up_disk(str(error))
            code = code or 1
        return code

    def _expect_news(self, nodeid: str) -> None:
        """Give the worker of a case time for its next news of it; without xdist there is none."""
        node = self._nodes.get(nodeid)
        if node is not None:
            self._watch.expect_news(_name_worker(node), self._cases[nodeid].timeout_s)

    def _open_attempts(self, case: Case) -> tuple[str, ...]:
        return tuple(
            attempt.attempt_id
            for attempt in self._bundle.ledger.attempts(case.case_id)
            if attempt.record is None
        )

    def _discover(self, case: Case, worker: str) -> None:
        """Take note of attempts that began on disk and whose news died with the worker."""
        known = {attempt.attempt_id for attempt in self._bundle.ledger.attempts(case.case_id)}
        try:
            found = list_attempts(self._bundle.layout, case.case_id)
        except BundleError:
            return
        for attempt_id in (one for one in found if one not in known):
            self._record(
                AttemptStarted(
                    at=self._clock.now(), case_id=case.case_id, attempt_id=attempt_id, slot="", worker=worker
                )
            )

    def _settle(self, case: Case, attempt_id: str, reason: str, *, is_last: bool = True) -> None:
        """Adopt the record that a dead worker left, or charge the attempt without one."""
        try:
            record = read_attempt(self._bundle.layout.attempt(case.case_id, attempt_id))
        except BundleError as error:
            record, reason = None, f"{reason}; {error}"
        if record is None:
            cause = Cause.ENVIRONMENT if self._stop is None else Cause.INTERRUPTED
            self._lose(case, attempt_id, cause, reason)
        else:
            self._record(AttemptEnded(at=self._clock.now(), record=record, adopted=True))
            if is_last:
                self._observer.case_lost(case, record)
            else:
                self._observer.case_retried(case, record)

    def _lose(self, case: Case, attempt_id: str, cause: Cause, reason: str) -> None:
        now_s = self._clock.monotonic()
        self._record(
            AttemptLost(
                at=self._clock.now(),
                case_id=case.case_id,
                attempt_id=attempt_id,
                cause=cause,
                reason=reason,
                duration_s=round(now_s - self._begun_s.get(self.nodeid(case), now_s), 3),
            )
        )
        state = self._bundle.ledger.state(case.case_id)
        if isinstance(state, Ended):
            self._observer.case_lost(case, state.record)

    def _record(self, event: Event) -> None:
        """Put an event into the bundle. When the disk refuses, the batch stops and goes on in memory."""
        try:
            self._bundle.record(event)
        except BundleError as error:
            self._bundle.ledger.apply(event)
            self._give_up_disk(str(error))

    def _give_up_disk(self, error: str) -> None:
        """Start no more cases on a disk that refuses; one line says so, though it refuses again and again."""
        if not self._is_disk_given_up:
            self._is_disk_given_up = True
            self.defects.append(error)
        self.stop(error, Cause.ENVIRONMENT)


def _name_worker(node: object) -> str:
    return str(getattr(getattr(node, "gateway", None), "id", node))
