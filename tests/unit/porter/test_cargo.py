"""Cargo's plans, run as builder's shell would run them, with programs that say what they were given."""

import os
import subprocess
from pathlib import Path

import pytest

from pytest_atesor.porter.builders.cargo import OWN_TARGET, CargoProject
from pytest_atesor.porter.builders.interface import BuildOptions, Tweak
from pytest_atesor.porter.diagnose import diagnose

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
