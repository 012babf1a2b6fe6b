"""What the rooms of a native batch must agree on."""

from typing import Final

__all__ = ["SESSION_VARIABLE"]

SESSION_VARIABLE: Final = "ATESOR_NATIVE_SESSION"
"""The environment variable that tells workers and agents of a batch where its session's directory is."""
