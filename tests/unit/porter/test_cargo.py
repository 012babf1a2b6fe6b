"""Cargo's plans, run as builder's shell would run them, with programs that say what they were given."""

import os
import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_atesor.porter.builders.cargo import DISTRIBUTION_CRATES, OWN_TARGET, CargoBuilder, CargoProject
from pytest_atesor.porter.builders.interface import BuildOptions, Tweak
from pytest_atesor.porter.diagnose import diagnose
from pytest_atesor.porter.inside.distribution_crates import REGISTRY
from pytest_atesor.porter.reason import find_reason
from pytest_atesor.porter.tree import Entry, Tree

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


_LIBRARY = {
    "Cargo.toml": '[package]\nname = "eng"\nversion = "1.0.0"\n[workspace]\nmembers = ["cli", "crates/*"]\n',
    "src/lib.rs": "",
    "cli/Cargo.toml": '[package]\nname = "cli"\nversion = "1.0.0"\n',
    "cli/src/main.rs": "fn main() {}\n",
    "crates/more/Cargo.toml": '[package]\nname = "more"\nversion = "1.0.0"\n',
    "crates/more/src/lib.rs": "",
}


def _programs(tree: Tree) -> tuple[str, ...]:
    (best, *_) = CargoBuilder().find(tree)
    assert isinstance(best.project, CargoProject)
    return best.project.programs


@pytest.mark.parametrize(
    ("changed", "programs"),
    [
        pytest.param({}, ["cli"], id="member"),
        pytest.param({"crates/more/src/bin/tool.rs": ""}, ["cli", "crates/more"], id="two"),
        pytest.param({"crates/more/Cargo.toml": "[[bin]]\nname = 'x'\n"}, ["cli", "crates/more"], id="bin"),
        pytest.param({"cli/Cargo.toml": "[package]\nautobins = false\n"}, [], id="no-autobins"),
        pytest.param({"src/main.rs": ""}, [], id="root-has-one"),
        pytest.param({"src/bin/x/main.rs": ""}, [], id="root-has-some"),
        pytest.param({"Cargo.toml": _LIBRARY["Cargo.toml"] + "exclude = ['cli/']\n"}, [], id="excluded"),
        pytest.param({"Cargo.toml": _LIBRARY["Cargo.toml"] + "default-members = ['.']\n"}, [], id="default"),
        pytest.param({"Cargo.toml": "[package]\nname = 'eng'\n"}, [], id="no-workspace"),
        pytest.param({"Cargo.toml": "[workspace]\nmembers = ['cli']\n"}, [], id="no-package"),
        pytest.param({"Cargo.toml": "[workspace]\nmembers = 3\n[package]\n"}, [], id="odd-members"),
        pytest.param({"Cargo.toml": "package = 1\nworkspace = [{members = 2}]\n"}, [], id="odd-tables"),
        pytest.param(
            {"Cargo.toml": _LIBRARY["Cargo.toml"] + "[lib]\ncrate-type = ['cdylib']\n"}, [], id="for-c"
        ),
        pytest.param(
            {"Cargo.toml": _LIBRARY["Cargo.toml"] + "[lib]\nname = 'eng'\n"}, ["cli"], id="for-rust"
        ),
        pytest.param({"cli/Cargo.toml": "[package\n"}, ["cli"], id="unreadable"),
        pytest.param({"cli/Cargo.toml": "[package]\npublish = false\n"}, [], id="not-published"),
        pytest.param(
            {
                "Cargo.toml": "[package]\npublish = false\n[workspace]\nmembers = ['./cli']\n",
                "cli/Cargo.toml": "[package]\npublish = false\n",
            },
            ["cli"],
            id="nothing-published",
        ),
        *(
            pytest.param(
                {f"crates/{name}/Cargo.toml": "[package]\n", f"crates/{name}/src/main.rs": ""},
                ["cli"],
                id=name,
            )
            for name in ("xtask", "eng-bench", "benches", "fuzz", "codegen", "examples", "eng_test_data")
        ),
    ],
)
def test_the_programs_of_a_library_are_its_members(
    make_tree: Callable[..., Tree], changed: dict[str, str], programs: list[str]
) -> None:
    assert list(_programs(make_tree({**_LIBRARY, **changed}))) == programs


def test_a_hostile_workspace_costs_next_to_nothing(make_tree: Callable[..., Tree]) -> None:
    globs = ", ".join(f"'{'*a' * 20}{number}'" for number in range(9000))
    tree = make_tree({"Cargo.toml": f"[package]\n[workspace]\nmembers = [{globs}, 'd*']\n"})
    names = [f"d{number}/{'a' * 60}/Cargo.toml" for number in range(3000)]
    names += [f"{'a' * 60}{number}/Cargo.toml" for number in range(3000)]
    many = replace(tree, files={**tree.files, **dict.fromkeys(names, Entry(size_bytes=0))})
    started = time.process_time()
    assert _programs(many) == ()
    assert time.process_time() - started < 10


def test_the_programs_of_a_library_are_built_and_tested_with_it(tmp_path: Path) -> None:
    failing = 'case "$*" in *--no-run*|build*) ;; *) exit 3 ;; esac\n'
    (tmp_path / "cargo").write_text(f'#!/bin/sh\necho "$*" >> "$HOME/seen"\n{failing}')
    (tmp_path / "cargo").chmod(0o755)
    project = CargoProject(programs=("cli", "a b"))
    options = BuildOptions(jobs=1)
    (build,) = project.plan(options)
    (suite,) = project.plan_suites(options)
    environment = {"HOME": str(tmp_path), "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    codes = [
        subprocess.run(["/bin/sh", "-eu", "-c", one], cwd=tmp_path, env=environment, check=False).returncode
        for one in (build.script, suite.prepare, suite.script)
    ]
    assert codes == [0, 0, 3]
    places = ["", " --manifest-path cli/Cargo.toml", " --manifest-path a b/Cargo.toml"]
    test = "test --release --offline --tests --no-fail-fast -j 1"
    assert (tmp_path / "seen").read_text().splitlines() == [
        *(f"build --release --offline -j 1{one}" for one in places),
        *(f"{test} --no-run{one}" for one in places),
        *(f"{test}{one}" for one in places),
    ]


@pytest.mark.skipif(shutil.which("cargo") is None, reason="needs Cargo")
def test_cargo_makes_the_program_of_a_library(make_tree: Callable[..., Tree]) -> None:
    tree = make_tree(_LIBRARY)
    (best, *_) = CargoBuilder().find(tree)
    environment = {**os.environ, "CARGO_TARGET_DIR": "target"}
    for step in best.project.plan(BuildOptions(jobs=1)):
        subprocess.run(["/bin/sh", "-eu", "-c", step.script], cwd=tree.root, env=environment, check=True)
    assert (tree.root / "target" / "release" / "cli").is_file()
    assert (tree.root / "target" / "release" / "libeng.rlib").is_file()


def test_the_programs_of_a_library_keep_what_they_need_of_the_distribution(tmp_path: Path) -> None:
    registry, tree = tmp_path / "registry", tmp_path / "tree"
    for name, text in _LIBRARY.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(text)
    for one in ("cli", "crates/more"):
        with (tree / one / "Cargo.toml").open("a") as manifest:
            manifest.write("[dependencies]\ngone = '1'\n")
    options = BuildOptions(jobs=1, tweak=Tweak(prepare=(DISTRIBUTION_CRATES,)))
    (edit, _) = CargoProject(programs=("cli",)).plan(options)
    script = edit.script.replace(REGISTRY, str(registry))
    subprocess.run(["/bin/sh", "-eu", "-c", script], cwd=tree, check=True)
    assert "gone" in (tree / "cli/Cargo.toml").read_text()
    assert "gone" not in (tree / "crates/more/Cargo.toml").read_text()


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
