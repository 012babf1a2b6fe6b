import json
from collections.abc import Callable

import pytest

from pytest_atesor.bundle.excerpts import Excerpts
from pytest_atesor.bundle.layout import BundleLayout
from pytest_atesor.core.attempt import AttemptRecord
from pytest_atesor.core.events import AttemptEnded, CasesSelected
from pytest_atesor.core.ledger import fold_events
from pytest_atesor.core.plan import Plan

AT = "2026-01-02T03:04:05Z"


@pytest.mark.parametrize(
    ("native_tools", "shown"),
    [
        pytest.param({"make": "4.4.1-2", "gcc": "14.2.0-19"}, "gcc 14.2.0-19, make 4.4.1-2", id="two"),
        pytest.param({"ma\x1b[31mke": "4\n4"}, "make 4 4", id="hostile"),
        pytest.param({"x" * 90 + str(number): "1" for number in range(900)}, "x" * 90, id="many"),
        pytest.param({}, "", id="none"),
        pytest.param(["make"], "", id="no-table"),
        pytest.param(None, "", id="absent"),
    ],
)
def test_native_tools_of_a_result_are_one_bounded_line(
    layout: BundleLayout,
    make_plan: Callable[..., Plan],
    make_record: Callable[..., AttemptRecord],
    native_tools: object,
    shown: str,
) -> None:
    record = make_record("zlib")
    attempt = layout.attempt(record.case_id, record.attempt_id)
    attempt.root.mkdir(parents=True)
    attempt.result.write_text(json.dumps({"native_tools": native_tools}), encoding="utf-8")
    ledger = fold_events(
        make_plan("zlib"), [CasesSelected(at=AT, case_ids=("zlib",)), AttemptEnded(at=AT, record=record)]
    )
    line = Excerpts(layout).read(ledger)["zlib"].native_tools
    assert line.startswith(shown)
    assert len(line) <= 4000
    assert bool(line) == bool(shown)


def test_a_log_that_is_a_directory_has_no_tail(
    layout: BundleLayout, make_plan: Callable[..., Plan], make_record: Callable[..., AttemptRecord]
) -> None:
    record = make_record("zlib")
    layout.attempt(record.case_id, record.attempt_id).log.mkdir(parents=True)
    ledger = fold_events(
        make_plan("zlib"), [CasesSelected(at=AT, case_ids=("zlib",)), AttemptEnded(at=AT, record=record)]
    )
    assert Excerpts(layout).read(ledger)["zlib"].tail == ""
