"""Where everything in a bundle lies, and the log links outside that lead into it.

batch_plan.json  journal.jsonl  batch_attempts.json  batch_results.json  batch_summary.json  batch_summary.csv
report.html
cases/<case_id>/runspec.json
cases/<case_id>/attempts/<attempt_id>/{attempt.json,run.log,result.json,metrics.json,artifacts/}
"""

import os
from dataclasses import dataclass
from pathlib import Path

from pytest_atesor.bundle.files import guard
from pytest_atesor.temporary import temporary_name

__all__ = ["AttemptLayout", "BundleLayout", "LogLinks"]


@dataclass(frozen=True, slots=True)
class AttemptLayout:
    """The paths of one attempt's standard artifacts; ``root`` is its own directory."""

    root: Path

    @property
    def attempt_id(self) -> str:
        """The attempt's number as text: "001"."""
        return self.root.name

    @property
    def record(self) -> Path:
        """The attempt's record, written last: when it exists, the attempt is over."""
        return self.root / "attempt.json"

    @property
    def log(self) -> Path:
        """The agent's output, capped."""
        return self.root / "run.log"

    @property
    def result(self) -> Path:
        """What the agent says of its work; a stranger's file."""
        return self.root / "result.json"

    @property
    def metrics(self) -> Path:
        """Figures that the agent or command left; a stranger's file."""
        return self.root / "metrics.json"

    @property
    def artifacts(self) -> Path:
        """What the agent built."""
        return self.root / "artifacts"


@dataclass(frozen=True, slots=True)
class BundleLayout:
    """The paths of one bundle; ``root`` is its own directory. Nothing here touches the disk."""

    root: Path

    @property
    def plan(self) -> Path:
        """The frozen plan."""
        return self.root / "batch_plan.json"

    @property
    def journal(self) -> Path:
        """The append-only truth."""
        return self.root / "journal.jsonl"

    @property
    def lock(self) -> Path:
        """The kernel-locked file of whoever writes the bundle."""
        return self.root / "bundle.lock"

    @property
    def workers(self) -> Path:
        """The file that the workers of the bundle's writer lock together."""
        return self.root / "workers.lock"

    @property
    def attempts(self) -> Path:
        """The view of the whole attempt history."""
        return self.root / "batch_attempts.json"

    @property
    def results(self) -> Path:
        """The view of the current outcomes."""
        return self.root / "batch_results.json"

    @property
    def summary(self) -> Path:
        """The view with one row per case."""
        return self.root / "batch_summary.json"

    @property
    def summary_csv(self) -> Path:
        """The same rows as a table, on request."""
        return self.root / "batch_summary.csv"

    @property
    def report(self) -> Path:
        """The page for a person."""
        return self.root / "report.html"

    def case(self, case_id: str) -> Path:
        """Return the directory of a case."""
        return self.root / "cases" / case_id

    def runspec(self, case_id: str) -> Path:
        """Return the path of a case's RunSpec."""
        return self.case(case_id) / "runspec.json"

    def attempt(self, case_id: str, attempt_id: str) -> AttemptLayout:
        """Return the paths of one attempt."""
        return AttemptLayout(self.case(case_id) / "attempts" / attempt_id)

    def relative(self, path: Path) -> str:
        """Return a path inside the bundle as its JSON files write it."""
        return path.relative_to(self.root).as_posix()


class LogLinks:
    """The links ``<directory>/<name>.log`` to the logs of one bundle: relative, so both can move together."""

    def __init__(self, directory: Path, layout: BundleLayout) -> None:
        self._directory = directory
        self._layout = layout
        self._way = ""  # from the directory to the bundle, once the directory is there

    def make(self, name: str, log: Path) -> Path:
        """Make the link to an attempt's log, atomically, and return it.

        An older file or link of that name is replaced and never followed; a directory, or a log
        directory that is none, raises BundleError.
        """
        link = self._directory / f"{name}.log"
        with guard("make the log link", link):
            # One attempt at each call: this is done for every case.
            if not self._way or not os.path.isdir(self._directory):  # noqa: PTH112 - the same
                self._find_way()
            target = f"{self._way}/{self._layout.relative(log)}"
            try:
                os.symlink(target, link)  # noqa: PTH211 - the same
            except FileExistsError:
                temporary = self._directory / temporary_name(name)
                temporary.unlink(missing_ok=True)
                temporary.symlink_to(target)
                temporary.replace(link)
        return link

    def _find_way(self) -> None:
        self._directory.mkdir(parents=True, exist_ok=True)
        self._way = os.path.relpath(os.path.realpath(self._layout.root), os.path.realpath(self._directory))
