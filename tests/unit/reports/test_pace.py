from collections.abc import Callable

import pytest

from pytest_atesor.control.pace import Pace
from pytest_atesor.core.attempt import AttemptRecord
from pytest_atesor.core.outcome import Status
from pytest_atesor.reports.terminal import SlotLine

RecordFactory = Callable[..., AttemptRecord]


def runs(elapsed_s: float, expected_s: float | None) -> SlotLine:
    return SlotLine(slot="w1", label="x", elapsed_s=elapsed_s, expected_s=expected_s)


@pytest.mark.parametrize(
    ("expected", "slots", "waiting", "judged"),
    [
        pytest.param({}, [runs(5, None)], "ab", (None, None), id="nothing known"),
        pytest.param({"a": 10.0, "b": 30.0}, [], "ab", (30.0, 30.0), id="the longest"),
        pytest.param({"a": 10.0, "b": 30.0}, [runs(4, 10), runs(4, 30)], "", (26.0, 26.0), id="running"),
        pytest.param({"a": 10.0, "b": 30.0}, [runs(40, 30)], "", (0.0, 0.0), id="overdue"),
        pytest.param({"a": 10.0, "b": 30.0}, [], "abcd", (40.0, 30.0), id="the unknown count as the mean"),
        pytest.param({"a": 20.0}, [runs(5, None)], "", (15.0, None), id="no bound by the unknown"),
    ],
)
def test_two_slots_take_so_long(
    expected: dict[str, float],
    slots: list[SlotLine],
    waiting: str,
    judged: tuple[float | None, float | None],
) -> None:
    assert Pace(expected, 2).judge(slots, frozenset(waiting)) == judged


def test_what_ended_in_this_batch_tells_of_the_rest(make_record: RecordFactory) -> None:
    pace = Pace({}, 1)
    pace.note(make_record("a", duration_s=10.0))
    pace.note(make_record("b", Status.FAIL, duration_s=20.0))
    pace.note(make_record("c", Status.SKIPPED, duration_s=900.0))
    assert pace.judge([], frozenset("def")) == (45.0, None)
