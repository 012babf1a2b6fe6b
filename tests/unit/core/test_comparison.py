import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from pytest_atesor.core.attempt import AttemptRecord
from pytest_atesor.core.comparison import Change, compare_batches
from pytest_atesor.core.events import AttemptEnded, BatchStarted, CasesSelected, CasesSkipped
from pytest_atesor.core.ledger import Ledger, fold_events
from pytest_atesor.core.outcome import Cause, Status
from pytest_atesor.core.plan import InputFile, Plan, Platform
from pytest_atesor.reports.compare import format_comparison, format_comparison_json, format_names
from pytest_atesor.reports.html.compare import format_comparison_page

AT = "2026-01-02T03:04:05Z"
PlanFactory = Callable[..., Plan]
RecordFactory = Callable[..., AttemptRecord]


def fold(plan: Plan, *records: AttemptRecord) -> Ledger:
    return fold_events(plan, [AttemptEnded(at=AT, record=record) for record in records])


def test_each_kind_of_change_is_told(make_plan: PlanFactory, make_record: RecordFactory) -> None:
    common = ("broke", "mended", "bad", "slow", "fast", "same", "disk")
    before = fold(
        make_plan(*common, "gone"),
        make_record("broke"),
        make_record("mended", Status.FAIL, Cause.BUILD),
        make_record("bad", Status.FAIL, Cause.BUILD),
        make_record("slow", duration_s=20),
        make_record("fast", duration_s=60),
        make_record("same", duration_s=10),
        make_record("disk"),
    )
    after = fold(
        make_plan(*common, "new"),
        make_record("broke", Status.FAIL, Cause.BUILD, reason="no such header"),
        make_record("mended"),
        make_record("bad", Status.TIMEOUT, Cause.BUILD),
        make_record("slow", duration_s=60),
        make_record("fast", duration_s=20),
        make_record("same", duration_s=14),
        make_record("disk", Status.FAIL, Cause.ENVIRONMENT),
    )
    comparison = compare_batches(before, after)
    assert {row.label: row.change for row in comparison.rows} == {
        "broke": Change.NEWLY_FAILING,
        "mended": Change.FIXED,
        "bad": Change.STILL_FAILING,
        "slow": Change.SLOWER,
        "fast": Change.FASTER,
        "same": Change.SAME,
        "disk": Change.UNKNOWN,
        "new": Change.NEW,
        "gone": Change.GONE,
    }
    assert [row.label for row in comparison.regressions] == ["broke"]
    assert format_names(comparison) == "broke\n"
    assert "  broke  PASS -> FAIL: no such header" in format_comparison(comparison).splitlines()


@pytest.mark.parametrize("cause", [Cause.INTERRUPTED, None], ids=["stopped", "killed"])
def test_a_rerun_that_never_reached_a_case_leaves_its_verdict(
    make_plan: PlanFactory, make_record: RecordFactory, cause: Cause | None
) -> None:
    plan = make_plan("a", "b")
    before = fold(plan, make_record("a"), make_record("b"))
    after = fold(plan, make_record("a"), make_record("b", Status.FAIL, Cause.BUILD))
    after.apply(CasesSelected(at=AT, case_ids=("a", "b")))
    if cause is not None:
        after.apply(CasesSkipped(at=AT, case_ids=("a", "b"), reason="stopped", cause=cause))
    changes = [(row.change, row.after) for row in compare_batches(before, after).rows]
    assert changes == [(Change.SAME, "PASS"), (Change.NEWLY_FAILING, "FAIL")]


def test_a_build_with_network_is_not_compared_with_one_without(
    make_plan: PlanFactory, make_record: RecordFactory
) -> None:
    plan = make_plan("zlib")
    online = replace(plan, settings={**plan.settings, "build_network": True})
    failed = fold(plan, make_record("zlib", Status.FAIL, Cause.BUILD))
    comparison = compare_batches(fold(online, make_record("zlib")), failed)
    assert comparison.differences == ("build network: True before, False after",)
    assert comparison.regressions == ()


def test_a_plain_batch_is_not_compared_with_an_accelerated_one(
    make_plan: PlanFactory, make_record: RecordFactory
) -> None:
    plan = make_plan("zlib")
    plain = replace(plan, settings={**plan.settings, "no_acceleration": True})
    failed = make_record("zlib", Status.FAIL, Cause.BUILD)
    assert compare_batches(fold(plan, make_record("zlib")), fold(plan, failed)).regressions
    comparison = compare_batches(fold(plan, make_record("zlib")), fold(plain, failed))
    assert comparison.differences == ("plain image: False before, True after",)
    assert comparison.regressions == ()


def test_unlike_batches_have_no_regressions_and_say_why(
    make_plan: PlanFactory, make_record: RecordFactory
) -> None:
    plan = replace(make_plan("zlib"), settings={"image": "one"})
    other = replace(plan, settings={"image": "two"}, platform=Platform.UBUNTU)
    comparison = compare_batches(
        fold(plan, make_record("zlib")), fold(other, make_record("zlib", Status.FAIL, Cause.BUILD))
    )
    assert comparison.regressions == ()
    assert comparison.differences == (
        "platform: debian before, ubuntu after",
        "image: one before, two after",
    )


def test_one_more_package_in_the_list_hides_no_regression(
    make_plan: PlanFactory, make_record: RecordFactory
) -> None:
    before = fold(make_plan("alpha"), make_record("alpha"))
    longer = replace(make_plan("alpha", "beta"), inputs=(InputFile(path="two.json", sha256="1" * 64),))
    after = fold(longer, make_record("alpha", Status.FAIL, Cause.BUILD), make_record("beta"))
    comparison = compare_batches(before, after)
    assert [row.label for row in comparison.regressions] == ["alpha"]
    assert (comparison.differences, comparison.unlike) == ((), ())
    assert format_comparison(comparison).splitlines()[-1] == "2 cases: 1 regression, 0 the same"


def test_a_case_that_is_another_one_is_no_regression_and_the_others_are(
    make_plan: PlanFactory, make_record: RecordFactory
) -> None:
    names = ("alpha", "beta", "gamma", "delta")
    plan = make_plan(*names)
    alpha, beta, gamma, delta = plan.cases
    moved = replace(
        plan,
        cases=(
            replace(alpha, spec={**alpha.spec, "url": "https://example.org/fork/alpha", "ref": "v2"}),
            replace(beta, timeout_s=60),
            replace(gamma, marks=("slow",)),
            replace(delta, kind="command", spec=delta.spec),
        ),
    )
    failed = [make_record(name, Status.FAIL, Cause.BUILD, reason="no") for name in names]
    comparison = compare_batches(fold(plan, *map(make_record, names)), fold(moved, *failed))
    assert [row.label for row in comparison.regressions] == ["gamma"]
    assert {row.label: row.unlike for row in comparison.unlike} == {
        "alpha": ("ref", "url"),
        "beta": ("timeout_seconds",),
        "delta": ("kind",),
    }
    assert format_comparison(comparison).splitlines()[1:] == [
        "not the same in both, so not called a regression: 3 cases, for example alpha (another ref, url)",
        "newly failing (4):",
        "  alpha  PASS -> FAIL (another ref, url): no",
        "  beta  PASS -> FAIL (another timeout_seconds): no",
        "  gamma  PASS -> FAIL: no",
        "  delta  PASS -> FAIL (another kind): no",
        "4 cases: 1 regression, 0 the same",
    ]
    found = json.loads(format_comparison_json(comparison))
    assert (found["comparable"], found["regressions"]) == (True, ["gamma"])
    assert [case["unlike"] for case in found["cases"]] == [["ref", "url"], ["timeout_seconds"], [], ["kind"]]
    page = format_comparison_page(comparison)
    assert "not called a regression: 3 cases, for example alpha (another ref, url)" in page
    assert "<bdi>beta</bdi> <bdi>(another timeout_seconds)</bdi>" in page


def started(image: str | None) -> BatchStarted:
    return BatchStarted(at=AT, host="h", pid=1, version="0", workers=1, image=image)


@pytest.mark.parametrize(
    ("planned", "used", "difference"),
    [
        (None, ["one"], None),
        (None, ["two"], "image: one before, two after"),
        (None, ["one", "two"], "image: one before, one and two after"),
        ("one", ["two"], "image: one before, two after"),
        (None, [""], "image: one before, none after"),
        ("two", [None], "image: one before, two after"),
        (None, [None], None),
        (None, [], None),
    ],
    ids=[
        "planned-first",
        "planned-first-with-another",
        "resumed-with-another",
        "not-the-planned-one",
        "no-sandboxes",
        "old-journal",
        "unknown",
        "never-run",
    ],
)
def test_images_are_those_of_the_sessions_and_an_unknown_one_is_no_difference(
    make_plan: PlanFactory,
    make_record: RecordFactory,
    planned: str | None,
    used: list[str | None],
    difference: str | None,
) -> None:
    plan = make_plan("zlib")
    before = fold(replace(plan, settings={"image": "one"}), make_record("zlib"))
    before.apply(started("one"))
    after = fold(replace(plan, settings={"image": planned} if planned else {}), make_record("zlib"))
    for image in used:
        after.apply(started(image))
    found = compare_batches(before, after).differences
    assert found == ((difference,) if difference else ())
