"""The phases after a build that passed: products are kept and asked for evidence, then tests run."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pytest_atesor.core.package_testing import PackageTesting
from pytest_atesor.porter.builders.interface import Suite
from pytest_atesor.porter.context import Place, Run
from pytest_atesor.porter.kept import keep_artifacts
from pytest_atesor.porter.package_tests import (
    SuitePlace,
    SuiteStatus,
    decide_budget_s,
    describe_suite,
    gate,
    run_suites,
    skip_suites,
)
from pytest_atesor.porter.phases import Phases
from pytest_atesor.porter.proofs import MOST_S, describe_proofs, gather_proofs
from pytest_atesor.porter.readable import forget_products
from pytest_atesor.porter.recipe import PackageTests
from pytest_atesor.porter.settings import Settings
from pytest_atesor.porter.shell import Shell
from pytest_atesor.porter.suite_needs import FoundNeeds, KnownNeeds

__all__ = ["Trial", "add_proofs", "keep_products", "run_package_tests"]

_LEAST_FOR_PROOFS_S = 60.0  # so near to the kill the report is worth more than evidence
_MOST_NOTES = 10


@dataclass(frozen=True, slots=True)
class Trial:
    """Where tests run: the shell, the record of phases, the built tree's place and environment.

    ``network`` is asked for by a recipe whose tests had it. ``needs`` brings what they lack.
    """

    shell: Shell
    phases: Phases
    cwd: str
    environment: Mapping[str, str]
    network: bool = False
    needs: FoundNeeds | KnownNeeds | None = None


def keep_products(settings: Settings, place: Place, run: Run, shell: Shell) -> None:
    """Keep the artifacts of ``run`` where a result or a zip will want them. Raises SandboxError."""
    if run.artifacts and (settings.package or settings.attempt_directory is not None):
        try:
            run.kept_bytes = keep_artifacts(run.artifacts, run.artifacts_root, place.kept)
        except OSError as error:
            run.notes.append(f"the artifacts cannot be kept: {error}")
    forget_products(place, shell, run.artifacts_root)


def add_proofs(settings: Settings, run: Run, shell: Shell, phases: Phases) -> None:
    """Ask the sandbox what it says of the products and leave that in ``run``; no outcome changes."""
    left_s = None if settings.kill_at is None else settings.kill_at - time.time()
    if not run.artifacts or (left_s is not None and left_s < _LEAST_FOR_PROOFS_S):
        return
    with phases.phase("evidence"):
        budget_s = MOST_S if left_s is None else min(MOST_S, left_s / 3)
        run.proofs = gather_proofs(shell, run.artifacts, budget_s=budget_s)
        started = sum(one.start is not None for one in run.proofs.values())
        phases.say(f"asked for the libraries of {len(run.proofs)} file(s), started {started} program(s)")
    run.notes.extend(describe_proofs(run.artifacts, run.proofs)[:_MOST_NOTES])


def run_package_tests(settings: Settings, run: Run, trial: Trial, suites: Sequence[Suite]) -> None:
    """Run the package's tests and leave their record in ``run``; its outcome changes only on demand."""
    phases = trial.phases
    left_s = None if settings.kill_at is None else settings.kill_at - time.time()
    budget_s = decide_budget_s(left_s, run.kept_bytes)
    with phases.phase("package tests", f"at most {budget_s:.0f} s"):
        if settings.tests is PackageTesting.SKIP:
            result = skip_suites("not asked for")
        elif not budget_s:
            result = skip_suites("no time is left before the deadline")
        else:
            where = SuitePlace(
                shell=trial.shell,
                cwd=trial.cwd,
                environment=trial.environment,
                network=trial.network,
                needs=trial.needs,
            )
            result = run_suites(suites, where, budget_s=budget_s)
        if result.status not in {SuiteStatus.PASSED, SuiteStatus.NONE, SuiteStatus.SKIPPED}:
            phases.fail()
        phases.say(f"package tests: {describe_suite(result)}")
    run.package_tests = result
    if result.suite is not None and run.recipe is not None:
        run.recipe = replace(run.recipe, package_tests=_record(result.suite, trial, network=result.network))
    if settings.tests is PackageTesting.REQUIRE:
        run.outcome = gate(run.outcome, result)


def _record(suite: Suite, trial: Trial, *, network: bool) -> PackageTests:
    return PackageTests(
        framework=suite.framework,
        command=suite.command,
        prepare=suite.prepare,
        script=suite.script,
        cwd=trial.cwd,
        environment=trial.environment,
        network=network,
        packages=trial.needs.list_packages() if trial.needs is not None else {},
    )
