"""What GitHub Actions is told of a batch, and that its runner obeys nobody else meanwhile.

The runner carries out commands that it finds in what is printed, wherever a line begins with one. Reasons and
ends of logs are strangers' text, so it is told to carry out none while a session prints.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final, final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pytest_atesor.core.ledger import Ledger

__all__ = ["CommandGate", "is_github", "tell_github"]

_TOKEN_BYTES: Final = 16
_SUMMARY: Final = "GITHUB_STEP_SUMMARY"


def is_github(environ: Mapping[str, str]) -> bool:
    """Say whether GitHub's runner reads what is printed, or another one that understands the same."""
    return bool(environ.get(_SUMMARY)) or environ.get("GITHUB_ACTIONS") == "true"


def tell_github(ledger: Ledger, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Append to the file that GITHUB_STEP_SUMMARY names, and return the annotations to print.

    Nothing happens where it is not set; a file that cannot be written is the only line returned.
    """
    # The page's room, for the end only.
    from pytest_atesor.reports.annotations import format_annotations, format_step_summary  # noqa: PLC0415
    from pytest_atesor.reports.html.page import count_outcomes  # noqa: PLC0415 - the same

    name = environ.get(_SUMMARY)
    if not name:
        return ()
    try:
        with Path(name).open("a", encoding="utf-8") as file:
            file.write(format_step_summary(ledger, count_outcomes(ledger)))
    except OSError as error:
        return (f"atesor: warning: cannot write the step summary {name}: {error.strerror}",)
    return format_annotations(ledger)


@final
class CommandGate:
    """Lets the runner obey nothing that is printed between ``close`` and ``open``.

    Only who knows the token can make it listen again; it is made by ``make_token`` and printed nowhere else.
    """

    def __init__(self, make_token: Callable[[], str] = lambda: os.urandom(_TOKEN_BYTES).hex()) -> None:
        self._make_token = make_token
        self._token = ""

    def close(self) -> tuple[str, ...]:
        """Return the lines that stop the runner from obeying; none when it has been stopped."""
        if self._token:
            return ()
        self._token = self._make_token()
        return (f"::stop-commands::{self._token}",)

    def open(self, commands: Sequence[str] = ()) -> tuple[str, ...]:
        """Return the lines that let the runner obey ``commands``; they must be the last that are printed."""
        token, self._token = self._token, ""
        return (*([f"::{token}::"] if token else []), *commands)
