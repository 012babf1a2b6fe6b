"""Attempt directories.

Numbered, created exclusively, never used twice, finished by the record that is written last.
"""

import os
from pathlib import Path
from typing import Final

from pytest_atesor.bundle.files import guard, write_atomic
from pytest_atesor.bundle.layout import AttemptLayout, BundleLayout
from pytest_atesor.bundle.strangers import open_strangers_file
from pytest_atesor.core.attempt import AttemptRecord
from pytest_atesor.core.attempt_json import format_attempt, parse_attempt
from pytest_atesor.core.fields import ATTEMPT_ID
from pytest_atesor.core.ledger import Ledger
from pytest_atesor.errors import BadInputError, BundleError

__all__ = ["create_attempt", "list_attempts", "read_attempt", "scan_attempts", "write_attempt"]

_LARGEST_RECORD_BYTES: Final = 4 * 1024 * 1024


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
            number = max(map(int, _list_ids(parent)), default=0)
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
    """Write an attempt's record: whole, the last thing that is written there. Raises BundleError.

    A kill leaves it; a power cut may not. The journal has the same record durably, and an attempt that has
    neither was cut short.
    """
    write_atomic(attempt.record, format_attempt(record), durable=False)


def read_attempt(attempt: AttemptLayout) -> AttemptRecord | None:
    """Return an attempt's record, None when it has none. Raises BundleError when it is no record of it.

    Where the worker died first it is the agent's word: read as a stranger's file, and for no other attempt.
    """
    with guard("read", attempt.record):
        try:
            with open_strangers_file(attempt.record) as file:
                data = file.read(_LARGEST_RECORD_BYTES)
        except FileNotFoundError:
            return None
        except BadInputError as error:
            raise BundleError(f"{attempt.record} is no attempt record: {error}") from None
    record = parse_attempt(data, str(attempt.record))
    told = f"cases/{record.case_id}/attempts/{record.attempt_id}/{attempt.log.name}"
    if told != record.log or not attempt.log.as_posix().endswith(f"/{told}"):
        raise BundleError(f"{attempt.record} is the record of another attempt")
    return record


def list_attempts(layout: BundleLayout, case_id: str) -> list[str]:
    """Return the ids of a case's attempt directories by number. Raises BundleError."""
    parent = layout.case(case_id) / "attempts"
    with guard("read", parent):
        try:
            return sorted(_list_ids(parent), key=int)
        except FileNotFoundError:
            return []


def scan_attempts(layout: BundleLayout, ledger: Ledger) -> dict[str, dict[str, AttemptRecord | None]]:
    """Return the attempts on disk whose end the ledger does not know: case id, attempt id, record or None.

    What no worker can have written, one record whole, is none: its attempt was cut short.
    """
    found: dict[str, dict[str, AttemptRecord | None]] = {}
    for case_id in (case.case_id for case in ledger.plan.cases):
        ids = list_attempts(layout, case_id)
        if not ids:
            continue
        ended = {
            attempt.attempt_id for attempt in ledger.attempts(case_id) if attempt.record and not attempt.lost
        }
        found[case_id] = {
            attempt_id: _read_left_behind(layout.attempt(case_id, attempt_id))
            for attempt_id in ids
            if attempt_id not in ended
        }
    return found


def _list_ids(parent: Path) -> list[str]:
    names = os.listdir(parent)  # noqa: PTH208 - a Path for each entry costs more than the listing
    return [name for name in names if ATTEMPT_ID.fullmatch(name)]


def _read_left_behind(attempt: AttemptLayout) -> AttemptRecord | None:
    try:
        return read_attempt(attempt)
    except BundleError:
        return None
