import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_atesor.core.names import make_case_ids
from pytest_atesor.core.plan import BatchKind, Case, InputFile, Plan, Platform, Target
from pytest_atesor.core.plan_json import format_plan, format_runspec, parse_versioned_plan
from pytest_atesor.core.schema import check_schema
from pytest_atesor.errors import BundleError

PlanFactory = Callable[..., Plan]

texts = st.text(st.characters(codec="utf-8"), max_size=20)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | texts, lambda inner: st.lists(inner, max_size=3), max_leaves=5
)


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    labels = draw(st.lists(texts, unique=True, max_size=5))
    cases = tuple(
        Case(
            case_id=case_id,
            label=label,
            kind=draw(st.sampled_from(["port", "command"])),
            spec=draw(st.dictionaries(texts, values, max_size=3)),
            timeout_s=draw(st.integers(1, 10**6)),
            derived_name=draw(texts),
            marks=tuple(draw(st.lists(texts, max_size=3))),
        )
        for label, case_id in zip(labels, make_case_ids(labels), strict=True)
    )
    return Plan(
        batch_id=draw(st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)),
        kind=draw(st.sampled_from(BatchKind)),
        name=draw(texts),
        source=draw(texts),
        platform=draw(st.sampled_from(Platform)),
        target=draw(st.sampled_from(Target)),
        cases=cases,
        inputs=tuple(InputFile(path=path, sha256="0" * 64) for path in draw(st.lists(texts, max_size=2))),
        settings=draw(st.dictionaries(texts, values, max_size=3)),
        created_at=draw(texts),
        summary_fields=tuple(draw(st.lists(st.text(st.characters(codec="utf-8"), min_size=1), max_size=2))),
        write_csv=draw(st.booleans()),
    )


@given(plans())
def test_a_plan_reads_back_equal(plan: Plan) -> None:
    assert parse_versioned_plan(format_plan(plan).encode(), "batch_plan.json").plan == plan


def test_a_newer_plan_is_read_as_far_as_it_is_known(make_plan: PlanFactory) -> None:
    document = json.loads(format_plan(make_plan("zlib")))
    document["schema_version"] = "batch_plan_v2"
    document["cases"][0]["new_key"] = 1
    plan, version = parse_versioned_plan(json.dumps(document), "batch_plan.json")
    assert (plan, version) == (make_plan("zlib"), 2)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param(
            {"schema_version": "batch_results_v1"},
            'batch_plan.json: schema_version is "batch_results_v1"',
            id="other-file",
        ),
        pytest.param({"schema_version": None}, "batch_plan.json: schema_version is null", id="none"),
        pytest.param({"cases": [{}]}, "batch_plan.json, cases[0]: the key", id="damaged"),
        pytest.param(
            {"platform": "windows"}, 'batch_plan.json, platform: "windows" must be one of', id="platform"
        ),
        pytest.param(
            {"schema_version": "batch_plan_v2", "cases": 5},
            "batch_plan.json was written by a newer version",
            id="newer-strange",
        ),
    ],
)
def test_what_is_no_plan_is_a_bundle_error(
    make_plan: PlanFactory, change: dict[str, object], message: str
) -> None:
    document = json.loads(format_plan(make_plan("zlib"))) | change
    with pytest.raises(BundleError) as caught:
        parse_versioned_plan(json.dumps(document), "batch_plan.json")
    assert str(caught.value).startswith(message)


def test_a_case_id_that_is_no_path_component_is_refused(make_plan: PlanFactory) -> None:
    document = json.loads(format_plan(make_plan("zlib")))
    document["cases"][0]["case_id"] = "../x"
    with pytest.raises(BundleError, match=r"cases\[0\]\.case_id"):
        parse_versioned_plan(json.dumps(document), "batch_plan.json")


def test_the_plan_refers_to_its_children_and_is_one_line_per_case(make_plan: PlanFactory) -> None:
    text = format_plan(make_plan("zlib", "gron"))
    assert [case["runspec"] for case in json.loads(text)["cases"]] == [
        "cases/zlib/runspec.json",
        "cases/gron/runspec.json",
    ]
    assert len([line for line in text.splitlines() if '"case_id"' in line]) == 2
    check_schema(json.loads(text), "batch_plan_v1", "batch_plan.json")


def test_a_runspec_is_whole(make_plan: PlanFactory) -> None:
    assert json.loads(format_runspec(make_plan("zlib").cases[0])) == {
        "schema_version": "runspec_v1",
        "kind": "port",
        "timeout_seconds": 1800,
        "port": {"name": "zlib", "url": "https://example.org/acme/zlib.git", "max_attempts": 5},
    }
