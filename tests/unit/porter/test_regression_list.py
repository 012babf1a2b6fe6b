"""The regression list that is shipped and what was seen of it."""

import importlib.util
import json
import re
from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest

from pytest_atesor.core.package_list import parse_package_list

_ROOT = Path(__file__).parents[3]
_LIST = _ROOT / "packages/regression.json"


@pytest.fixture(scope="module", name="tool")
def regression_tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("regression", _ROOT / "tools/regression.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_package_has_one_expectation_and_a_mirror() -> None:
    entries = parse_package_list(_LIST.read_bytes(), "packages/regression.json").entries
    expected = json.loads((_ROOT / "tools/regression_expected.json").read_text())
    assert {one.name for one in entries} == set(expected)
    assert all(any(place.startswith("deb:") for place in one.mirrors) for one in entries)


def test_the_list_is_long_pinned_and_spread_over_the_build_systems() -> None:
    entries = parse_package_list(_LIST.read_bytes(), "packages/regression.json").entries
    builders = Counter(one.tags[0] for one in entries)
    assert len(entries) >= 60
    assert [one.name for one in entries if not one.ref and not re.search(r"-\d[\d.]*\.tar\.", one.url)] == []
    assert {"autotools", "cargo", "cmake", "configure", "go", "make", "meson"} <= set(builders)


def test_every_expectation_is_a_verdict_and_only_a_failure_has_its_cause() -> None:
    expected = json.loads((_ROOT / "tools/regression_expected.json").read_text())
    causes = {f"FAIL {cause}" for cause in ("build", "dependency", "unsupported")}
    assert set(expected.values()) <= {"PASS", "UNVERIFIED", *causes}


def test_the_slice_of_ci_is_small_and_no_success_alone() -> None:
    entries = parse_package_list(_LIST.read_bytes(), "packages/regression.json").entries
    expected = json.loads((_ROOT / "tools/regression_expected.json").read_text())
    chosen = [one.name for one in entries if "ci" in one.tags]
    assert 2 <= len(chosen) <= 5
    assert {expected[name].partition(" ")[0] for name in chosen} == {"PASS", "UNVERIFIED", "FAIL"}


def test_a_difference_and_a_package_that_did_not_run_are_marked(tool: ModuleType) -> None:
    lines = tool.compare({"a": "PASS", "b": "PASS", "c": "PASS"}, {"a": "PASS", "b": "FAIL build"}, "abcd")
    assert [line[0] for line in lines] == [" ", "!", "!", "!"]
    assert lines[1] == f"! {'b':24} expected {'PASS':18} actual FAIL build"


def test_a_summary_gives_status_and_cause_of_what_ended(tool: ModuleType, tmp_path: Path) -> None:
    rows = [
        {"label": "a", "state": "ended", "status": "FAIL", "cause": "build"},
        {"label": "b", "state": "ended", "status": "PASS", "cause": None},
        {"label": "c", "state": "running", "status": None, "cause": None},
    ]
    path = tmp_path / "batch_summary.json"
    path.write_text(json.dumps({"rows": rows}))
    assert tool.read_summary(path) == {"a": "FAIL build", "b": "PASS"}
