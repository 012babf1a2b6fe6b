from collections.abc import Callable

import pytest

from pytest_atesor.core.attempt import AttemptRecord
from pytest_atesor.core.outcome import Cause, Status
from pytest_atesor.reports.events import format_ended, format_skipped, format_started

RecordFactory = Callable[..., AttemptRecord]


def test_a_start_is_one_plain_line() -> None:
    assert format_started("atesor-ai-sandbox-debian-w1", "zlib") == "w1 start zlib"
    assert format_started("atesor-ai-sandbox-w12", "zlib", attempt_id="003") == "w12 start zlib (attempt 3)"


@pytest.mark.parametrize(
    ("status", "cause", "reason", "line"),
    [
        pytest.param(Status.PASS, None, "", "[3/8] w1 PASS zlib 12.3 s", id="pass"),
        pytest.param(
            Status.FAIL,
            Cause.BUILD,
            "x.c:1: error",
            "[3/8] w1 FAIL zlib 12.3 s - build: x.c:1: error",
            id="fail",
        ),
        pytest.param(
            Status.UNVERIFIED,
            None,
            "nothing proven",
            "[3/8] w1 UNVERIFIED zlib 12.3 s - nothing proven",
            id="unverified",
        ),
        pytest.param(Status.TIMEOUT, Cause.BUILD, "", "[3/8] w1 TIMEOUT zlib 12.3 s - build", id="no-reason"),
        pytest.param(Status.SKIPPED, None, "", "[3/8] w1 SKIPPED zlib 12.3 s", id="nothing-to-say"),
        pytest.param(
            Status.FAIL, Cause.BUILD, "\x1b[31ma\nb", "[3/8] w1 FAIL zlib 12.3 s - build: a b", id="strange"
        ),
    ],
)
def test_an_end_is_one_plain_line(
    make_record: RecordFactory, status: Status, cause: Cause | None, reason: str, line: str
) -> None:
    assert format_ended(make_record("zlib", status, cause, reason=reason), "zlib", done=3, total=8) == line


def test_many_skipped_cases_are_one_line() -> None:
    assert format_skipped(("a", "b"), "stopped") == "SKIPPED a, b: stopped"
    assert format_skipped(tuple("abcdef"), "stopped") == "SKIPPED a, b, c and 3 more: stopped"
