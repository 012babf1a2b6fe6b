"""A bundle on a real disk, with a clock that only moves when it is told to."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from pytest_atesor.bundle.layout import BundleLayout
from pytest_atesor.bundle.lock import Holder
from pytest_atesor.bundle.writer import Bundle
from pytest_atesor.core.clock import Clock
from pytest_atesor.core.plan import Plan

PlanFactory = Callable[..., Plan]


@dataclass
class StoppedClock:
    """Seconds that a test sets."""

    seconds: float = 0.0

    def read(self) -> float:
        return self.seconds

    def as_clock(self) -> Clock:
        return Clock(monotonic=self.read, now=lambda: f"2026-01-02T03:04:{self.seconds:06.3f}Z")


@pytest.fixture
def stopped_clock() -> StoppedClock:
    return StoppedClock()


@pytest.fixture
def holder() -> Holder:
    return Holder(host="laptop", pid=4711, started_at="2026-01-02T03:04:05Z")


@pytest.fixture
def layout(tmp_path: Path) -> BundleLayout:
    root = tmp_path / "bundle"
    root.mkdir()
    return BundleLayout(root)


@pytest.fixture
def make_bundle(
    tmp_path: Path, make_plan: PlanFactory, holder: Holder, stopped_clock: StoppedClock
) -> Callable[..., Bundle]:
    """A new bundle below tmp_path/runs with one case per label."""

    def make(*labels: str, exact: bool = False) -> Bundle:
        clock = stopped_clock.as_clock()
        return Bundle.create(tmp_path / "runs", make_plan(*labels), holder=holder, clock=clock, exact=exact)

    return make
