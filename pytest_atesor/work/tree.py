"""The pytest hooks that make a plan's cases the items of a run, and run them.

``TreeHooks`` stands in every process of a batch, ``ListingHooks`` where cases are only listed,
``WorkerHooks`` where they run: in xdist's workers, or in the one process of a run without xdist.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

import pytest

from pytest_atesor.core.schedule import order_cases
from pytest_atesor.work.collection import FENCE_NAME, BatchDirectory, CaseItem, FenceItem, list_marks
from pytest_atesor.work.parcel import pack_report

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping
    from pathlib import Path

    from pytest_atesor.core.plan import Plan
    from pytest_atesor.work.worker import Worker

__all__ = ["ListingHooks", "TreeHooks", "WorkerHooks", "register_marks"]

_TIMEOUT_MARGIN_S: Final = 600
"""How much later than a case's own deadline pytest-timeout may fire: sandboxes and kill ladders need time."""


def register_marks(config: pytest.Config, plan: Plan) -> None:
    """Make the plan's marks known to ``--strict-markers``; the second time does nothing."""
    known: list[str] = config.getini("markers")
    for mark in list_marks(plan):
        line = f"{mark}: language, group or tag of {plan.source}"
        if line not in known:
            config.addinivalue_line("markers", line)


class TreeHooks:
    """Collects the plan instead of the file system."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    @pytest.hookimpl
    def pytest_configure(self, config: pytest.Config) -> None:
        """Register the plan's marks."""
        register_marks(config, self._plan)

    @pytest.hookimpl(tryfirst=True)
    def pytest_collect_directory(self, path: Path, parent: pytest.Collector) -> pytest.Collector:
        """Lead from the top to the plan's cases."""
        return BatchDirectory.from_plan(parent, path, self._plan)

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Order the cases, longest expected first; ``--ff`` and its like come after and win."""
        expected = cast("Mapping[str, float]", self._plan.settings.get("expected_s") or {})
        ranks = {case.case_id: rank for rank, case in enumerate(order_cases(self._plan.cases, expected))}
        last = len(ranks)
        items.sort(key=lambda item: ranks[item.case.case_id] if isinstance(item, CaseItem) else last)

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Give pytest-timeout each case's limit: after the selection, for ``-k`` and ``-m`` see marks."""
        if session.config.pluginmanager.hasplugin("timeout"):
            retries = self._plan.settings.get("retry_environment")
            attempts = 1 + (retries if isinstance(retries, int) else 1)
            for item in session.items:
                if isinstance(item, CaseItem):
                    limit_s = attempts * (item.case.timeout_s + _TIMEOUT_MARGIN_S)
                    item.add_marker(pytest.mark.timeout(limit_s), append=False)


class ListingHooks:
    """Decides the exit code of ``--collect-only``."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Call an empty selection a bad flag, as a run does."""
        if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
            session.exitstatus = 2


class WorkerHooks:
    """Runs cases in this process. ``is_remote`` says that an xdist controller sends them."""

    def __init__(self, worker: Worker, *, is_remote: bool) -> None:
        self._worker = worker
        self._is_remote = is_remote

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Put the fence behind everything that was collected and sorted; the scheduler counts on it."""
        if self._is_remote:
            session.items.append(FenceItem.from_parent(session, name=FENCE_NAME))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> bool | None:
        """Rest at the fence, and skip everything once the batch stops, without a report."""
        if isinstance(item, FenceItem):
            self._worker.rest()
            return True
        return True if self._worker.stop.level else None

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Put onto the report what the controller must know."""
        report = yield
        if isinstance(item, CaseItem):
            item.annotate(report)
        return report

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_report_to_serializable(self) -> Generator[None, dict[str, Any], dict[str, Any]]:
        """Pack what goes to the controller, when everybody else is through with it."""
        data = yield
        return pack_report(data) if self._is_remote else data
