"""The kinds of cases of a run, and their runners: the built-in ones and those that plugins bring."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_atesor.core.runspec import Fault
from pytest_atesor.core.runspec_kinds import BUILT_IN_KINDS
from pytest_atesor.runners.command import CommandRunner
from pytest_atesor.runners.coverage import MISSING_EXTRA, CoverageRunner, has_coverage_extra
from pytest_atesor.runners.port import PortRunner

if TYPE_CHECKING:
    import pytest

    from pytest_atesor.core.runspec import Kind
    from pytest_atesor.runners.interface import Runner

__all__ = ["gather_kinds", "gather_runners", "refuse_kind"]


def gather_kinds(config: pytest.Config) -> dict[str, Kind]:
    """Return every kind of RunSpec by its name; where two plugins bring one name, the later plugin wins."""
    kinds = dict(BUILT_IN_KINDS)
    if not has_coverage_extra():
        kinds["coverage"] = refuse_kind(kinds["coverage"], MISSING_EXTRA)
    for more in reversed(config.hook.pytest_atesor_kinds(config=config)):
        kinds |= {kind.name: kind for kind in more}
    return kinds


def refuse_kind(kind: Kind, reason: str) -> Kind:
    """Return the kind with a reason why none of its bodies can be planned here."""
    return replace(kind, find_faults=lambda _: (Fault((), reason),))


def gather_runners(config: pytest.Config) -> dict[str, Runner]:
    """Return a runner for each kind of case; where two plugins bring one kind, the later plugin wins."""
    runners: list[Runner] = [PortRunner(), CommandRunner(), CoverageRunner()]
    for more in reversed(config.hook.pytest_atesor_runners(config=config)):
        runners.extend(more)
    return {runner.kind: runner for runner in runners}
