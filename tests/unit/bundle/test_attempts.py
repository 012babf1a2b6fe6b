import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from pytest_atesor.bundle.attempts import (
    create_attempt,
    list_attempts,
    read_attempt,
    scan_attempts,
    write_attempt,
)
from pytest_atesor.bundle.layout import AttemptLayout, BundleLayout
from pytest_atesor.core.attempt import AttemptRecord
from pytest_atesor.core.attempt_json import format_attempt
from pytest_atesor.core.events import AttemptEnded
from pytest_atesor.core.ledger import Ledger
from pytest_atesor.core.plan import Plan
from pytest_atesor.errors import BundleError

PlanFactory = Callable[..., Plan]
RecordFactory = Callable[..., AttemptRecord]


def test_attempts_are_numbered_from_one(layout: BundleLayout) -> None:
    assert [create_attempt(layout, "zlib").attempt_id for _ in range(3)] == ["001", "002", "003"]
    assert create_attempt(layout, "gron").attempt_id == "001"


def test_a_number_is_never_used_again(layout: BundleLayout) -> None:
    create_attempt(layout, "zlib")
    gone = create_attempt(layout, "zlib")
    kept = create_attempt(layout, "zlib")
    gone.root.rmdir()
    assert kept.attempt_id == "003"
    assert create_attempt(layout, "zlib").attempt_id == "004"


def test_numbers_go_on_beyond_three_digits(layout: BundleLayout) -> None:
    layout.attempt("zlib", "999").root.mkdir(parents=True)
    assert create_attempt(layout, "zlib").attempt_id == "1000"
    assert create_attempt(layout, "zlib").attempt_id == "1001"


def test_rivals_get_different_directories(layout: BundleLayout) -> None:
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: create_attempt(layout, "zlib").attempt_id, range(40)))
    assert sorted(made) == [f"{number:03d}" for number in range(1, 41)]


def test_an_attempt_is_over_when_its_record_exists(layout: BundleLayout, make_record: RecordFactory) -> None:
    attempt = create_attempt(layout, "zlib")
    assert read_attempt(attempt) is None
    write_attempt(attempt, make_record("zlib"))
    assert read_attempt(attempt) == make_record("zlib")
    assert [path.name for path in attempt.root.iterdir()] == ["attempt.json"]


def test_a_damaged_record_is_named(layout: BundleLayout) -> None:
    attempt = create_attempt(layout, "zlib")
    attempt.record.write_text("{")
    with pytest.raises(BundleError, match=r"cases/zlib/attempts/001/attempt\.json is not valid JSON"):
        read_attempt(attempt)


def test_a_scan_finds_what_the_ledger_does_not_know_to_have_ended(
    layout: BundleLayout, make_plan: PlanFactory, make_record: RecordFactory
) -> None:
    ledger = Ledger(make_plan("zlib", "gron", "anew"))
    ledger.apply(AttemptEnded(at="", record=make_record("zlib")))
    write_attempt(create_attempt(layout, "zlib"), make_record("zlib"))
    create_attempt(layout, "zlib")
    write_attempt(create_attempt(layout, "gron"), make_record("gron"))
    (layout.case("gron") / "attempts" / ".stray").mkdir()
    assert scan_attempts(layout, ledger) == {"zlib": {"002": None}, "gron": {"001": make_record("gron")}}


def _write_link(attempt: AttemptLayout, text: str) -> None:
    elsewhere = attempt.root / "elsewhere.json"
    elsewhere.write_text(text)
    attempt.record.symlink_to(elsewhere)


FORGERIES: dict[str, Callable[[AttemptLayout, str], object]] = {
    "pipe": lambda attempt, _: os.mkfifo(attempt.record),
    "directory": lambda attempt, _: attempt.record.mkdir(),
    "link": _write_link,
    "broken": lambda attempt, text: attempt.record.write_text(text[:-20]),
    "another-case": lambda attempt, text: attempt.record.write_text(text.replace("zlib", "gron")),
    "another-attempt": lambda attempt, text: attempt.record.write_text(text.replace("001", "002")),
    "another-log": lambda attempt, text: attempt.record.write_text(text.replace("run.log", "../x")),
}


@pytest.mark.parametrize("forge", FORGERIES.values(), ids=list(FORGERIES))
def test_a_record_that_no_worker_wrote_is_refused_and_its_attempt_was_cut_short(
    layout: BundleLayout,
    make_plan: PlanFactory,
    make_record: RecordFactory,
    forge: Callable[[AttemptLayout, str], object],
) -> None:
    attempt = create_attempt(layout, "zlib")
    forge(attempt, format_attempt(make_record("zlib")))
    with pytest.raises(BundleError, match=r"attempt\.json"):
        read_attempt(attempt)
    assert scan_attempts(layout, Ledger(make_plan("zlib", "gron"))) == {"zlib": {"001": None}}


def test_only_what_an_attempt_may_be_called_counts_as_one(layout: BundleLayout) -> None:
    for name in ("5", "\u0663\u0663\u0663", "9" * 200, "010", "1000", "009"):
        layout.attempt("zlib", name).root.mkdir(parents=True)
    assert list_attempts(layout, "zlib") == ["009", "010", "1000"]
    assert create_attempt(layout, "zlib").attempt_id == "1001"
