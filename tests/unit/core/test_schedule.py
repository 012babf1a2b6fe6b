import time

from hypothesis import given
from hypothesis import strategies as st

from pytest_atesor.core.plan import Case
from pytest_atesor.core.schedule import CaseQueue, order_cases


def case(case_id: str, derived_name: str | None = None) -> Case:
    return Case(
        case_id=case_id,
        label=case_id,
        kind="port",
        spec={},
        timeout_s=1,
        derived_name=derived_name or case_id,
    )


def ids(cases: tuple[Case, ...]) -> str:
    return "".join(each.case_id for each in cases)


def test_the_longest_expected_runs_first() -> None:
    assert ids(order_cases(map(case, "abc"), {"a": 1, "b": 3, "c": 2})) == "bca"


def test_without_history_plan_order_holds() -> None:
    assert ids(order_cases(map(case, "cab"), {})) == "cab"


def test_an_unknown_case_counts_as_the_mean_of_the_known() -> None:
    assert ids(order_cases(map(case, "abcd"), {"a": 1, "d": 9})) == "dbca"


def test_two_cases_of_one_derived_name_never_run_at_once() -> None:
    queue = CaseQueue([case("a", "x"), case("b", "x"), case("c", "y")])
    assert [queue.take(), queue.take(), queue.take()] == [case("a", "x"), case("c", "y"), None]
    assert len(queue) == 1
    queue.release("x")
    assert queue.take() == case("b", "x")
    assert queue.take() is None


def test_a_retry_keeps_its_rank() -> None:
    queue = CaseQueue(map(case, "abc"))
    first = queue.take()
    assert first is not None
    queue.put(first)
    queue.release("a")
    assert [queue.take(), queue.take(), queue.take()] == [case("a"), case("b"), case("c")]


@given(
    st.lists(st.sampled_from("xyz"), max_size=12),
    st.lists(st.floats(0, 100), max_size=12),
    st.data(),
)
def test_any_interleaving_serves_every_case_once_and_exclusively(
    names: list[str], durations: list[float], data: st.DataObject
) -> None:
    cases = [case(str(index), name) for index, name in enumerate(names)]
    queue = CaseQueue(cases, {str(index): seconds for index, seconds in enumerate(durations)})
    running: list[Case] = []
    served: list[str] = []
    while len(queue) or running:
        if running and data.draw(st.booleans()):
            queue.release(running.pop(data.draw(st.integers(0, len(running) - 1))).derived_name)
            continue
        taken = queue.take()
        if taken is None:
            assert running, "something waits, nothing runs, and nothing is offered"
            queue.release(running.pop().derived_name)
            continue
        assert taken.derived_name not in {each.derived_name for each in running}
        running.append(taken)
        served.append(taken.case_id)
    assert sorted(served) == sorted(each.case_id for each in cases)


def test_ten_thousand_cases_of_one_name_are_served_in_no_time() -> None:
    # Quadratic dispatch takes a minute here.
    queue = CaseQueue(case(str(index), "same") for index in range(10_000))
    began = time.process_time()
    while queue.take() is not None:
        assert queue.take() is None
        queue.release("same")
    assert len(queue) == 0
    assert time.process_time() - began < 5
