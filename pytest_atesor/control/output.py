"""Standard output that closes or fails while a batch runs: the batch goes on, and says so at its end."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

__all__ = ["Output", "print_error"]


class Output:
    """What pytest's reporter writes to. ``results`` is where the results are, "" when there are none."""

    def __init__(self, config: pytest.Config, results: str) -> None:
        self._config = config
        self._results = results
        self._loss = ""
        self._is_settled = False

    def watch(self) -> None:
        """From now on let no line that cannot be written end the session."""
        if self._config.pluginmanager.hasplugin("terminalreporter"):
            writer: Any = self._config.get_terminal_writer()
            for name in ("write", "write_raw", "flush"):
                if hasattr(writer, name):  # pytest before 8.4 has no write_raw
                    setattr(writer, name, self._forgive(getattr(writer, name)))

    def find_loss(self) -> str:
        """Return why a line could not be written so far, "" when all could."""
        if self._config.pluginmanager.hasplugin("terminalreporter"):
            self._config.get_terminal_writer().flush()
        return self._loss

    def settle(self, session: pytest.Session | None) -> None:
        """If a line could not be written, say so once on standard error, and let the session end with no 0.

        What is still written goes nowhere, so that no flush at the end of the process changes the exit code.
        """
        if self._is_settled or not self.find_loss():
            return
        self._is_settled = True
        # It would put back what stands behind the file descriptors.
        capture: Any = self._config.pluginmanager.getplugin("capturemanager")
        if capture is not None:
            capture.stop_global_capturing()
        _drop(sys.stdout)
        where = f"; the results are in {self._results}" if self._results else ""
        print_error(f"atesor: error: cannot write to standard output: {self._loss}{where}")
        if session is not None:
            session.exitstatus = session.exitstatus or 1

    def _forgive(self, write: Callable[..., None]) -> Callable[..., None]:
        def write_or_note(*arguments: Any, **more: Any) -> None:  # noqa: ANN401 - whatever pytest's takes
            try:
                write(*arguments, **more)
            except OSError as error:
                self._loss = self._loss or error.strerror or str(error)

        return write_or_note


def print_error(line: str) -> None:
    """Print a line to standard error; where that is lost too, the exit code has to do."""
    try:
        print(line, file=sys.stderr, flush=True)  # noqa: T201 - pytest's reporter cannot
    except OSError:
        _drop(sys.stderr)


def _drop(stream: TextIO) -> None:
    """Let what is written to a stream go nowhere, also what it still holds: Python would end with 120."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
        stream.flush()
