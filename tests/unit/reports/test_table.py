from collections.abc import Callable
from dataclasses import replace

import pytest

from pytest_atesor.core.attempt import AttemptRecord
from pytest_atesor.core.events import AttemptEnded, AttemptStarted, CasesSelected, CasesSkipped, Event
from pytest_atesor.core.ledger import Counts, Ledger, fold_events
from pytest_atesor.core.outcome import Cause, Status
from pytest_atesor.core.plan import BatchKind, Plan
from pytest_atesor.reports.table import format_headline, format_report

PlanFactory = Callable[..., Plan]
RecordFactory = Callable[..., AttemptRecord]
AT = "2026-01-02T03:04:05Z"


@pytest.fixture
def ledger(make_plan: PlanFactory, make_record: RecordFactory) -> Ledger:
    names = ("zlib", "gron", "anew", "libsigc++", "stuck", "late", "never")
    records = [
        make_record("zlib"),
        make_record(
            "gron", Status.FAIL, Cause.BUILD, reason="main.go:7:2: undefined: fetch", duration_s=3.21
        ),
        make_record("anew", Status.UNVERIFIED, None, reason="no riscv64 output was found", duration_s=100.0),
        make_record("libsigc++", Status.FAIL, Cause.ENVIRONMENT, reason="no space is left on the device"),
        make_record("stuck", Status.TIMEOUT, Cause.BUILD, reason="stopped after 1800 s", duration_s=1800.04),
    ]
    events: list[Event] = [
        CasesSelected(at=AT, case_ids=names),
        *(AttemptEnded(at=AT, record=record) for record in records),
        AttemptStarted(at=AT, case_id="late", attempt_id="001", slot="base-w2", worker="gw1"),
        CasesSkipped(at=AT, case_ids=("never",), reason="the batch was stopped", cause=Cause.INTERRUPTED),
    ]
    return fold_events(make_plan(*names, "apart"), events)


def test_the_report_at_100_columns(ledger: Ledger) -> None:
    assert (
        format_report(ledger, width=100)
        == """\
PACKAGE    STATUS      SECONDS  LOG

1 FAIL (build): main.go:7:2: undefined: fetch
gron       FAIL            3.2  output/batch_logs/gron.log

1 TIMEOUT (build): stopped after 1800 s
stuck      TIMEOUT      1800.0  output/batch_logs/stuck.log

1 UNVERIFIED: no riscv64 output was found
anew       UNVERIFIED    100.0  output/batch_logs/anew.log

1 FAIL (environment, not the package's fault): no space is left on the device
libsigc++  FAIL           12.3  output/batch_logs/libsigc++.log

1 SKIPPED (interrupted): the batch was stopped
never      SKIPPED

1 running
late       running

1 PASS
zlib       PASS           12.3  output/batch_logs/zlib.log

7 packages: 1 PASS, 1 UNVERIFIED, 2 FAIL, 1 TIMEOUT, 1 SKIPPED, 1 without an outcome
pass rate 1/5 = 20.0 %, verified passes only
1 FAIL of the environment: the package is not to blame, run it again
1 of 8 planned cases were not selected"""
    )


def test_forty_failures_are_one_cause(make_plan: PlanFactory, make_record: RecordFactory) -> None:
    names = [f"p{number}" for number in range(40)]
    records = [
        make_record(name, Status.FAIL, Cause.BUILD, reason=f"/build/{name}/x.c:{len(name)}: error: bad")
        for name in names
    ]
    plan = make_plan(*names, kind=BatchKind.MANIFEST)
    lines = format_report(
        fold_events(plan, [AttemptEnded(at=AT, record=record) for record in records]), width=100
    ).split("\n")
    assert lines[2:5] == [
        "40 FAIL (build): <path>: error: bad",
        "for example: /build/p0/x.c:2: error: bad",
        "p0        FAIL           12.3  output/batch_logs/p0.log",
    ]
    assert lines[-4].startswith("p39 ")
    assert sum("error: bad" in line for line in lines) == 2


def test_many_passes_stand_beside_each_other(make_plan: PlanFactory, make_record: RecordFactory) -> None:
    names = [f"p{number}" for number in range(21)]
    again = make_record("p9", attempt_id="002")
    events: list[Event] = [AttemptEnded(at=AT, record=make_record(name)) for name in names]
    events[9] = AttemptEnded(at=AT, record=make_record("p9", Status.FAIL, Cause.ENVIRONMENT, reason="full"))
    events += [
        AttemptStarted(at=AT, case_id="p9", attempt_id="002", slot="base-w2", worker="gw1"),
        AttemptEnded(at=AT, record=again),
    ]
    assert (
        format_report(fold_events(make_plan(*names), events), width=80).split("\n\n")[1]
        == """\
21 PASS
p0        PASS  12.3    p1        PASS  12.3    p2        PASS  12.3
p3        PASS  12.3    p4        PASS  12.3    p5        PASS  12.3
p6        PASS  12.3    p7        PASS  12.3    p8        PASS  12.3
p10       PASS  12.3    p11       PASS  12.3    p12       PASS  12.3
p13       PASS  12.3    p14       PASS  12.3    p15       PASS  12.3
p16       PASS  12.3    p17       PASS  12.3    p18       PASS  12.3
p19       PASS  12.3    p20       PASS  12.3
p9        PASS           12.3  output/batch_logs/p9.log
                               attempt 001: FAIL (environment)"""
    )


def test_the_table_at_60_columns_loses_nothing(ledger: Ledger) -> None:
    table = format_report(ledger, width=60).partition("\n\n7 packages")[0]
    assert max(map(len, table.splitlines())) <= 60
    assert (
        table
        == """\
PACKAGE    STATUS      SECONDS  LOG in output/batch_logs/

1 FAIL (build): main.go:7:2: undefined: fetch
gron       FAIL            3.2  gron.log

1 TIMEOUT (build): stopped after 1800 s
stuck      TIMEOUT      1800.0  stuck.log

1 UNVERIFIED: no riscv64 output was found
anew       UNVERIFIED    100.0  anew.log

1 FAIL (environment, not the package's fault): no space is
left on the device
libsigc++  FAIL           12.3  libsigc++.log

1 SKIPPED (interrupted): the batch was stopped
never      SKIPPED

1 running
late       running

1 PASS
zlib       PASS           12.3  zlib.log"""
    )


@pytest.mark.parametrize("width", [1, 40, 60, 80, 120, 200])
def test_long_and_wide_names_fit_and_are_folded_whole(
    make_plan: PlanFactory, make_record: RecordFactory, width: int
) -> None:
    name = "abcdefghij" * 10
    record = make_record(name, Status.FAIL, Cause.OUTPUT_LIMIT, reason="w" * 199 + " 日本語のエラー " * 9)
    report = format_report(fold_events(make_plan(name), [AttemptEnded(at=AT, record=record)]), width=width)
    table = report.partition("\n\n1 package")[0]
    first_column = "".join(line.split(" ")[0] for line in table[table.index("\nabc") :].splitlines())
    assert first_column == name
    assert all(len(line) <= max(width, 40) for line in table.splitlines())


def test_what_is_no_terminal_gets_names_reasons_and_paths_whole(
    make_plan: PlanFactory, make_record: RecordFactory
) -> None:
    long = "a-name-that-is-longer-than-a-quarter-of-the-line"
    names = ("zlib", long, *(f"package-number-{number}-of-many" for number in range(21)))
    reason = "error: " + "a reason of many words, " * 10 + "and its end"
    failed = make_record(long, Status.FAIL, Cause.BUILD, reason=reason)
    events = [AttemptEnded(at=AT, record=replace(failed, attempt_id="001"))]
    events += [AttemptEnded(at=AT, record=replace(failed, attempt_id="002", duration_s=1234.5))]
    events += [AttemptEnded(at=AT, record=make_record(name)) for name in names if name != long]
    for width in (40, 80):
        report = format_report(fold_events(make_plan(*names), events), width=width, folds=False)
        heading, row, earlier = report.split("\n\n")[1].split("\n")
        assert heading == f"1 FAIL (build): {reason}"
        assert row == f"{long}  FAIL         1234.5  output/batch_logs/{long}.log"
        assert earlier.strip() == "attempt 001: FAIL (build)"
        passed = report.split("\n\n")[2]
        assert passed.startswith("22 PASS\nzlib")
        assert all(f"{name} " in passed for name in names if name != long)
        assert "…" not in report


def test_a_table_that_fits_is_the_same_whether_it_may_be_folded_or_not(ledger: Ledger) -> None:
    assert format_report(ledger, width=100, folds=False) == format_report(ledger, width=100)


def test_what_is_not_folded_has_the_colours_too(ledger: Ledger) -> None:
    colored = format_report(ledger, width=100, folds=False, color=True)
    assert "\x1b[32mPASS\x1b[0m           12.3  output/batch_logs/zlib.log" in colored


def test_a_strangers_text_cannot_touch_the_terminal(
    make_plan: PlanFactory, make_record: RecordFactory
) -> None:
    record = make_record(
        "zlib", Status.FAIL, Cause.BUILD, reason="\x1b[2J[bold]error[/bold] :smile:\r\n\x07next\u202e"
    )
    report = format_report(fold_events(make_plan("zlib"), [AttemptEnded(at=AT, record=record)]), width=120)
    assert "[bold]error[/bold] :smile: next<U+202E>" in report
    assert report.isprintable() or not set(report) - set("\n") & {chr(code) for code in range(32)}


def test_colour_only_on_request(ledger: Ledger) -> None:
    assert "\x1b" not in format_report(ledger, width=80)
    assert "\x1b[32mPASS" in format_report(ledger, width=80, color=True)


def test_a_batch_of_nothing_says_so(make_plan: PlanFactory) -> None:
    report = format_report(Ledger(make_plan()), width=80)
    assert (
        report
        == "0 packages: 0 PASS, 0 UNVERIFIED, 0 FAIL, 0 TIMEOUT, 0 SKIPPED\npass rate: none, no package ran"
    )


@pytest.mark.parametrize(
    ("passed", "failed", "rate"),
    [
        pytest.param(7, 1, "7/8 = 87.5 %", id="seven-of-eight"),
        pytest.param(8, 0, "8/8 = 100.0 %", id="all"),
        pytest.param(0, 8, "0/8 = 0.0 %", id="none"),
        pytest.param(2, 1, "2/3 = 66.7 %", id="rounded"),
        pytest.param(4999, 1, "4999/5000 = 99.9 %", id="never-100-with-a-fail"),
        pytest.param(1, 4999, "1/5000 = 0.1 %", id="never-0-with-a-pass"),
    ],
)
def test_the_pass_rate_is_honest(passed: int, failed: int, rate: str) -> None:
    by_status = dict.fromkeys(Status, 0) | {Status.PASS: passed, Status.FAIL: failed}
    counts = Counts(by_status=by_status, environment=0, ran=passed + failed, open=0)
    assert format_headline(counts).splitlines()[1] == f"pass rate {rate}, verified passes only"
