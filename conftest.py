"""The suite's own plugins: pytester runs the batches of tests/plugin."""

import signal
from types import FrameType

pytest_plugins = ["pytester"]


def pytest_configure() -> None:
    """Let what the tests start hear INT and HUP, also where this run was started to ignore them (nohup)."""
    for number in (signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, _ignore)


def _ignore(_number: int, _frame: FrameType | None) -> None:
    """Stand in for SIG_IGN, which programs that are started inherit."""
