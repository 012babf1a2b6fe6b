"""The stop flag: levels only rise, and each wakes whoever waits for it."""

import select
import signal

import pytest

from pytest_atesor.runners.stop import KILL_NOW, TERMINATE, StopFlag


def is_readable(descriptor: int) -> bool:
    return bool(select.select([descriptor], [], [], 0)[0])


def test_a_new_flag_asks_for_nothing(stop: StopFlag) -> None:
    assert stop.level == 0
    assert not is_readable(stop.fileno())
    assert not is_readable(stop.fileno(KILL_NOW))


def test_asking_to_terminate_wakes_that_level_only(stop: StopFlag) -> None:
    stop.raise_to(TERMINATE)
    assert stop.level == TERMINATE
    assert is_readable(stop.fileno(TERMINATE))
    assert not is_readable(stop.fileno(KILL_NOW))


def test_insisting_wakes_both_levels(stop: StopFlag) -> None:
    stop.raise_to(KILL_NOW)
    assert stop.level == KILL_NOW
    assert is_readable(stop.fileno(TERMINATE))
    assert is_readable(stop.fileno(KILL_NOW))


def test_a_level_is_never_taken_back(stop: StopFlag) -> None:
    stop.raise_to(KILL_NOW)
    stop.raise_to(TERMINATE)
    assert stop.level == KILL_NOW


@pytest.mark.parametrize("count", [1, 3], ids=["once", "again and again"])
def test_a_signal_handler_may_raise_it(stop: StopFlag, count: int) -> None:
    before = signal.signal(signal.SIGUSR1, lambda _number, _frame: stop.raise_to(TERMINATE))
    try:
        for _ in range(count):
            signal.raise_signal(signal.SIGUSR1)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert stop.level == TERMINATE
    assert is_readable(stop.fileno())
