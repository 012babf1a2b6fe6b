import json
import os
import resource
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import pytest

from pytest_atesor.bundle.attempts import create_attempt, write_attempt
from pytest_atesor.bundle.journal import read_journal
from pytest_atesor.bundle.layout import BundleLayout
from pytest_atesor.bundle.lock import Holder
from pytest_atesor.bundle.writer import Bundle, read_bundle, read_plan
from pytest_atesor.core.attempt import AttemptRecord
from pytest_atesor.core.clock import Clock
from pytest_atesor.core.events import AttemptEnded, AttemptStarted, BatchStarted, CasesSelected
from pytest_atesor.core.ledger import Ended
from pytest_atesor.core.outcome import Cause
from pytest_atesor.core.plan import Plan
from pytest_atesor.core.plan_json import format_plan, parse_versioned_plan
from pytest_atesor.errors import BundleError, UsageError

PlanFactory = Callable[..., Plan]
RecordFactory = Callable[..., AttemptRecord]
BundleFactory = Callable[..., Bundle]
AT = "2026-01-02T03:04:05Z"


class SettableClock(Protocol):
    seconds: float

    def as_clock(self) -> Clock: ...


def select(bundle: Bundle) -> None:
    bundle.record(CasesSelected(at=AT, case_ids=tuple(case.case_id for case in bundle.plan.cases)))


def start(bundle: Bundle, case_id: str) -> str:
    attempt = create_attempt(bundle.layout, case_id)
    bundle.record(
        AttemptStarted(at=AT, case_id=case_id, attempt_id=attempt.attempt_id, slot="base-w1", worker="gw0")
    )
    return attempt.attempt_id


def names(root: Path) -> set[str]:
    return {path.relative_to(root).as_posix() for path in root.rglob("*")}


def test_a_planned_bundle_has_the_plan_its_children_and_the_views(make_bundle: BundleFactory) -> None:
    with make_bundle("zlib", "gron") as bundle:
        layout = bundle.layout
    assert parse_versioned_plan(layout.plan.read_bytes(), "x").plan == bundle.plan
    assert json.loads(layout.runspec("gron").read_text())["port"]["name"] == "gron"
    assert names(layout.root) == {
        "batch_attempts.json",
        "batch_plan.json",
        "batch_results.json",
        "batch_summary.json",
        "bundle.lock",
        "cases",
        "cases/gron",
        "cases/gron/runspec.json",
        "cases/zlib",
        "cases/zlib/runspec.json",
        "journal.jsonl",
    }


def test_a_taken_batch_id_gets_a_counter(make_bundle: BundleFactory) -> None:
    made = []
    for _ in range(3):
        with make_bundle("zlib") as bundle:
            made.append((bundle.plan.batch_id, bundle.layout.root.name))
    wanted = ["smoke-20260102-030405", "smoke-20260102-030405-2", "smoke-20260102-030405-3"]
    assert made == [(name, name) for name in wanted]


def test_a_batch_id_that_was_asked_for_is_never_changed(make_bundle: BundleFactory) -> None:
    make_bundle("zlib").close()
    with pytest.raises(UsageError, match="batch id smoke-20260102-030405 is taken"):
        make_bundle("zlib", exact=True)


def test_a_bundle_that_cannot_be_written_leaves_nothing(make_bundle: BundleFactory, tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (600, hard))
    try:
        with pytest.raises(BundleError, match=r"cannot write .*batch_plan\.json"):
            make_bundle(*(f"package-{number}" for number in range(20)))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, handler)
    assert list((tmp_path / "runs").iterdir()) == []


def test_an_event_is_in_the_journal_before_anybody_can_see_it(
    make_bundle: BundleFactory, make_record: RecordFactory
) -> None:
    with make_bundle("zlib") as bundle:
        select(bundle)
        start(bundle, "zlib")
        bundle.record(AttemptEnded(at=AT, record=make_record("zlib")))
        assert len(read_journal(bundle.layout.journal).events) == 3
        assert read_bundle(bundle.layout.root).ledger.state("zlib") == Ended(make_record("zlib"))


def test_views_follow_at_most_once_a_second_and_always_at_the_end(
    make_bundle: BundleFactory, make_record: RecordFactory, stopped_clock: SettableClock
) -> None:
    def shown() -> str:
        return str(json.loads(bundle.layout.results.read_text())["cases"][0]["state"])

    bundle = make_bundle("zlib")
    start(bundle, "zlib")
    assert shown() == "not_started"
    stopped_clock.seconds += 1.5
    bundle.record(BatchStarted(at=AT, host="h", pid=1, version="0", workers=1))
    assert shown() == "running"
    bundle.record(AttemptEnded(at=AT, record=make_record("zlib")))
    assert shown() == "running"
    bundle.close()
    assert shown() == "ended"


def test_a_bundle_in_use_cannot_be_opened(
    make_bundle: BundleFactory, holder: Holder, stopped_clock: SettableClock
) -> None:
    with (
        make_bundle("zlib") as bundle,
        pytest.raises(BundleError, match="in use by process 4711 on laptop since"),
    ):
        Bundle.open(bundle.layout.root, holder=holder, clock=stopped_clock.as_clock())


def test_opening_adopts_what_finished_and_gives_up_what_only_started(
    make_bundle: BundleFactory, make_record: RecordFactory, holder: Holder, stopped_clock: SettableClock
) -> None:
    with make_bundle("done", "late", "cut", "waiting") as bundle:
        select(bundle)
        for case_id in ("done", "late", "cut"):
            start(bundle, case_id)
        bundle.record(AttemptEnded(at=AT, record=make_record("done")))
    layout = bundle.layout
    write_attempt(layout.attempt("late", "001"), make_record("late"))
    with layout.journal.open("ab") as file:
        file.write(b'{"schema":"journal_v1","se')
    with Bundle.open(layout.root, holder=holder, clock=stopped_clock.as_clock()) as again:
        assert again.recovery.torn_bytes == 26
        assert again.recovery.adopted == (("late", "001"),)
        assert again.recovery.interrupted == (("cut", "001"),)
        assert str(again.ledger.tally()) == "planned 4 = done 2 + interrupted 1 + not started 1"
    # The recovery itself is in the journal: the next opening has nothing left to put right.
    with Bundle.open(layout.root, holder=holder, clock=stopped_clock.as_clock()) as third:
        assert (third.recovery.torn_bytes, third.recovery.adopted, third.recovery.interrupted) == (0, (), ())
        state = third.ledger.state("cut")
        assert isinstance(state, Ended)
        assert state.record.cause is Cause.INTERRUPTED


@pytest.mark.parametrize("newer", ["plan", "journal"])
def test_a_newer_bundle_is_readable_and_never_written(
    make_bundle: BundleFactory, holder: Holder, stopped_clock: SettableClock, newer: str
) -> None:
    with make_bundle("zlib") as bundle:
        select(bundle)
    layout = bundle.layout
    changed = layout.plan if newer == "plan" else layout.journal
    changed.write_text(
        changed.read_text().replace("batch_plan_v1", "batch_plan_v2").replace("journal_v1", "journal_v2")
    )
    before = {path: path.read_bytes() for path in layout.root.rglob("*") if path.is_file()}
    assert read_bundle(layout.root).newer
    with pytest.raises(BundleError, match="newer version"):
        Bundle.open(layout.root, holder=holder, clock=stopped_clock.as_clock())
    after = {path: path.read_bytes() for path in layout.root.rglob("*") if path.is_file()}
    assert after == before


def test_a_directory_that_is_no_bundle_is_told_so(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match=r"is no bundle: it has no batch_plan\.json"):
        read_plan(BundleLayout(tmp_path))


@pytest.mark.parametrize(("below", "named"), [("", "it"), ("/x", "{file}")], ids=["file", "below"])
def test_a_file_is_no_bundle_and_nobody_is_told_to_remove_it(tmp_path: Path, below: str, named: str) -> None:
    file = tmp_path / "lïst.json"
    file.touch()
    with pytest.raises(BundleError) as caught:
        read_bundle(Path(f"{file}{below}"))
    said = f"{named.format(file=file)} is no directory; name one below runs/batches"
    assert str(caught.value) == f"{file}{below} is no bundle: {said}"


def test_what_is_no_file_either_is_no_bundle() -> None:
    with pytest.raises(BundleError, match=r"^/dev/null is no bundle: it is no directory; name one below"):
        read_bundle(Path(os.devnull))


def test_a_directory_in_the_place_of_a_plan_is_not_to_be_removed_either(tmp_path: Path) -> None:
    (tmp_path / "batch_plan.json").mkdir()
    with pytest.raises(BundleError, match=r"cannot read .*: a directory stands there; check the path$"):
        read_plan(BundleLayout(tmp_path))


def test_reading_writes_nothing(make_bundle: BundleFactory) -> None:
    with make_bundle("zlib") as bundle:
        pass
    before = {path: path.stat().st_mtime_ns for path in bundle.layout.root.rglob("*")}
    read_bundle(bundle.layout.root)
    assert {path: path.stat().st_mtime_ns for path in bundle.layout.root.rglob("*")} == before


def test_a_csv_is_written_on_request(
    tmp_path: Path, make_plan: PlanFactory, holder: Holder, stopped_clock: SettableClock
) -> None:
    plan = replace(make_plan("zlib"), write_csv=True)
    with Bundle.create(tmp_path, plan, holder=holder, clock=stopped_clock.as_clock()) as bundle:
        pass
    assert bundle.layout.summary_csv.read_text().splitlines()[1].startswith("zlib,zlib,not_started,")


def test_the_plan_on_disk_is_the_frozen_one(make_bundle: BundleFactory) -> None:
    with make_bundle("zlib") as bundle:
        assert bundle.layout.plan.read_text() == format_plan(bundle.plan)
