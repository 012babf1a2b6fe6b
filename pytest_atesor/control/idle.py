"""The pytest hooks of a batch that has nothing to run: what stands is shown, and decides the exit code.

pytest runs all the same, without a case: so its own reports, such as JUnit's, are written, and are empty.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_atesor.control.live import LiveReport
from pytest_atesor.control.output import Output
from pytest_atesor.core.exit_code import EXIT_OK, decide_exit_code
from pytest_atesor.work.worker import show_path

if TYPE_CHECKING:
    from collections.abc import Generator

    from pytest_atesor.bundle.writer import Bundle

__all__ = ["IdleHooks", "leave_out_workers"]


class IdleHooks:
    """Stands in for the controller. ``bundle`` is that of a batch that goes on, None for an empty shard."""

    def __init__(self, config: pytest.Config, bundle: Bundle | None) -> None:
        self._bundle = bundle
        self._output = Output(config, "" if bundle is None else show_path(bundle.layout.root))
        self._live = (
            None
            if bundle is None
            else LiveReport(config, bundle, expected={}, workers=1, is_stopping=lambda: False)
        )

    @pytest.hookimpl
    def pytest_report_header(self) -> list[str]:
        """Say whose table comes, and where its bundle is."""
        if self._bundle is None or self._live is None:
            return []
        engine = str(self._bundle.plan.settings.get("engine", "none"))
        return self._live.header(show_path(self._bundle.layout.root), engine)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self) -> None:
        """Watch the output, and keep GitHub's runner from obeying the table."""
        self._output.watch()
        if self._live is not None:
            self._live.stop_commands()

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Let the outcomes that stand decide the exit code, which for pytest is that of no tests."""
        if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
            session.exitstatus = self._decide()

    @pytest.hookimpl(tryfirst=True)
    def pytest_terminal_summary(self) -> None:
        """Print the table of what stands."""
        if self._live is not None:
            self._live.summary(())

    @pytest.hookimpl(wrapper=True, tryfirst=True, specname="pytest_sessionfinish")
    def pytest_sessionfinish_around(self, session: pytest.Session) -> Generator[None, object, object]:
        """Let GitHub listen again behind all that is printed, and settle the output."""
        try:
            return (yield)
        finally:
            self._end(session)

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self) -> None:
        """Do the same when the session did not start, which then has no finish."""
        self._end(None)

    def _end(self, session: pytest.Session | None) -> None:
        if self._live is not None:
            self._live.resume_commands()
        self._output.settle(session)

    def _decide(self) -> int:
        if self._bundle is None:
            return EXIT_OK
        ledger = self._bundle.ledger
        return decide_exit_code(ledger.plan.kind, (ledger.state(case.case_id) for case in ledger.selected))


def leave_out_workers(config: pytest.Config) -> None:
    """Let xdist, where there is one, start no processes."""
    for name, value in {"dist": "no", "tx": [], "numprocesses": 0}.items():
        if hasattr(config.option, name):
            setattr(config.option, name, value)
