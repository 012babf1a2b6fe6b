from collections.abc import Callable

import pytest

from pytest_atesor.core.attempt import AttemptRecord
from pytest_atesor.core.breaker import Breaker
from pytest_atesor.core.outcome import Cause, Status

RecordFactory = Callable[..., AttemptRecord]


@pytest.fixture
def sick(make_record: RecordFactory) -> AttemptRecord:
    return make_record("a", status=Status.FAIL, cause=Cause.ENVIRONMENT, reason="no binfmt handler")


def test_five_sick_cases_in_a_row_at_the_start_open_the_circuit(sick: AttemptRecord) -> None:
    breaker = Breaker()
    assert [breaker.observe(sick) for _ in range(4)] == [None] * 4
    assert breaker.observe(sick) == (
        "the first 5 cases all failed for the environment's sake; the first: no binfmt handler"
    )
    assert breaker.observe(sick) is None, "it says so once"


@pytest.mark.parametrize(
    ("status", "cause"), [(Status.PASS, None), (Status.FAIL, Cause.BUILD), (Status.TIMEOUT, None)]
)
def test_any_other_end_keeps_it_closed_for_good(
    sick: AttemptRecord, make_record: RecordFactory, status: Status, cause: Cause | None
) -> None:
    breaker = Breaker()
    for _ in range(4):
        breaker.observe(sick)
    breaker.observe(make_record("b", status=status, cause=cause))
    assert [breaker.observe(sick) for _ in range(10)] == [None] * 10


def test_a_case_that_was_stopped_says_nothing(sick: AttemptRecord, make_record: RecordFactory) -> None:
    breaker = Breaker()
    breaker.observe(make_record("b", status=Status.SKIPPED, cause=Cause.INTERRUPTED))
    assert [breaker.observe(sick) is None for _ in range(5)] == [True] * 4 + [False]
