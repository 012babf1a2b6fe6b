"""Cargo's plans, run as builder's shell would run them, with programs that say what they were given."""

import os
import subprocess
from pathlib import Path

import pytest

from pytest_atesor.porter.builders.cargo import DISTRIBUTION_CRATES, OWN_TARGET, CargoProject
from pytest_atesor.porter.builders.interface import BuildOptions, Tweak
from pytest_atesor.porter.diagnose import diagnose
from pytest_atesor.porter.inside.distribution_crates import REGISTRY
from pytest_atesor.porter.reason import find_reason

_CARGO = """#!/bin/sh
echo "$1 ${CARGO_BUILD_TARGET-}" >> "$HOME/seen"
"""
_RUSTC = """#!/bin/sh
printf 'rustc 1.90.0\\nhost: riscv64gc-unknown-linux-gnu\\nrelease: 1.90.0\\n'
"""


def _run(place: Path, project: CargoProject, options: BuildOptions) -> list[str]:
    """Return the commands of Cargo that plan and tests gave, each with the target that it was told."""
    for name, text in {"cargo": _CARGO, "rustc": _RUSTC}.items():
        (place / name).write_text(text)
        (place / name).chmod(0o755)
    environment = {"HOME": str(place), "PATH": f"{place}:{os.environ['PATH']}"}
    scripts = [one.script for one in project.plan(options)]
    scripts += [one.script for one in project.plan_suites(options)]
    for script in scripts:
        subprocess.run(["/bin/sh", "-eu", "-c", script], cwd=place, env=environment, check=True)
    return (place / "seen").read_text().splitlines()


def test_a_target_of_the_tree_gives_way_to_the_sandboxes_own(tmp_path: Path) -> None:
    options = BuildOptions(jobs=1, tweak=Tweak(prepare=(OWN_TARGET,)))
    own = "riscv64gc-unknown-linux-gnu"
    assert _run(tmp_path, CargoProject(), options) == [f"build {own}", f"test {own}"]


def test_no_target_is_named_unless_a_fix_asks_for_it(tmp_path: Path) -> None:
    assert _run(tmp_path, CargoProject(), BuildOptions(jobs=1)) == ["build ", "test "]


_UNWILLING = """#!/bin/sh
grep -s '^devx' Cargo.toml >> "$HOME/asked" || :
case $1 in
  metadata) exit "$(cat "$HOME/metadata")" ;;
  test) echo 'error[E0432]: unresolved import `devx`'; exit 101 ;;
esac
"""
_MANIFEST = "[package]\nname = 'x'\n[dev-dependencies]\ndevx = '0.3'\n"


@pytest.mark.parametrize(
    ("metadata", "asked", "reason"),
    [
        pytest.param(0, ["devx = '0.3'"], "error[E0432]: unresolved import `devx`", id="agreed"),
        pytest.param(
            101,
            ["devx = '0.3'", 'devx = "*"'],
            "error: tests without these crates, which are not packaged as asked for: devx",
            id="never-agreed",
        ),
    ],
)
def test_tests_of_packaged_crates_are_built_with_what_cargo_agrees_to(
    tmp_path: Path, metadata: int, asked: list[str], reason: str
) -> None:
    registry, tree = tmp_path / "registry", tmp_path / "tree"
    (registry / "devx-0.3.1").mkdir(parents=True)
    tree.mkdir()
    (tree / "Cargo.toml").write_text(_MANIFEST)
    (tmp_path / "metadata").write_text(str(metadata))
    (tmp_path / "cargo").write_text(_UNWILLING)
    (tmp_path / "cargo").chmod(0o755)
    options = BuildOptions(jobs=1, tweak=Tweak(prepare=(DISTRIBUTION_CRATES,)))
    environment = {"HOME": str(tmp_path), "PATH": f"{tmp_path}:{os.environ['PATH']}"}

    def run(script: str) -> subprocess.CompletedProcess[str]:
        script = script.replace(REGISTRY, str(registry))
        return subprocess.run(
            ["/bin/sh", "-eu", "-c", script],
            cwd=tree,
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )

    project = CargoProject(tested=("devx@0.3",))
    assert [run(one.script).returncode for one in project.plan(options)] == [0, 0]
    assert "devx" not in (tree / "Cargo.toml").read_text()
    done = run(project.plan_suites(options)[0].prepare)
    assert (done.returncode, find_reason(done.stdout)) == (101, reason)
    assert list(dict.fromkeys((tmp_path / "asked").read_text().splitlines())) == asked


@pytest.mark.parametrize(
    ("log", "fixes"),
    [
        pytest.param(
            "error[E0463]: can't find crate for `std`\n  |\n"
            "  = note: the `x86_64-unknown-linux-musl` target may not be installed\n",
            ["rust-own-target", "rust-other-target"],
            id="another-target",
        ),
        pytest.param(
            "error[E0463]: can't find crate for `core`\n  |\n"
            "  = note: the `thumbv7em-none-eabihf` target may not be installed\n",
            ["rust-bare-target", "rust-own-target", "rust-other-target"],
            id="no-system",
        ),
        pytest.param(
            "error[E0554]: `#![feature]` may not be used on the stable release channel\n --> main.rs:1:1\n",
            ["rust-nightly"],
            id="feature-of-the-language",
        ),
        pytest.param(
            "Caused by:\n  the cargo feature `codegen-backend` requires a nightly version of Cargo, but this "
            "is the `stable` channel\n",
            ["rust-nightly"],
            id="feature-of-cargo",
        ),
        pytest.param(
            "  this version of Cargo is older than the `2027` edition, and only supports `2015`\n",
            ["rust-too-old"],
            id="edition",
        ),
        pytest.param(
            "error[E0432]: unresolved import `std::arch::x86_64`\n --> src/main.rs:2:17\n  |\n"
            "2 | use std::arch::{x86_64 as a, asm};\n  |                 ^^^^^^^^^^^ no `x86_64` in `arch`\n",
            ["rust-for-other-processors"],
            id="import",
        ),
        pytest.param(
            "error[E0433]: cannot find `is_x86_feature_detected` in `std`\n --> src/main.rs:3:55\n",
            ["rust-for-other-processors"],
            id="detection-of-features",
        ),
        pytest.param(
            "error: invalid register `eax`: unknown register\n --> src/main.rs:2:33\n",
            ["rust-for-other-processors"],
            id="register",
        ),
    ],
)
def test_what_rust_says_of_targets_has_its_answer(log: str, fixes: list[str]) -> None:
    assert [one.rule.name for one in diagnose(log, "cargo")] == fixes
