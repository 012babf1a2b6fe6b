"""Hooks that other plugins implement to extend a batch.

A plugin or conftest.py implements them like any pytest hook, under the same names. They are called only in
a batch run. Under pytest-xdist the kinds are asked for in the controller, which plans; the runners in every
worker; and what happened is told in the controller.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_atesor.core.attempt import AttemptRecord
    from pytest_atesor.core.plan import Case, Plan
    from pytest_atesor.core.runspec import Kind
    from pytest_atesor.runners.interface import Runner

__all__ = ["pytest_atesor_case_ended", "pytest_atesor_kinds", "pytest_atesor_runners"]


@pytest.hookspec
def pytest_atesor_kinds(config: pytest.Config) -> Sequence[Kind]:  # type: ignore[empty-body]  # a specification
    """Return more kinds of RunSpecs, each with the JSON Schema of its body; a runner belongs to each."""


@pytest.hookspec
def pytest_atesor_runners(config: pytest.Config) -> Sequence[Runner]:  # type: ignore[empty-body]  # a specification
    """Return runners for more kinds of cases; one of a kind that exists already takes its place."""


@pytest.hookspec
def pytest_atesor_case_ended(config: pytest.Config, plan: Plan, case: Case, record: AttemptRecord) -> None:
    """Learn that an attempt at a case ended. An exception raised here ends the session as pytest's do."""
