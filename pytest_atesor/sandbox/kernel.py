"""What this program needs of the kernel, and the error where it is not to be had.

A container's seccomp profile may refuse what the kernel itself has.
"""

import ctypes
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from pytest_atesor.errors import SandboxError, SetupError

__all__ = ["check_kernel", "open_process"]

_PR_GET_CHILD_SUBREAPER: Final = 37
_FIX: Final = (
    "use Linux 5.3 or newer, and in a container an engine whose seccomp profile knows it (--security-opt "
    "seccomp=unconfined takes none)"
)


def check_kernel() -> None:
    """Return where all is there that every batch needs. Raises SetupError, which names what is not."""
    for name, attempt in _NEEDS.items():
        try:
            attempt()
        except (OSError, AttributeError) as error:  # Python itself may have been built for an older kernel
            said = error.strerror if isinstance(error, OSError) else str(error)
            raise SetupError(f"{name} does not work here ({said}); {_FIX}") from error


def open_process(pid: int) -> int:
    """Return a descriptor that is readable when the process has ended. Raises SandboxError."""
    try:
        return os.pidfd_open(pid)
    except OSError as error:
        raise SandboxError(
            f"the end of process {pid} cannot be waited for ({error.strerror}); "
            "atesor doctor tells whether this machine can"
        ) from error


def _wait_for_processes() -> None:
    os.close(os.pidfd_open(os.getpid()))


def _wait_for_events() -> None:
    os.close(os.eventfd(0, os.EFD_CLOEXEC))


def _adopt_orphans() -> None:
    flag = ctypes.c_int(0)
    library = ctypes.CDLL(None, use_errno=True)
    if library.prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(flag), 0, 0, 0) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def _look_at_processes() -> None:
    Path("/proc/self/stat").read_bytes()


_NEEDS: Final[Mapping[str, Callable[[], None]]] = {
    "waiting for the end of a process (pidfd_open)": _wait_for_processes,
    "waiting for events (eventfd)": _wait_for_events,
    "adopting orphans (prctl)": _adopt_orphans,
    "looking at processes (/proc)": _look_at_processes,
}
