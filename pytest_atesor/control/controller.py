"""The pytest hooks of a batch in the process that the user started: reports in, lines and exit code out.

With xdist this process runs no case; without it, it is also the worker. Reports of the workers carry what
the bundle needs as plain values; attempts whose worker died, and cases that never started, get their
reports here, so that JUnit, ``--lf`` and pytest's own counts see every selected case exactly once.
"""

from __future__ import annotations

import contextlib
import os
import platform
from typing import TYPE_CHECKING, Any, Final

import pytest

from pytest_atesor import __version__
from pytest_atesor.control.alarm import Alarm
from pytest_atesor.control.heartbeat import Heartbeat
from pytest_atesor.control.live import LiveReport
from pytest_atesor.control.output import Output
from pytest_atesor.control.scheduler import FenceScheduling
from pytest_atesor.control.session import BatchSession
from pytest_atesor.control.signals import signals_blocked
from pytest_atesor.control.watch import WorkerWatch
from pytest_atesor.core.attempt_json import load_attempt
from pytest_atesor.core.outcome import Cause, Status
from pytest_atesor.work.collection import (
    BEGUN_ATTRIBUTE,
    FENCE_NAME,
    LATE_ATTRIBUTE,
    PREVENTED_ATTRIBUTE,
    RECORD_ATTRIBUTE,
)
from pytest_atesor.work.evidence import CaseText, describe_failure, describe_hook, list_properties
from pytest_atesor.work.parcel import unpack_report
from pytest_atesor.work.worker import STOP_WORKER, read_tail, show_path

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from pytest_atesor.control.batch import Batch
    from pytest_atesor.core.attempt import AttemptRecord
    from pytest_atesor.core.plan import Case

__all__ = ["Controller", "XdistHooks"]

_LAST_FAILED: Final = "cache/lastfailed"


class Controller:
    """Hooks that work with and without xdist, and the session's observer."""

    def __init__(self, config: pytest.Config, batch: Batch) -> None:
        self._config = config
        self._batch = batch
        self._live = LiveReport(
            config,
            batch.bundle,
            expected=batch.history.expect(),
            workers=max(1, batch.workers),
            is_stopping=lambda: self.session.stop_order is not None,
        )
        self._output = Output(config, show_path(batch.bundle.layout.root))
        self._failed_before: dict[str, bool] = {}
        self._reported: set[str] = set()
        self._session: pytest.Session | None = None
        self.watch = WorkerWatch(batch.crew.processes)
        crew = batch.crew
        self.session = BatchSession(batch.bundle, self, batch.clock, self.watch, crew.can_work)
        self._alarm = Alarm(
            self.session, batch.sites, crew.find_site, lambda: crew.processes.send(STOP_WORKER)
        )

    def show(self) -> None:
        """Put the region on the terminal, if nobody else is about to write there."""
        self._live.show_region()

    # What happened, from the session.

    def case_started(self, case: Case, slot: str, attempt_id: str) -> None:
        """Show it."""
        self._live.case_started(case, slot, attempt_id)

    def case_ended(self, case: Case, record: AttemptRecord) -> None:
        """Show it and pass it on."""
        self._live.case_ended(case, record)
        self._batch.history.note(case, record)
        if self._batch.has_breaker:
            self._alarm.case_ended(record)
        self._config.hook.pytest_atesor_case_ended(
            config=self._config, plan=self.session.plan, case=case, record=record
        )

    def case_retried(self, case: Case, record: AttemptRecord) -> None:
        """Show that another attempt follows, and pass this one on."""
        self._live.case_retried(case, record)
        self._config.hook.pytest_atesor_case_ended(
            config=self._config, plan=self.session.plan, case=case, record=record
        )

    def case_lost(self, case: Case, record: AttemptRecord) -> None:
        """Show it, pass it on, and make the reports that its worker could not make."""
        self.case_ended(case, record)
        self._publish(case, record)
        self._count_failure(record)

    # pytest's hooks.

    @pytest.hookimpl
    def pytest_report_header(self) -> list[str]:
        """Say what runs, where, and where its bundle is."""
        sites = self._batch.sites
        engine = sites[0].engine.name if sites[0].engine is not None else "none"
        lines = self._live.header(show_path(self._batch.bundle.layout.root), engine)
        return [*lines, *(f"machine: {one.machine}: {one.description}" for one in sites if one.machine)]

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """Open the journal's chapter, and remember what ``--lf`` knew before."""
        self._session = session
        self._output.watch()
        self._live.stop_commands()
        self.session.begin(
            host=platform.node(),
            pid=os.getpid(),
            version=__version__,
            workers=max(1, self._batch.workers),
            image=self._batch.image,
            image_ids=tuple(dict.fromkeys(site.image for site in self._batch.sites if site.image)),
        )
        self._live.silence_paths()
        cache = getattr(self._config, "cache", None)
        if cache is not None:
            self._failed_before = dict(cache.get(_LAST_FAILED, {}))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self) -> Generator[None, object, object]:
        """Show in the bundle that somebody runs it, also while nothing ends."""
        with Heartbeat(self._batch.bundle.beat):
            return (yield)

    @pytest.hookimpl
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Take the selection when this process runs the cases itself."""
        if self._batch.workers == 0:
            self.session.set_selection([item.nodeid for item in session.items])

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logstart(self) -> None:
        """Make room on the terminal for the first case."""
        self._live.case_announced()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take what a worker's report says of its attempt."""
        case = self.session.case(report.nodeid)
        if case is None:
            return
        begun = getattr(report, BEGUN_ATTRIBUTE, None)
        raw = getattr(report, RECORD_ATTRIBUTE, None)
        prevented = getattr(report, PREVENTED_ATTRIBUTE, None)
        record = None if raw is None else load_attempt(raw, f"the report of {report.nodeid}")
        if begun is not None and record is not None and report.passed:
            self.session.attempt_retried(report.nodeid, record, begun)
            return
        if begun is not None:
            self.session.attempt_began(report.nodeid, begun)
        if record is not None:
            self.session.attempt_ended(report.nodeid, record)
        if prevented is not None:
            cause = prevented["cause"] and Cause(prevented["cause"])
            self.session.case_prevented(report.nodeid, prevented["reason"], cause)
            self._live.cases_skipped((case,), prevented["reason"])
        late = getattr(report, LATE_ATTRIBUTE, None)
        if late is not None:
            self.session.defects.append(f"{case.label}: a hook skipped after the case had ended: {late}")
        if report.failed:
            self._take_failure(case, report, record)
        if report.when == "call" or not report.passed:
            self._reported.add(report.nodeid)

    @pytest.hookimpl
    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """Without xdist: settle the case, and end the loop when the batch stops."""
        if self._batch.workers > 0 or self.session.case(nodeid) is None:
            return
        self.session.case_done(None, nodeid)
        stop = self.session.stop_order
        if stop is not None:
            pytest_session = self._config.pluginmanager.getplugin("session")
            if pytest_session is not None:
                pytest_session.shouldstop = stop.reason

    @pytest.hookimpl
    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, Any] | None:
        """Name the outcome of a case as the package-list contract does."""
        return self._live.status_words(report) if self.session.case(report.nodeid) else None

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Settle what is open, report what never started, close the bundle, decide the exit code."""
        if exitstatus in {pytest.ExitCode.INTERRUPTED, pytest.ExitCode.INTERNAL_ERROR}:
            self._batch.crew.processes.send(STOP_WORKER)
        stop = self.session.stop_order
        if stop is None or stop.signal is None:
            self._end_workers()
        # xdist's reason is the first one; pytest's own counts on while running cases come to their end.
        early = getattr(self._dsession, "shouldstop", False) or session.shouldfail or session.shouldstop
        rest = self.session.settle_rest(str(early) if early else "the session ended early")
        if rest:
            self._live.cases_skipped(rest, self.session.skip_reason(rest[0]))
        for case in rest:
            self._publish(case, None)
        self._live.stop_region()
        if loss := self._output.find_loss():
            self.session.defects.append(f"cannot write to standard output: {loss}")
        code = self.session.finish()
        self._batch.history.save()
        if exitstatus != pytest.ExitCode.INTERNAL_ERROR:
            session.exitstatus = code

    # pytest takes a method for a hook only when its name begins with pytest_, whatever the specname.
    @pytest.hookimpl(trylast=True, specname="pytest_sessionfinish")
    def pytest_sessionfinish_last(self) -> None:
        """Keep the ``--lf`` mark of cases that failed before and have no new outcome."""
        cache = getattr(self._config, "cache", None)
        if cache is None:
            return
        kept = {
            nodeid: True
            for nodeid in self._failed_before
            if self.session.case(nodeid) and self.session.is_open(nodeid)
        }
        if kept:
            cache.set(_LAST_FAILED, {**cache.get(_LAST_FAILED, {}), **kept})

    @pytest.hookimpl(wrapper=True, tryfirst=True, specname="pytest_sessionfinish")
    def pytest_sessionfinish_around(self, session: pytest.Session) -> Generator[None, object, object]:
        """Tell GitHub what it is told behind all that pytest and others print, and settle the output."""
        try:
            return (yield)
        finally:
            self._live.resume_commands()
            self._output.settle(session)

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self) -> None:
        """Do the same when the session did not start, which then has no finish."""
        self._live.resume_commands()
        self._output.settle(self._session)

    @pytest.hookimpl(wrapper=True, tryfirst=True, specname="pytest_terminal_summary")
    def pytest_terminal_summary_around(self) -> Generator[None, object, object]:
        """Show each failure once: in the table."""
        with self._live.failures_set_aside():
            return (yield)

    @pytest.hookimpl(tryfirst=True)
    def pytest_terminal_summary(self) -> None:
        """Print the table, the counts and the pass rate."""
        self._live.summary(self.session.defects, self._batch.history.warnings)

    @pytest.hookimpl(optionalhook=True, trylast=True)
    def pytest_xdist_node_collection_finished(self) -> None:
        """Count the workers that are ready, for the terminal."""
        self._live.worker_ready()

    @pytest.hookimpl(optionalhook=True, tryfirst=True)
    def pytest_testnodedown(self, error: object) -> None:
        """Make room on the terminal for what xdist says of a dead worker."""
        if error:
            self._live.worker_died()

    @pytest.hookimpl(tryfirst=True)
    def pytest_internalerror(self) -> None:
        """Make room on the terminal for the traceback."""
        self._live.stop_region()

    def _take_failure(self, case: Case, report: pytest.TestReport, record: AttemptRecord | None) -> None:
        """Put our words into the report of a case that failed; that a hook failed after one is a defect."""
        if isinstance(report.longrepr, CaseText):
            return  # published here, in the place of a worker
        has_failed = record is not None and record.status not in {Status.PASS, Status.SKIPPED}
        if record is not None and has_failed and report.when == "call":
            text: Any = CaseText(record, str(report.longrepr))
            report.longrepr = text
        elif report.when != "setup" and not has_failed:
            why = describe_hook(report, self._config.rootpath)
            self.session.defects.append(f"{case.label}: a hook failed after the case had ended: {why}")

    # Reports that no worker makes.

    def _publish(self, case: Case, record: AttemptRecord | None) -> None:
        """Send the reports of a case through pytest; ``record`` is None for a case that never started."""
        nodeid = self.session.nodeid(case)
        if nodeid in self._reported:
            return
        path = self._batch.bundle.layout.root / record.log if record is not None else None
        log = show_path(path) if path is not None else ""
        outcome: Any = "skipped"
        longrepr: Any = None
        if record is None or record.status is Status.SKIPPED:
            reason = record.reason if record is not None else self.session.skip_reason(case)
            longrepr = (self.session.plan.source, 0, f"Skipped: {reason}")
        elif record.status is Status.PASS:
            outcome = "passed"
        else:
            tail = read_tail(path) if path is not None else b""
            outcome, longrepr = "failed", CaseText(record, describe_failure(record, log, tail))
        phases: tuple[tuple[Any, Any, Any], ...] = (
            ("call", outcome, longrepr),
            ("teardown", "passed", None),
        )
        self._live.remember(nodeid, record)
        for when, result, text in phases:
            report = pytest.TestReport(
                nodeid=nodeid,
                location=(self.session.plan.source, 0, case.label),
                keywords={},
                outcome=result,
                longrepr=text,
                when=when,
                duration=record.duration_s if record is not None and when == "call" else 0.0,
                user_properties=list_properties(case, record, log),
            )
            node = self.session.node(nodeid)
            if node is not None:
                # As xdist marks its own: JUnit tells the reports of one item by it.
                report.node = node  # type: ignore[attr-defined]  # pytest reports take any attribute
            self._config.hook.pytest_runtest_logreport(report=report)

    @property
    def _dsession(self) -> Any:  # noqa: ANN401 - xdist's session has no public type
        return self._config.pluginmanager.getplugin("dsession")

    def _end_workers(self) -> None:
        """Let xdist end its workers now and not later, so that a bad end still counts."""
        manager = getattr(self._dsession, "nodemanager", None)
        if manager is not None:
            manager.teardown_nodes()
            self.session.defects.extend(self._batch.crew.bad_ends())

    def _count_failure(self, record: AttemptRecord) -> None:
        """Let a lost attempt count for ``-x`` and ``--maxfail`` as any failure does."""
        dsession = self._dsession
        if dsession is None or record.status in {Status.PASS, Status.SKIPPED}:
            return
        dsession.countfailures += 1
        if dsession.maxfail and dsession.countfailures >= dsession.maxfail and not dsession.shouldstop:
            dsession.shouldstop = f"stopping after {dsession.countfailures} failures"


class XdistHooks:
    """Hooks of pytest-xdist's controller; registered only when cases go to worker processes.

    ``show`` is called when xdist is through with an event and with what it prints of it.
    """

    def __init__(
        self, batch: Batch, session: BatchSession, watch: WorkerWatch, show: Callable[[], None]
    ) -> None:
        self._batch = batch
        self._session = session
        self._watch = watch
        self._show = show
        self._held = contextlib.ExitStack()
        self._useless = 0

    @pytest.hookimpl(wrapper=True)
    def pytest_sessionstart(self) -> Generator[None, object, object]:
        """Start the workers with stop signals blocked, so that none dies of one before we know it."""
        try:
            with signals_blocked():
                return (yield)
        except EOFError as error:
            reason = self._give_up(error)
            # pytest ends a session that did not start without its hooks: close the books here.
            self._session.settle_rest(reason)
            self._session.finish()
            raise pytest.exit.Exception(f"atesor: error: {reason}", returncode=1) from error

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Generator[None, object, object]:
        """Turn the death of a replacement at its very start into an end of the batch; xdist would crash.

        Workers that stand still are killed meanwhile.
        """
        dsession: Any = session.config.pluginmanager.getplugin("dsession")
        try:
            with self._watch.watching(lambda: bool(dsession.shuttingdown)):
                return (yield)
        except EOFError as error:
            raise pytest.exit.Exception(f"atesor: error: {self._give_up(error)}", returncode=1) from error

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_setupnodes(self, config: pytest.Config) -> None:
        """Let a process that dies while it starts be started again, now and for every replacement."""
        self._batch.crew.start_patiently(config.pluginmanager.getplugin("dsession").nodemanager.group)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_make_scheduler(self) -> FenceScheduling:
        """Dispatch to idle workers only."""
        return FenceScheduling(self._session, after_event=self._after_event)

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:  # noqa: ANN401 - xdist's WorkerController has no public type
        """Take over a new worker process: learn its id, give it a slot and its orders."""
        self._watch.expect_collection(self._batch.crew.enlist(node))

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:  # noqa: ANN401 - the same
        """Take the slot of a worker that ended back; give up when workers die before they do anything."""
        worker = str(node.gateway.id)
        stop = self._session.stop_order
        if not error and stop is not None and stop.signal is not None:
            # It said all that it had to say, and pytest's own end of a process takes seconds on a busy host.
            self._batch.crew.processes.kill(worker)
        self._batch.crew.discharge(worker, has_died=bool(error))
        if not error:
            return
        killed = self._watch.explain(worker)
        why = f"it {killed}, so it was killed" if killed else str(error)
        self._session.defects.append(f"worker {worker} died ({why})")
        self._useless = 0 if self._session.has_case(worker) else self._useless + 1
        if self._useless > 2 * self._batch.workers:
            reason = f"{self._useless} workers died in a row without running a case"
            self._session.stop(reason, Cause.ENVIRONMENT)
            pytest.exit(f"atesor: {reason}", returncode=1)
        self._held.enter_context(signals_blocked())

    @pytest.hookimpl(optionalhook=True, tryfirst=True)
    def pytest_xdist_node_collection_finished(self, node: Any, ids: Sequence[str]) -> None:  # noqa: ANN401 - the same
        """Take the fence out of the collection before anybody counts it: xdist passes this very list on."""
        if not isinstance(ids, list) or not ids or not ids[-1].endswith(FENCE_NAME):
            raise RuntimeError("a worker's collection does not end with the fence: incompatible pytest-xdist")
        del ids[-1]
        self._watch.expect_nothing(str(node.gateway.id))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_report_from_serializable(self, data: dict[str, Any]) -> Generator[None, object, object]:
        """Unpack what a worker sent, before anybody else reads it."""
        unpack_report(data)
        return (yield)

    def _after_event(self) -> None:
        self._held.close()
        self._show()

    def _give_up(self, error: EOFError) -> str:
        """Stop because a worker process died before it could say a word, and return the reason."""
        reason = f"a worker process died while it started ({error}); run the batch again"
        self._session.stop(reason, Cause.ENVIRONMENT)
        self._session.defects.append(reason)
        return reason
