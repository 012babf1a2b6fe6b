"""Attempt records as JSON: ``attempt.json``, the worker channel and the journal carry the same object."""

from collections.abc import Mapping
from typing import cast

from pytest_atesor.core.attempt import AttemptRecord
from pytest_atesor.core.fields import read_attempt_id, read_number, read_text, read_texts
from pytest_atesor.core.jsontext import format_json, parse_json
from pytest_atesor.core.outcome import Cause, Status
from pytest_atesor.core.plan import Json
from pytest_atesor.core.schema import check_schema
from pytest_atesor.core.versions import read_version
from pytest_atesor.errors import BadInputError, BundleError

__all__ = ["dump_attempt", "format_attempt", "load_attempt", "parse_attempt"]


def dump_attempt(record: AttemptRecord) -> dict[str, Json]:
    """Return the record as a JSON object, with its ``schema_version``."""
    return {
        "schema_version": "attempt_v1",
        "case_id": record.case_id,
        "attempt_id": record.attempt_id,
        "status": record.status.value,
        "cause": None if record.cause is None else record.cause.value,
        "reason": record.reason,
        "exit_code": record.exit_code,
        "slot": record.slot,
        "started_at": record.started_at,
        "ended_at": record.ended_at,
        "duration_s": record.duration_s,
        "log": record.log,
        "log_bytes": record.log_bytes,
        "log_dropped_bytes": record.log_dropped_bytes,
        "leaks": list(record.leaks),
        **({"target": record.target} if record.target else {}),
        **({"machine": record.machine} if record.machine else {}),
    }


def load_attempt(value: Json, where: str) -> AttemptRecord:
    """Return the record in a JSON object. Raises BundleError, naming ``where`` and the place."""
    newer = read_version(value, "attempt", where) > 1
    try:
        # A batch has thousands: the schema only speaks when something is wrong.
        return _build(cast("Mapping[str, Json]", value))
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        if newer:
            raise BundleError(
                f"{where} was written by a newer version and cannot be read ({error}); update"
            ) from None
        reason = f"{where} is no attempt record: {error}"
    try:
        check_schema(value, "attempt_v1", where)
    except BadInputError as error:
        reason = str(error)
    raise BundleError(reason)


def format_attempt(record: AttemptRecord) -> str:
    """Return the text of ``attempt.json``."""
    return format_json(dump_attempt(record))


def parse_attempt(text: str | bytes, where: str) -> AttemptRecord:
    """Return the record in the text of an ``attempt.json``.

    Raises BundleError, naming ``where`` and the place.
    """
    try:
        value = parse_json(text, where)
    except BadInputError as error:
        raise BundleError(str(error)) from None
    return load_attempt(value, where)


def _build(value: Mapping[str, Json]) -> AttemptRecord:
    duration_s = value["duration_s"]
    if isinstance(duration_s, bool) or not isinstance(duration_s, int | float) or duration_s < 0:
        raise TypeError("duration_s is no duration")
    return AttemptRecord(
        case_id=read_text(value, "case_id"),
        attempt_id=read_attempt_id(value),
        status=Status(read_text(value, "status")),
        cause=None if value["cause"] is None else Cause(read_text(value, "cause")),
        reason=read_text(value, "reason"),
        exit_code=None if value["exit_code"] is None else read_number(value, "exit_code"),
        slot=read_text(value, "slot"),
        started_at=read_text(value, "started_at"),
        ended_at=read_text(value, "ended_at"),
        duration_s=float(duration_s),
        log=read_text(value, "log"),
        log_bytes=read_number(value, "log_bytes"),
        log_dropped_bytes=read_number(value, "log_dropped_bytes"),
        leaks=read_texts(value, "leaks"),
        target=read_text(value, "target") if "target" in value else "",
        machine=read_text(value, "machine") if "machine" in value else "",
    )
