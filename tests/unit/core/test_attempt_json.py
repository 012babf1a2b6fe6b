import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from pytest_atesor.core.attempt import AttemptRecord
from pytest_atesor.core.attempt_json import dump_attempt, format_attempt, parse_attempt
from pytest_atesor.core.outcome import Cause, Status
from pytest_atesor.core.schema import check_schema
from pytest_atesor.errors import BundleError

RecordFactory = Callable[..., AttemptRecord]


@pytest.mark.parametrize("status", Status)
@pytest.mark.parametrize("cause", [None, *Cause])
def test_a_record_reads_back_equal_and_fits_its_schema(
    make_record: RecordFactory, status: Status, cause: Cause | None
) -> None:
    record = make_record("zlib", status, cause, reason="it's “broken”\u2028")
    assert parse_attempt(format_attempt(record).encode(), "attempt.json") == record
    check_schema(dump_attempt(record), "attempt_v1", "attempt.json")


def test_a_record_of_another_machine_names_it_and_other_records_do_not(make_record: RecordFactory) -> None:
    there = replace(make_record("zlib"), target="native", machine="board")
    assert parse_attempt(format_attempt(there), "attempt.json") == there
    check_schema(dump_attempt(there), "attempt_v1", "attempt.json")
    assert "machine" not in dump_attempt(make_record("zlib"))


def test_a_newer_record_is_read_as_far_as_it_is_known(make_record: RecordFactory) -> None:
    document = dump_attempt(make_record("zlib")) | {"schema_version": "attempt_v9", "energy_j": 5}
    assert parse_attempt(json.dumps(document), "attempt.json") == make_record("zlib")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param({"status": "OK"}, 'attempt.json, status: "OK" must be one of', id="status"),
        pytest.param({"cause": "weather"}, 'attempt.json, cause: "weather" must be one of', id="cause"),
        pytest.param({"duration_s": True}, "attempt.json, duration_s: true must be a number", id="bool"),
        pytest.param({"duration_s": -1}, "attempt.json, duration_s: -1 must be at least 0", id="negative"),
        pytest.param(
            {"exit_code": "0"}, 'attempt.json, exit_code: "0" must be a whole number or null', id="text"
        ),
        pytest.param(
            {"attempt_id": "../x"}, 'attempt.json, attempt_id: "../x" must match ^[0-9]{3,}$', id="attempt-id"
        ),
        pytest.param(
            {"attempt_id": "1" * 200},
            "attempt.json is no attempt record: attempt_id is no number",
            id="long-id",
        ),
        pytest.param(
            {"duration_s": 10**400}, "attempt.json is no attempt record: int too large", id="endless"
        ),
        pytest.param({"leaks": [1]}, "attempt.json, leaks[0]: 1 must be a string", id="leaks"),
        pytest.param(
            {"schema_version": "plan_v1"}, 'attempt.json: schema_version is "plan_v1"', id="other-file"
        ),
        pytest.param(
            {"schema_version": "attempt_v2", "status": "NEW"},
            "attempt.json was written by a newer version",
            id="newer",
        ),
    ],
)
def test_what_is_no_record_is_a_bundle_error(
    make_record: RecordFactory, change: dict[str, object], message: str
) -> None:
    with pytest.raises(BundleError) as caught:
        parse_attempt(json.dumps(dump_attempt(make_record("zlib")) | change), "attempt.json")
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("text", [b"", b"{", b"\xff", b"[]", b"null"])
def test_a_damaged_file_is_a_bundle_error(text: bytes) -> None:
    with pytest.raises(BundleError, match=r"^attempt\.json"):
        parse_attempt(text, "attempt.json")
