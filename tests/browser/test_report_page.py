"""The report page in a real browser, opened from its file."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import pytest

from pytest_atesor.core.events import AttemptEnded, BatchStarted, CasesSelected
from pytest_atesor.core.excerpt import Excerpt
from pytest_atesor.core.ledger import fold_events
from pytest_atesor.core.outcome import Cause, Status
from pytest_atesor.reports.html.page import format_page
from tests.browser.pages import AT, NEEDS_BROWSER, format_every_outcome, make_plan, make_record, visit

pytestmark = NEEDS_BROWSER
MARKUP = "</script><img src=x onerror='document.title=1'>"


@pytest.fixture
def page(serve: Callable[[str], str]) -> str:
    events = [
        BatchStarted(at=AT, host="h", pid=1, version="0", workers=1),
        CasesSelected(at=AT, case_ids=("c0", "c1", "c2", "c3")),
        AttemptEnded(at=AT, record=make_record("c0", Status.PASS, span=(0, 4))),
        AttemptEnded(at=AT, record=make_record("c1", Status.FAIL, Cause.BUILD, reason=MARKUP, span=(0, 9))),
        AttemptEnded(
            at=AT, record=make_record("c2", Status.FAIL, Cause.ENVIRONMENT, reason=MARKUP, span=(0, 2))
        ),
    ]
    ledger = fold_events(make_plan("zlib", MARKUP, "gron", "waits"), events)
    excerpt = Excerpt(tail=MARKUP, native_tools=f"make 4.4.1-2, {MARKUP} 1")
    return serve(format_page(ledger, {"c1": excerpt}, AT))


def labels(browser: Any) -> list[str]:
    return [cell.text for cell in browser.find_elements("css selector", "#rows th")]


def test_markup_of_strangers_is_shown_and_never_runs(browser: Any, page: str) -> None:
    visit(browser, f"{page}#case=c1")
    assert browser.find_element("css selector", "dialog .log").text == MARKUP
    tools = browser.find_element("xpath", "//h3[text()='Native tools of the sandbox']/following-sibling::p")
    assert tools.text == f"make 4.4.1-2, {MARKUP} 1"
    assert browser.find_elements("css selector", "img") == []
    assert browser.title == "batch · atesor"
    assert browser.get_log("browser") == []


@pytest.mark.parametrize("name", ["constructor", "valueOf", "toString", "hasOwnProperty", "__proto__"])
def test_a_case_called_as_what_every_object_has_is_opened(
    browser: Any, serve: Callable[[str], str], name: str
) -> None:
    plan = make_plan(name, "zlib")
    plan = replace(plan, cases=(replace(plan.cases[0], case_id=name), *plan.cases[1:]))
    ledger = fold_events(plan, [CasesSelected(at=AT, case_ids=(name, "c1"))])
    visit(browser, serve(format_page(ledger, {}, AT)))
    browser.find_element("xpath", f"//tbody//button[.='{name}']").click()
    assert browser.find_element("id", "detail-title").text == name
    assert [one.text for one in browser.find_elements("css selector", "dialog h3")] == ["Attempts"]
    assert browser.get_log("browser") == []
    ended = fold_events(plan, [AttemptEnded(at=AT, record=make_record(name, Status.PASS))])
    visit(browser, f"{serve(format_page(ended, {name: Excerpt(tail='its own end')}, AT))}#case={name}")
    assert browser.find_element("css selector", "dialog .log").text == "its own end"


def test_an_attempt_on_another_machine_names_it(browser: Any, serve: Callable[[str], str]) -> None:
    visit(browser, f"{serve(format_every_outcome())}#case=c1")
    assert "base-w2 · on board ·" in browser.find_element("css selector", "dialog").text
    visit(browser, f"{serve(format_every_outcome())}#case=c0")
    assert " · on " not in browser.find_element("css selector", "dialog").text


def test_search_sort_and_filter_are_kept_in_the_address(browser: Any, page: str) -> None:
    visit(browser, page)
    assert labels(browser) == ["zlib", MARKUP, "gron", "waits"]
    browser.find_element("css selector", "#heads th:nth-child(3) button").click()
    assert labels(browser) == ["gron", "zlib", MARKUP, "waits"]
    assert (
        browser.find_element("css selector", "#heads th:nth-child(3)").get_attribute("aria-sort")
        == "ascending"
    )
    browser.find_element("id", "search").send_keys("zl")
    assert labels(browser) == ["zlib"]
    address = browser.current_url
    visit(browser, address)
    assert labels(browser) == ["zlib"]
    visit(browser, f"{page}#q={quote('no such case')}")
    assert labels(browser) == []


def test_environment_failures_are_a_tile_of_their_own(browser: Any, page: str) -> None:
    visit(browser, page)
    tiles = {
        tile.get_attribute("data-outcome"): tile.find_element("tag name", "b").text
        for tile in browser.find_elements("css selector", "#tiles button")
    }
    assert tiles == {"PASS": "1", "FAIL": "1", "environment": "1", "open": "1"}
    browser.find_element("css selector", "#tiles button[data-outcome=environment]").click()
    assert labels(browser) == ["gron"]


def test_a_batch_that_fell_silent_does_not_pretend_to_run(browser: Any, page: str) -> None:
    visit(browser, page)
    beat = browser.find_element("id", "beat").text
    assert beat.startswith("last heartbeat ")
    assert "the batch was killed" in beat
