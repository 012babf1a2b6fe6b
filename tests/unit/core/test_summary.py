from collections.abc import Callable

import pytest

from pytest_atesor.core.attempt import AttemptRecord
from pytest_atesor.core.ledger import CaseState, Ended, NotStarted, Running, Skipped
from pytest_atesor.core.outcome import Cause, Status
from pytest_atesor.core.plan import Json
from pytest_atesor.core.summary import Missing, describe_outcome, pick_field

RecordFactory = Callable[..., AttemptRecord]
EVIDENCE: Json = {
    "coverage": {"union_coverage_fraction": 0.75, "gap": None, "a.b": {"c": 1}},
    "coverage.union": 2,
    "artifacts": [{"size_bytes": 5}, {"size_bytes": 6}],
}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        pytest.param("coverage.union_coverage_fraction", 0.75, id="nested"),
        pytest.param("coverage.gap", None, id="null-is-a-value"),
        pytest.param("artifacts.1.size_bytes", 6, id="index"),
        pytest.param("coverage.union", 2, id="key-with-dots"),
        pytest.param("coverage.a.b.c", 1, id="inner-key-with-dots"),
        pytest.param("artifacts.2.size_bytes", Missing(), id="beyond-the-end"),
        pytest.param(f"artifacts.{'1' * 5000}", Missing(), id="endless-index"),
        pytest.param("artifacts.-1", Missing(), id="negative-index"),
        pytest.param("artifacts.x", Missing(), id="text-index"),
        pytest.param("coverage.nothing", Missing(), id="absent"),
        pytest.param("coverage.gap.more", Missing(), id="through-null"),
        pytest.param("", Missing(), id="empty"),
    ],
)
def test_fields_are_picked_by_dotted_path(path: str, value: Json | Missing) -> None:
    assert pick_field(EVIDENCE, path) == value


def test_every_state_has_a_flat_form(make_record: RecordFactory) -> None:
    record = make_record("zlib", Status.FAIL, Cause.BUILD, reason="error")
    states: list[CaseState] = [
        NotStarted(),
        NotStarted(record),
        Running(attempt_id="002", slot="w1", started_at=""),
        Ended(record),
        Skipped(reason="stopped", cause=None),
        Skipped(reason="stopped", cause=Cause.INTERRUPTED),
        Skipped(reason="not today", cause=None, earlier=record),
        Skipped(reason="stopped", cause=Cause.INTERRUPTED, earlier=record),
        Skipped(reason="the engine is gone", cause=Cause.ENVIRONMENT, earlier=record),
        Skipped(reason="boom", cause=Cause.ENVIRONMENT, earlier=record, prevented=True),
    ]
    flat = [
        (found.state, found.status, found.cause, found.reason, found.attempt_id)
        for found in map(describe_outcome, states)
    ]
    assert flat == [
        ("not_started", None, None, "", None),
        ("not_started", Status.FAIL, Cause.BUILD, "error", "001"),
        ("running", None, None, "", "002"),
        ("ended", Status.FAIL, Cause.BUILD, "error", "001"),
        ("skipped", Status.SKIPPED, None, "stopped", None),
        ("skipped", Status.SKIPPED, Cause.INTERRUPTED, "stopped", None),
        ("skipped", Status.SKIPPED, None, "not today", None),
        ("skipped", Status.FAIL, Cause.BUILD, "error", "001"),
        ("skipped", Status.FAIL, Cause.BUILD, "error", "001"),
        ("skipped", Status.SKIPPED, Cause.ENVIRONMENT, "boom", None),
    ]
