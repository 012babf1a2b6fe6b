"""The worker's side: run one case after the other in one slot, and leave an attempt directory for each.

A worker loads the frozen plan by its path and takes everything else from its orders; it reads no option and
no list. It writes only below its attempts' directories and the log links.
"""

from __future__ import annotations

import os
import signal
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from pytest_atesor.bundle.attempts import create_attempt, write_attempt
from pytest_atesor.bundle.layout import BundleLayout, LogLinks
from pytest_atesor.core.attempt import AttemptRecord
from pytest_atesor.core.breaker import is_environment
from pytest_atesor.core.child_outcome import REASON_CHARACTERS
from pytest_atesor.core.dotenv import add_dotenv
from pytest_atesor.core.environment import judge_failure
from pytest_atesor.core.outcome import Cause, Status
from pytest_atesor.core.text import sanitize_line
from pytest_atesor.errors import BadInputError, BundleError, SandboxError
from pytest_atesor.runners.descendants import reap_survivors
from pytest_atesor.runners.files import read_strangers_tail
from pytest_atesor.runners.interface import AttemptContext, AttemptEnd
from pytest_atesor.runners.port import DEFAULT_AGENT
from pytest_atesor.work.bench import NoBench
from pytest_atesor.work.evidence import describe_failure

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_atesor.bundle.layout import AttemptLayout
    from pytest_atesor.core.clock import Clock
    from pytest_atesor.core.plan import Case, Json, Plan
    from pytest_atesor.runners.interface import Runner
    from pytest_atesor.runners.stop import StopSignal
    from pytest_atesor.work.bench import Bench

__all__ = [
    "KILL_CHILDREN",
    "STOP_WORKER",
    "CaseEnd",
    "Orders",
    "Worker",
    "read_tail",
    "show_path",
]

STOP_WORKER: Final = signal.SIGTERM
"""Asks a worker to end its case: its child gets TERM and its grace."""

KILL_CHILDREN: Final = signal.SIGUSR1
"""Tells a worker to kill its child at once."""

_TAIL_BYTES: Final = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """What the controller tells a worker: builtins only, so that they cross the channel.

    ``plan`` is the path of the frozen plan, ``slot`` the leased container name, ``environment`` what
    ``.env`` adds to the agents' environment, ``log_directory`` where the log links go. ``case_ids`` are the
    cases of this session, None for all of the plan. Cases of the kinds in ``sandboxed`` run in a sandbox of
    ``engine`` made from ``image``, with those limits; ``machine`` is the name of the machine it is on, "" for
    this one. ``retry_environment`` is how often an attempt that failed for the environment's sake is made
    again.
    """

    plan: str
    rootdir: str
    worker: str
    slot: str
    state: str
    log_directory: str
    environment: dict[str, str]
    case_ids: list[str] | None
    sandboxed: list[str]
    engine: str
    image: str
    memory_bytes: int | None
    pids: int
    cpu_weight: int
    retry_environment: int
    machine: str = ""

    def dump(self) -> dict[str, object]:
        """Return the orders as builtins."""
        return asdict(self)


class CaseEnd(NamedTuple):
    """The record of a case that ran, and the exception when this program was at fault.

    ``refusal`` is the error of a disk that did not take the record: it is true all the same, and the journal
    may still have room for it, but no other case should start.
    """

    record: AttemptRecord
    defect: BaseException | None
    refusal: str = ""


class Worker:
    """Runs the cases that pytest gives it, one at a time."""

    def __init__(
        self,
        plan: Plan,
        orders: Orders,
        runners: Mapping[str, Runner],
        bench: Bench,
        stop: StopSignal,
        clock: Clock,
    ) -> None:
        self.plan = plan
        self.stop = stop
        self._orders = orders
        self._layout = BundleLayout(Path(orders.plan).parent)
        self._links = LogLinks(Path(orders.log_directory), self._layout)
        self._runners = runners
        self._bench = bench
        self._machine = NoBench()
        self._clock = clock
        self._attempt: AttemptLayout | None = None
        self._identity: tuple[int, int] | None = None
        self._started_at = ""
        self._notes: tuple[str, ...] = ()

    def rest(self) -> None:
        """Pause a little while cases could not run here, if that is so."""
        self._bench.rest(self.stop)

    def begin(self, case: Case) -> dict[str, str]:
        """Create the attempt's directory and its log link.

        Returns what the controller must know: attempt, slot, worker and start; or the error of a disk that
        refused.
        """
        self._attempt = None
        self._notes = ()
        self._started_at = self._clock.now()
        try:
            attempt = create_attempt(self._layout, case.case_id)
            self._links.make(case.case_id, attempt.log)
        except BundleError as error:
            return {"error": str(error)}
        self._attempt = attempt
        self._identity = _identify(attempt.root)
        return {
            "attempt_id": attempt.attempt_id,
            "slot": self._orders.slot,
            "worker": self._orders.worker,
            "machine": self._orders.machine,
            "started_at": self._started_at,
        }

    def run(self, case: Case) -> CaseEnd:
        """Run the attempt that was begun, write its record and return it."""
        attempt = self._attempt
        if attempt is None:
            raise RuntimeError(f"case {case.label} was not begun")
        started_s = self._clock.monotonic()
        defect: BaseException | None = None
        try:
            end = self._run(case, attempt, started_s)
        except SandboxError as error:
            end = self._fail(Cause.ENVIRONMENT, str(error), started_s)
        except BaseException as error:  # noqa: BLE001 - whatever it is, the attempt must get its record
            defect = error
            end = self._fail(Cause.ENVIRONMENT, f"internal error: {error!r}", started_s)
        end = self._leave(case, self._examine(case, end, attempt))
        if self.stop.level and end.cause is Cause.ENVIRONMENT:
            end = replace(end, status=Status.SKIPPED, cause=Cause.INTERRUPTED, reason="interrupted")
        if end.cause is Cause.INTERRUPTED and end.status is not Status.SKIPPED:
            # The agent's word for the TERM of our deadline, or of a stranger: the batch was not interrupted.
            end = replace(end, cause=None if end.status is Status.TIMEOUT else Cause.AGENT)
        self._notes = end.notes
        if self._is_tampered(attempt):
            end = self._fail(Cause.AGENT, "the agent removed or replaced its attempt's directory", started_s)
            return CaseEnd(self._make_record(case, attempt, end), defect)
        record = self._make_record(case, attempt, end)
        try:
            write_attempt(attempt, record)
        except BundleError as error:
            return CaseEnd(record, defect, str(error))
        return CaseEnd(record, defect)

    def give_up(self, case: Case, status: Status, cause: Cause | None, reason: str) -> CaseEnd:
        """Write the record of the attempt that was begun and will not run, and return it."""
        attempt = self._attempt
        if attempt is None:
            raise RuntimeError(f"case {case.label} was not begun")
        end = self._fail(Cause.ENVIRONMENT, reason, self._clock.monotonic())
        record = self._make_record(case, attempt, replace(end, status=status, cause=cause))
        try:
            write_attempt(attempt, record)
        except BundleError as error:
            return CaseEnd(record, None, str(error))
        return CaseEnd(record, None)

    def may_retry(self, case: Case, end: CaseEnd, attempts: int) -> bool:
        """Say whether the case gets another attempt after ``attempts``, and wait until one makes sense."""
        if end.defect is not None or end.refusal or not is_environment(end.record):
            return False
        return attempts <= self._orders.retry_environment and self._bench_of(case).recover(self.stop)

    def explain(self, record: AttemptRecord) -> str:
        """Return the text of a case that did not pass."""
        path = self._layout.root / record.log
        text = describe_failure(record, show_path(path), read_tail(path))
        return "\n".join([text, *(f"note: {note}" for note in self._notes)]) if self._notes else text

    def show_log(self, record: AttemptRecord) -> str:
        """Return the path of a record's log, as short as it can be shown."""
        return show_path(self._layout.root / record.log)

    def _run(self, case: Case, attempt: AttemptLayout, started_s: float) -> AttemptEnd:
        runner = self._runners.get(case.kind)
        if runner is None:
            known = ", ".join(sorted(self._runners))
            return self._fail(
                Cause.ENVIRONMENT, f"no runner for cases of kind {case.kind!r}; known: {known}", started_s
            )
        reap_survivors()  # of an earlier case; unreaped they keep the slot's old sandbox alive
        if not self.stop.level:
            self._bench_of(case).prepare()
        settings = self.plan.settings
        context = AttemptContext(
            attempt_dir=attempt.root,
            log_path=attempt.log,
            cwd=Path(self._orders.rootdir),
            slot=self._orders.slot,
            engine=self._orders.engine,
            state_dir=Path(self._orders.state),
            environ=add_dotenv(self._orders.environment, os.environ),
            # Counted from here: what the last case left in the slot is not this one's time.
            deadline=time.monotonic() + case.timeout_s,
            deadline_epoch=time.time() + case.timeout_s,
            platform=self.plan.platform,
            target=self.plan.target,
            agent=_read_agent(settings),
            stop=self.stop,
            package=settings.get("package") is True,
            is_accelerated=settings.get("no_acceleration") is not True,
            has_build_network=settings.get("build_network") is True,
        )
        return runner.run(case, context)

    def _examine(self, case: Case, end: AttemptEnd, attempt: AttemptLayout) -> AttemptEnd:
        """Let the evidence decide whether a failure is the machine's."""
        if end.status is not Status.FAIL or self.stop.level:
            return end
        evidence = self._bench_of(case).examine(attempt.root)
        judged = judge_failure(end.cause, end.reason, evidence)
        if judged is None:
            return end
        said = (end.result or {}).get("cause") == Cause.ENVIRONMENT.value
        if judged.cause is not Cause.ENVIRONMENT and said and evidence.state == "unmanaged":
            return end  # an agent with a sandbox of its own knows better
        return replace(end, cause=judged.cause, reason=judged.reason)

    def _is_tampered(self, attempt: AttemptLayout) -> bool:
        """Say whether a record cannot be written, or would land elsewhere: the agent had its hands in it."""
        return _identify(attempt.root) != self._identity or attempt.record.is_dir()

    def _bench_of(self, case: Case) -> Bench:
        return self._bench if case.kind in self._orders.sandboxed else self._machine

    def _leave(self, case: Case, end: AttemptEnd) -> AttemptEnd:
        """Empty the slot; a failure to do so is a note, for the next case gets a new sandbox anyway."""
        try:
            self._bench_of(case).clear()
        except SandboxError as error:
            return replace(end, notes=(*end.notes, sanitize_line(str(error), REASON_CHARACTERS)))
        return end

    def _fail(self, cause: Cause, reason: str, started_s: float) -> AttemptEnd:
        return AttemptEnd(
            status=Status.FAIL,
            cause=cause,
            reason=sanitize_line(reason, REASON_CHARACTERS),
            exit_code=None,
            duration_s=self._clock.monotonic() - started_s,
            log_bytes=0,
            log_dropped_bytes=0,
        )

    def _make_record(self, case: Case, attempt: AttemptLayout, end: AttemptEnd) -> AttemptRecord:
        return AttemptRecord(
            case_id=case.case_id,
            attempt_id=attempt.attempt_id,
            status=end.status,
            cause=end.cause,
            reason=sanitize_line(end.reason, REASON_CHARACTERS),
            exit_code=end.exit_code,
            slot=self._orders.slot,
            started_at=self._started_at,
            ended_at=self._clock.now(),
            duration_s=round(end.duration_s, 3),
            log=self._layout.relative(attempt.log),
            log_bytes=end.log_bytes,
            log_dropped_bytes=end.log_dropped_bytes,
            leaks=end.leaks,
            target=self.plan.target.value,
            machine=self._orders.machine,
        )


def show_path(path: Path) -> str:
    """Return a path relative to the working directory when it lies below it."""
    try:
        return path.relative_to(Path.cwd()).as_posix()
    except ValueError:
        return str(path)


def _identify(directory: Path) -> tuple[int, int] | None:
    """Return what makes a directory itself and no other, None when there is none at that path."""
    try:
        status = directory.lstat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _read_agent(settings: Mapping[str, Json]) -> tuple[str, ...]:
    agent = settings.get("agent")
    return tuple(cast("list[str]", agent)) if agent else DEFAULT_AGENT


def read_tail(path: Path) -> bytes:
    """Return the last 64 KiB of a log, nothing when it cannot be read or is no file any more."""
    try:
        return read_strangers_tail(path, _TAIL_BYTES)
    except (OSError, BadInputError):
        return b""
