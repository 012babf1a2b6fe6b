import tomllib

import pytest

from pytest_atesor.porter.inside.distribution_crates import find_spare, transform

_TEXT = """\
[package]
name = "tool"
version = "1.2.3"

[features]
default = ["color", "std"]
color = ["dep:termcolor", "clap/color"]
std = []
extra = [
  "fancy",
  "fancy?/more",
]

[dependencies]
clap = { version = "4.5", features = ["derive"] }
libc = "0.2"
termcolor = { version = "1", optional = true }
fancy = { version = "2", optional = true }
local = { path = "../local", version = "1.0", optional = true }

[dependencies.anyhow]
version = "1.0.80"

[dependencies.huge]
version = "9"
optional = true

[target.'cfg(windows)'.dependencies]
winapi = "0.3"

[target.'cfg(not(windows))'.dependencies]
nix = "0.29"

[dev-dependencies]
tempfile = "3"

[profile.release]
lto = true
"""
_HERE = {"clap", "libc", "termcolor", "anyhow", "nix"}


def test_other_systems_tests_and_absent_optional_crates_go() -> None:
    made = tomllib.loads(transform(_TEXT, _HERE, widen=False))
    assert "dev-dependencies" not in made
    assert list(made["target"]) == ["cfg(not(windows))"]
    assert set(made["dependencies"]) == {"clap", "libc", "termcolor", "local", "anyhow"}
    assert made["features"] == {
        "default": ["color", "std"],
        "color": ["dep:termcolor", "clap/color"],
        "std": [],
        "extra": [],
    }
    assert made["dependencies"]["clap"]["version"] == "4.5"
    assert made["profile"] == {"release": {"lto": True}}


def test_widening_touches_requirements_only() -> None:
    made = tomllib.loads(transform(_TEXT, _HERE, widen=True))
    assert made["package"]["version"] == "1.2.3"
    assert made["dependencies"]["libc"] == "*"
    assert made["dependencies"]["clap"] == {"version": "*", "features": ["derive"]}
    assert made["dependencies"]["anyhow"]["version"] == "*"
    assert made["target"]["cfg(not(windows))"]["dependencies"]["nix"] == "*"


def test_a_manifest_that_needs_nothing_stays_as_it_is() -> None:
    text = "[package]\nname = 'x'\nversion = '1.0.0'\n"
    assert transform(text, set(), widen=True) == text


def test_optional_packages_of_the_tree_stay() -> None:
    text = '[dependencies.local]\npath = "../local"\noptional = true\n'
    assert transform(text, set(), widen=False) == text


def test_an_entry_over_several_lines_goes_as_a_whole() -> None:
    text = """\
[dependencies]
fancy = { version = "2", features = [
  "a", # not {
  "b",
], optional = true }
libc = { version = "0.2", features = [
  "std",
] }
"""
    made = tomllib.loads(transform(text, {"libc"}, widen=True))
    assert made == {"dependencies": {"libc": {"version": "*", "features": ["std"]}}}


_SPARE = """\
[features]
store = ["dep:redb", "redb/logging"]
[dependencies]
redb = "4.1.0"
fst.workspace = true
regex-syntax = "0.8"
matcher = { path = "../matcher", version = "0.1" }
"""


def test_a_package_that_is_not_built_does_without_what_is_absent() -> None:
    made = tomllib.loads(transform(_SPARE, {"regex-syntax"}, widen=False, is_spare=True))
    assert set(made["dependencies"]) == {"regex-syntax", "matcher"}
    assert made["features"] == {"store": []}


def test_a_package_that_is_built_keeps_what_is_absent() -> None:
    assert transform(_SPARE, {"regex-syntax"}, widen=False) == _SPARE


def _member(*needs: str) -> dict[str, object]:
    entries = {one.rpartition("/")[2]: {"path": one} for one in needs}
    return {"package": {"name": "x"}, "dependencies": entries}


_ROOT = {
    "package": {"name": "tool"},
    "workspace": {"members": ["crates/*"], "dependencies": {"shared": {"path": "crates/shared"}}},
    "features": {"default": ["color"], "color": ["dep:paint", "index?/x"], "unstable": ["dep:index"]},
    "dependencies": {
        "core": {"path": "crates/core"},
        "shared": {"workspace": True},
        "index": {"path": "crates/index", "optional": True},
        "paint": {"path": "crates/paint", "optional": True},
        "libc": "0.2",
    },
    "target": {"cfg(unix)": {"build-dependencies": {"unixy": {"path": "crates/unixy"}}}},
}
_TREE = {
    ".": _ROOT,
    "crates/core": _member("../deep"),
    "crates/deep": _member(),
    "crates/shared": _member(),
    "crates/index": _member("../only-index"),
    "crates/only-index": _member(),
    "crates/paint": _member(),
    "crates/unixy": _member(),
    "crates/other-tool": _member("../core"),
}


def test_what_only_other_packages_of_the_tree_need_is_spare() -> None:
    assert find_spare(_TREE) == {"crates/index", "crates/only-index", "crates/other-tool"}


def test_default_members_are_what_is_built() -> None:
    root = {"workspace": {"members": ["crates/*"], "default-members": ["./crates/oth*", "crates/paint"]}}
    assert find_spare({**_TREE, ".": root}) == {
        ".",
        "crates/index",
        "crates/only-index",
        "crates/shared",
        "crates/unixy",
    }
    assert "." not in find_spare({**_TREE, ".": {**_ROOT, "workspace": {"default-members": ["."]}}})


@pytest.mark.parametrize("root", [{}, {"workspace": {"members": ["crates/*"]}}, {"workspace": "x"}])
def test_a_workspace_without_a_package_at_its_root_is_built_whole(root: dict[str, object]) -> None:
    assert find_spare({**_TREE, ".": root}) == frozenset()


def test_tables_that_cargo_would_refuse_break_nothing() -> None:
    odd = {"package": 1, "dependencies": ["a"], "target": {"x": 3}, "features": {"default": [1, "a"], "a": 2}}
    assert find_spare({".": odd, "b": {}}) == {"b"}
