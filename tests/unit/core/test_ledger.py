from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_atesor.core.attempt import AttemptRecord
from pytest_atesor.core.events import (
    AttemptEnded,
    AttemptLost,
    AttemptStarted,
    BatchEnded,
    BatchStarted,
    CasesSelected,
    CasesSkipped,
    Event,
)
from pytest_atesor.core.ledger import (
    Ended,
    Ledger,
    NotStarted,
    Running,
    Skipped,
    count_states,
    fold_events,
)
from pytest_atesor.core.outcome import Cause, Status
from pytest_atesor.core.plan import Plan
from pytest_atesor.errors import BundleError

PlanFactory = Callable[..., Plan]
RecordFactory = Callable[..., AttemptRecord]
AT = "2026-01-02T03:04:05Z"


def select(*case_ids: str) -> CasesSelected:
    return CasesSelected(at=AT, case_ids=case_ids)


def start(case_id: str, attempt_id: str = "001") -> AttemptStarted:
    return AttemptStarted(at=AT, case_id=case_id, attempt_id=attempt_id, slot="base-w1", worker="gw0")


def end(record: AttemptRecord) -> AttemptEnded:
    return AttemptEnded(at=AT, record=record)


def lose(case_id: str, attempt_id: str = "001", cause: Cause = Cause.AGENT) -> AttemptLost:
    return AttemptLost(at=AT, case_id=case_id, attempt_id=attempt_id, cause=cause, reason="gone")


def skip(*case_ids: str, cause: Cause | None = Cause.INTERRUPTED) -> CasesSkipped:
    return CasesSkipped(at=AT, case_ids=case_ids, reason="stopped", cause=cause)


def test_a_case_goes_from_not_started_over_running_to_ended(
    make_plan: PlanFactory, make_record: RecordFactory
) -> None:
    ledger = Ledger(make_plan("zlib"))
    assert ledger.state("zlib") == NotStarted()
    ledger.apply(select("zlib"))
    assert ledger.state("zlib") == NotStarted()
    ledger.apply(start("zlib"))
    assert ledger.state("zlib") == Running(attempt_id="001", slot="base-w1", started_at=AT)
    ledger.apply(end(make_record("zlib")))
    assert ledger.state("zlib") == Ended(make_record("zlib"))


def test_the_latest_attempt_decides_and_the_earlier_ones_stay(
    make_plan: PlanFactory, make_record: RecordFactory
) -> None:
    failed = make_record("zlib", Status.FAIL, Cause.ENVIRONMENT)
    passed = make_record("zlib", attempt_id="002")
    ledger = fold_events(make_plan("zlib"), [start("zlib"), end(failed), start("zlib", "002"), end(passed)])
    assert ledger.state("zlib") == Ended(passed)
    assert [attempt.record for attempt in ledger.attempts("zlib")] == [failed, passed]


def test_an_attempt_whose_worker_died_is_a_fail(make_plan: PlanFactory) -> None:
    state = fold_events(make_plan("zlib"), [start("zlib"), lose("zlib")]).state("zlib")
    assert isinstance(state, Ended)
    assert (state.record.status, state.record.cause, state.record.reason) == (
        Status.FAIL,
        Cause.AGENT,
        "gone",
    )
    assert state.record.slot == "base-w1"


def test_an_attempt_whose_batch_died_is_interrupted(make_plan: PlanFactory) -> None:
    state = fold_events(make_plan("zlib"), [start("zlib"), lose("zlib", cause=Cause.INTERRUPTED)]).state(
        "zlib"
    )
    assert isinstance(state, Ended)
    assert (state.record.status, state.record.cause) == (Status.SKIPPED, Cause.INTERRUPTED)


@pytest.mark.parametrize("lost_first", [True, False], ids=["lost-then-found", "ended-then-lost"])
def test_a_record_outranks_the_loss_of_its_writer(
    make_plan: PlanFactory, make_record: RecordFactory, *, lost_first: bool
) -> None:
    both: list[Event] = [lose("zlib"), end(make_record("zlib"))]
    events = both if lost_first else both[::-1]
    ledger = fold_events(make_plan("zlib"), [start("zlib"), *events])
    assert ledger.state("zlib") == Ended(make_record("zlib"))
    assert len(ledger.attempts("zlib")) == 1


def test_a_skip_holds_until_the_case_is_selected_or_started(make_plan: PlanFactory) -> None:
    ledger = fold_events(make_plan("zlib", "gron"), [select("zlib", "gron"), skip("zlib", "gron")])
    assert ledger.state("zlib") == Skipped(reason="stopped", cause=Cause.INTERRUPTED)
    ledger.apply(select("zlib"))
    ledger.apply(start("gron"))
    assert ledger.state("zlib") == NotStarted()
    assert isinstance(ledger.state("gron"), Running)


def test_a_case_selected_again_remembers_what_it_had_ended_as(
    make_plan: PlanFactory, make_record: RecordFactory
) -> None:
    record = make_record("zlib", Status.FAIL, Cause.BUILD)
    ledger = fold_events(make_plan("zlib"), [start("zlib"), end(record), select("zlib")])
    assert ledger.state("zlib") == NotStarted(record)
    assert ledger.tally().not_started == 1
    assert count_states([ledger.state("zlib")]).by_status[Status.FAIL] == 1


def test_a_rerun_that_stops_before_a_case_leaves_its_outcome(
    make_plan: PlanFactory, make_record: RecordFactory
) -> None:
    record = make_record("zlib", Status.FAIL, Cause.ENVIRONMENT)
    ledger = fold_events(
        make_plan("zlib", "gron"), [start("zlib"), end(record), select("zlib", "gron"), skip("zlib", "gron")]
    )
    assert ledger.state("zlib") == Skipped(reason="stopped", cause=Cause.INTERRUPTED, earlier=record)
    counts = count_states(ledger.states().values())
    assert (counts.by_status[Status.FAIL], counts.by_status[Status.SKIPPED]) == (1, 1)
    assert (counts.environment, counts.ran) == (1, 1)
    assert ledger.tally().not_started == 2


def test_a_case_that_a_hook_kept_from_running_again_has_that_as_its_outcome(
    make_plan: PlanFactory, make_record: RecordFactory
) -> None:
    raised = CasesSkipped(at=AT, case_ids=("zlib",), reason="boom", cause=Cause.ENVIRONMENT, prevented=True)
    events: list[Event] = [start("zlib"), end(make_record("zlib")), select("zlib"), raised]
    ledger = fold_events(make_plan("zlib"), events)
    counts = count_states([ledger.state("zlib")])
    assert (counts.by_status[Status.PASS], counts.by_status[Status.SKIPPED]) == (0, 1)
    assert ledger.tally().not_started == 1


def test_a_skip_as_it_should_be_is_the_outcome_of_now(
    make_plan: PlanFactory, make_record: RecordFactory
) -> None:
    events: list[Event] = [start("zlib"), end(make_record("zlib")), select("zlib"), skip("zlib", cause=None)]
    counts = count_states([fold_events(make_plan("zlib"), events).state("zlib")])
    assert (counts.by_status[Status.PASS], counts.by_status[Status.SKIPPED]) == (0, 1)


def test_the_tally_tells_done_interrupted_and_not_started(
    make_plan: PlanFactory, make_record: RecordFactory
) -> None:
    ledger = fold_events(
        make_plan("a", "b", "c", "d", "e", "f"),
        [
            select("a", "b", "c", "d", "e"),
            start("a"),
            end(make_record("a")),
            start("b"),
            start("c"),
            lose("c", cause=Cause.INTERRUPTED),
            skip("d"),
            skip("e", cause=None),
        ],
    )
    assert str(ledger.tally()) == "planned 6 = done 2 + interrupted 2 + not started 2 (1 never selected)"


def test_counts_name_the_environment_apart_and_rate_what_ran(
    make_plan: PlanFactory, make_record: RecordFactory
) -> None:
    plan = make_plan("a", "b", "c", "d", "e", "f", "g")
    records = [
        make_record("a"),
        make_record("b", Status.UNVERIFIED),
        make_record("c", Status.FAIL, Cause.BUILD),
        make_record("d", Status.FAIL, Cause.ENVIRONMENT),
        make_record("e", Status.TIMEOUT, Cause.BUILD),
    ]
    ledger = fold_events(plan, [select(*"abcdefg"), *(end(record) for record in records), skip("f")])
    counts = count_states(ledger.states().values())
    assert dict(counts.by_status) == {
        Status.PASS: 1,
        Status.UNVERIFIED: 1,
        Status.FAIL: 2,
        Status.TIMEOUT: 1,
        Status.SKIPPED: 1,
    }
    assert (counts.environment, counts.ran, counts.open, counts.pass_rate) == (1, 5, 1, 0.2)


def test_nothing_ran_has_no_rate(make_plan: PlanFactory) -> None:
    assert count_states(Ledger(make_plan("a")).states().values()).pass_rate is None


def test_sessions_are_kept_with_their_ends(make_plan: PlanFactory) -> None:
    first = BatchStarted(at=AT, host="h", pid=1, version="0.1.0", workers=1)
    second = BatchStarted(at=AT, host="h", pid=2, version="0.1.0", workers=1)
    ended = BatchEnded(at=AT, exit_code=0)
    assert fold_events(make_plan("a"), [first, second, ended]).sessions == [(first, None), (second, ended)]


def test_an_event_applied_twice_counts_once(make_plan: PlanFactory, make_record: RecordFactory) -> None:
    history: list[Event] = [
        BatchStarted(at=AT, host="h", pid=1, version="0.1.0", workers=1),
        select("zlib"),
        start("zlib"),
        end(make_record("zlib")),
    ]
    once, twice = Ledger(make_plan("zlib")), Ledger(make_plan("zlib"))
    for event in history:
        once.apply(event)
        twice.apply(event)
        twice.apply(event)
        assert twice.states() == once.states()
    assert (twice.attempts("zlib"), twice.sessions) == (once.attempts("zlib"), once.sessions)


@pytest.mark.parametrize(
    "event", [select("b"), start("b"), lose("b"), skip("b")], ids=lambda event: type(event).__name__
)
def test_a_case_that_is_not_planned_is_an_error(make_plan: PlanFactory, event: Event) -> None:
    with pytest.raises(BundleError, match='the journal names case "b"'):
        fold_events(make_plan("a"), [event])


case_ids = st.sampled_from(["a", "b", "c"])
attempt_ids = st.sampled_from(["001", "002"])
events = st.lists(
    st.builds(select, case_ids)
    | st.builds(start, case_ids, attempt_ids)
    | st.builds(lose, case_ids, attempt_ids, st.sampled_from([Cause.AGENT, Cause.INTERRUPTED]))
    | st.builds(skip, case_ids, cause=st.sampled_from([None, Cause.INTERRUPTED])),
    max_size=20,
)


@given(events)
def test_the_arithmetic_closes_after_any_history(history: list[Event]) -> None:
    from pytest_atesor.core.plan import BatchKind, Case, Platform, Target  # noqa: PLC0415 - only this test needs them

    cases = tuple(
        Case(case_id=name, label=name, kind="port", spec={}, timeout_s=1, derived_name=name) for name in "abc"
    )
    plan = Plan(
        batch_id="x",
        kind=BatchKind.PACKAGE_LIST,
        name="x",
        source="x",
        platform=Platform.DEBIAN,
        target=Target.QEMU,
        cases=cases,
        inputs=(),
        settings={},
        created_at=AT,
    )
    ledger = fold_events(plan, history)
    tally = ledger.tally()
    assert tally.planned == 3 == tally.done + tally.interrupted + tally.not_started
    assert min(tally.done, tally.interrupted, tally.not_started, tally.unselected) >= 0
    counts = count_states(ledger.states().values())
    assert sum(counts.by_status.values()) + counts.open == 3
