"""The controller's books: what starts, what a death costs, and that the sums close."""

from collections.abc import Callable
from typing import Any, Protocol

import pytest

from pytest_atesor.bundle.attempts import create_attempt, write_attempt
from pytest_atesor.bundle.writer import Bundle
from pytest_atesor.control.session import BatchSession
from pytest_atesor.core.attempt import AttemptRecord
from pytest_atesor.core.outcome import Cause, Status


class Books(Protocol):
    """What the fixture makes."""

    session: BatchSession
    bundle: Bundle
    notebook: Any
    now_s: list[float]
    unreachable: set[str]

    def begin(self, label: str, attempt_id: str = "001") -> None: ...

    def journal(self) -> list[dict[str, Any]]: ...


BooksFactory = Callable[..., Books]
RecordFactory = Callable[..., AttemptRecord]


def nodeid(label: str) -> str:
    return f"packages/smoke.json::{label}"


def start(books: Books, *labels: str) -> None:
    """Select these cases and let worker gw0 take the first."""
    books.session.set_selection([nodeid(label) for label in labels])
    taken = books.session.take()
    assert taken == nodeid(labels[0])
    books.session.case_sent("gw0", taken)


def test_cases_start_in_the_selection_s_order(books_of: BooksFactory) -> None:
    session = books_of("a", "b", "c").session
    session.set_selection([nodeid("c"), nodeid("a")])
    assert [session.take(), session.take(), session.take()] == [nodeid("c"), nodeid("a"), None]
    assert not session.has_waiting()


def test_before_the_selection_is_known_cases_may_wait(books_of: BooksFactory) -> None:
    session = books_of("a").session
    assert session.has_waiting()
    session.stop("enough")
    assert not session.has_waiting()
    assert session.take() is None


def test_a_case_that_passed_is_0(books_of: BooksFactory, make_record: RecordFactory) -> None:
    books = books_of("a")
    start(books, "a")
    books.begin("a")
    books.session.attempt_ended(nodeid("a"), make_record("a"))
    books.session.case_done("gw0", nodeid("a"))
    assert books.session.settle_rest("never") == ()
    assert books.session.finish() == 0
    assert books.notebook.started == ["a base-w1 001"]
    assert [record.status for record in books.notebook.ended] == [Status.PASS]
    assert [line["type"] for line in books.journal()] == [
        "cases_selected",
        "attempt_started",
        "attempt_ended",
        "batch_ended",
    ]


def test_a_death_in_mid_case_costs_one_attempt(books_of: BooksFactory) -> None:
    books = books_of("a", "b")
    start(books, "a", "b")
    books.begin("a")
    books.session.case_lost("gw0", nodeid("a"))
    (record,) = books.notebook.lost
    assert (record.status, record.cause) == (Status.FAIL, Cause.ENVIRONMENT)
    assert record.reason == "worker gw0 died while the case ran"
    assert books.session.take() == nodeid("b")
    assert books.session.take() is None


def test_a_death_before_the_case_began_costs_nothing(books_of: BooksFactory) -> None:
    books = books_of("a")
    start(books, "a")
    books.session.case_lost("gw0", nodeid("a"))
    assert books.notebook.lost == []
    assert books.session.take() == nodeid("a")


def test_a_case_that_kills_before_it_begins_is_given_up(books_of: BooksFactory) -> None:
    books = books_of("a")
    start(books, "a")
    for worker in ("gw0", "gw1", "gw2"):
        books.session.case_lost(worker, nodeid("a"))
        books.session.take()
    assert not books.session.has_waiting()
    assert books.session.defects == ["a: 3 workers died before it began"]
    assert [case.label for case in books.session.settle_rest("the session ended early")] == ["a"]
    assert books.session.finish() == 1


def test_a_death_whose_news_got_lost_is_found_on_disk(books_of: BooksFactory) -> None:
    books = books_of("a")
    start(books, "a")
    create_attempt(books.bundle.layout, "a")
    books.session.case_lost("gw0", nodeid("a"))
    (record,) = books.notebook.lost
    assert (record.attempt_id, record.status) == ("001", Status.FAIL)
    assert [line["type"] for line in books.journal()][1:] == ["attempt_started", "attempt_lost"]


def test_a_record_that_a_dead_worker_left_is_adopted(
    books_of: BooksFactory, make_record: RecordFactory
) -> None:
    books = books_of("a")
    start(books, "a")
    attempt = create_attempt(books.bundle.layout, "a")
    books.begin("a")
    write_attempt(attempt, make_record("a"))
    books.session.case_lost("gw0", nodeid("a"))
    (record,) = books.notebook.lost
    assert record.status is Status.PASS
    assert books.journal()[-1]["adopted"] is True
    assert books.session.finish() == 0


def test_a_death_after_the_end_costs_nothing(books_of: BooksFactory, make_record: RecordFactory) -> None:
    books = books_of("a")
    start(books, "a")
    books.begin("a")
    books.session.attempt_ended(nodeid("a"), make_record("a"))
    books.session.case_lost("gw0", nodeid("a"))
    assert books.notebook.lost == []
    assert books.session.finish() == 0


def test_a_death_while_stopping_is_an_interruption(books_of: BooksFactory) -> None:
    books = books_of("a")
    start(books, "a")
    books.begin("a")
    books.session.stop("stopped by SIGTERM", signal=15)
    books.session.case_lost("gw0", nodeid("a"))
    (record,) = books.notebook.lost
    assert (record.status, record.cause) == (Status.SKIPPED, Cause.INTERRUPTED)


def test_a_case_that_ended_without_a_record_is_settled(books_of: BooksFactory) -> None:
    books = books_of("a")
    start(books, "a")
    books.begin("a")
    books.session.case_done("gw0", nodeid("a"))
    (record,) = books.notebook.lost
    assert record.reason == "the worker ended the case without a record"


@pytest.mark.parametrize(("number", "code"), [(2, 130), (15, 143), (1, 129)])
def test_a_signal_decides_the_exit_code_and_the_rest_is_skipped(
    books_of: BooksFactory, number: int, code: int
) -> None:
    books = books_of("a", "b", "c")
    start(books, "a", "b", "c")
    books.begin("a")
    books.session.stop("stopped by a signal", signal=number)
    books.session.case_lost("gw0", nodeid("a"))
    assert [case.label for case in books.session.settle_rest("never")] == ["b", "c"]
    assert books.session.skip_reason(books.bundle.plan.cases[1]) == "not started: stopped by a signal"
    assert books.session.finish() == code
    assert str(books.bundle.ledger.tally()) == "planned 3 = done 0 + interrupted 1 + not started 2"


def test_the_last_signal_named_decides_and_gives_the_reason(books_of: BooksFactory) -> None:
    books = books_of("a")
    start(books, "a")
    books.session.stop("stopped by SIGTERM", signal=15)
    books.session.stop("stopped by SIGINT", signal=2)
    assert books.session.stop_order is not None
    assert books.session.stop_order.reason == "stopped by SIGINT"
    books.session.settle_rest("never")
    assert books.session.finish() == 130


def test_signals_after_another_reason_change_the_exit_code_alone(books_of: BooksFactory) -> None:
    books = books_of("a")
    start(books, "a")
    books.session.stop("no space is left", Cause.ENVIRONMENT)
    books.session.stop("stopped by SIGTERM", signal=15)
    books.session.stop("stopped by SIGINT", signal=2)
    assert books.session.stop_order is not None
    assert books.session.stop_order[:2] == ("no space is left", Cause.ENVIRONMENT)
    books.session.settle_rest("never")
    assert books.session.finish() == 130


def test_a_stop_before_the_selection_skips_the_whole_plan(books_of: BooksFactory) -> None:
    books = books_of("a", "b")
    books.session.stop("stopped by SIGINT", signal=2)
    assert [case.label for case in books.session.settle_rest("never")] == ["a", "b"]
    assert books.session.finish() == 130


def test_what_still_runs_at_the_end_is_settled(books_of: BooksFactory) -> None:
    books = books_of("a")
    start(books, "a")
    books.begin("a")
    assert books.session.settle_rest("never") == ()
    assert [record.reason for record in books.notebook.lost] == ["the batch ended before the attempt did"]
    assert books.session.finish() == 1


def test_the_first_reason_to_stop_stands(books_of: BooksFactory) -> None:
    session = books_of("a").session
    session.stop("the disk is full", Cause.ENVIRONMENT)
    session.stop("stopped by SIGINT", signal=2)
    stop = session.stop_order
    assert stop is not None
    assert (stop.reason, stop.cause, stop.signal) == ("the disk is full", Cause.ENVIRONMENT, 2)


def test_a_disk_that_refuses_an_attempt_stops_the_batch(books_of: BooksFactory) -> None:
    books = books_of("a", "b")
    start(books, "a", "b")
    books.session.attempt_began(nodeid("a"), {"error": "no space is left"})
    books.session.case_done("gw0", nodeid("a"))
    assert books.session.take() is None
    assert len(books.session.settle_rest("never")) == 2
    assert books.session.finish() == 1
    assert books.session.defects == ["no space is left"]


def test_an_empty_selection_is_a_bad_flag(books_of: BooksFactory) -> None:
    books = books_of("a")
    books.session.set_selection([])
    assert books.session.finish() == 2
    assert "no case of packages/smoke.json was selected" in books.session.defects[0]


def test_a_stranger_in_the_selection_is_loud(books_of: BooksFactory) -> None:
    with pytest.raises(KeyError):
        books_of("a").session.set_selection(["tests/test_other.py::test_it"])


def test_a_lost_attempt_names_the_machine_it_ran_on(books_of: BooksFactory) -> None:
    books = books_of("a")
    start(books, "a")
    books.begin("a")
    books.session.case_lost("gw0", nodeid("a"))
    (lost,) = books.notebook.lost
    assert (lost.machine, lost.target) == ("board", "qemu")
    assert books.journal()[1]["machine"] == "board"


def test_a_worker_whose_machine_cannot_be_reached_cannot_work(books_of: BooksFactory) -> None:
    books = books_of("a")
    books.unreachable.add("gw0")
    assert not books.session.can_work("gw0")
    assert books.session.can_work("gw1")


def test_a_batch_waits_for_its_machines_but_not_for_ever(books_of: BooksFactory) -> None:
    books = books_of("a")
    books.session.set_selection([nodeid("a")])
    for now_s, is_all in ((0, True), (299, True), (299.5, False), (400, True), (699, True)):
        books.now_s[0] = now_s
        books.session.note_rest(is_all=is_all)
        assert books.session.stop_order is None
    books.now_s[0] = 701
    books.session.note_rest(is_all=True)
    assert books.session.stop_order is not None
    assert books.session.stop_order.cause is Cause.ENVIRONMENT
    assert not books.session.has_waiting()
    assert books.session.defects == ["the batch was stopped: no machine could be reached for 300 s"]
