from collections.abc import Callable
from dataclasses import replace

from pytest_atesor.core.attempt import AttemptRecord
from pytest_atesor.core.events import AttemptEnded
from pytest_atesor.core.ledger import fold_events
from pytest_atesor.core.outcome import Cause, Status
from pytest_atesor.core.plan import Plan
from pytest_atesor.reports.history import format_package_line


def test_a_package_is_found_by_its_label_before_another_one_s_id(
    make_plan: Callable[..., Plan], make_record: Callable[..., AttemptRecord]
) -> None:
    plan = make_plan("first", "second")
    first, second = plan.cases
    cases = (replace(first, label="a b", case_id="a-b"), replace(second, label="a-b", case_id="a-b-12345678"))
    records = (make_record("a-b"), make_record("a-b-12345678", Status.FAIL, Cause.BUILD))
    ledger = fold_events(
        replace(plan, cases=cases), [AttemptEnded(at="", record=record) for record in records]
    )
    assert "  FAIL  " in format_package_line(ledger, "a-b")
    assert "  PASS  " in format_package_line(ledger, "a b")
    assert "  FAIL  " in format_package_line(ledger, "a-b-12345678")
    assert format_package_line(ledger, "c") == ""
