"""A project's own tests, run after its build: what they say is recorded and decides nothing unless asked for.

They run as the builder, without the network unless they were given it, for as long as the deadline leaves
time for what comes after.
Whatever they print, start or break, the verdict and the kept artifacts are older than they.
"""

import io
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum, unique
from typing import BinaryIO, Protocol, cast

from pytest_atesor.core.outcome import Cause
from pytest_atesor.errors import SandboxError
from pytest_atesor.porter.builders.interface import Suite
from pytest_atesor.porter.counts import Counts, Tally
from pytest_atesor.porter.reason import find_reason
from pytest_atesor.porter.shell import Capture, Shell
from pytest_atesor.porter.verdict import Outcome, failed
from pytest_atesor.sandbox.interface import Completed

__all__ = [
    "Needs",
    "SuitePlace",
    "SuiteResult",
    "SuiteStatus",
    "decide_budget_s",
    "describe_suite",
    "gate",
    "run_suites",
    "skip_suites",
]

_LONGEST_S = 300.0
_SHORTEST_S = 5.0
_RESERVE_S = 30.0  # for the report, the zip's own cost and an engine that is slow to end a hanging test
_BYTES_PER_S = 10_000_000  # what a zip is written at, on a busy machine
_PROBE_S = 60.0
_SHOWN_BYTES = 512 * 1024
_MOST_SUPPLIES = 4
_LEAST_FOR_SUPPLY_S = 60.0


class Needs(Protocol):
    """What brings the things that tests need beyond their build. Every method may raise SandboxError."""

    def bring(self, limit_s: float) -> bool:
        """Install within ``limit_s`` seconds what is known to be needed; say whether it is there."""

    def supply(self, log: str, limit_s: float) -> bool:
        """Install within ``limit_s`` seconds what ``log`` says is missing; say whether that is new."""


@unique
class SuiteStatus(StrEnum):
    """How a project's tests ended. ERROR: they could not be built; NONE: there are none that we know of."""

    PASSED = "passed"
    FAILED = "failed"
    TIMEOUT = "timeout"
    ERROR = "error"
    NONE = "none"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True, kw_only=True)
class SuitePlace:
    """Where suites run: the shell, the built tree, the environment, with the network or not.

    A shell that keeps the network has it in any case. ``needs`` of None brings nothing.
    """

    shell: Shell
    cwd: str
    environment: Mapping[str, str]
    network: bool = False
    needs: Needs | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteResult:
    """What is recorded of the tests. ``suite`` is None where nothing was run; ``network``: they had it."""

    status: SuiteStatus
    suite: Suite | None = None
    exit_code: int | None = None
    duration_s: float = 0.0
    counts: Counts | None = None
    reason: str = ""
    network: bool = False


def skip_suites(reason: str) -> SuiteResult:
    """Return the record of tests that were not run."""
    return SuiteResult(status=SuiteStatus.SKIPPED, reason=reason)


def decide_budget_s(left_s: float | None, kept_bytes: int) -> float:
    """Return how many seconds tests may take when the kill is ``left_s`` away (None: never); 0 for none.

    What must still be written then, a zip of ``kept_bytes`` included, has its time first.
    """
    if left_s is None:
        return _LONGEST_S
    budget_s = min(_LONGEST_S, left_s - _RESERVE_S - kept_bytes / _BYTES_PER_S)
    return budget_s if budget_s >= _SHORTEST_S else 0.0


def run_suites(suites: Sequence[Suite], place: SuitePlace, *, budget_s: float) -> SuiteResult:
    """Run the first suite that the tree has, for at most ``budget_s`` seconds.

    One that cannot be built for want of something is run again when the place's ``needs`` have brought it. A
    sandbox that fails meanwhile is a result too: the build has passed before.
    """
    started = time.monotonic()
    try:
        if place.needs is not None and not place.needs.bring(budget_s / 2):
            return SuiteResult(
                status=SuiteStatus.ERROR, reason="the packages that they had before cannot be installed"
            )
        is_online = place.shell.set_network(enabled=place.network)
        for suite in suites:
            if not suite.probe or _has(suite, place):
                result = _run_supplied(suite, place, started + budget_s)
                return replace(result, network=is_online)
    except SandboxError as error:
        spent_s = round(time.monotonic() - started, 3)
        return SuiteResult(
            status=SuiteStatus.ERROR, duration_s=spent_s, reason=f"the sandbox failed: {error}"
        )
    return SuiteResult(status=SuiteStatus.NONE)


def describe_suite(result: SuiteResult) -> str:
    """Return one line for people."""
    counts = result.counts
    command = result.suite.command if result.suite else ""
    said = f"{counts.passed} passed, {counts.failed} failed, {counts.skipped} skipped" if counts else ""
    spent = f"{result.duration_s:.1f} s" if command else ""
    details = ", ".join(one for one in (command, said, spent, result.reason) if one)
    return f"{result.status.value}{f' ({details})' if details else ''}"


def gate(outcome: Outcome, result: SuiteResult) -> Outcome:
    """Return ``outcome``, or a failure when the tests have not passed; a project without any is fine."""
    if result.status in {SuiteStatus.PASSED, SuiteStatus.NONE}:
        return outcome
    return failed(Cause.TESTS, f"package tests {describe_suite(result)}")


def _has(suite: Suite, place: SuitePlace) -> bool:
    done = place.shell.script(suite.probe, cwd=place.cwd, timeout_s=_PROBE_S)
    return done.exit_code == 0 and not done.timed_out


def _run_supplied(suite: Suite, place: SuitePlace, deadline: float) -> SuiteResult:
    result, said = _run(suite, place, deadline)
    for _ in range(_MOST_SUPPLIES):
        left_s = deadline - time.monotonic()
        is_worth_it = left_s >= max(_LEAST_FOR_SUPPLY_S, 2 * result.duration_s)
        if place.needs is None or _was_built(result) or not is_worth_it:
            break
        try:
            if not place.needs.supply(said, left_s / 2):
                break
        except SandboxError:
            break
        place.shell.set_network(enabled=place.network)
        result, said = _run(suite, place, deadline)
    return result


def _was_built(result: SuiteResult) -> bool:
    return result.counts is not None or result.status not in {SuiteStatus.ERROR, SuiteStatus.FAILED}


def _run(suite: Suite, place: SuitePlace, deadline: float) -> tuple[SuiteResult, str]:
    """Run a suite, end what it left running, and return its result and what it said."""
    started = time.monotonic()
    output = _Output(place.shell.output, suite.framework)

    def run(script: str) -> Completed:
        return place.shell.script(
            script,
            cwd=place.cwd,
            environment=place.environment,
            sink=cast("BinaryIO", output),
            timeout_s=max(1.0, deadline - time.monotonic()),
        )

    prepared = run(suite.prepare) if suite.prepare else None
    is_ready = prepared is None or (prepared.exit_code == 0 and not prepared.timed_out)
    done = run(suite.script) if is_ready or prepared is None else prepared
    counts = output.tally.counts()
    if done.timed_out:
        status, reason = SuiteStatus.TIMEOUT, "ended because the time was up"
    elif not is_ready:
        why = find_reason(output.said.text())
        status, reason = SuiteStatus.ERROR, f"the tests could not be built{why and f': {why}'}"
    else:
        status, reason = _decide(done.exit_code, output.tally, counts), ""
    duration_s = round(time.monotonic() - started, 3)
    place.shell.end_builders()
    result = SuiteResult(
        status=status,
        suite=suite,
        exit_code=None if done.timed_out else done.exit_code,
        duration_s=duration_s,
        counts=counts,
        reason=reason,
    )
    return result, output.said.text()


def _decide(exit_code: int, tally: Tally, counts: Counts | None) -> SuiteStatus:
    is_empty = tally.ran_nothing if counts is None else not counts.total
    if tally.said_nothing or (exit_code == 0 and is_empty):
        return SuiteStatus.NONE
    if exit_code != 0 or (counts is not None and counts.failed):
        return SuiteStatus.FAILED
    return SuiteStatus.PASSED


class _Output(io.RawIOBase):
    """Passes the first half MiB on, counts in the rest: a flood must not reach the batch's output limit."""

    def __init__(self, through: BinaryIO | None, framework: str) -> None:
        super().__init__()
        self.tally = Tally(framework)
        self.said = Capture(None)
        self._through = through
        self._room = _SHOWN_BYTES

    def writable(self) -> bool:
        """Say that it can be written to."""
        return True

    def write(self, data: "bytes | bytearray | memoryview") -> int:  # type: ignore[override]  # the stub's buffer type needs Python 3.12
        """Take all of ``data``."""
        chunk = bytes(data)
        self.tally.feed(chunk)
        self.said.write(chunk)
        if self._through is not None and self._room > 0:
            self._through.write(chunk[: self._room])
            self._room -= len(chunk)
            if self._room <= 0:
                self._through.write(b"\n--> the tests print more; it is read and not shown\n")
            self._through.flush()
        return len(data)
