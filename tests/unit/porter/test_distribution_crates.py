import tomllib

from pytest_atesor.porter.inside.distribution_crates import transform

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
