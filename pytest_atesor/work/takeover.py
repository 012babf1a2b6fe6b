"""The first code that runs in a worker process, before pytest does: make its signals ours.

The module is sent over as source by execnet and must not import anything of ours. Afterwards the worker is
out of the terminal's process group, ignores what a terminal sends, is asked to stop when the controller
dies, and has told its process id. The worker's session puts the real handlers in place.
"""

import ctypes
import os
import signal
from types import FrameType
from typing import Any

_PR_SET_PDEATHSIG = 1


def _nothing(_number: int, _frame: FrameType | None) -> None:
    """Ignore a signal, but let the programs that this process starts have the default."""


if __name__ == "__channelexec__":
    channel: Any = globals()["channel"]  # put there by execnet
    os.setpgid(0, 0)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1):
        signal.signal(number, _nothing)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    channel.send(os.getpid())
