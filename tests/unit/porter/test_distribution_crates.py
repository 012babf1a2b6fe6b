import datetime as dt
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_atesor.porter.inside import distribution_crates, read_program
from pytest_atesor.porter.inside.distribution_crates import Offer, find_spare, format_manifest, transform

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


def change(text: str, *available: str, widen: bool = False, is_spare: bool = False) -> dict[str, object]:
    """Change a manifest that inherits ``paint`` of the tree and ``redb`` of a registry, and write it."""
    shared = {"paint": {"path": "paint"}, "redb": "4.1.0", "old": {"package": "older", "version": "1"}}
    offer = Offer(frozenset(available), shared, widen=widen, is_spare=is_spare)
    made = transform(tomllib.loads(text), offer)
    assert tomllib.loads(format_manifest(made)) == made
    return made


def test_other_systems_tests_and_absent_optional_crates_go() -> None:
    made = change(_TEXT, *_HERE)
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
    made = change(_TEXT, *_HERE, widen=True)
    assert made["package"]["version"] == "1.2.3"
    assert made["dependencies"]["libc"] == "*"
    assert made["dependencies"]["clap"] == {"version": "*", "features": ["derive"]}
    assert made["dependencies"]["anyhow"]["version"] == "*"
    assert made["target"]["cfg(not(windows))"]["dependencies"]["nix"] == "*"
    shared = change('[workspace.dependencies]\na = "1"\nb = { version = "2", path = "b" }', widen=True)
    assert shared == {"workspace": {"dependencies": {"a": "*", "b": {"version": "*", "path": "b"}}}}


def test_a_manifest_that_needs_nothing_stays_as_it_is() -> None:
    text = "[package]\nname = 'x'\nversion = '1.0.0'\n"
    assert change(text, widen=True) == tomllib.loads(text)


@pytest.mark.parametrize(
    "entry",
    [
        'local = { path = "../local", optional = true }',
        "paint = { workspace = true, optional = true }",
        "old = { workspace = true, optional = true }",
        'alias = { package = "libc", version = "1", optional = true }',
        'absent = "1" # optional = true',
        'absent = { version = "1" } # optional = true',
    ],
)
def test_what_is_there_or_must_be_there_stays(entry: str) -> None:
    text = f'[features]\ndefault = ["local", "paint"]\n[dependencies]\n{entry}\n'
    made = change(text, "libc", "older")
    assert made["dependencies"] == tomllib.loads(text)["dependencies"]
    name = entry.split(maxsplit=1)[0]
    assert (name in made["features"]["default"]) is (name in {"local", "paint"})


@pytest.mark.parametrize(
    "text",
    [
        "[dependencies]\nredb = { workspace = true, optional = true }",
        "[dependencies]\nredb.version = '1'\nredb.optional = true # path = '../redb'",
        "[dependencies.redb]\nversion = '1'\noptional = true\n# path = '../redb'",
        "[dependencies.'redb']\nversion = '1'\noptional = true",
        "[target.unix.dependencies]\nredb = { version = '1', optional = true, features = [\n'a', # {\n]}",
        "[target.'cfg(windows)'.dependencies]\nredb = '1'",
        "[dev-dependencies]\nredb = '1'",
    ],
)
def test_what_is_absent_goes_with_the_features_that_name_it(text: str) -> None:
    features = "[features]\n'default' = ['redb', 'std' # c\n, 'redb?/x', \"dep:redb\"]\nstd = ['redb/std']\n"
    made = change(f"{text}\n{features}", "libc")
    assert made["features"] == {"default": ["std"], "std": []}
    assert not any(made.get("dependencies", {}))


def test_a_feature_that_has_the_name_of_a_crate_stays() -> None:
    made = change(
        "[features]\ndefault = ['store']\nstore = ['dep:store', 'store/x']\n"
        "[dependencies]\nstore = { version = '1', optional = true }\n"
    )
    assert made["features"] == {"default": ["store"], "store": []}


_TESTED = """\
[features]
nightly = ["devx/nightly", "dep:both", "both/x"]
[dependencies]
both = { version = "1", optional = true }
[dev-dependencies]
devx = "0.3"
both = "1"
gone = "2"
shared = { workspace = true, features = ["b"] }
local = { path = "../local" }
far = { git = "https://example.org/far" }
[target.'cfg(unix)'.dev-dependencies]
unixy = "1"
[target.'cfg(windows)'.dev-dependencies]
winapi = "1"
"""
_INHERITED = {"shared": {"version": "4", "features": ["a"], "default-features": False}}


def _with_tests(*available: str, widen: bool = False) -> dict[str, object]:
    tests = Offer(frozenset(available), _INHERITED, widen=widen, is_spare=True)
    made = transform(tomllib.loads(_TESTED), Offer(frozenset({"libc"}), _INHERITED, tests=tests))
    assert tomllib.loads(format_manifest(made)) == made
    return made


def test_tests_get_what_is_there_and_the_build_gets_no_more_than_before() -> None:
    made = _with_tests("devx", "both", "shared", "far", "unixy", "winapi")
    wanted = tomllib.loads(_TESTED)["dev-dependencies"]
    assert made["dev-dependencies"] == {one: wanted[one] for one in ("devx", "both", "shared", "local")}
    assert made["dependencies"] == {}
    assert made["target"] == {"cfg(unix)": {"dev-dependencies": {"unixy": "1"}}}
    assert made["features"] == {"nightly": ["devx/nightly"]}


def test_a_crate_that_tests_lack_goes_with_the_features_that_name_it() -> None:
    made = _with_tests("both")
    assert made["dev-dependencies"] == {"both": "1", "local": {"path": "../local"}}
    assert made["features"] == {"nightly": []}


def test_tests_widen_what_they_inherit_and_leave_the_workspace_as_it_is() -> None:
    made = _with_tests("devx", "shared", widen=True)
    assert made["dev-dependencies"] == {
        "devx": "*",
        "shared": {"version": "*", "features": ["a", "b"], "default-features": False},
        "local": {"path": "../local"},
    }


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
    made = change(_SPARE, "regex-syntax", is_spare=True)
    assert set(made["dependencies"]) == {"regex-syntax", "matcher"}
    assert made["features"] == {"store": []}


def test_a_package_that_is_built_keeps_what_is_absent() -> None:
    assert change(_SPARE, "regex-syntax") == tomllib.loads(_SPARE)


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


def test_a_member_that_is_built_beside_the_root_is_not_spare() -> None:
    assert find_spare(_TREE, ["crates/index"]) == {"crates/other-tool"}


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


def test_what_one_default_member_turns_on_in_another_is_built() -> None:
    manifests = {
        ".": {"workspace": {"members": ["*"], "default-members": ["a", "b"]}},
        "a": {"dependencies": {"b": {"path": "../b", "features": ["paint"]}}},
        "b": {
            "features": {"paint": ["dep:c"]},
            "build_dependencies": {"c": {"path": "../c", "optional": True}},
        },
        "c": {},
        "d": {},
    }
    assert find_spare(manifests) == {".", "d"}


def test_what_replaces_a_crate_is_built() -> None:
    patch = {"registry": {"x": {"path": "x"}}}
    assert find_spare({".": {"package": {}, "patch": patch}, "x": {}, "y": {}}) == {"y"}


_JSON = st.recursive(
    st.text() | st.integers() | st.booleans() | st.floats(allow_nan=False) | st.dates() | st.datetimes(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(st.text(), _JSON, max_size=4))
def test_a_written_manifest_reads_as_what_it_was(manifest: dict[str, object]) -> None:
    assert tomllib.loads(format_manifest(manifest)) == manifest


def test_what_is_no_json_is_written_too() -> None:
    manifest = {"a": dt.time(1, 2, 3), "b": '\x7f\x00\\"\n', "c": [{"d": {}}, []]}
    assert tomllib.loads(format_manifest(manifest)) == manifest


def test_a_tree_of_manifests_is_changed_in_place(tmp_path: Path) -> None:
    registry = tmp_path / "registry"
    (registry / "libc-0.2.169").mkdir(parents=True)
    tree = {
        "tree/Cargo.toml": "[package]\nname = 'tool'\n[workspace]\nmembers = ['*']\n"
        "[dependencies]\nlibc = '9'\nlost = '1'\n[patch.crates-io]\npatched = { path = 'patched' }\n",
        "tree/spare/Cargo.toml": "[dependencies]\nredb = '1'\nlibc = '9'\npatched = '1'\n",
        "tree/patched/Cargo.toml": "[package]\nname = 'patched' # as it is\n",
        "tree/broken/Cargo.toml": "[package\n",
        "tree/deep/Cargo.toml": "a = " + "[" * 20_000,
        "tree/vendor/x/Cargo.toml": "[dependencies]\nlibc = '9'\n",
    }
    for name, text in tree.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    program = read_program("distribution_crates.py").decode()
    program = program.replace(distribution_crates.REGISTRY, str(registry))
    subprocess.run(
        [sys.executable, "-", "--widen"], input=program, text=True, cwd=tmp_path / "tree", check=True
    )
    made = {name: (tmp_path / name).read_text() for name in tree}
    assert tomllib.loads(made["tree/Cargo.toml"])["dependencies"] == {"libc": "*", "lost": "*"}
    assert tomllib.loads(made["tree/spare/Cargo.toml"])["dependencies"] == {"libc": "*", "patched": "*"}
    for name in ("tree/patched", "tree/broken", "tree/deep", "tree/vendor/x"):
        assert made[f"{name}/Cargo.toml"] == tree[f"{name}/Cargo.toml"]
    config = tomllib.loads((tmp_path / "tree/.cargo/config.toml").read_text())
    assert config["source"]["distribution"] == {"directory": str(registry)}


def _edit(tree: Path, registry: Path, *words: str) -> dict[str, object]:
    """Run the program in ``tree`` and return the manifest that it left."""
    program = read_program("distribution_crates.py").decode()
    program = program.replace(distribution_crates.REGISTRY, str(registry))
    subprocess.run([sys.executable, "-", *words], input=program, text=True, cwd=tree, check=True)
    return tomllib.loads((tree / "Cargo.toml").read_text())


def test_what_tests_ask_for_comes_back_after_the_build_as_far_as_it_is_there_by_then(tmp_path: Path) -> None:
    tree, registry = tmp_path / "tree", tmp_path / "registry"
    tree.mkdir()
    (registry / "libc-0.2.169").mkdir(parents=True)
    text = (
        "[package]\nname = 'tool' # as it is\n"
        "[dependencies]\nlibc = '0.2'\nextra = { version = '1', optional = true }\n"
        "[dev-dependencies]\ndevx = '0.3'\n"
    )
    (tree / "Cargo.toml").write_text(
        f"{text}gone = '1'\n[target.'cfg(windows)'.dev-dependencies]\nwinapi = '1'\n"
    )
    built = _edit(tree, registry)
    assert (built["dependencies"], "dev-dependencies" in built) == ({"libc": "0.2"}, False)
    for name in ("devx-0.3.1", "extra-1.0.0"):
        (registry / name).mkdir()
    tested = _edit(tree, registry, "--tests")
    assert (tested["dependencies"], tested["dev-dependencies"]) == ({"libc": "0.2"}, {"devx": "0.3"})
    left_out = tree / distribution_crates.LEFT_OUT
    assert left_out.read_text() == "gone"
    assert _edit(tree, registry, "--tests", "--widen")["dev-dependencies"] == {"devx": "*"}
    assert _edit(tree, registry, "--tests", "--none") == built
    assert left_out.read_text() == "devx, gone"


def test_a_manifest_that_tests_need_whole_is_the_first_one_again(tmp_path: Path) -> None:
    tree, registry = tmp_path / "tree", tmp_path / "registry"
    tree.mkdir()
    (registry / "devx-0.3.1").mkdir(parents=True)
    text = "[package]\nname = 'tool' # as it is\n[dev-dependencies]\ndevx = '0.3'\n"
    (tree / "Cargo.toml").write_text(text)
    _edit(tree, registry)
    _edit(tree, registry, "--tests")
    assert (tree / "Cargo.toml").read_text() == text


def test_crates_that_came_for_the_tests_alone_are_found(tmp_path: Path) -> None:
    tree, registry = tmp_path / "tree", tmp_path / "registry"
    (tree / ".cargo").mkdir(parents=True)
    (tree / ".cargo" / "config.toml").write_text("[net]\nretry = 1\n")
    (tree / "Cargo.toml").write_text("[package]\nname = 'tool'\n[dev-dependencies]\ndevx = '0.3'\n")
    config = {"net": {"retry": 1}}
    _edit(tree, registry)
    assert tomllib.loads((tree / ".cargo" / "config.toml").read_text()) == config
    (registry / "devx-0.3.1").mkdir(parents=True)
    for _ in range(2):
        _edit(tree, registry, "--tests")
        made = tomllib.loads((tree / ".cargo" / "config.toml").read_text())
        assert made["source"]["distribution"] == {"directory": str(registry)}


def test_tests_change_no_manifest_that_no_build_has_changed(tmp_path: Path) -> None:
    (tmp_path / "Cargo.toml").write_text("[package]\n")
    assert _edit(tmp_path, tmp_path / "none", "--tests") == {"package": {}}
    assert [one.name for one in tmp_path.iterdir()] == ["Cargo.toml"]
