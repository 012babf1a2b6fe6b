import json
from collections.abc import Callable

import pytest

from pytest_atesor.core import history
from pytest_atesor.core.attempt import AttemptRecord
from pytest_atesor.core.history import (
    Durations,
    Setting,
    add_duration,
    expect_durations,
    format_durations,
    has_duration,
    name_package,
    parse_durations,
)
from pytest_atesor.core.outcome import Cause, Status
from pytest_atesor.core.plan import Plan
from pytest_atesor.errors import BadInputError

SETTING = Setting(platform="debian", target="qemu", agent="built-in")


def test_the_last_three_durations_are_kept_and_their_median_is_expected(
    make_plan: Callable[..., Plan],
) -> None:
    plan = make_plan("zlib", "gron")
    durations: Durations = {}
    for seconds in (900.0, 10.0, 30.0, 20.0):
        add_duration(durations, name_package(plan, plan.cases[0]), seconds)
    assert list(durations.values()) == [(10.0, 30.0, 20.0)]
    assert expect_durations(plan, durations) == {plan.cases[0].case_id: 20.0}


def test_the_package_that_ran_longest_ago_is_forgotten_first() -> None:
    durations: Durations = {str(number): (1.0,) for number in range(history.MOST_PACKAGES)}
    add_duration(durations, "0", 2.0)
    add_duration(durations, "new", 3.0)
    assert len(durations) == history.MOST_PACKAGES
    assert "1" not in durations
    assert durations["0"] == (1.0, 2.0)


def test_what_is_written_is_read_back() -> None:
    durations: Durations = {"zlib": (1.5, 2.0), "m::a label": (0.25,)}
    assert parse_durations(format_durations(SETTING, durations).encode(), SETTING, "file") == durations


BROKEN = {
    "no JSON": "{",
    "a list": "[]",
    "newer": format_durations(SETTING, {}).replace("_v1", "_v2"),
    "of another platform": format_durations(SETTING, {}).replace("debian", "alpine"),
    "no packages": json.dumps({**json.loads(format_durations(SETTING, {})), "packages": []}),
    "a text for a duration": format_durations(SETTING, {"a": (1.0,)}).replace("1.0", '"1"'),
    "a negative duration": format_durations(SETTING, {"a": (1.0,)}).replace("1.0", "-1.0"),
    "true for a duration": format_durations(SETTING, {"a": (1.0,)}).replace("1.0", "true"),
}


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_file_is_refused_whole(text: str) -> None:
    with pytest.raises(BadInputError, match="file"):
        parse_durations(text.encode(), SETTING, "file")


@pytest.mark.parametrize(
    ("status", "cause", "tells"),
    [
        (Status.PASS, None, True),
        (Status.FAIL, Cause.BUILD, True),
        (Status.TIMEOUT, None, True),
        (Status.FAIL, Cause.ENVIRONMENT, False),
        (Status.SKIPPED, Cause.INTERRUPTED, False),
    ],
)
def test_only_a_case_s_own_end_tells_its_duration(
    make_record: Callable[..., AttemptRecord], status: Status, cause: Cause | None, *, tells: bool
) -> None:
    assert has_duration(make_record("a", status=status, cause=cause)) is tells
