"""What the rooms of a native batch must agree on."""

from typing import Final

__all__ = ["MACHINE_VARIABLE", "SESSION_VARIABLE"]

MACHINE_VARIABLE: Final = "ATESOR_NATIVE_MACHINE"
"""The environment variable that tells agents of a batch the name of the machine that their slot is on."""

SESSION_VARIABLE: Final = "ATESOR_NATIVE_SESSION"
"""The environment variable that tells workers and agents of a batch where its session's directory is."""
