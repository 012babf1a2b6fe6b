"""The runner of coverage cases: our own program, run as a command with its outputs promised."""

import importlib.util
import sys
from dataclasses import replace
from typing import Final, final

from pytest_atesor.core.jsontext import format_json
from pytest_atesor.core.plan import Case, Json
from pytest_atesor.runners.command import CommandRunner
from pytest_atesor.runners.interface import AttemptContext, AttemptEnd

__all__ = ["MISSING_EXTRA", "CoverageRunner", "has_coverage_extra"]

MISSING_EXTRA: Final = (
    "kind coverage needs numpy and matplotlib; install them with: pip install 'pytest-atesor[coverage]'"
)


def has_coverage_extra() -> bool:
    """Whether the libraries of the extra are installed."""
    return all(importlib.util.find_spec(name) is not None for name in ("numpy", "matplotlib"))


@final
class CoverageRunner:
    """Runs "coverage" cases."""

    __slots__ = ()

    @property
    def kind(self) -> str:
        """The kind of its cases."""
        return "coverage"

    def run(self, case: Case, context: AttemptContext) -> AttemptEnd:
        """Compute the coverage; raises SandboxError when this machine's disk fails."""
        text = format_json(dict(case.spec))
        command: dict[str, Json] = {
            "argv": [sys.executable, "-P", "-m", "pytest_atesor.coverage", "coverage.json"],
            "env": {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
            "files": {"coverage.json": text},
            "outputs": ["coverage-map.png", "coverage-series.csv", "coverage-series.json"],
            "metrics": "metrics.json",
        }
        return CommandRunner().run(replace(case, spec=command), context)
