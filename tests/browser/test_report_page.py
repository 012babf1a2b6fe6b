"""The report page in a real browser, opened from its file."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from pytest_atesor.core.attempt import AttemptRecord
from pytest_atesor.core.events import AttemptEnded, BatchStarted, CasesSelected
from pytest_atesor.core.excerpt import Excerpt
from pytest_atesor.core.ledger import fold_events
from pytest_atesor.core.outcome import Cause, Status
from pytest_atesor.core.plan import BatchKind, Case, Plan, Platform, Target
from pytest_atesor.reports.html.page import format_page

webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(
        not (shutil.which("chromium") and shutil.which("chromedriver")),
        reason="chromium and chromedriver are not installed",
    ),
]
AT = "2026-01-02T03:04:05Z"
MARKUP = "</script><img src=x onerror='document.title=1'>"


@pytest.fixture(scope="module")
def browser() -> Iterator["webdriver.Chrome"]:
    options = webdriver.ChromeOptions()
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1200,900"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))
    yield driver
    driver.quit()


@pytest.fixture
def page(tmp_path: Path) -> str:
    cases = tuple(
        Case(case_id=f"c{number}", label=label, kind="port", spec={}, timeout_s=60, derived_name=f"c{number}")
        for number, label in enumerate(("zlib", MARKUP, "gron", "waits"))
    )
    plan = Plan(
        batch_id="batch",
        kind=BatchKind.PACKAGE_LIST,
        name="smoke",
        source="smoke.json",
        platform=Platform.DEBIAN,
        target=Target.QEMU,
        cases=cases,
        inputs=(),
        settings={},
        created_at=AT,
    )
    events = [
        BatchStarted(at=AT, host="h", pid=1, version="0", workers=1),
        CasesSelected(at=AT, case_ids=("c0", "c1", "c2", "c3")),
        AttemptEnded(at=AT, record=record("c0", Status.PASS, None, 4.0)),
        AttemptEnded(at=AT, record=record("c1", Status.FAIL, Cause.BUILD, 9.0)),
        AttemptEnded(at=AT, record=record("c2", Status.FAIL, Cause.ENVIRONMENT, 2.0)),
    ]
    text = format_page(fold_events(plan, events), {"c1": Excerpt(tail=MARKUP)}, AT)
    path = tmp_path / "report.html"
    path.write_text(text, encoding="utf-8")
    return path.as_uri()


def record(case_id: str, status: Status, cause: Cause | None, duration_s: float) -> AttemptRecord:
    return AttemptRecord(
        case_id=case_id,
        attempt_id="001",
        status=status,
        cause=cause,
        reason=MARKUP if cause else "",
        exit_code=0,
        slot="base-w1",
        started_at=AT,
        ended_at=AT,
        duration_s=duration_s,
        log=f"cases/{case_id}/attempts/001/run.log",
        log_bytes=1,
        log_dropped_bytes=0,
    )


def labels(browser: "webdriver.Chrome") -> list[str]:
    return [cell.text for cell in browser.find_elements("css selector", "#rows th")]


def visit(browser: "webdriver.Chrome", address: str) -> None:
    browser.get("about:blank")  # a change of the hash alone would not load the page
    browser.get_log("browser")
    browser.get(address)


def test_markup_of_strangers_is_shown_and_never_runs(browser: "webdriver.Chrome", page: str) -> None:
    visit(browser, f"{page}#case=c1")
    assert browser.find_element("css selector", "dialog .log").text == MARKUP
    assert browser.find_elements("css selector", "img") == []
    assert browser.title == "batch · atesor"
    assert browser.get_log("browser") == []


def test_search_sort_and_filter_are_kept_in_the_address(browser: "webdriver.Chrome", page: str) -> None:
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


def test_environment_failures_are_a_tile_of_their_own(browser: "webdriver.Chrome", page: str) -> None:
    visit(browser, page)
    tiles = {
        tile.get_attribute("data-outcome"): tile.find_element("tag name", "b").text
        for tile in browser.find_elements("css selector", "#tiles button")
    }
    assert tiles == {"PASS": "1", "FAIL": "1", "environment": "1", "open": "1"}
    browser.find_element("css selector", "#tiles button[data-outcome=environment]").click()
    assert labels(browser) == ["gron"]


def test_a_batch_that_fell_silent_does_not_pretend_to_run(browser: "webdriver.Chrome", page: str) -> None:
    visit(browser, page)
    beat = browser.find_element("id", "beat").text
    assert beat.startswith("last heartbeat ")
    assert "the batch was killed" in beat
