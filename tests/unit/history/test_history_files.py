"""Durations on disk: kept apart, added up, bounded, and never in the way."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_atesor.control.history import History
from pytest_atesor.core.attempt import AttemptRecord
from pytest_atesor.core.outcome import Status
from pytest_atesor.core.plan import Plan, Platform

PlanFactory = Callable[..., Plan]
RecordFactory = Callable[..., AttemptRecord]


@pytest.fixture
def plan(make_plan: PlanFactory) -> Plan:
    return make_plan("a", "b")


def run_batch(state: Path, plan: Plan, make_record: RecordFactory, seconds: float) -> History:
    history = History(state, plan)
    history.note(plan.cases[0], make_record("a", status=Status.PASS, duration_s=seconds))
    history.save()
    return history


def test_a_batch_learns_from_the_one_before(tmp_path: Path, plan: Plan, make_record: RecordFactory) -> None:
    assert History(tmp_path, plan).expect() == {}
    run_batch(tmp_path, plan, make_record, 12.5)
    assert History(tmp_path, plan).expect() == {"a": 12.5}


def test_other_agents_and_platforms_have_their_own(
    tmp_path: Path, plan: Plan, make_record: RecordFactory
) -> None:
    run_batch(tmp_path, plan, make_record, 12.5)
    other = replace(plan, settings={**plan.settings, "agent": ["./agent"]})
    assert History(tmp_path, other).expect() == {}
    assert History(tmp_path, replace(plan, platform=Platform.ALPINE)).expect() == {}


def test_batches_that_end_together_add_up(tmp_path: Path, plan: Plan, make_record: RecordFactory) -> None:
    first, second = History(tmp_path, plan), History(tmp_path, plan)
    first.note(plan.cases[0], make_record("a", duration_s=1.0))
    second.note(plan.cases[1], make_record("b", duration_s=2.0))
    first.save()
    second.save()
    second.save()
    assert History(tmp_path, plan).expect() == {"a": 1.0, "b": 2.0}


@pytest.mark.parametrize("text", [b"{", b"\xff\xfe", b"[]", b""])
def test_a_broken_file_is_warned_of_and_replaced(
    tmp_path: Path, plan: Plan, make_record: RecordFactory, text: bytes
) -> None:
    run_batch(tmp_path, plan, make_record, 1.0)
    (file,) = (tmp_path / "history").glob("*.json")
    file.write_bytes(text)
    history = History(tmp_path, plan)
    assert history.expect() == {}
    (warning,) = history.warnings
    assert str(file) in warning
    run_batch(tmp_path, plan, make_record, 3.0)
    assert History(tmp_path, plan).expect() == {"a": 3.0}


def test_what_cannot_be_written_is_one_warning(
    tmp_path: Path, plan: Plan, make_record: RecordFactory
) -> None:
    (tmp_path / "history").write_text("in the way")
    history = run_batch(tmp_path, plan, make_record, 1.0)
    assert len(history.warnings) == 1


def test_nothing_noted_writes_nothing(tmp_path: Path, plan: Plan) -> None:
    History(tmp_path, plan).save()
    assert list(tmp_path.iterdir()) == []


def test_the_number_of_files_is_bounded(tmp_path: Path, plan: Plan, make_record: RecordFactory) -> None:
    (tmp_path / "history").mkdir()
    for number in range(100):
        file = tmp_path / "history" / f"durations_v1-{number}.json"
        file.write_text("{}")
        os.utime(file, (number, number))
    run_batch(tmp_path, plan, make_record, 1.0)
    left = {path.name for path in (tmp_path / "history").glob("*.json")}
    assert len(left) == 64
    assert "durations_v1-99.json" in left
    assert "durations_v1-0.json" not in left
