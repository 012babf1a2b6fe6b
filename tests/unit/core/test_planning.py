import json

import pytest

from pytest_atesor.core.package_list import PackageList, parse_package_list
from pytest_atesor.core.plan import BatchKind, Plan, Platform, Target
from pytest_atesor.core.planning import PlanFacts, describe_input, plan_package_list
from pytest_atesor.core.shards import Shard
from pytest_atesor.errors import UsageError


def parse(*packages: dict[str, object]) -> PackageList:
    return parse_package_list(json.dumps({"$schema_version": 1, "packages": packages}), "packages/x.json")


def plan(package_list: PackageList, *, only: tuple[str, ...] = (), shard: Shard | None = None) -> Plan:
    return plan_package_list(
        package_list,
        PlanFacts(
            batch_id="x-1",
            name="x",
            platform=Platform.DEBIAN,
            target=Target.QEMU,
            settings={"agent": "builtin"},
            created_at="2026-01-02T03:04:05Z",
        ),
        source="packages/x.json",
        only=only,
        shard=shard,
    )


FOUR = parse(*({"name": name, "url": f"https://h/acme/{name}"} for name in ("a", "b", "c", "d")))


def test_a_case_says_all_that_its_runner_needs() -> None:
    package = {
        "name": "GH",
        "url": "https://github.com/cli/cli",
        "ref": "v2",
        "mirrors": ["deb:gh"],
        "lang": "Go",
        "timeout_seconds": 60,
    }
    made = plan(parse(package))
    (case,) = made.cases
    assert (case.case_id, case.label, case.kind, case.timeout_s, case.derived_name, case.marks) == (
        "GH",
        "GH",
        "port",
        60,
        "cli-cli",
        ("go",),
    )
    assert case.spec == {
        "name": "GH",
        "url": "https://github.com/cli/cli",
        "max_attempts": 5,
        "ref": "v2",
        "mirrors": ["deb:gh"],
    }
    assert made.kind is BatchKind.PACKAGE_LIST
    assert made.source == "packages/x.json"


def test_an_input_is_known_by_its_bytes() -> None:
    found = describe_input("packages/x.json", b"abc")
    assert found.sha256 == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


def test_names_select_and_shards_cut_in_list_order() -> None:
    assert [case.label for case in plan(FOUR, only=("d", "b")).cases] == ["b", "d"]
    assert [case.label for case in plan(FOUR, shard=Shard(index=1, total=3)).cases] == ["c", "d"]
    assert plan(FOUR, shard=Shard(index=2, total=3)).cases == ()


def test_case_ids_do_not_depend_on_the_selection() -> None:
    both = parse({"name": "zlib", "url": "https://h/z"}, {"name": "Zlib", "url": "https://h/y"})
    assert plan(both, only=("Zlib",)).cases[0].case_id == plan(both).cases[1].case_id != "Zlib"


def test_names_and_a_shard_exclude_each_other() -> None:
    with pytest.raises(UsageError, match="exclude each other"):
        plan(FOUR, only=("a",), shard=Shard(index=0, total=2))


def test_an_unknown_name_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match=r'packages/x\.json has no package "e"'):
        plan(FOUR, only=("e",))
