"""What a batch shows on the terminal: lines as cases start and end, and the final table.

At pytest's normal verbosity our lines stand in for its progress letters. With ``-v`` pytest prints its own
line for each start and end, with our words in it; with ``-q`` it prints our letters. So nothing is shown
twice.
"""

from __future__ import annotations

import contextlib
import os
import shlex
from typing import TYPE_CHECKING, Any, Final

from pytest_atesor.control.github import CommandGate, is_github, tell_github
from pytest_atesor.control.region import Region, has_region
from pytest_atesor.core.ledger import NotStarted, Running
from pytest_atesor.core.outcome import Status
from pytest_atesor.core.plan import BatchKind
from pytest_atesor.core.recovery import decide_rerun, decide_resume
from pytest_atesor.core.text import count_of
from pytest_atesor.reports.events import format_ended, format_retried, format_skipped, format_started
from pytest_atesor.work.collection import RECORD_ATTRIBUTE
from pytest_atesor.work.worker import show_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import pytest

    from pytest_atesor.bundle.writer import Bundle
    from pytest_atesor.core.attempt import AttemptRecord
    from pytest_atesor.core.plan import Case

__all__ = ["LiveReport"]

_REPORT_CHARACTERS: Final = "fE"  # pytest's own when nobody gave -r
_LETTERS: Final = {
    Status.PASS: ("passed", "."),
    Status.UNVERIFIED: ("failed", "U"),
    Status.FAIL: ("failed", "F"),
    Status.TIMEOUT: ("failed", "T"),
    Status.SKIPPED: ("skipped", "s"),
}


class LiveReport:
    """Writes to pytest's terminal reporter, if there is one; what cannot be written is for ``Output``."""

    def __init__(
        self,
        config: pytest.Config,
        bundle: Bundle,
        *,
        expected: Mapping[str, float],
        workers: int,
        is_stopping: Callable[[], bool],
    ) -> None:
        self._config = config
        self._layout = bundle.layout
        self._ledger = bundle.ledger
        self._is_summary = False
        self._region = Region(expected, workers, is_stopping)
        self._workers = workers
        self._is_announced = False
        self._over: set[str] = set()
        self._awaited = workers
        self._total = 0
        self._known: dict[str, Status] = {}
        self._set_aside: list[Any] = []
        self._gate = CommandGate()
        self._commands: tuple[str, ...] = ()

    @property
    def _verbosity(self) -> int:
        return int(self._config.getoption("verbose", 0))

    @property
    def _shows_lines(self) -> bool:
        return self._verbosity == 0

    def stop_commands(self) -> None:
        """Let GitHub's runner take nothing for a command that is printed from now on."""
        if is_github(os.environ) and self._terminal is not None:
            self._write_alone(self._gate.close())

    def resume_commands(self) -> None:
        """Give the runner its commands, behind everything else; the second time does nothing."""
        commands, self._commands = self._commands, ()
        if self._terminal is not None:
            self._write_alone(self._gate.open(commands))

    def silence_paths(self) -> None:
        """Keep pytest from printing the package list's path before our lines, as xdist does."""
        terminal = self._terminal
        if terminal is not None and self._shows_lines:
            terminal.showfspath = False
            if has_region(self._config, os.environ):
                self._region.open()

    def case_announced(self) -> None:
        """End what xdist says of starting workers before pytest or we write of a case.

        It would rewrite that line again and again, over ours: here cases start before all workers have.
        """
        distributor = self._config.pluginmanager.getplugin("terminaldistreporter")
        if self._is_announced or distributor is None or self._terminal is None:
            return
        self._is_announced = True
        if self._terminal.isatty:
            count = count_of("worker", self._workers)
            distributor.rewrite("" if self._verbosity < 0 else count, newline=True)
        distributor.rewrite = _say_nothing

    def worker_ready(self) -> None:
        """Learn that a worker collected; until all have, xdist may write a line of its own."""
        self._awaited -= 1

    def worker_died(self) -> None:
        """Leave the terminal to what xdist says, until another worker took the dead one's place."""
        self._region.pause()
        self._awaited = max(0, self._awaited) + 1

    def show_region(self) -> None:
        """Put the region on the terminal while cases run, if nobody else is about to write there."""
        if not self._region.is_due or not self._region.is_busy:
            return
        has_workers = self._config.pluginmanager.hasplugin("dsession")
        if not (has_workers and self._awaited > 0):
            self._end_line()
            self._region.show()

    def stop_region(self) -> None:
        """Give the terminal back to pytest."""
        self._region.stop()

    def case_started(self, case: Case, slot: str, attempt_id: str) -> None:
        """Show that an attempt began."""
        if self._shows_lines:
            log = self._layout.attempt(case.case_id, attempt_id).log
            self._region.start(slot, case.case_id, case.label, log, self._open_ids)
            self.show_region()
            self._write(format_started(slot, case.label, attempt_id=attempt_id))

    def case_ended(self, case: Case, record: AttemptRecord) -> None:
        """Show how an attempt ended."""
        self._over.add(case.case_id)
        self._region.end(case.case_id, record)
        if self._shows_lines:
            self._total = self._total or len(self._open_ids() | self._over)
            self.show_region()
            line = format_ended(record, case.label, done=len(self._over), total=self._total)
            self._write(line, record.status)

    def case_retried(self, case: Case, record: AttemptRecord) -> None:
        """Show how an attempt ended that does not end its case."""
        if self._shows_lines:
            self._write(format_retried(record, case.label))

    def cases_skipped(self, cases: tuple[Case, ...], reason: str) -> None:
        """Show in one line which cases will not start."""
        self._over.update(case.case_id for case in cases)
        if cases and self._shows_lines:
            self._write(format_skipped(tuple(case.label for case in cases), reason))

    def status_words(self, report: pytest.TestReport) -> tuple[str, str, Any] | None:
        """Return category, letter and word of a report; no letter and word where we print lines."""
        if report.outcome not in {"passed", "failed", "skipped"}:
            # Another plugin's, such as pytest-rerunfailures' "rerun".
            return (report.outcome, "", "") if self._shows_lines and not self._is_summary else None
        if report.when != "call":
            return ("", "", "") if report.passed else self._hook_words(report)
        raw = getattr(report, RECORD_ATTRIBUTE, None)
        status = self._known.get(report.nodeid) if raw is None else Status(raw["status"])
        if status is None:
            return None
        category, letter = _LETTERS[status]
        if report.failed and category != "failed":
            return self._hook_words(report)
        if self._shows_lines and not self._is_summary:
            return category, "", ""
        word = status.value
        if not self._is_summary and raw is not None:
            word += f" ({raw['cause'] or format(raw['duration_s'], '.1f') + ' s'})"
        return category, letter, (word, {"yellow": True}) if status is Status.UNVERIFIED else word

    def _hook_words(self, report: pytest.TestReport) -> tuple[str, str, str] | None:
        """Return what a report counts as that a hook made; pytest has words of its own for it."""
        if not self._shows_lines or self._is_summary:
            return None
        if report.failed:
            return "failed" if report.when == "call" else "error", "", ""
        return "xfailed" if hasattr(report, "wasxfail") else "skipped", "", ""

    def header(self, bundle: str, engine: str) -> list[str]:
        """Return the lines of pytest's header: where the bundle is, and the engine that was found."""
        plan = self._ledger.plan
        agent = plan.settings.get("agent")
        where = f"{plan.platform.value}/{plan.target.value}, engine {engine}"
        where += ", all tools emulated" if plan.settings.get("no_acceleration") is True else ""
        where += ", network while building" if plan.settings.get("build_network") is True else ""
        program = f", agent {shlex.join(map(str, agent))}" if isinstance(agent, list) else ""
        return [
            f"atesor: {count_of('case', len(plan.cases))} of {plan.source}, {where}{program}",
            f"bundle: {bundle}",
        ]

    def remember(self, nodeid: str, record: AttemptRecord | None) -> None:
        """Know the status of a report that carries no record."""
        self._known[nodeid] = record.status if record is not None else Status.SKIPPED

    def summary(self, defects: Sequence[str], warnings: Sequence[str] = ()) -> None:
        """Print the table of the selected cases, counts and pass rate, how to go on, and other defects.

        With ``-qq`` the defects alone: without them nobody could tell why the exit code is what it is.
        """
        self._is_summary = True
        terminal = self._terminal
        if terminal is None:
            return
        if self._verbosity >= -1:
            self._show_table(terminal)
        for warning in warnings:
            terminal.write_line(f"atesor: {warning}")
        for defect in defects:
            terminal.write_line(f"atesor: error: {defect}")
        self._commands = tell_github(self._ledger, os.environ)
        if (
            self._set_aside
            and self._config.getoption("reportchars", _REPORT_CHARACTERS) != _REPORT_CHARACTERS
        ):
            terminal.stats["failed"] = self._set_aside

    def _show_table(self, terminal: Any) -> None:  # noqa: ANN401 - pytest's reporter has no public type
        from pytest_atesor.reports.table import format_report  # noqa: PLC0415 - rich, for the end only

        is_list = self._ledger.plan.kind is BatchKind.PACKAGE_LIST
        terminal.write_sep("=", "packages" if is_list else "cases")
        writer = self._config.get_terminal_writer()
        report = format_report(
            self._ledger, width=writer.fullwidth, folds=terminal.isatty, color=writer.hasmarkup
        )
        for line in [*report.split("\n"), *self._list_ways_on()]:
            terminal.write_line(line)

    @contextlib.contextmanager
    def failures_set_aside(self) -> Iterator[None]:
        """Keep pytest from saying once more, within the block, what the table says of failed cases.

        That is its FAILURES and its short summary; ``--tb`` and ``-r`` still ask for them.
        """
        stats = self._terminal.stats if self._terminal is not None else {}
        failed = stats.get("failed", [])
        if not failed or self._config.getoption("tbstyle", "auto") != "auto":
            yield
            return
        source = self._ledger.plan.source
        ours = {f"{source}::{case.label}" for case in self._ledger.plan.cases}
        stats["failed"] = [report for report in failed if report.nodeid not in ours]
        self._set_aside = failed
        try:
            yield
        finally:
            stats["failed"] = failed

    @property
    def _terminal(self) -> Any:  # noqa: ANN401 - pytest's reporter has no public type
        return self._config.pluginmanager.getplugin("terminalreporter")

    def _list_ways_on(self) -> list[str]:
        """Return lines that name the page, and the command that runs what has no outcome, or what failed."""
        plan, root = self._ledger.plan, show_path(self._layout.root)
        command = f"atesor {'sweep' if plan.kind is BatchKind.SWEEP else 'batch'}"
        lines = [f"page: {root}/{self._layout.report.name}"] if self._layout.report.exists() else []
        if self._ledger.selected and decide_resume(self._ledger):
            lines.append(f"to go on: {command} resume {shlex.quote(root)}")
        elif decide_rerun(self._ledger, failed=True):
            lines.append(f"to run the failed ones again: {command} rerun {shlex.quote(root)} --failed")
        return lines

    def _end_line(self) -> None:
        """Go to a line of our own: xdist leaves the cursor behind its count, old pytest behind [100%]."""
        if self._config.get_terminal_writer().width_of_current_line:
            self._terminal.write_line("")

    def _write_alone(self, lines: Sequence[str]) -> None:
        if not lines:
            return
        self._end_line()
        for line in lines:
            self._terminal.write_line(line)
        self._terminal.flush()

    def _open_ids(self) -> set[str]:
        """Return the selected cases that have not ended since; those of an earlier session are no news."""
        states = self._ledger.states()
        return {
            case.case_id
            for case in self._ledger.selected
            if isinstance(states[case.case_id], NotStarted | Running)
        }

    def _write(self, line: str, status: Status | None = None) -> None:
        if self._region.say(line, status):
            return
        terminal = self._terminal
        # Without xdist a case is tried again while pytest captures what is written.
        capture = self._config.pluginmanager.getplugin("capturemanager")
        if terminal is not None:
            visibly = capture.global_and_fixture_disabled() if capture else contextlib.nullcontext()
            with visibly:
                self._end_line()
                terminal.write_line(line)


def _say_nothing(line: str, newline: bool = False) -> None:  # noqa: FBT001, FBT002 - xdist's signature
    """Stand in for xdist's rewriting of its line."""
