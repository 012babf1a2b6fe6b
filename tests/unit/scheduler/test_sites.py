"""A batch on several machines: whose orders a slot's worker gets, and what the end of one machine means."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_atesor.control.alarm import Alarm, Patience
from pytest_atesor.control.crew import Crew
from pytest_atesor.control.signals import ProcessBook
from pytest_atesor.control.site import Berth, Site
from pytest_atesor.core.attempt import AttemptRecord
from pytest_atesor.core.outcome import Cause, Status
from pytest_atesor.errors import SandboxError
from pytest_atesor.work.worker import Orders

RecordFactory = Callable[..., AttemptRecord]
BooksFactory = Callable[..., Any]
BREAKER_CASES = 5


@dataclass
class Machine:
    """An engine that may be gone."""

    name: str = "podman"
    is_gone: bool = False
    asked: int = 0

    def probe(self) -> None:
        self.asked += 1
        if self.is_gone:
            raise SandboxError("nobody answers")


class Place:
    """Two machines with a slot each, their crew, and an alarm over a session."""

    def __init__(self, books: Any) -> None:
        self.engines = {"left": Machine(), "right": Machine()}
        self.sites = tuple(self.make_site(name) for name in self.engines)
        self.cleared: list[str] = []
        self.session = books.session
        self.ended: list[str] = []
        leases = [SimpleNamespace(name=f"base-w{number}", release=lambda: None) for number in (1, 2)]
        berths: Any = [Berth(*pair) for pair in zip(leases, self.sites, strict=True)]  # type: ignore[arg-type]  # our leases
        self.crew = Crew(
            berths, make_orders(), ProcessBook(), lambda _engine, name: self.cleared.append(name)
        )
        self.now_s = 0.0
        self.meanwhile: Callable[[], object] = lambda: None
        self.alarm = Alarm(
            self.session,
            self.sites,
            self.crew.find_site,
            lambda: self.ended.append("all"),
            Patience(limit_s=20, clock=lambda: self.now_s, wait=self.wait),
        )

    def wait(self, seconds: float) -> None:
        self.now_s += seconds
        self.meanwhile()

    def make_site(self, name: str) -> Site:
        engine: Any = self.engines[name]
        return Site(
            engine=engine,
            slots=1,
            image=f"image-{name}",
            memory_bytes=len(name),
            machine=name,
            environment={"MACHINE": name},
            is_reachable=lambda: not engine.is_gone,
        )


def make_orders() -> Orders:
    return Orders(
        plan="/plan",
        rootdir="/root",
        worker="",
        slot="",
        state="/state",
        log_directory="/logs",
        environment={"A": "a"},
        case_ids=None,
        sandboxed=["port"],
        engine="podman",
        image="",
        memory_bytes=None,
        pids=1,
        cpu_weight=1,
        retry_environment=1,
    )


@pytest.fixture
def place(books_of: BooksFactory) -> Place:
    return Place(books_of("a", "b"))


def test_a_worker_s_orders_are_those_of_its_slot_s_machine(place: Place) -> None:
    left, right = (place.crew.give_orders(worker) for worker in ("gw0", "gw1"))
    assert (left.slot, left.machine, left.image, left.memory_bytes) == ("base-w1", "left", "image-left", 4)
    assert (right.slot, right.machine, right.image, right.memory_bytes) == (
        "base-w2",
        "right",
        "image-right",
        5,
    )
    assert right.environment == {"A": "a", "MACHINE": "right"}
    assert place.crew.find_site("base-w2") is place.sites[1]
    assert place.crew.find_site("") is None


def test_a_worker_can_work_while_its_own_machine_can_be_reached(place: Place) -> None:
    for worker in ("gw0", "gw1"):
        place.crew.give_orders(worker)
    place.engines["left"].is_gone = True
    assert [place.crew.can_work(worker) for worker in ("gw0", "gw1")] == [False, True]
    place.engines["left"].is_gone = False
    assert place.crew.can_work("gw0")


def test_the_slot_of_a_dead_worker_is_cleared_where_that_is_possible(place: Place) -> None:
    for worker in ("gw0", "gw1"):
        place.crew.give_orders(worker)
    place.engines["left"].is_gone = True
    for worker in ("gw0", "gw1"):
        place.crew.discharge(worker, has_died=True)
    assert place.cleared == ["base-w2"]


def lost(make_record: RecordFactory, slot: str) -> AttemptRecord:
    record = make_record("a")
    return replace(record, status=Status.FAIL, cause=Cause.ENVIRONMENT, reason="gone", slot=slot)


def test_a_machine_that_is_gone_does_not_stop_the_others(place: Place, make_record: RecordFactory) -> None:
    place.engines["left"].is_gone = True
    for _ in range(2 * BREAKER_CASES):
        place.alarm.case_ended(lost(make_record, "base-w1"))
    assert place.session.stop_order is None
    assert place.now_s == 0
    place.engines["right"].is_gone = True
    place.alarm.case_ended(lost(make_record, "base-w2"))
    assert place.session.stop_order.reason == "the engine does not answer: nobody answers"
    assert place.ended == ["all"]


def test_an_engine_that_answers_again_in_time_does_not_stop_the_batch(
    place: Place, make_record: RecordFactory
) -> None:
    for engine in place.engines.values():
        engine.is_gone = True

    def come_back() -> None:
        place.engines["left"].is_gone = place.now_s < 19

    place.meanwhile = come_back
    place.alarm.case_ended(lost(make_record, "base-w1"))
    assert place.session.stop_order is None
    assert place.now_s == 19


def test_an_engine_is_waited_for_within_bounds_and_asked_no_more_after_that(
    place: Place, make_record: RecordFactory
) -> None:
    for engine in place.engines.values():
        engine.is_gone = True
    place.alarm.case_ended(lost(make_record, "base-w1"))
    assert place.now_s == 20
    assert place.ended == ["all"]
    asked = place.engines["left"].asked
    place.alarm.case_ended(lost(make_record, "base-w1"))
    assert (place.engines["left"].asked, place.ended) == (asked, ["all"])


def test_who_stops_a_batch_does_not_wait_for_its_engine(place: Place, make_record: RecordFactory) -> None:
    for engine in place.engines.values():
        engine.is_gone = True
    place.meanwhile = lambda: place.session.stop("Ctrl-C", signal=2)
    place.alarm.case_ended(lost(make_record, "base-w1"))
    assert place.now_s < 1
    assert place.session.stop_order.reason == "Ctrl-C"
    assert place.ended == []


def test_failures_on_machines_that_answer_count_for_the_breaker(
    place: Place, make_record: RecordFactory
) -> None:
    for _ in range(BREAKER_CASES):
        place.alarm.case_ended(lost(make_record, "base-w1"))
    assert place.session.stop_order is not None
    assert place.ended == []
