"""Stop signals that come before the first case can start."""

import os
import signal
import subprocess
import sys

import pytest

from pytest_atesor.control.signals import ProcessBook, SetupInterrupted, StopSignals
from pytest_atesor.runners.stop import TERMINATE, StopFlag


def together() -> float:
    """Stand for a clock on which everything happens at once: a later signal would end this very process."""
    return 0.0


def test_a_signal_during_setup_is_raised_once_however_often_it_is_sent() -> None:
    with StopFlag() as flag, StopSignals(flag, ProcessBook(), together):
        with pytest.raises(SetupInterrupted) as caught:
            os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)  # a parent that passes on what its whole group got
        os.kill(os.getpid(), signal.SIGINT)
        assert caught.value.number == signal.SIGTERM


@pytest.mark.parametrize(
    ("sent", "heard"),
    [
        ([signal.SIGINT, signal.SIGTERM], [signal.SIGINT]),
        ([signal.SIGTERM, signal.SIGINT], [signal.SIGTERM, signal.SIGINT]),
        ([signal.SIGTERM, signal.SIGHUP, signal.SIGTERM], [signal.SIGTERM]),
    ],
    ids=["ctrl-c first", "ctrl-c second", "none"],
)
def test_signals_sent_together_are_one_wish_and_ctrl_c_is_heard_among_them(
    sent: list[signal.Signals], heard: list[signal.Signals]
) -> None:
    got: list[int] = []
    with StopFlag() as flag, StopSignals(flag, ProcessBook(), together) as signals:
        signals.watch(got.append)
        for number in sent:
            os.kill(os.getpid(), number)
        assert flag.level == TERMINATE
    assert got == heard


def test_what_comes_while_the_first_one_takes_its_time_came_with_it() -> None:
    moments = [0.0]

    def deal_slowly(_number: int) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        moments.append(7.0)
        os.kill(os.getpid(), signal.SIGHUP)
        moments.append(8.0)

    with StopFlag() as flag, StopSignals(flag, ProcessBook(), lambda: moments[-1]) as signals:
        signals.watch(deal_slowly)
        os.kill(os.getpid(), signal.SIGTERM)
        moments.append(8.1)
        os.kill(os.getpid(), signal.SIGHUP)
        assert flag.level == TERMINATE


_HANGING = """
import os, signal, time
from pytest_atesor.control.signals import ProcessBook, StopSignals
from pytest_atesor.runners.stop import StopFlag

moments = [0.0]

def hang(number):
    moments.append(11.0)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(600)

with StopFlag() as flag, StopSignals(flag, ProcessBook(), lambda: moments[-1]) as signals:
    signals.watch(hang)
    os.kill(os.getpid(), signal.SIGINT)
"""


def test_who_insists_while_the_first_one_hangs_is_heard() -> None:
    ended = subprocess.run([sys.executable, "-c", _HANGING], check=False, timeout=300)
    assert ended.returncode == 128 + signal.SIGINT


def test_the_former_handler_comes_back() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with StopFlag() as flag, StopSignals(flag, ProcessBook()):
        assert signal.getsignal(signal.SIGTERM) != before
    assert signal.getsignal(signal.SIGTERM) == before


_IGNORING = """
import os, signal
from pytest_atesor.control.signals import ProcessBook, SetupInterrupted, StopSignals
from pytest_atesor.runners.stop import StopFlag

for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
    signal.signal(number, signal.SIG_IGN)
got = []
with StopFlag() as flag, StopSignals(flag, ProcessBook()) as signals:
    os.kill(os.getpid(), signal.SIGHUP)  # none of them raises SetupInterrupted
    os.kill(os.getpid(), signal.SIGINT)
    signals.watch(got.append)
    os.kill(os.getpid(), signal.SIGHUP)
    os.kill(os.getpid(), signal.SIGINT)
    os.kill(os.getpid(), signal.SIGTERM)
print(*got, *(signal.getsignal(number).name for number in (signal.SIGINT, signal.SIGHUP)))
"""


def test_what_was_ignored_at_the_start_stays_ignored_but_for_term() -> None:
    ended = subprocess.run([sys.executable, "-c", _IGNORING], check=True, timeout=300, capture_output=True)
    assert ended.stdout.split() == [b"15", b"SIG_IGN", b"SIG_IGN"]
