"""Standard output that closes or fails while a batch runs: the rest goes nowhere."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest

__all__ = ["abandon_output"]


def abandon_output(config: pytest.Config) -> str:
    """Return why standard output cannot be written, "" when it can; if not, let the rest go nowhere."""
    if not config.pluginmanager.hasplugin("terminalreporter"):
        return ""
    try:
        config.get_terminal_writer().write("\n", flush=True)  # of an unbuffered one nothing is left to flush
    except OSError as error:
        reason = error.strerror or str(error)
    else:
        return ""
    # It would put back what stands behind file descriptor 1.
    capture: Any = config.pluginmanager.getplugin("capturemanager")
    if capture is not None:
        capture.stop_global_capturing()
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
    return reason
