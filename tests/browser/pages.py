"""Report pages for the browser tests, and how they are visited."""

import shutil
from collections.abc import Mapping
from typing import Any

import pytest

from pytest_atesor.core.attempt import AttemptRecord
from pytest_atesor.core.events import (
    AttemptEnded,
    AttemptStarted,
    BatchStarted,
    CasesSelected,
    CasesSkipped,
)
from pytest_atesor.core.excerpt import Excerpt, plan_tails
from pytest_atesor.core.ledger import fold_events
from pytest_atesor.core.outcome import Cause, Status
from pytest_atesor.core.plan import BatchKind, Case, Plan, Platform, Target
from pytest_atesor.reports.html.page import format_page

AT = "2026-01-02T03:04:05Z"
NEEDS_BROWSER = [
    pytest.mark.browser,
    pytest.mark.skipif(
        not (shutil.which("chromium") and shutil.which("chromedriver")),
        reason="chromium and chromedriver are not installed",
    ),
]


def make_plan(*labels: str) -> Plan:
    """Return the plan of a package list; the case ids are c0, c1, …"""
    cases = tuple(
        Case(case_id=f"c{number}", label=label, kind="port", spec={}, timeout_s=60, derived_name=f"c{number}")
        for number, label in enumerate(labels)
    )
    return Plan(
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


def make_record(
    case_id: str,
    status: Status,
    cause: Cause | None = None,
    *,
    reason: str = "",
    slot: str = "base-w1",
    span: tuple[int, int] = (0, 1),
) -> AttemptRecord:
    """Return the record of an attempt; ``span`` has its begin and end in seconds of the batch."""
    begin_s, end_s = span
    return AttemptRecord(
        case_id=case_id,
        attempt_id="001",
        status=status,
        cause=cause,
        reason=reason,
        exit_code=0,
        slot=slot,
        started_at=f"2026-01-02T03:04:{begin_s:02}Z",
        ended_at=f"2026-01-02T03:04:{end_s:02}Z",
        duration_s=end_s - begin_s,
        log=f"cases/{case_id}/attempts/001/run.log",
        log_bytes=1,
        log_dropped_bytes=0,
        machine="board" if slot == "base-w2" else "",
    )


def format_every_outcome(excerpts: Mapping[str, Excerpt] | None = None) -> str:
    """Return the page of a batch that runs, with a case of every outcome on two slots.

    c0 to c4 ended, c5 is skipped, c6 runs, c7 waits, c8 is not selected. w1 had c0, c2 and c4, w2 c1 and c3.
    """
    ends: tuple[tuple[Status, Cause | None], ...] = (
        (Status.PASS, None),
        (Status.UNVERIFIED, None),
        (Status.FAIL, Cause.BUILD),
        (Status.TIMEOUT, Cause.BUILD),
        (Status.FAIL, Cause.ENVIRONMENT),
    )
    records = [
        make_record(
            f"c{number}",
            status,
            cause,
            reason="" if status is Status.PASS else f"reason {number}",
            slot=f"base-w{1 + number % 2}",
            span=(10 * (number // 2), 10 * (number // 2) + 8),
        )
        for number, (status, cause) in enumerate(ends)
    ]
    names = tuple(f"c{number}" for number in range(8))
    events = [
        BatchStarted(at=AT, host="h", pid=1, version="0", workers=2),
        CasesSelected(at=AT, case_ids=names),
        *(AttemptEnded(at=AT, record=record) for record in records),
        CasesSkipped(at=AT, case_ids=("c5",), reason="stopped", cause=Cause.INTERRUPTED),
        AttemptStarted(
            at="2026-01-02T03:04:40Z", case_id="c6", attempt_id="001", slot="base-w2", worker="gw1"
        ),
    ]
    labels = ("pass", "doubt", "fail", "late", "machine", "skip", "runs", "waits", "apart")
    ledger = fold_events(make_plan(*labels), events)
    return format_page(ledger, excerpts or {}, "2026-01-02T03:04:59Z")


def format_many(count: int) -> str:
    """Return the page of a batch on eight slots, a third of it failed for ten causes, with full excerpts."""
    records = [
        make_record(
            f"c{number}",
            Status.PASS if number % 3 else Status.FAIL,
            None if number % 3 else Cause.BUILD,
            reason="" if number % 3 else f"src/x{number}.c:{number}: error: {'abcdefghij'[number % 10]}",
            slot=f"base-w{1 + number % 8}",
            span=(number * 50 // count, number * 50 // count + 9),
        )
        for number in range(count)
    ]
    events = [
        CasesSelected(at=AT, case_ids=tuple(record.case_id for record in records)),
        *(AttemptEnded(at=AT, record=record) for record in records),
    ]
    tails = plan_tails({record.case_id: record.status for record in records})
    excerpts = {
        record.case_id: Excerpt(
            tail=("gcc -c <x>.c\n" * 400)[: tails[record.case_id]],
            phases=("fetch: ok 1.0 s", "build: ok 8.0 s"),
            artifacts=(f"usr/bin/{record.case_id}: 12345 bytes",),
            tests="passed: ctest, 12 passed, 0 failed, 0 skipped, 3.1 s",
            native_tools="gcc-14-riscv64-linux-gnu 14.2.0-19cross1, make 4.4.1-2",
        )
        for record in records
    }
    ledger = fold_events(make_plan(*(f"package-{number}" for number in range(count))), events)
    return format_page(ledger, excerpts, AT)


def visit(browser: Any, address: str) -> None:
    """Open a page anew and forget what the browser said of the last one."""
    browser.get("about:blank")  # a change of the hash alone would not load the page
    browser.get_log("browser")
    browser.get(address)
