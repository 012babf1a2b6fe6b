import json
from collections.abc import Callable

import pytest

from pytest_atesor.core.attempt import AttemptRecord
from pytest_atesor.core.events import (
    AttemptEnded,
    AttemptLost,
    AttemptStarted,
    BatchEnded,
    BatchStarted,
    CasesSelected,
    CasesSkipped,
    Event,
    dump_event,
    format_event,
    parse_event,
)
from pytest_atesor.core.outcome import Cause, Status
from pytest_atesor.core.schema import check_schema
from pytest_atesor.errors import BundleError

RecordFactory = Callable[..., AttemptRecord]
AT = "2026-01-02T03:04:05Z"
EVENTS: list[Event] = [
    BatchStarted(at=AT, host="laptop", pid=7, version="0.1.0", workers=4),
    BatchStarted(at=AT, host="h", pid=7, version="0.1.0", workers=4, image="debian", image_ids=("a1", "b2")),
    BatchStarted(at=AT, host="h", pid=7, version="0.1.0", workers=4, image=""),
    CasesSelected(at=AT, case_ids=("zlib", "gron")),
    AttemptStarted(at=AT, case_id="zlib", attempt_id="001", slot="base-w1", worker="gw0"),
    AttemptStarted(at=AT, case_id="zlib", attempt_id="002", slot="w1", worker="gw0", machine="board"),
    AttemptLost(at=AT, case_id="zlib", attempt_id="001", cause=Cause.AGENT, reason="worker gw0 died"),
    CasesSkipped(at=AT, case_ids=("gron",), reason="stopped", cause=Cause.INTERRUPTED),
    CasesSkipped(at=AT, case_ids=(), reason="nothing to do", cause=None),
    CasesSkipped(at=AT, case_ids=("gron",), reason="boom", cause=Cause.ENVIRONMENT, prevented=True),
    BatchEnded(at=AT, exit_code=130, reason="Ctrl-C"),
]


@pytest.fixture(
    params=[*EVENTS, "ended"], ids=lambda event: event if isinstance(event, str) else type(event).__name__
)
def event(request: pytest.FixtureRequest, make_record: RecordFactory) -> Event:
    if request.param == "ended":
        record = make_record("zlib", Status.FAIL, Cause.BUILD, reason="error: \u2028 é 😀")
        return AttemptEnded(at=AT, record=record, adopted=True)
    found: Event = request.param
    return found


def test_an_event_reads_back_equal_from_its_one_line(event: Event) -> None:
    line = format_event(event, 3)
    assert line.count("\n") == 1
    assert parse_event(line.encode(), 3, "journal.jsonl, line 3") == (event, False)
    check_schema(dump_event(event, 3), "journal_v1", "journal.jsonl")


def test_every_line_says_schema_type_number_and_time(event: Event) -> None:
    line = json.loads(format_event(event, 3))
    assert (line["schema"], line["seq"], line["at"]) == ("journal_v1", 3, AT)
    assert line["type"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        pytest.param(b"", "j, line 2 is not valid JSON", id="empty"),
        pytest.param(b"[]", "j, line 2: schema is null", id="array"),
        pytest.param(b'{"schema":"plan_v1"}', 'j, line 2: schema is "plan_v1"', id="schema"),
        pytest.param(
            b'{"schema":"journal_v1","seq":2,"at":"x","type":"party"}',
            'j, line 2: "party" is no event type',
            id="type",
        ),
        pytest.param(
            b'{"schema":"journal_v1","seq":2,"at":"x","type":["a"]}',
            'j, line 2: ["a"] is no event type',
            id="type-array",
        ),
        pytest.param(
            b'{"schema":"journal_v1","seq":3,"at":"x","type":"batch_ended"}',
            "j, line 2: seq is 3, not 2",
            id="seq",
        ),
        pytest.param(
            b'{"schema":"journal_v1","seq":2,"at":"x","type":"batch_ended"}',
            "j, line 2 is no event: 'exit_code'",
            id="field",
        ),
        pytest.param(
            b'{"schema":"journal_v1","seq":2,"at":5,"type":"batch_ended","exit_code":0,"reason":""}',
            "j, line 2 is no event: at is no text",
            id="kind-of-field",
        ),
        pytest.param(
            b'{"schema":"journal_v1","seq":2,"at":"x","type":"attempt_ended","record":{"schema_version":"attempt_v1"}}',
            "j, line 2, the document: the key",
            id="record",
        ),
        pytest.param(
            b'{"schema":"journal_v1","seq":2,"at":"x","type":"attempt_started","case_id":"a","attempt_id":"../b",'
            b'"slot":"w1","worker":"gw0"}',
            "j, line 2 is no event: attempt_id is no number of an attempt",
            id="attempt-id",
        ),
        pytest.param(
            b'{"schema":"journal_v1","seq":2,"at":"x","type":"attempt_lost","case_id":"a","attempt_id":"001",'
            b'"cause":"agent","reason":"","duration_s":1' + b"0" * 400 + b"}",
            "j, line 2 is no event: int too large",
            id="duration",
        ),
    ],
)
def test_a_line_that_is_no_event_is_named(line: bytes, message: str) -> None:
    with pytest.raises(BundleError) as caught:
        parse_event(line, 2, "j, line 2")
    assert str(caught.value).startswith(message)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(b'{"schema":"journal_v2","type":"party"}', id="unknown-type"),
        pytest.param(b'{"schema":"journal_v2","type":"batch_ended"}', id="changed-fields"),
    ],
)
def test_a_newer_line_that_is_not_understood_is_passed_over(line: bytes) -> None:
    assert parse_event(line, 2, "j") == (None, True)


def test_a_newer_line_of_a_known_kind_is_understood() -> None:
    line = format_event(EVENTS[-1], 1).replace("journal_v1", "journal_v2")
    assert parse_event(line, 2, "j") == (EVENTS[-1], True)
