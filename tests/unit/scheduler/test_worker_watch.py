"""What a worker owes and how long: decided by counted looks, on real processes."""

import signal
import subprocess
from collections.abc import Iterator

import psutil
import pytest

from pytest_atesor.control.signals import ProcessBook
from pytest_atesor.control.watch import Patience, WorkerWatch
from pytest_atesor.work.worker import STOP_WORKER

PATIENCE = Patience(start_s=5, margin_s=3, end_s=4, stop_s=2, pause_s=2)


class Office:
    """One worker, gw0, that is a process which does nothing, and its watch."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            ["/bin/sh", "-c", "trap '' TERM; echo; read nothing"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self.process.stdout is not None
        self.process.stdout.readline()
        self.book = ProcessBook()
        self.book.add("gw0", self.process.pid)
        self.watch = WorkerWatch(self.book, PATIENCE)

    def count_looks(self, most: int = 20, *, is_ending: bool = False) -> int:
        """Return how many looks it takes until the worker is killed; ``most`` when it lives on."""
        for count in range(1, most):
            self.watch.look(is_ending=is_ending)
            if self.watch.explain("gw0"):
                assert self.process.wait() == -signal.SIGKILL
                return count
        assert self.process.poll() is None
        return most


@pytest.fixture
def office() -> Iterator[Office]:
    found = Office()
    yield found
    found.process.kill()
    found.process.communicate()


def test_a_worker_that_owes_nothing_may_take_its_time(office: Office) -> None:
    assert office.count_looks() == 20


def test_a_collection_has_its_time(office: Office) -> None:
    office.watch.expect_collection("gw0")
    assert office.count_looks() == 5
    assert office.watch.explain("gw0") == "did not collect its cases within 5 s"


def test_a_case_has_its_own_time_and_the_margin(office: Office) -> None:
    office.watch.expect_news("gw0", 4)
    assert office.count_looks() == 4 + 3


def test_news_begin_the_time_anew(office: Office) -> None:
    office.watch.expect_news("gw0", 1)
    assert office.count_looks(3) == 3
    office.watch.expect_news("gw0", 1)
    assert office.count_looks() == 4


def test_the_end_of_the_case_ends_the_duty(office: Office) -> None:
    office.watch.expect_news("gw0", 1)
    office.count_looks(3)
    office.watch.expect_nothing("gw0")
    assert office.count_looks() == 20


def test_an_idle_worker_must_end_when_the_batch_does(office: Office) -> None:
    assert office.count_looks(is_ending=True) == 4


def test_a_running_case_is_not_hurried_by_the_end_of_the_others(office: Office) -> None:
    office.watch.expect_news("gw0", 7)
    assert office.count_looks(is_ending=True) == 7 + 3


def test_who_was_told_to_stop_has_little_time_left(office: Office) -> None:
    office.watch.expect_news("gw0", 7)
    office.book.send(STOP_WORKER)
    assert office.count_looks() == 2


def test_a_stopped_process_is_not_waited_for(office: Office) -> None:
    office.watch.expect_news("gw0", 7)
    office.process.send_signal(signal.SIGSTOP)
    while psutil.Process(office.process.pid).status() != psutil.STATUS_STOPPED:
        pass
    assert office.count_looks() == 2
    assert office.watch.explain("gw0") == "was stopped by a signal and did not go on within 2 s"


def test_a_worker_that_ended_is_nobody_s_business(office: Office) -> None:
    office.watch.expect_collection("gw0")
    office.book.remove("gw0")
    assert office.count_looks() == 20
