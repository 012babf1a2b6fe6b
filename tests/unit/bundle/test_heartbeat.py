import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import pytest

from pytest_atesor.bundle.writer import Bundle
from pytest_atesor.control.heartbeat import Heartbeat
from pytest_atesor.control.page import PageWriter
from pytest_atesor.core.attempt import AttemptRecord
from pytest_atesor.core.events import AttemptEnded, CasesSelected
from pytest_atesor.errors import BundleError

BundleFactory = Callable[..., Bundle]
RecordFactory = Callable[..., AttemptRecord]
AT = "2026-01-02T03:04:05Z"


class SettableClock(Protocol):
    seconds: float


@pytest.fixture
def bundle(make_bundle: BundleFactory) -> Bundle:
    """A bundle whose page was just written."""
    bundle = make_bundle("zlib", 'gron "updated_at":"x" \N{GREEK SMALL LETTER ALPHA}')
    bundle.add_view(PageWriter(bundle.layout))
    bundle.refresh(force=True)
    return bundle


def heartbeat(bundle: Bundle) -> str:
    found = re.search(r'"updated_at":"([^"]*)"', bundle.layout.report.read_text())
    assert found is not None
    return found.group(1)


def test_a_beat_changes_nothing_but_the_pages_last_sign_of_life(
    bundle: Bundle, stopped_clock: SettableClock
) -> None:
    before, inode = bundle.layout.report.read_text(), bundle.layout.report.stat().st_ino
    results = bundle.layout.results.read_bytes()
    stopped_clock.seconds = 10
    bundle.beat()
    assert heartbeat(bundle) == "2026-01-02T03:04:10.000Z"
    written_at = "2026-01-02T03:04:00.000Z"
    assert bundle.layout.report.read_text().replace("2026-01-02T03:04:10.000Z", written_at) == before
    assert (bundle.layout.report.stat().st_ino, bundle.layout.results.read_bytes()) == (inode, results)


def test_a_beat_writes_what_was_not_due_at_the_last_event(
    bundle: Bundle, stopped_clock: SettableClock, make_record: RecordFactory
) -> None:
    bundle.record(CasesSelected(at=AT, case_ids=("zlib",)))
    bundle.record(AttemptEnded(at=AT, record=make_record("zlib")))
    assert '"outcome":"PASS"' not in bundle.layout.report.read_text()
    stopped_clock.seconds = 10
    bundle.beat()
    assert '"outcome":"PASS"' in bundle.layout.report.read_text()
    assert b'"PASS"' in bundle.layout.results.read_bytes()


@pytest.mark.parametrize("remains", ["nothing", "another file", "a link"])
def test_a_beat_never_writes_into_a_file_that_is_not_its_own(
    bundle: Bundle, stopped_clock: SettableClock, tmp_path: Path, remains: str
) -> None:
    report, other = bundle.layout.report, tmp_path / "other"
    other.write_text("somebody's text" * 10_000)
    report.unlink()
    if remains == "another file":
        report.write_text("somebody's text" * 10_000)
    elif remains == "a link":
        report.symlink_to(other)
    stopped_clock.seconds = 10
    bundle.beat()
    assert other.read_text() == "somebody's text" * 10_000
    assert not report.exists() or report.read_text() == other.read_text()
    stopped_clock.seconds = 20
    bundle.beat()
    assert heartbeat(bundle) == "2026-01-02T03:04:20.000Z"
    assert not report.is_symlink()


def test_a_closed_bundle_has_no_heartbeat(bundle: Bundle, stopped_clock: SettableClock) -> None:
    bundle.close()
    stopped_clock.seconds = 10
    bundle.beat()
    assert heartbeat(bundle) == "2026-01-02T03:04:00.000Z"


def test_it_beats_again_and_again_and_not_after_its_end() -> None:
    beats: list[int] = []
    third = threading.Event()

    def beat() -> None:
        beats.append(threading.get_ident())
        if len(beats) == 3:
            third.set()

    with Heartbeat(beat, interval_s=0.001):
        assert third.wait(60)
    assert threading.get_ident() not in beats
    assert not [thread for thread in threading.enumerate() if thread.name == "atesor-heartbeat"]


def test_it_ends_with_the_first_refusal_of_the_disk() -> None:
    beats: list[int] = []

    def beat() -> None:
        beats.append(1)
        raise BundleError("no space is left")

    with Heartbeat(beat, interval_s=0.001) as heart:
        heart.join()
    assert len(beats) == 1
