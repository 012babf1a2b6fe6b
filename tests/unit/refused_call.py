"""``python -m tests.unit.refused_call NUMBER ERRNO COMMAND...``: a command whose system call NUMBER fails.

The kernel's own filter does it, as it does for a container whose profile does not know the call.
"""

import ctypes
import os
import struct
import sys

_PR_SET_SECCOMP = 22
_PR_SET_NO_NEW_PRIVS = 38
_FILTER_MODE = 2
_LOAD, _EQUALS, _RETURN = 0x20, 0x15, 0x06
_ALLOW, _FAIL = 0x7FFF0000, 0x00050000

PIDFD_OPEN = "434"
"""Its number on all kinds of machines."""


def refuse(number: int, code: int) -> None:
    """Have that system call fail with ``code``, for this process and all that it becomes."""
    steps = (
        (_LOAD, 0, 0, 0),
        (_EQUALS, 0, 1, number),
        (_RETURN, 0, 0, _FAIL | code),
        (_RETURN, 0, 0, _ALLOW),
    )
    program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    head = ctypes.create_string_buffer(struct.pack("HP", len(steps), ctypes.addressof(program)))
    library = ctypes.CDLL(None, use_errno=True)
    one, none = ctypes.c_ulong(1), ctypes.c_ulong(0)
    if library.prctl(_PR_SET_NO_NEW_PRIVS, one, none, none, none) != 0:
        raise OSError(ctypes.get_errno(), "PR_SET_NO_NEW_PRIVS")
    if library.prctl(_PR_SET_SECCOMP, ctypes.c_ulong(_FILTER_MODE), head) != 0:
        raise OSError(ctypes.get_errno(), "PR_SET_SECCOMP")


if __name__ == "__main__":
    refuse(int(sys.argv[1]), int(sys.argv[2]))
    os.execvp(sys.argv[3], sys.argv[3:])  # noqa: S606 - the command of whoever called
