"""What happens in a batch, as frozen events, and their form as journal lines.

Each line is one JSON object with ``schema`` ("journal_v1"), ``type``, ``seq`` (1, 2, …) and ``at`` (UTC wall
clock, ISO 8601, for display). The order of the lines is the truth; the times are not.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, assert_never, cast

from pytest_atesor.core.attempt import AttemptRecord
from pytest_atesor.core.attempt_json import dump_attempt, load_attempt
from pytest_atesor.core.fields import read_attempt_id, read_number, read_text, read_texts
from pytest_atesor.core.jsontext import format_json_line, parse_json, show_value
from pytest_atesor.core.outcome import Cause
from pytest_atesor.core.plan import Json
from pytest_atesor.core.versions import read_version
from pytest_atesor.errors import AtesorError, BundleError

__all__ = [
    "AttemptEnded",
    "AttemptLost",
    "AttemptStarted",
    "BatchEnded",
    "BatchStarted",
    "CasesSelected",
    "CasesSkipped",
    "Event",
    "EventLine",
    "dump_event",
    "format_event",
    "parse_event",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchStarted:
    """A controller opened the bundle to run cases: the first one, or one that resumes or reruns.

    ``image`` is the name of the image that its sandboxes are made from, "" where there are none, None where
    nobody wrote it down; ``image_ids`` are its ids, one for each engine that has another.
    """

    at: str
    host: str
    pid: int
    version: str
    workers: int
    image: str | None = None
    image_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CasesSelected:
    """These cases are to run now, again if they have run before."""

    at: str
    case_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptStarted:
    """A worker took its slot's sandbox for a new attempt; ``machine`` is where that is, "" for this one."""

    at: str
    case_id: str
    attempt_id: str
    slot: str
    worker: str
    machine: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptEnded:
    """An attempt's record exists; ``adopted`` when it was found on disk after its controller had died."""

    at: str
    record: AttemptRecord
    adopted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptLost:
    """An attempt will never get a record.

    Its worker died (FAIL), or the whole batch did (cause interrupted). ``duration_s`` is how long it was
    under way, 0 where nobody was there to measure it.
    """

    at: str
    case_id: str
    attempt_id: str
    cause: Cause
    reason: str
    duration_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CasesSkipped:
    """These selected cases will not start; ``cause`` is None when that is as it should be.

    ``prevented`` says that their turn came and somebody's hook raised; else the batch did not reach them.
    """

    at: str
    case_ids: tuple[str, ...]
    reason: str
    cause: Cause | None
    prevented: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchEnded:
    """The controller closed the bundle; ``reason`` says why early, empty otherwise."""

    at: str
    exit_code: int
    reason: str = ""


class EventLine(NamedTuple):
    """One journal line: its event, None when only a newer version knows it, and whether that wrote it."""

    event: "Event | None"
    newer: bool


Event = BatchStarted | CasesSelected | AttemptStarted | AttemptEnded | AttemptLost | CasesSkipped | BatchEnded


def dump_event(event: Event, seq: int) -> dict[str, Json]:
    """Return the event as the JSON object of its journal line."""
    return {"schema": "journal_v1", "seq": seq, **_dump(event)}


def format_event(event: Event, seq: int) -> str:
    """Return the event's journal line, newline included."""
    return format_json_line(dump_event(event, seq))


def parse_event(line: str | bytes, number: int, where: str) -> EventLine:
    """Return what the journal's line ``number`` says; of a newer schema, only what is known of it.

    Raises BundleError, naming ``where``, for a line that is no event or has another number.
    """
    try:
        value = parse_json(line, where)
        newer = read_version(value, "journal", where, key="schema") > 1
        return EventLine(_load(cast("Mapping[str, Json]", value), number, where, newer=newer), newer)
    except AtesorError as error:
        raise BundleError(f"{error}; restore the bundle from a copy, or run a new batch") from None


def _dump(event: Event) -> dict[str, Json]:
    body: dict[str, Json]
    match event:
        case BatchStarted(host=host, pid=pid, version=version, workers=workers):
            body = {"type": "batch_started", "host": host, "pid": pid, "version": version, "workers": workers}
            if event.image is not None:
                body |= {"image": event.image, "image_ids": list(event.image_ids)}
        case CasesSelected():
            body = {"type": "cases_selected", "case_ids": list(event.case_ids)}
        case AttemptStarted(case_id=case_id, attempt_id=attempt_id):
            body = {"type": "attempt_started", "case_id": case_id, "attempt_id": attempt_id}
            body |= {"slot": event.slot, "worker": event.worker}
            body |= {"machine": event.machine} if event.machine else {}
        case AttemptEnded():
            body = {"type": "attempt_ended", "adopted": event.adopted, "record": dump_attempt(event.record)}
        case AttemptLost(case_id=case_id, attempt_id=attempt_id):
            body = {"type": "attempt_lost", "case_id": case_id, "attempt_id": attempt_id}
            body |= {"cause": event.cause.value, "reason": event.reason, "duration_s": event.duration_s}
        case CasesSkipped(cause=cause):
            body = {"type": "cases_skipped", "case_ids": list(event.case_ids)}
            body |= {"cause": None if cause is None else cause.value, "reason": event.reason}
            body |= {"prevented": True} if event.prevented else {}
        case BatchEnded():
            body = {"type": "batch_ended", "exit_code": event.exit_code, "reason": event.reason}
        case _:
            assert_never(event)
    return {"at": event.at, **body}


def _load(value: Mapping[str, Json], number: int, where: str, *, newer: bool) -> Event | None:
    load = _LOADERS.get(str(value.get("type")))
    if newer and load is None:
        return None
    if load is None:
        raise BundleError(f"{where}: {show_value(value.get('type'))} is no event type of this version")
    if not newer and value.get("seq") != number:
        raise BundleError(
            f"{where}: seq is {show_value(value.get('seq'))}, not {number}: lines were lost or edited"
        )
    try:
        return load(value, where)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        if newer:
            return None
        raise BundleError(f"{where} is no event: {error}") from None


def _batch_started(value: Mapping[str, Json], _where: str) -> Event:
    return BatchStarted(
        at=read_text(value, "at"),
        host=read_text(value, "host"),
        pid=read_number(value, "pid"),
        version=read_text(value, "version"),
        workers=read_number(value, "workers"),
        image=read_text(value, "image") if "image" in value else None,
        image_ids=read_texts(value, "image_ids") if "image_ids" in value else (),
    )


def _attempt_started(value: Mapping[str, Json], _where: str) -> Event:
    return AttemptStarted(
        at=read_text(value, "at"),
        case_id=read_text(value, "case_id"),
        attempt_id=read_attempt_id(value),
        slot=read_text(value, "slot"),
        worker=read_text(value, "worker"),
        machine=read_text(value, "machine") if "machine" in value else "",
    )


def _attempt_ended(value: Mapping[str, Json], where: str) -> Event:
    record = load_attempt(value["record"], where)
    return AttemptEnded(at=read_text(value, "at"), record=record, adopted=value.get("adopted") is True)


def _attempt_lost(value: Mapping[str, Json], _where: str) -> Event:
    return AttemptLost(
        at=read_text(value, "at"),
        case_id=read_text(value, "case_id"),
        attempt_id=read_attempt_id(value),
        cause=Cause(read_text(value, "cause")),
        reason=read_text(value, "reason"),
        duration_s=_read_seconds(value, "duration_s"),
    )


def _read_seconds(value: Mapping[str, Json], key: str) -> float:
    """Return a duration; 0 where there is none, as in journals of before it was written down."""
    found = value.get(key, 0.0)
    if not isinstance(found, int | float) or isinstance(found, bool) or not 0 <= found < float("inf"):
        raise TypeError(f"{key} is no duration")
    return float(found)


def _cases_skipped(value: Mapping[str, Json], _where: str) -> Event:
    cause = None if value["cause"] is None else Cause(read_text(value, "cause"))
    return CasesSkipped(
        at=read_text(value, "at"),
        case_ids=read_texts(value, "case_ids"),
        reason=read_text(value, "reason"),
        cause=cause,
        prevented=value.get("prevented") is True,
    )


_LOADERS: Final[Mapping[str, Callable[[Mapping[str, Json], str], Event]]] = {
    "batch_started": _batch_started,
    "cases_selected": lambda value, _: CasesSelected(
        at=read_text(value, "at"), case_ids=read_texts(value, "case_ids")
    ),
    "attempt_started": _attempt_started,
    "attempt_ended": _attempt_ended,
    "attempt_lost": _attempt_lost,
    "cases_skipped": _cases_skipped,
    "batch_ended": lambda value, _: BatchEnded(
        at=read_text(value, "at"),
        exit_code=read_number(value, "exit_code"),
        reason=read_text(value, "reason"),
    ),
}
