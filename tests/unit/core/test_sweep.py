import json

import pytest

from pytest_atesor.core import sweep as sweeps
from pytest_atesor.core.inputs import InputText
from pytest_atesor.core.plan import BatchKind, Plan, Platform, Target
from pytest_atesor.core.plan_json import format_plan, parse_versioned_plan
from pytest_atesor.core.planning import PlanFacts
from pytest_atesor.core.runspec_kinds import BUILT_IN_KINDS
from pytest_atesor.core.sweep import plan_sweep
from pytest_atesor.errors import BadInputError

BASE = (
    "schema_version: runspec_v1\nkind: command\ntimeout_seconds: 9\n"
    "command: {argv: [run, a], env: {SIZE: '1', level: low}}\n"
)


class OneBase:
    """An InputReader with one base RunSpec."""

    def read_case(self, path: str) -> InputText:
        if path == "gone.yaml":
            raise BadInputError("gone.yaml does not exist; check the path")
        return InputText(path=path, identity=path, data=BASE.encode())

    def read_import(self, path: str) -> InputText:
        raise BadInputError(f"{path} does not exist; check the path")


def plan(axes: str, more: str = "") -> Plan:
    return plan_text(f"schema_version: sweep_v1\nsweep:\n  base: b.yaml\n  axes: {axes}\n{more}", "s.yaml")


def plan_text(text: str, path: str) -> Plan:
    facts = PlanFacts(
        batch_id="s-1",
        name="s",
        platform=Platform.DEBIAN,
        target=Target.QEMU,
        settings={},
        created_at="2026-01-02T03:04:05Z",
    )
    return plan_sweep(
        InputText(path=path, identity="s", data=text.encode()), OneBase(), BUILT_IN_KINDS, facts
    )


SIZES = "{parameter: command.env.SIZE, range: {start: 1, stop: 3, step: 1}, as_text: true}"
LEVELS = "{parameter: command.env.level, values: [low, high]}"


def test_a_product_has_the_last_axis_fastest_and_exclusions_are_left_out() -> None:
    made = plan(
        f"[{SIZES}, {LEVELS}]",
        "  exclude: [{command.env.SIZE: '2'}, {command.env.SIZE: '3', command.env.level: low}]",
    )
    assert made.kind is BatchKind.SWEEP
    assert [case.case_id for case in made.cases] == [
        "SIZE-1_level-low",
        "SIZE-1_level-high",
        "SIZE-3_level-high",
    ]
    assert made.cases[2].spec["env"] == {"SIZE": "3", "level": "high"}
    assert made.cases[2].parameters == {"command.env.SIZE": "3", "command.env.level": "high"}
    assert made.summary_fields == ("command.env.SIZE", "command.env.level")


def test_an_exclusion_names_its_axes_in_any_order_and_of_a_zip_too() -> None:
    made = plan(
        f"[{SIZES}, {LEVELS}]",
        "  exclude: [{command.env.level: low, command.env.SIZE: '3'}, {command.env.SIZE: '1'}]",
    )
    assert [case.case_id for case in made.cases] == [
        "SIZE-2_level-low",
        "SIZE-2_level-high",
        "SIZE-3_level-high",
    ]
    sizes = "{parameter: command.env.SIZE, values: ['1', '2']}"
    zipped = plan(f"[{sizes}, {LEVELS}]", "  mode: zip\n  exclude: [{command.env.level: low}]")
    assert [case.case_id for case in zipped.cases] == ["SIZE-2_level-high"]


@pytest.mark.timeout(60)  # it takes a second or two, and took minutes when each rule was held to each value
def test_a_large_sweep_may_list_its_exclusions_one_by_one() -> None:
    hundred = ", ".join(f"'{number}'" for number in range(100))
    rules = [
        f"{{command.env.SIZE: '{number // 100}', command.env.level: '{number % 100}'}}"
        for number in range(2000)
    ]
    axes = [f"{{parameter: command.env.{name}, values: [{hundred}]}}" for name in ("SIZE", "level")]
    made = plan(f"[{', '.join(axes)}]", f"  exclude: [{', '.join(rules)}]")
    assert len(made.cases) == 8000


def test_zip_pairs_the_axes() -> None:
    made = plan(f"[{{parameter: timeout_seconds, values: [5, 6]}}, {LEVELS}]", "  mode: zip")
    assert [(case.timeout_s, case.label) for case in made.cases] == [
        (5, "timeout_seconds-5_level-low"),
        (6, "timeout_seconds-6_level-high"),
    ]


def test_a_range_of_decimals_has_no_binary_noise() -> None:
    axis = "[{parameter: command.env.SIZE, range: {start: 0.1, stop: 0.3, step: 0.1}, as_text: true}]"
    assert [case.label for case in plan(axis).cases] == ["SIZE-0.1", "SIZE-0.2", "SIZE-0.3"]


def test_a_limit_that_no_decimal_can_hold_is_refused_with_its_place() -> None:
    limits = {"start": 10**400, "stop": 10**400, "step": 0.5}
    axes = [{"parameter": "command.env.SIZE", "range": limits, "as_text": True}]
    text = json.dumps({"schema_version": "sweep_v1", "sweep": {"base": "c.yaml", "axes": axes}})
    with pytest.raises(BadInputError) as caught:
        plan_text(text, "s.json")
    assert str(caught.value).startswith("s.json, sweep.axes[0].range.start: 1000")
    assert str(caught.value).endswith("... is beyond 1e15, where a range ends to be exact; list the values")


def test_a_wrong_value_is_told_with_its_file_also_where_that_is_json() -> None:
    axes = [{"parameter": "timeout_seconds", "values": [5, -5]}]
    text = json.dumps({"schema_version": "sweep_v1", "sweep": {"base": "c.yaml", "axes": axes}})
    with pytest.raises(BadInputError, match=r"^s\.json, timeout_seconds: -5 must be at least 1$"):
        plan_text(text, "s.json")


def test_the_largest_range_is_exact() -> None:
    axis = (
        "[{parameter: command.env.SIZE, as_text: true,"
        " range: {start: 999999999999998, stop: 1000000000000000, step: 1}}]"
    )
    labels = [case.label for case in plan(axis).cases]
    assert labels == ["SIZE-999999999999998", "SIZE-999999999999999", "SIZE-1000000000000000"]


def test_values_that_look_the_same_in_a_file_name_get_unique_stable_labels() -> None:
    axis = "[{parameter: command.argv.1, values: [a/b, a b, A-b, c]}]"
    labels = [case.label for case in plan(axis).cases]
    assert len({label.casefold() for label in labels}) == len(labels)
    assert labels == [case.label for case in plan(axis).cases]
    assert labels[3] == "1-c"
    assert all("/" not in label and " " not in label for label in labels)


def test_a_plan_of_a_sweep_survives_the_disk() -> None:
    made = plan(f"[{LEVELS}]")
    assert parse_versioned_plan(format_plan(made), "p").plan == made


BAD = {
    "unknown path": (
        "[{parameter: command.env.SIZ, values: ['1']}]",
        "",
        "no 'SIZ' there; did you mean \"SIZE\"?",
    ),
    "index": ("[{parameter: command.argv.7, values: ['1']}]", "", "'7' is no index of a list of 2"),
    "fixed": ("[{parameter: kind, values: [port]}]", "", '"kind" cannot be swept'),
    "overlap": (f"[{LEVELS}, {{parameter: command.env, values: [{{}}]}}]", "", "set the same value"),
    "twice": ("[{parameter: command.env.SIZE, values: ['1', '1']}]", "", "stands twice"),
    "neither": ("[{parameter: command.env.SIZE}]", "", "an axis has values or a range; give one"),
    "step": (
        "[{parameter: timeout_seconds, range: {start: 1, stop: 3, step: 0}}]",
        "",
        "step 0 does not lead",
    ),
    "endless": (
        "[{parameter: timeout_seconds, range: {start: 0, stop: 99999999, step: 1}}]",
        "",
        "more than 10000",
    ),
    "huge": (
        "[{parameter: timeout_seconds, range: {start: 1, stop: 1000000000000001, step: 999999999999999}}]",
        "",
        "range.stop: 1000000000000001 is beyond 1e15",
    ),
    "huge step": (
        "[{parameter: timeout_seconds, range: {start: 1, stop: 2, step: -1.5e+20}}]",
        "",
        "range.step: -1.5e+20 is beyond 1e15",
    ),
    "zip": (f"[{SIZES}, {LEVELS}]", "  mode: zip", "zip needs axes of one length, and they have [3, 2]"),
    "no axis": (f"[{LEVELS}]", "  exclude: [{SIZE: '1'}]", '"SIZE" is no axis'),
    "no value": (f"[{LEVELS}]", "  exclude: [{command.env.level: mid}]", '"mid" is no value of that axis'),
    "all excluded": (
        "[{parameter: command.env.level, values: [low]}]",
        "  exclude: [{command.env.level: low}]",
        "every combination",
    ),
    "wrong value": (
        "[{parameter: command.env.SIZE, values: [1]}]",
        "",
        "s.yaml, line 4, command.env.SIZE: 1 must be a string; add as_text: true to its axis",
    ),
    "duplicate key": (f"[{LEVELS}]", "  base: c.yaml", "the key stands twice"),
    "unquoted": ("[{parameter: command.env.level, values: [no]}]", "", "quote it"),
}


@pytest.mark.parametrize(("axes", "more", "said"), BAD.values(), ids=BAD)
def test_a_bad_sweep_is_refused_in_one_line(axes: str, more: str, said: str) -> None:
    with pytest.raises(BadInputError) as caught:
        plan(axes, more)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("base", "said"),
    [
        ("gone.yaml", "gone.yaml does not exist; check the path"),
        ("../b.yaml", '"../b.yaml" is refused: it leads out of its directory'),
    ],
    ids=["gone", "out"],
)
def test_a_base_that_cannot_be_had_is_named_with_its_place(base: str, said: str) -> None:
    with pytest.raises(BadInputError) as caught:
        plan_text(f"schema_version: sweep_v1\nsweep:\n  base: {base}\n  axes: [{LEVELS}]\n", "s.yaml")
    assert str(caught.value) == f"s.yaml, line 3, sweep.base: {said}"


def test_too_many_combinations_are_refused_before_they_are_made() -> None:
    axis = "{parameter: command.argv.%d, range: {start: 1, stop: 9000, step: 1}, as_text: true}"
    with pytest.raises(
        BadInputError, match=f"81000000 combinations; a sweep has at most {sweeps.MOST_CASES}"
    ):
        plan(f"[{axis % 0}, {axis % 1}]")
