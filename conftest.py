"""The suite's own plugins: pytester runs the batches of tests/plugin."""

import signal
from types import FrameType

import pytest

pytest_plugins = ["pytester"]


def pytest_configure(config: pytest.Config) -> None:
    """Let what the tests start hear INT and HUP, also where this run was started to ignore them (nohup).

    The processes that run the tests do it: xdist's controller would leave its workers without the protection.
    """
    if config.getoption("numprocesses", None) and not hasattr(config, "workerinput"):
        return
    for number in (signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, _ignore)


def _ignore(_number: int, _frame: FrameType | None) -> None:
    """Stand in for SIG_IGN, which programs that are started inherit."""
