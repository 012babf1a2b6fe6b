import csv
import io
import json
from collections.abc import Callable

import pytest

from pytest_atesor.core.attempt import AttemptRecord
from pytest_atesor.core.events import (
    AttemptEnded,
    AttemptStarted,
    BatchEnded,
    BatchStarted,
    CasesSelected,
    CasesSkipped,
)
from pytest_atesor.core.ledger import Ledger, fold_events
from pytest_atesor.core.outcome import Cause, Status
from pytest_atesor.core.plan import Json, Plan
from pytest_atesor.core.schema import check_schema
from pytest_atesor.core.summary import Missing, summarize
from pytest_atesor.core.views import format_attempts, format_results, format_summary, format_summary_csv

PlanFactory = Callable[..., Plan]
RecordFactory = Callable[..., AttemptRecord]
AT = "2026-01-02T03:04:05Z"


@pytest.fixture
def ledger(make_plan: PlanFactory, make_record: RecordFactory) -> Ledger:
    return fold_events(
        make_plan("zlib", "gron", "anew", "apart"),
        [
            BatchStarted(
                at=AT, host="h", pid=1, version="0.1.0", workers=2, image="debian", image_ids=("a1",)
            ),
            CasesSelected(at=AT, case_ids=("zlib", "gron", "anew")),
            AttemptStarted(at=AT, case_id="zlib", attempt_id="001", slot="base-w1", worker="gw0"),
            AttemptEnded(
                at=AT, record=make_record("zlib", Status.FAIL, Cause.ENVIRONMENT, reason="no space")
            ),
            AttemptStarted(at=AT, case_id="zlib", attempt_id="002", slot="base-w1", worker="gw0"),
            AttemptEnded(at=AT, record=make_record("zlib", attempt_id="002")),
            AttemptStarted(
                at=AT, case_id="gron", attempt_id="001", slot="base-w2", worker="gw1", machine="board"
            ),
            CasesSkipped(at=AT, case_ids=("anew",), reason="stopped", cause=Cause.INTERRUPTED),
        ],
    )


def test_attempts_name_target_and_machine(ledger: Ledger) -> None:
    view = json.loads(format_attempts(ledger, AT))
    check_schema(view, "batch_attempts_v1", "batch_attempts.json")
    assert view["target"] == "qemu"
    assert [attempt["machine"] for attempt in view["attempts"]] == ["", "", "board"]


def test_results_have_the_current_outcome_of_every_case_and_the_sums(ledger: Ledger) -> None:
    results = json.loads(format_results(ledger, AT))
    check_schema(results, "batch_results_v1", "batch_results.json")
    found = [
        (case["case_id"], case["state"], case["status"], case["attempt_id"], case["attempts"])
        for case in results["cases"]
    ]
    assert found == [
        ("zlib", "ended", "PASS", "002", 2),
        ("gron", "running", None, "001", 1),
        ("anew", "skipped", "SKIPPED", None, 0),
        ("apart", "not_started", None, None, 0),
    ]
    assert results["tally"] == {"planned": 4, "done": 1, "interrupted": 1, "not_started": 2, "unselected": 1}
    assert results["counts"]["PASS"] == 1
    assert results["counts"]["open"] == 1
    assert results["exit_code"] is None


def test_the_exit_code_is_that_of_the_latest_session(ledger: Ledger) -> None:
    ledger.apply(BatchEnded(at=AT, exit_code=130, reason="Ctrl-C"))
    assert json.loads(format_results(ledger, AT))["exit_code"] == 130
    ledger.apply(BatchStarted(at=AT, host="h", pid=2, version="0.1.0", workers=2))
    assert json.loads(format_results(ledger, AT))["exit_code"] is None


def test_attempts_are_the_whole_history(ledger: Ledger) -> None:
    history = json.loads(format_attempts(ledger, AT))
    check_schema(history, "batch_attempts_v1", "batch_attempts.json")
    found = [(each["path"], each["status"], each["cause"], each["worker"]) for each in history["attempts"]]
    assert found == [
        ("cases/zlib/attempts/001", "FAIL", "environment", "gw0"),
        ("cases/zlib/attempts/002", "PASS", None, "gw0"),
        ("cases/gron/attempts/001", None, None, "gw1"),
    ]
    (session,) = history["sessions"]
    assert (session["pid"], session["image"], session["image_ids"]) == (1, "debian", ["a1"])


def test_the_summary_is_one_row_per_case_with_its_fields(ledger: Ledger) -> None:
    values: dict[str, dict[str, Json | Missing]] = {"zlib": {"size": 5, "gap": Missing()}}
    summary = json.loads(format_summary(ledger, summarize(ledger, values), ["size", "gap"], AT))
    check_schema(summary, "batch_summary_v1", "batch_summary.json")
    assert summary["fields"] == ["size", "gap"]
    assert [row["values"] for row in summary["rows"]] == [{"size": 5}, {}, {}, {}]


def test_no_cell_of_the_csv_is_run_as_a_formula(make_plan: PlanFactory, make_record: RecordFactory) -> None:
    record = make_record("zlib", Status.FAIL, Cause.BUILD, reason='=HYPERLINK("http://x","y")')
    ledger = fold_events(make_plan("zlib"), [AttemptEnded(at=AT, record=record)])
    fields = ["=cmd", "n", "minus", "at", "plus", "tab", "json", "flag", "none", "gone"]
    values: dict[str, Json | Missing] = {
        "=cmd": "x",
        "n": -5,
        "minus": "-1+2",
        "at": "@SUM(A1)",
        "plus": "+1",
        "tab": "\t=1",
        "json": ["=1"],
        "flag": True,
        "none": None,
        "gone": Missing(),
    }
    text = format_summary_csv(summarize(ledger, {"zlib": values}), fields)
    header, row = csv.reader(io.StringIO(text))
    cells = dict(zip(header, row, strict=True))
    assert "'=cmd" in cells
    assert cells["reason"] == '\'=HYPERLINK("http://x","y")'
    assert [cells[name] for name in fields[1:]] == [
        "-5",
        "'-1+2",
        "'@SUM(A1)",
        "'+1",
        "'\t=1",
        '["=1"]',
        "true",
        "",
        "",
    ]
    assert cells["duration_s"] == "12.34"


def test_a_field_that_is_called_like_a_column_of_every_row_hides_none(
    make_plan: PlanFactory, make_record: RecordFactory
) -> None:
    record = make_record("zlib", Status.FAIL, Cause.BUILD, duration_s=12.3)
    ledger = fold_events(make_plan("zlib"), [AttemptEnded(at=AT, record=record)])
    values: dict[str, Json | Missing] = {"status": "failed", "duration_s": 7, "values.status": "x", "size": 1}
    header, row = csv.reader(
        io.StringIO(format_summary_csv(summarize(ledger, {"zlib": values}), list(values)))
    )
    assert header[-4:] == ["values.status", "values.duration_s", "values.values.status", "size"]
    assert len(set(header)) == len(header)
    cells = dict(zip(header, row, strict=True))
    assert (cells["status"], cells["values.status"]) == ("FAIL", "failed")
    assert (cells["duration_s"], cells["values.duration_s"]) == ("12.3", "7")
    assert cells["values.values.status"] == "x"


def test_no_cell_of_the_csv_has_a_control_character(
    make_plan: PlanFactory, make_record: RecordFactory
) -> None:
    ledger = fold_events(make_plan("zlib"), [AttemptEnded(at=AT, record=make_record("zlib"))])
    values: dict[str, Json | Missing] = {
        "text": "\x1b[31mred\x00 \u202e",
        "formula": "\x00=1",
        "json": ["\x9b31m"],
    }
    text = format_summary_csv(summarize(ledger, {"zlib": values}), list(values))
    _, row = csv.reader(io.StringIO(text))
    assert row[-3:] == ["red <U+202E>", "'=1", '[""]']
