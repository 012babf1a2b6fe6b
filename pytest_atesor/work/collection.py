"""A frozen plan as a pytest collection tree: rootdir, package list, one item for each case.

Node ids read "packages/smoke.json::zlib" wherever the list itself lies, so that ``--lf``, ``-k`` and
reports are stable. Nothing is read from disk here: the tree is built from the plan. Items are no test
functions and use no fixtures; an autouse fixture of a conftest.py does not apply to them.

What an item does when it runs is told by the session's ``CaseRunner``; without one the tree can only be
listed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from pytest_atesor.core.attempt_json import dump_attempt
from pytest_atesor.core.outcome import Cause, Status
from pytest_atesor.work.evidence import describe_hook, list_earlier, list_properties

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pytest_atesor.core.attempt import AttemptRecord
    from pytest_atesor.core.plan import Case, Plan
    from pytest_atesor.work.worker import Worker

__all__ = [
    "BEGUN_ATTRIBUTE",
    "FENCE_NAME",
    "LATE_ATTRIBUTE",
    "PREVENTED_ATTRIBUTE",
    "RECORD_ATTRIBUTE",
    "WORKER_KEY",
    "BatchDirectory",
    "BatchFile",
    "CaseFailed",
    "CaseItem",
    "FenceItem",
    "list_marks",
]

FENCE_NAME: Final = "<fence>"
"""The name of the no-op item behind each worker's collection; no package can be called so."""


WORKER_KEY: Final[pytest.StashKey[Worker]] = pytest.StashKey()
"""The worker that runs this process's cases; absent where cases are only listed."""

BEGUN_ATTRIBUTE: Final = "atesor_begun"
RECORD_ATTRIBUTE: Final = "atesor_record"
PREVENTED_ATTRIBUTE: Final = "atesor_prevented"
LATE_ATTRIBUTE: Final = "atesor_late"
"""The attributes of a report that carry a begun attempt, an attempt's record, why a case has no attempt
(``reason`` and ``cause``), and with what words a hook skipped a case that had ended, to the controller.
"""


class CaseFailed(Exception):  # noqa: N818 - an outcome, not an error of this program
    """A case ended as FAIL, TIMEOUT or UNVERIFIED; its text is what reports show."""


class BatchDirectory(pytest.Directory):
    """A directory on the way to the batch: one above the rootdir, the rootdir, or that of the list.

    It has no name, for ``-k`` takes that of a collector for one of each case in it.
    """

    plan: Plan

    @classmethod
    def from_plan(cls, parent: pytest.Collector, path: Path, plan: Plan) -> BatchDirectory:
        """Build the node."""
        node: BatchDirectory = cls.from_parent(parent, path=path, name="")
        node.plan = plan
        return node

    def collect(self) -> Iterator[pytest.Collector]:
        """Yield the package list, or the next directory on the way to the rootdir."""
        file = self.config.rootpath / self.plan.source
        if self.path == file.parent:
            yield BatchFile.from_plan(self, file, self.plan)
        else:
            # Each directory on the way, so that pytest takes the hooks of each conftest.py.
            below = file.parent.relative_to(self.path).parts[0]
            yield BatchDirectory.from_plan(self, self.path / below, self.plan)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.path.name}>"


class BatchFile(pytest.File):
    """The package list (or manifest) of a plan. Its path need not exist below the rootdir.

    It has no name, as its directories have none.
    """

    plan: Plan

    @classmethod
    def from_plan(cls, parent: pytest.Collector, path: Path, plan: Plan) -> BatchFile:
        """Build the node."""
        node: BatchFile = cls.from_parent(parent, path=path, name="")
        node.plan = plan
        return node

    def collect(self) -> Iterator[pytest.Item]:
        """Yield an item for each case, in plan order."""
        for case in self.plan.cases:
            yield CaseItem.from_case(self, case)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.path.name}>"


class CaseItem(pytest.Item):
    """One case. It passes, skips, or raises :class:`CaseFailed`; ``record`` is set once it ran."""

    case: Case
    record: AttemptRecord | None
    begun: dict[str, str] | None
    refusal: str
    is_idle: bool
    given: list[tuple[str, object]] | None

    @classmethod
    def from_case(cls, parent: pytest.Collector, case: Case) -> CaseItem:
        """Build the item with its marks."""
        item: CaseItem = cls.from_parent(parent, name=case.label)
        item.case = case
        item.record = None
        item.begun = None
        item.refusal = ""
        item.is_idle = True
        item.given = None
        for mark in case.marks:
            item.add_marker(mark)
        return item

    def setup(self) -> None:
        """Begin the attempt, so that the setup report can tell the controller."""
        self._restart()
        self.begun = self.config.stash[WORKER_KEY].begin(self.case)
        if "error" in self.begun:
            pytest.skip(self.begun["error"])

    def runtest(self) -> None:
        """Run the attempt."""
        worker = self.config.stash[WORKER_KEY]
        end = worker.run(self.case)
        attempts = 1
        while worker.may_retry(self.case, end, attempts):
            begun = worker.begin(self.case)
            if "error" in begun:
                self.refusal = begun["error"]
                break
            self.user_properties.append(list_earlier(end.record, worker.show_log(end.record)))
            self._announce(end.record, begun)
            attempts += 1
            end = worker.run(self.case)
        self.record, defect = end.record, end.defect
        self.refusal = self.refusal or end.refusal
        self.user_properties += list_properties(self.case, self.record, worker.show_log(self.record))
        if defect is not None:
            raise defect
        if self.record.status is Status.SKIPPED:
            pytest.skip(self.record.reason)
        if self.record.status is not Status.PASS:
            raise CaseFailed(worker.explain(self.record))

    def annotate(self, report: pytest.TestReport) -> None:
        """Put onto a report of this item what the controller must know."""
        if self._is_late_skip(report):
            self._undo_skip(report)
        if report.when == "teardown":
            if self.refusal:
                # After the record: nothing else can begin on this disk.
                setattr(report, BEGUN_ATTRIBUTE, {"error": self.refusal})
            self.is_idle = True
            return
        if self.is_idle:
            self._restart()  # a hook kept setup() from being called
        if report.when == "setup" and self.begun is not None:
            setattr(report, BEGUN_ATTRIBUTE, self.begun)
        own_reason = self._own_reason()
        if own_reason:
            if report.skipped:
                report.longrepr = (str(self.path), 0, f"Skipped: {own_reason}")
        elif self.record is None and not report.passed:
            self._close(report)
        if self.record is not None:
            setattr(report, RECORD_ATTRIBUTE, dump_attempt(self.record))

    def _restart(self) -> None:
        """Be as before the first run: another plugin may run an item again."""
        self.is_idle = False
        self.record, self.begun, self.refusal = None, None, ""
        if self.given is None:
            self.given = list(self.user_properties)
        self.user_properties[:] = self.given

    def _own_reason(self) -> str:
        """Return why the case was skipped by this program, empty when it was not."""
        if self.record is not None:
            return self.record.reason if self.record.status is Status.SKIPPED else ""
        return self.begun.get("error", "") if self.begun is not None else ""

    def _is_late_skip(self, report: pytest.TestReport) -> bool:
        """Say whether somebody else's hook skipped when the case was over; an xfail mark does rightly so."""
        if not report.skipped or report.when == "setup":
            return False
        if report.when == "teardown":
            return True
        if self.record is None or self._own_reason():
            return False
        is_marked = hasattr(report, "wasxfail") and self.get_closest_marker("xfail") is not None
        return self.record.status is Status.PASS or not is_marked

    def _undo_skip(self, report: pytest.TestReport) -> None:
        """Let a report say what became of the case, and carry the hook's words apart."""
        setattr(report, LATE_ATTRIBUTE, describe_hook(report, self.config.rootpath))
        if hasattr(report, "wasxfail"):
            del report.wasxfail
        text: Any = None
        report.outcome = "passed"
        if report.when == "call" and self.record is not None and self.record.status is not Status.PASS:
            report.outcome = "failed"
            text = self.config.stash[WORKER_KEY].explain(self.record)
        report.longrepr = text

    def _close(self, report: pytest.TestReport) -> None:
        """Say what becomes of a case before which somebody else's hook skipped or raised."""
        reason = describe_hook(report, self.config.rootpath)
        cause = None if report.skipped else Cause.ENVIRONMENT
        if self.begun is None:
            why = reason if cause is None else f"not started: {reason}"
            setattr(report, PREVENTED_ATTRIBUTE, {"reason": why, "cause": cause and cause.value})
            self.user_properties += list_properties(self.case, None, "")
            return
        worker = self.config.stash[WORKER_KEY]
        status = Status.SKIPPED if cause is None else Status.FAIL
        self.record, _, self.refusal = worker.give_up(self.case, status, cause, reason)
        self.user_properties += list_properties(self.case, self.record, worker.show_log(self.record))

    def _announce(self, record: AttemptRecord, begun: dict[str, str]) -> None:
        """Tell the controller, while the item runs, that an attempt ended and the next one began."""
        report = pytest.TestReport(
            nodeid=self.nodeid,
            location=self.location,
            keywords={},
            outcome="passed",
            longrepr=None,
            when="setup",
        )
        setattr(report, RECORD_ATTRIBUTE, dump_attempt(record))
        setattr(report, BEGUN_ATTRIBUTE, begun)
        self.ihook.pytest_runtest_logreport(report=report)

    def repr_failure(  # noqa: D102 - pytest's promise
        self,
        excinfo: pytest.ExceptionInfo[BaseException],
        style: Any = None,  # noqa: ANN401 - pytest's signature
    ) -> Any:  # noqa: ANN401 - pytest's signature
        if isinstance(excinfo.value, CaseFailed):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        """Return what headings call the item, its label. Line 0: pytest wants one for a skip by a mark."""
        return self.path, 0, self.name


class FenceItem(pytest.Item):
    """The no-op behind a worker's collection; it is never run by pytest's own protocol."""

    def runtest(self) -> None:
        """Fail: nobody may get here."""
        raise AssertionError("the fence ran: another plugin replaced pytest_runtest_protocol")


def list_marks(plan: Plan) -> tuple[str, ...]:
    """Return the marks that the plan's cases use, sorted."""
    return tuple(sorted({mark for case in plan.cases for mark in case.marks}))
