"""The pytest hooks of a batch in the process that the user started: reports in, lines and exit code out.

With xdist this process runs no case; without it, it is also the worker. Reports of the workers carry what the
bundle needs as plain values; attempts whose worker died, and cases that never started, get their reports here, so
that JUnit, ``--lf`` and pytest's own counts see every selected case exactly once.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Final

import pytest

from pytest_atesor.collection import FENCE_NAME
from pytest_atesor.core.attempt_json import load_attempt
from pytest_atesor.core.outcome import Status
from pytest_atesor.evidence import CaseText, describe_failure, list_properties
from pytest_atesor.scheduler import FenceScheduling
from pytest_atesor.signals import STOP_WORKER

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from pytest_atesor.core.attempt import AttemptRecord
    from pytest_atesor.core.plan import Case
    from pytest_atesor.live import LiveReport
    from pytest_atesor.prepare import Batch
    from pytest_atesor.session import BatchSession

__all__ = ["BEGUN_ATTRIBUTE", "RECORD_ATTRIBUTE", "Controller"]

BEGUN_ATTRIBUTE: Final = "atesor_begun"
RECORD_ATTRIBUTE: Final = "atesor_record"
_LAST_FAILED: Final = "cache/lastfailed"


class Controller:
    """Hooks that work with and without xdist, and the session's observer."""

    def __init__(self, config: pytest.Config, batch: Batch, live: LiveReport) -> None:
        self._config = config
        self._batch = batch
        self._live = live
        self._failed_before: dict[str, bool] = {}

    @property
    def _session(self) -> BatchSession:
        return self._batch.session

    # What happened, from the session.

    def case_started(self, case: Case, slot: str) -> None:
        """Show it."""
        self._live.case_started(case, slot)

    def case_ended(self, case: Case, record: AttemptRecord) -> None:
        """Show it."""
        self._live.case_ended(case, record)

    def case_lost(self, case: Case, record: AttemptRecord) -> None:
        """Show it, and make the reports that its worker could not make."""
        self._live.case_ended(case, record)
        self._publish(case, record)
        self._count_failure(record)

    # pytest's hooks.

    @pytest.hookimpl
    def pytest_report_header(self) -> list[str]:
        """Say what runs, where, and where its bundle is."""
        return self._live.header()

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self) -> None:
        """Remember what ``--lf`` knew before."""
        cache = getattr(self._config, "cache", None)
        if cache is not None:
            self._failed_before = dict(cache.get(_LAST_FAILED, {}))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take what a worker's report says of its attempt."""
        case = self._session.case(report.nodeid)
        if case is None:
            return
        begun = getattr(report, BEGUN_ATTRIBUTE, None)
        if begun is not None:
            self._session.attempt_began(report.nodeid, begun)
        raw = getattr(report, RECORD_ATTRIBUTE, None)
        if raw is not None:
            record = load_attempt(raw, f"the report of {report.nodeid}")
            self._session.attempt_ended(report.nodeid, record)
            if report.failed:
                report.longrepr = CaseText(record, str(report.longrepr))  # type: ignore[assignment]  # as pytest's own reprs: str() and toterminal()

    @pytest.hookimpl
    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, Any] | None:
        """Name the outcome of a case as the package-list contract does."""
        return self._live.status_words(report) if self._session.case(report.nodeid) else None

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self) -> Generator[None, object, object]:
        """Without xdist: learn the selection before the first case."""
        return (yield)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Settle what is open, report what never started, close the bundle, decide the exit code."""
        self._batch.processes.send(STOP_WORKER)
        reason = session.shouldfail or getattr(self._dsession, "shouldstop", False) or session.shouldstop
        rest = self._session.settle_rest(str(reason) if reason else "the session ended")
        for case in rest:
            self._publish(case, None)
        code = self._session.finish()
        if exitstatus != pytest.ExitCode.INTERNAL_ERROR:
            session.exitstatus = code

    @pytest.hookimpl(trylast=True, specname="pytest_sessionfinish")
    def keep_last_failed(self) -> None:
        """Keep the ``--lf`` mark of cases that failed before and have no new outcome."""
        cache = getattr(self._config, "cache", None)
        if cache is None:
            return
        kept = {
            nodeid: True
            for nodeid in self._failed_before
            if self._session.case(nodeid) and self._session.is_unfinished(nodeid)
        }
        if kept:
            cache.set(_LAST_FAILED, {**cache.get(_LAST_FAILED, {}), **kept})

    @pytest.hookimpl(tryfirst=True)
    def pytest_terminal_summary(self) -> None:
        """Print the table, the counts and the pass rate."""
        self._live.summary()

    @pytest.hookimpl
    def pytest_unconfigure(self) -> None:
        """Give everything back."""
        self._batch.close()

    # Reports that no worker makes.

    def _publish(self, case: Case, record: AttemptRecord | None) -> None:
        """Send the reports of a case through pytest: ``record`` of None for a case that never started."""
        nodeid = self._session.nodeid(case)
        location = (self._session.plan.source, None, case.label)
        properties = list_properties(case, record)
        outcome: Any
        longrepr: Any
        if record is None or record.status is Status.SKIPPED:
            reason = record.reason if record is not None else self._session.skip_reason(case)
            outcome, longrepr = "skipped", (self._session.plan.source, 0, f"Skipped: {reason}")
        elif record.status is Status.PASS:
            outcome, longrepr = "passed", None
        else:
            outcome, longrepr = "failed", CaseText(record, describe_failure(record, ""))
        for when, result, text in (("call", outcome, longrepr), ("teardown", "passed", None)):
            report = pytest.TestReport(
                nodeid=nodeid,
                location=location,
                keywords={},
                outcome=result,
                longrepr=text,
                when=when,  # type: ignore[arg-type]  # one of pytest's phases; the loop hides it
                duration=record.duration_s if record is not None and when == "call" else 0.0,
                user_properties=properties,
            )
            self._config.hook.pytest_runtest_logreport(report=report)

    @property
    def _dsession(self) -> Any:
        return self._config.pluginmanager.getplugin("dsession")

    def _count_failure(self, record: AttemptRecord) -> None:
        """Let a lost attempt count for ``-x`` and ``--maxfail`` as any failure does."""
        dsession = self._dsession
        if dsession is None or record.status in {Status.PASS, Status.SKIPPED}:
            return
        dsession.countfailures += 1
        if dsession.maxfail and dsession.countfailures >= dsession.maxfail and not dsession.shouldstop:
            dsession.shouldstop = f"stopping after {dsession.countfailures} failures"


class XdistHooks:
    """Hooks of pytest-xdist's controller; registered only when cases go to worker processes."""

    def __init__(self, config: pytest.Config, batch: Batch) -> None:
        self._config = config
        self._batch = batch
        self._spawning = contextlib.ExitStack()

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_make_scheduler(self) -> FenceScheduling:
        """Dispatch to idle workers only."""
        return FenceScheduling(self._batch.session)

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Take over a new worker process: learn its id, lease it a slot, tell it what to do."""
        self._batch.enlist(node)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        """Take the slot of a worker that ended back."""
        self._batch.discharge(str(node.gateway.id), error)

    @pytest.hookimpl(optionalhook=True, tryfirst=True)
    def pytest_xdist_node_collection_finished(self, ids: Sequence[str]) -> None:
        """Take the fence out of the collection before anybody counts it: xdist passes this very list on."""
        if not isinstance(ids, list) or not ids or not ids[-1].endswith(FENCE_NAME):
            raise RuntimeError("a worker's collection does not end with the fence: incompatible pytest-xdist")
        del ids[-1]
