from collections.abc import Callable
from dataclasses import replace

import pytest

from pytest_atesor.core.attempt import AttemptRecord
from pytest_atesor.core.events import (
    AttemptEnded,
    AttemptLost,
    AttemptStarted,
    CasesSelected,
    CasesSkipped,
    Event,
)
from pytest_atesor.core.ledger import Ledger, fold_events
from pytest_atesor.core.outcome import Cause, Status
from pytest_atesor.core.plan import Plan
from pytest_atesor.core.recovery import decide_recovery, decide_rerun, decide_resume
from pytest_atesor.errors import UsageError

PlanFactory = Callable[..., Plan]
RecordFactory = Callable[..., AttemptRecord]
AT = "2026-01-02T03:04:05Z"
LATER = "2026-01-02T04:00:00Z"


def start(case_id: str, attempt_id: str = "001") -> AttemptStarted:
    return AttemptStarted(at=AT, case_id=case_id, attempt_id=attempt_id, slot="base-w1", worker="gw0")


def lost(case_id: str, cause: Cause, attempt_id: str = "001") -> AttemptLost:
    return AttemptLost(at=AT, case_id=case_id, attempt_id=attempt_id, cause=cause, reason="gone")


@pytest.fixture
def ledger(make_plan: PlanFactory, make_record: RecordFactory) -> Ledger:
    """passed, failed, died (no record), cut (started), skipped, waiting; all selected but ``apart``."""
    names = ("passed", "failed", "died", "cut", "skipped", "waiting")
    history: list[Event] = [
        CasesSelected(at=AT, case_ids=names),
        start("passed"),
        AttemptEnded(at=AT, record=make_record("passed")),
        start("failed"),
        AttemptEnded(at=AT, record=make_record("failed", Status.FAIL, Cause.BUILD)),
        start("died"),
        lost("died", Cause.AGENT),
        start("cut"),
        CasesSkipped(at=AT, case_ids=("skipped",), reason="stopped", cause=Cause.INTERRUPTED),
    ]
    return fold_events(make_plan(*names, "apart"), history)


def recover(ledger: Ledger, found: dict[str, dict[str, AttemptRecord | None]]) -> tuple[Event, ...]:
    events = decide_recovery(ledger, found, LATER)
    for event in events:
        ledger.apply(event)
    return events


def test_a_started_attempt_without_a_record_becomes_interrupted(ledger: Ledger) -> None:
    (event,) = recover(ledger, {"cut": {"001": None}})
    assert isinstance(event, AttemptLost)
    assert (event.case_id, event.attempt_id, event.cause) == ("cut", "001", Cause.INTERRUPTED)


def test_an_attempt_that_finished_after_its_controller_is_adopted(
    ledger: Ledger, make_record: RecordFactory
) -> None:
    record = make_record("cut")
    assert recover(ledger, {"cut": {"001": record}}) == (AttemptEnded(at=LATER, record=record, adopted=True),)
    assert ledger.attempts("cut")[0].adopted


def test_attempts_that_the_journal_never_saw_are_found(ledger: Ledger, make_record: RecordFactory) -> None:
    record = make_record("waiting")
    events = recover(ledger, {"cut": {"001": make_record("cut")}, "waiting": {"001": record, "002": None}})
    kinds = [(type(event).__name__, getattr(event, "attempt_id", "")) for event in events[1:]]
    assert kinds == [
        ("AttemptStarted", "001"),
        ("AttemptEnded", ""),
        ("AttemptStarted", "002"),
        ("AttemptLost", "002"),
    ]


def test_an_attempt_that_is_found_keeps_its_machine(ledger: Ledger, make_record: RecordFactory) -> None:
    record = replace(make_record("waiting"), machine="board")
    recover(ledger, {"waiting": {"001": record}})
    assert [attempt.machine for attempt in ledger.attempts("waiting")] == ["board"]


def test_a_record_on_disk_outranks_a_loss_in_the_journal(ledger: Ledger, make_record: RecordFactory) -> None:
    record = make_record("died")
    events = recover(ledger, {"cut": {"001": make_record("cut")}, "died": {"001": record}})
    assert AttemptEnded(at=LATER, record=record, adopted=True) in events


def test_an_attempt_that_the_journal_has_as_ended_is_left_alone(
    ledger: Ledger, make_record: RecordFactory
) -> None:
    found: dict[str, dict[str, AttemptRecord | None]] = {
        "passed": {"001": make_record("passed")},
        "cut": {"001": None},
    }
    assert [type(event).__name__ for event in recover(ledger, found)] == ["AttemptLost"]


def test_recovering_twice_changes_nothing_more(ledger: Ledger) -> None:
    found: dict[str, dict[str, AttemptRecord | None]] = {"cut": {"001": None}, "waiting": {"001": None}}
    assert recover(ledger, found)
    assert recover(ledger, found) == ()


def test_resume_continues_what_has_no_outcome_yet(ledger: Ledger) -> None:
    recover(ledger, {})
    assert decide_resume(ledger) == ("cut", "skipped", "waiting")


def test_resume_with_retry_failed_adds_what_is_not_pass(ledger: Ledger) -> None:
    recover(ledger, {})
    assert decide_resume(ledger, retry_failed=True) == ("failed", "died", "cut", "skipped", "waiting")


def test_resume_of_a_batch_that_never_selected_runs_all_of_it(make_plan: PlanFactory) -> None:
    assert decide_resume(Ledger(make_plan("a", "b"))) == ("a", "b")


def test_resume_goes_on_with_a_rerun_that_was_cut(ledger: Ledger) -> None:
    recover(ledger, {})
    ledger.apply(CasesSelected(at=LATER, case_ids=("passed",)))
    assert "passed" in decide_resume(ledger)


def test_a_rerun_that_was_stopped_forgets_no_failure(ledger: Ledger) -> None:
    recover(ledger, {})
    again = ("passed", "failed", "died")
    ledger.apply(CasesSelected(at=LATER, case_ids=again))
    ledger.apply(CasesSkipped(at=LATER, case_ids=again, reason="stopped", cause=Cause.INTERRUPTED))
    assert decide_rerun(ledger, failed=True) == ("failed", "died", "cut")
    assert decide_resume(ledger) == ("passed", "failed", "died", "cut", "skipped", "waiting")


def test_a_case_that_an_exception_in_a_hook_kept_from_running_has_failed(ledger: Ledger) -> None:
    prevented = CasesSkipped(
        at=AT, case_ids=("passed", "waiting"), reason="no key", cause=Cause.ENVIRONMENT, prevented=True
    )
    ledger.apply(prevented)
    recover(ledger, {})
    assert decide_rerun(ledger, failed=True) == ("passed", "failed", "died", "cut", "waiting")


def test_a_skip_as_it_should_be_has_not_failed(ledger: Ledger, make_record: RecordFactory) -> None:
    recover(ledger, {})
    skipped = make_record("failed", Status.SKIPPED, attempt_id="002", reason="not today")
    ledger.apply(AttemptEnded(at=LATER, record=skipped))
    assert decide_rerun(ledger, failed=True) == ("died", "cut")
    assert decide_resume(ledger, retry_failed=True) == ("died", "cut", "skipped", "waiting")


def test_rerun_selects_in_plan_order(ledger: Ledger) -> None:
    recover(ledger, {})
    assert decide_rerun(ledger, failed=True) == ("failed", "died", "cut")
    assert decide_rerun(ledger, names=["waiting", "passed"]) == ("passed", "waiting")
    assert len(decide_rerun(ledger, everything=True)) == 7


@pytest.mark.parametrize(
    ("failed", "names", "everything"),
    [
        pytest.param(False, [], False, id="none"),
        pytest.param(True, [], True, id="failed-and-all"),
        pytest.param(True, ["passed"], False, id="failed-and-case"),
        pytest.param(False, ["passed"], True, id="case-and-all"),
    ],
)
def test_rerun_needs_exactly_one_selection(
    ledger: Ledger, *, failed: bool, names: list[str], everything: bool
) -> None:
    with pytest.raises(UsageError, match="exactly one selection"):
        decide_rerun(ledger, failed=failed, names=names, everything=everything)


def test_rerun_asks_back_when_one_case_s_id_is_another_s_label(make_plan: PlanFactory) -> None:
    plan = make_plan("first", "second")
    spaced, dashed = plan.cases
    plan = replace(
        plan,
        cases=(
            replace(spaced, label="a b", case_id="a-b"),
            replace(dashed, label="a-b", case_id="a-b-12345678"),
        ),
    )
    ledger = Ledger(plan)
    assert decide_rerun(ledger, names=["a b"]) == ("a-b",)
    assert decide_rerun(ledger, names=["a-b-12345678"]) == ("a-b-12345678",)
    with pytest.raises(UsageError, match=r'"a-b" is the id of the case "a b".*; say "a b" or a-b-12345678$'):
        decide_rerun(ledger, names=["a-b"])


def test_rerun_of_an_unknown_case_hints_at_near_ones(ledger: Ledger) -> None:
    with pytest.raises(UsageError, match=r'the batch has no case "pased"; did you mean "passed"\?$'):
        decide_rerun(ledger, names=["pased"])
