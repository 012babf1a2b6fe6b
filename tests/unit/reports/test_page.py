import json
import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from pytest_atesor.core.attempt import AttemptRecord
from pytest_atesor.core.events import AttemptEnded, AttemptStarted, CasesSelected, Event
from pytest_atesor.core.excerpt import Excerpt, plan_tails
from pytest_atesor.core.ledger import Ledger, fold_events
from pytest_atesor.core.outcome import Cause, Status
from pytest_atesor.core.plan import Plan
from pytest_atesor.reports.html.page import count_outcomes, format_page

AT = "2026-01-02T03:04:05Z"
MARKUP = "</script><img src=x onerror=alert(1)>"


@pytest.fixture
def ledger(make_plan: Callable[..., Plan], make_record: Callable[..., AttemptRecord]) -> Ledger:
    events: list[Event] = [
        CasesSelected(at=AT, case_ids=("zlib", "gron", "disk", "late", "waits")),
        AttemptEnded(at=AT, record=make_record("zlib")),
        AttemptEnded(at=AT, record=make_record("gron", Status.FAIL, Cause.BUILD, reason=MARKUP)),
        AttemptEnded(at=AT, record=make_record("disk", Status.FAIL, Cause.ENVIRONMENT, reason="full")),
        AttemptStarted(at=AT, case_id="late", attempt_id="001", slot="base-w2", worker="gw1"),
    ]
    return fold_events(make_plan("zlib", "gron", "disk", "late", "waits", "apart"), events)


def test_every_planned_case_is_counted_once_and_the_environment_apart(ledger: Ledger) -> None:
    counts = {name: count for name, count in count_outcomes(ledger).items() if count}
    assert counts == {"PASS": 1, "FAIL": 1, "environment": 1, "running": 1, "open": 1, "unselected": 1}


def test_markup_of_strangers_stays_text_in_the_data(ledger: Ledger) -> None:
    page = format_page(ledger, {"gron": Excerpt(tail=f"{MARKUP}\u2028end")}, AT)
    assert MARKUP not in page
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    data = json.loads(found.group(1))
    assert data["cases"][1]["reason"] == MARKUP
    assert data["excerpts"]["gron"]["tail"].startswith(MARKUP)


def test_native_tools_stand_on_the_page_once_however_many_sandboxes_had_them(ledger: Ledger) -> None:
    excerpts = {
        "zlib": Excerpt(tail="", native_tools="gcc 14.2.0-19, make 4.4.1-2"),
        "gron": Excerpt(tail="end", native_tools="gcc 14.2.0-19, make 4.4.1-2"),
        "disk": Excerpt(tail="full"),
        "late": Excerpt(tail=""),
    }
    page = format_page(ledger, excerpts, AT)
    assert page.count("4.4.1-2") == 1
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    data = json.loads(found.group(1))
    assert data["tools"] == ["gcc 14.2.0-19, make 4.4.1-2"]
    assert {name: extra["tools"] for name, extra in data["excerpts"].items()} == {
        "zlib": 0,
        "gron": 0,
        "disk": None,
    }


def test_attempts_name_the_machine_that_they_ran_on(
    make_plan: Callable[..., Plan], make_record: Callable[..., AttemptRecord]
) -> None:
    there = replace(make_record("a"), machine="board")
    events: list[Event] = [
        CasesSelected(at=AT, case_ids=("a", "b")),
        AttemptEnded(at=AT, record=there),
        AttemptStarted(at=AT, case_id="b", attempt_id="001", slot="base-w2", worker="gw1", machine="other"),
    ]
    page = format_page(fold_events(make_plan("a", "b"), events), {}, AT)
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    cases = json.loads(found.group(1))["cases"]
    assert [case["attempts"][0]["machine"] for case in cases] == ["board", "other"]


def test_the_page_asks_for_nothing_outside_itself(ledger: Ledger) -> None:
    page = format_page(ledger, {}, AT)
    assert "default-src 'none'" in page
    assert re.search(r"""(?:src|href)=["']|url\(|@import|https?://""", page) is None


@pytest.mark.parametrize("count", [pytest.param(8, id="8"), pytest.param(700, id="700")])
def test_log_tails_share_half_a_megabyte_and_failures_come_first(count: int) -> None:
    statuses = {str(number): Status.FAIL if number % 3 else Status.PASS for number in range(count)}
    tails = plan_tails(statuses)
    assert sum(tails.values()) <= 500_000
    assert min(tails[name] for name in tails if statuses[name] is Status.FAIL) >= 300
    assert tails["0"] <= tails["1"]
