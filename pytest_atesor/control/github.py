"""The end of a batch inside GitHub Actions: the step summary on disk, the annotations for the terminal."""

from collections.abc import Mapping
from pathlib import Path

from pytest_atesor.core.ledger import Ledger
from pytest_atesor.reports.annotations import format_annotations, format_step_summary
from pytest_atesor.reports.html.page import count_outcomes

__all__ = ["tell_github"]


def tell_github(ledger: Ledger, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Append to the file that GITHUB_STEP_SUMMARY names, and return the annotations to print.

    Nothing happens where it is not set; a file that cannot be written is the only line returned.
    """
    name = environ.get("GITHUB_STEP_SUMMARY")
    if not name:
        return ()
    try:
        with Path(name).open("a", encoding="utf-8") as file:
            file.write(format_step_summary(ledger, count_outcomes(ledger)))
    except OSError as error:
        return (f"atesor: warning: cannot write the step summary {name}: {error.strerror}",)
    return format_annotations(ledger)
