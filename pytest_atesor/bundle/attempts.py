"""Attempt directories.

Numbered, created exclusively, never used twice, finished by the record that is written last.
"""

import os
import re
from typing import Final

from pytest_atesor.bundle.files import guard, write_atomic
from pytest_atesor.bundle.layout import AttemptLayout, BundleLayout
from pytest_atesor.core.attempt import AttemptRecord
from pytest_atesor.core.attempt_json import format_attempt, parse_attempt
from pytest_atesor.core.ledger import Ledger

__all__ = ["create_attempt", "read_attempt", "scan_attempts", "write_attempt"]

_ATTEMPT_ID: Final = re.compile(r"[0-9]{3,}")


def create_attempt(layout: BundleLayout, case_id: str) -> AttemptLayout:
    """Create the next attempt directory of a case: "001", "002", … The kernel decides between rivals.

    Raises BundleError when the disk does not let us.
    """
    parent = layout.case(case_id) / "attempts"
    with guard("create an attempt in", parent):
        try:
            parent.mkdir()
            number = 0
        except FileExistsError:
            names = os.listdir(parent)  # noqa: PTH208 - a Path for each entry costs more than the listing
            number = max((int(name) for name in names if _ATTEMPT_ID.fullmatch(name)), default=0)
        except FileNotFoundError:
            parent.mkdir(parents=True, exist_ok=True)
            number = 0
        while True:
            number += 1
            attempt = layout.attempt(case_id, f"{number:03d}")
            try:
                attempt.root.mkdir()
            except FileExistsError:
                continue
            return attempt


def write_attempt(attempt: AttemptLayout, record: AttemptRecord) -> None:
    """Write an attempt's record: whole, durable, the last thing that is written there."""
    write_atomic(attempt.record, format_attempt(record))


def read_attempt(attempt: AttemptLayout) -> AttemptRecord | None:
    """Return an attempt's record, None when it has none. Raises BundleError when it is no record."""
    with guard("read", attempt.record):
        try:
            data = attempt.record.read_bytes()
        except FileNotFoundError:
            return None
    return parse_attempt(data, str(attempt.record))


def scan_attempts(layout: BundleLayout, ledger: Ledger) -> dict[str, dict[str, AttemptRecord | None]]:
    """Return the attempts on disk whose end the ledger does not know: case id, attempt id, record or None."""
    found: dict[str, dict[str, AttemptRecord | None]] = {}
    for case_id in (case.case_id for case in ledger.plan.cases):
        parent = layout.case(case_id) / "attempts"
        with guard("read", parent):
            try:
                names = [entry.name for entry in parent.iterdir()]
            except FileNotFoundError:
                continue
        ended = {
            attempt.attempt_id for attempt in ledger.attempts(case_id) if attempt.record and not attempt.lost
        }
        ids = sorted((name for name in names if _ATTEMPT_ID.fullmatch(name) and name not in ended), key=int)
        found[case_id] = {attempt_id: read_attempt(layout.attempt(case_id, attempt_id)) for attempt_id in ids}
    return found
