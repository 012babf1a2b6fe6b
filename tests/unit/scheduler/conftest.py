"""A session over a bundle on a real disk, and an observer that writes everything down."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from pytest_atesor.bundle.lock import Holder
from pytest_atesor.bundle.writer import Bundle
from pytest_atesor.control.session import BatchSession
from pytest_atesor.control.signals import ProcessBook
from pytest_atesor.control.watch import WorkerWatch
from pytest_atesor.core.attempt import AttemptRecord
from pytest_atesor.core.clock import Clock
from pytest_atesor.core.plan import Case, Plan

PlanFactory = Callable[..., Plan]


@dataclass
class Notebook:
    """An observer that writes everything down."""

    started: list[str] = field(default_factory=list)
    ended: list[AttemptRecord] = field(default_factory=list)
    retried: list[AttemptRecord] = field(default_factory=list)
    lost: list[AttemptRecord] = field(default_factory=list)

    def case_started(self, case: Case, slot: str, attempt_id: str) -> None:
        self.started.append(f"{case.label} {slot} {attempt_id}")

    def case_ended(self, case: Case, record: AttemptRecord) -> None:
        assert case.case_id == record.case_id
        self.ended.append(record)

    def case_retried(self, case: Case, record: AttemptRecord) -> None:
        assert case.case_id == record.case_id
        self.retried.append(record)

    def case_lost(self, case: Case, record: AttemptRecord) -> None:
        assert case.case_id == record.case_id
        self.lost.append(record)


@dataclass
class Books:
    """A session, its bundle, and what its observer learned. Node ids are packages/smoke.json::LABEL.

    ``now_s`` holds the clock's seconds, ``unreachable`` the workers whose machine cannot be reached.
    """

    session: BatchSession
    bundle: Bundle
    notebook: Notebook
    now_s: list[float]
    unreachable: set[str]

    def begin(self, label: str, attempt_id: str = "001") -> None:
        """Tell the session that a worker began an attempt."""
        begun = {
            "attempt_id": attempt_id,
            "slot": "base-w1",
            "worker": "gw0",
            "machine": "board",
            "started_at": "2026-01-02T03:04:06Z",
        }
        self.session.attempt_began(nodeid(label), begun)

    def journal(self) -> list[dict[str, Any]]:
        """Return the journal's lines, without their bookkeeping."""
        lines = map(json.loads, self.bundle.layout.journal.read_text().splitlines())
        return [{key: line[key] for key in line if key not in {"schema", "seq", "at"}} for line in lines]


def nodeid(label: str) -> str:
    return f"packages/smoke.json::{label}"


@pytest.fixture
def books_of(tmp_path: Path, make_plan: PlanFactory) -> Callable[..., Books]:
    """A session over a new bundle with one case per label."""

    now_s = [0.0]
    unreachable: set[str] = set()

    def make(*labels: str) -> Books:
        clock = Clock(monotonic=lambda: now_s[0], now=lambda: "2026-01-02T03:04:05.000Z")
        holder = Holder(host="laptop", pid=4711, started_at="2026-01-02T03:04:05Z")
        bundle = Bundle.create(tmp_path / "runs", make_plan(*labels), holder=holder, clock=clock)
        notebook = Notebook()
        session = BatchSession(
            bundle, notebook, clock, WorkerWatch(ProcessBook()), lambda worker: worker not in unreachable
        )
        return Books(session, bundle, notebook, now_s, unreachable)

    return make
