import json
import os
from collections.abc import Callable
from pathlib import Path

from pytest_atesor.bundle.attempts import create_attempt, write_attempt
from pytest_atesor.bundle.layout import BundleLayout
from pytest_atesor.bundle.views import ViewLimiter, Views, read_evidence
from pytest_atesor.core.attempt import AttemptRecord
from pytest_atesor.core.events import AttemptEnded
from pytest_atesor.core.ledger import Ledger
from pytest_atesor.core.plan import Plan
from pytest_atesor.core.schema import check_schema

PlanFactory = Callable[..., Plan]
RecordFactory = Callable[..., AttemptRecord]


class Seconds:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_views_are_due_at_most_once_a_second() -> None:
    seconds = Seconds()
    limiter = ViewLimiter(seconds)
    assert limiter.is_due()
    limiter.wrote(seconds.now)
    assert not limiter.is_due()
    seconds.now += 0.99
    assert not limiter.is_due()
    seconds.now += 0.02
    assert limiter.is_due()


def test_views_that_take_long_take_at_most_a_fortieth_of_the_time() -> None:
    seconds = Seconds()
    limiter = ViewLimiter(seconds)
    seconds.now += 0.5
    limiter.wrote(100.0)
    seconds.now += 19.9
    assert not limiter.is_due()
    seconds.now += 0.2
    assert limiter.is_due()


def test_evidence_is_what_the_attempt_left(layout: BundleLayout, make_record: RecordFactory) -> None:
    attempt = create_attempt(layout, "zlib")
    attempt.result.write_text('{"build_system": "cmake", "size": 1}')
    attempt.metrics.write_text('{"size": 2}')
    evidence = read_evidence(attempt, make_record("zlib"))
    assert (evidence["build_system"], evidence["size"]) == ("cmake", 2)
    assert evidence["result"] == {"build_system": "cmake", "size": 1}
    assert isinstance(evidence["attempt"], dict)
    assert evidence["attempt"]["status"] == "PASS"


def test_metrics_that_only_the_result_states_count_too(
    layout: BundleLayout, make_record: RecordFactory
) -> None:
    attempt = create_attempt(layout, "zlib")
    attempt.result.write_text('{"metrics": {"size": 3}}')
    evidence = read_evidence(attempt, make_record("zlib"))
    assert (evidence["size"], evidence["metrics"]) == (3, {"size": 3})


def test_a_strangers_file_is_never_followed_out_or_waited_for(
    layout: BundleLayout, tmp_path: Path, make_record: RecordFactory
) -> None:
    secret = tmp_path / "secret.json"
    secret.write_text('{"secret": 1}')
    attempt = create_attempt(layout, "zlib")
    attempt.result.symlink_to(secret)
    os.mkfifo(attempt.metrics)
    evidence = read_evidence(attempt, make_record("zlib"))
    assert (evidence["result"], evidence["metrics"]) == ({}, {})


def test_a_broken_or_huge_file_counts_as_empty(layout: BundleLayout, make_record: RecordFactory) -> None:
    attempt = create_attempt(layout, "zlib")
    attempt.result.write_text('{"a": 1, "a": 2}')
    with attempt.metrics.open("wb") as file:
        file.truncate(5 * 1024 * 1024 * 1024)
    evidence = read_evidence(attempt, make_record("zlib"))
    assert (evidence["result"], evidence["metrics"]) == ({}, {})


def test_the_views_on_disk_fit_their_schemas_and_follow_the_latest_attempt(
    layout: BundleLayout, make_plan: PlanFactory, make_record: RecordFactory
) -> None:
    plan = make_plan("zlib", "gron", summary_fields=("score",))
    ledger, views = Ledger(plan), Views(layout, plan)
    for score in (1, 2):
        attempt = create_attempt(layout, "zlib")
        attempt.metrics.write_text(json.dumps({"score": score}))
        record = make_record("zlib", attempt_id=attempt.attempt_id)
        write_attempt(attempt, record)
        ledger.apply(AttemptEnded(at="", record=record))
        views.write(ledger, "2026-01-02T03:04:05Z", durable=score == 2)
        rows = json.loads(layout.summary.read_text())["rows"]
        assert [row["values"] for row in rows] == [{"score": score}, {}]
    for path in (layout.results, layout.attempts, layout.summary):
        document = json.loads(path.read_text())
        check_schema(document, document["schema_version"], path.name)
    assert not layout.summary_csv.exists()
