import html
from collections.abc import Callable

import pytest

from pytest_atesor.core.attempt import AttemptRecord
from pytest_atesor.core.events import AttemptEnded, CasesSelected
from pytest_atesor.core.ledger import Ledger, fold_events
from pytest_atesor.core.outcome import Cause, Status
from pytest_atesor.core.plan import Plan
from pytest_atesor.reports.annotations import format_annotations, format_step_summary
from pytest_atesor.reports.html.page import count_outcomes

AT = "2026-01-02T03:04:05Z"


@pytest.fixture
def ledger(make_plan: Callable[..., Plan], make_record: Callable[..., AttemptRecord]) -> Ledger:
    reason = "bad | <b>x</b> 5% `y`\n::error::forged"
    return fold_events(
        make_plan("zlib", "gron", "disk"),
        [
            CasesSelected(at=AT, case_ids=("zlib", "gron", "disk")),
            AttemptEnded(at=AT, record=make_record("zlib")),
            AttemptEnded(at=AT, record=make_record("gron", Status.FAIL, Cause.BUILD, reason=reason)),
            AttemptEnded(at=AT, record=make_record("disk", Status.FAIL, Cause.ENVIRONMENT, reason="full")),
        ],
    )


def test_the_step_summary_keeps_strangers_in_their_cell(ledger: Ledger) -> None:
    lines = format_step_summary(ledger, count_outcomes(ledger)).splitlines()
    assert "3 planned: 1 PASS, 1 FAIL, 1 environment" in lines
    row = next(line for line in lines if "gron" in line)
    assert row.count("|") == 6
    assert "<b>" not in row


def test_the_step_summary_shows_the_text_as_it_is(
    make_plan: Callable[..., Plan], make_record: Callable[..., AttemptRecord]
) -> None:
    reason = "unknown type 'u_int' & \"x\" <- `movq' |"
    record = make_record("gron", Status.FAIL, Cause.BUILD, reason=reason)
    ledger = fold_events(make_plan("gron"), [AttemptEnded(at=AT, record=record)])
    row = format_step_summary(ledger, count_outcomes(ledger)).splitlines()[-1]
    assert html.unescape(row.split(" | ")[3]) == reason


def test_each_cause_is_one_command_and_the_environment_warns(ledger: Ledger) -> None:
    assert format_annotations(ledger) == (
        "::error title=1 FAIL::bad | <b>x</b> 5%25 `y` ::error::forged (gron)",
        "::warning title=1 FAIL::full (disk)",
    )
