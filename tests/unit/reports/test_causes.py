from collections.abc import Callable, Iterable

import pytest

from pytest_atesor.core.attempt import AttemptRecord
from pytest_atesor.core.events import AttemptEnded, CasesSkipped
from pytest_atesor.core.ledger import Ledger, fold_events
from pytest_atesor.core.outcome import Cause, Status
from pytest_atesor.core.plan import BatchKind, Plan
from pytest_atesor.reports.causes import format_causes

PlanFactory = Callable[..., Plan]
RecordFactory = Callable[..., AttemptRecord]
AT = "2026-01-02T03:04:05Z"


def fold(plan: Plan, records: Iterable[AttemptRecord]) -> Ledger:
    return fold_events(plan, [AttemptEnded(at=AT, record=record) for record in records])


@pytest.fixture
def ledger(make_plan: PlanFactory, make_record: RecordFactory) -> Ledger:
    names = ("zlib", "disk", "gron", "anew", "jq", "stuck", "open", "never")
    records = [
        make_record("zlib"),
        make_record("disk", Status.FAIL, Cause.ENVIRONMENT, reason="no space is left on the device"),
        make_record("gron", Status.FAIL, Cause.BUILD, reason="main.go:7:2: undefined: fetch"),
        make_record("anew", Status.UNVERIFIED, reason="no riscv64 output was found"),
        make_record("jq", Status.FAIL, Cause.BUILD, reason="util.go:99:1: undefined: fetch"),
        make_record("stuck", Status.TIMEOUT, Cause.BUILD),
    ]
    skipped = CasesSkipped(
        at=AT, case_ids=("never",), reason="the batch was stopped", cause=Cause.INTERRUPTED
    )
    return fold_events(
        make_plan(*names), [*(AttemptEnded(at=AT, record=record) for record in records), skipped]
    )


def test_the_causes_at_80_columns(ledger: Ledger) -> None:
    assert (
        format_causes(ledger, width=80)
        == """\
6 packages did not pass, by cause:
PACKAGES  STATUS      DETAILS
       2  FAIL        build: main.go:7:2: undefined: fetch
                      gron, jq
                      output/batch_logs/gron.log
       1  UNVERIFIED  no riscv64 output was found
                      anew
                      output/batch_logs/anew.log
       1  TIMEOUT     build: no reason was given
                      stuck
                      output/batch_logs/stuck.log
       1  SKIPPED     interrupted: the batch was stopped
                      never
       1  FAIL        environment: no space is left on the device
                      disk
                      output/batch_logs/disk.log"""
    )


def test_nothing_is_said_where_every_case_passed(make_plan: PlanFactory, make_record: RecordFactory) -> None:
    assert format_causes(fold(make_plan("zlib", "open"), [make_record("zlib")]), width=80) == ""


def test_forty_failures_are_one_cause(make_plan: PlanFactory, make_record: RecordFactory) -> None:
    names = [f"p{number}" for number in range(40)]
    records = [
        make_record(name, Status.FAIL, Cause.BUILD, reason=f"/build/{name}/x.c:{len(name)}: error: bad")
        for name in names
    ]
    assert (
        format_causes(fold(make_plan(*names, kind=BatchKind.MANIFEST), records), width=100)
        == """\
40 cases did not pass, by cause:
CASES  STATUS  DETAILS
   40  FAIL    build: /build/p0/x.c:2: error: bad
               p0, p1, p2, p3, p4, p5, p6, p7, p8, p9, p10, p11, p12, p13, p14, p15, p16, p17, p18,
               p19 and 20 more
               output/batch_logs/p0.log"""
    )


def test_many_causes_are_counted(make_plan: PlanFactory, make_record: RecordFactory) -> None:
    words = [f"{first}{second}q" for first in "ghijk" for second in "lmnop"]
    records = [make_record(word, Status.FAIL, Cause.BUILD, reason=f"no {word[::-1]}") for word in words]
    lines = format_causes(fold(make_plan(*words), records), width=80).split("\n")
    assert lines[0] == "25 packages did not pass, by cause:"
    assert lines[-1] == "and 5 more causes of 5 packages"
    assert sum("build: no " in line for line in lines) == 20


@pytest.mark.parametrize("width", [1, 40, 60, 200])
def test_a_strangers_text_fits_and_cannot_touch_the_terminal(
    make_plan: PlanFactory, make_record: RecordFactory, width: int
) -> None:
    name = "abcdefghij" * 10
    reason = "\x1b[2J[bold]bad[/bold]\u202e\r\n\x07" + "w" * 150 + " 日本語のエラー" * 9
    record = make_record(name, Status.FAIL, Cause.OUTPUT_LIMIT, reason=reason)
    text = format_causes(fold(make_plan(name), [record]), width=width)
    assert all(len(line) <= max(width, 40) for line in text.split("\n"))
    assert "[bold]bad[/bold]<U+202E>" in text.replace("\n", "").replace(" ", "")
    assert text.replace("\n", "").isprintable()
