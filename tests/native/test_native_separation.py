"""Emulated and native batches in one state directory: neither finds what the other left."""

import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_atesor.sandbox.slots import state_directory

if TYPE_CHECKING:
    from lab import Run
    from native_lab import NativeLab

PATIENCE_S = 2400.0
TARGETS = (
    ("--atesor-target=qemu", "--atesor-engine=podman"),
    (),
    ("--atesor-target=qemu", "--atesor-engine=podman"),
)


@pytest.fixture(scope="module")
def runs(native_lab: "NativeLab") -> "list[tuple[Run, dict[str, str]]]":
    """An emulated batch, a native one, the emulated one again; each with what then stands in the state."""
    native_lab.write_projects("both", {"both": 0})
    place_image(native_lab.root / "state")
    runs = []
    for target in TARGETS:
        run = native_lab.run("--atesor-list=both", "--atesor-package", "-n1", *target, timeout_s=PATIENCE_S)
        assert run.code == 0, run.out + run.err
        runs.append((run, digest_files(native_lab.root / "state")))
    return runs


def place_image(state: Path) -> None:
    """Let the lab's emulated batches take the image that this user has: it is not what is tried here."""
    state.mkdir(parents=True, exist_ok=True)
    (state / "images").symlink_to(state_directory(os.environ) / "images")


def digest_files(state: Path) -> dict[str, str]:
    """Return path to digest of the files of a state directory, without locks and images."""
    return {
        str(file.relative_to(state)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in state.rglob("*")
        if file.is_file() and file.name != "lock"
    }


def part(files: dict[str, str], *, native: bool) -> dict[str, str]:
    return {name: digest for name, digest in files.items() if name.startswith("native/") is native}


def test_a_native_batch_changes_nothing_that_emulated_ones_have(
    runs: "list[tuple[Run, dict[str, str]]]",
) -> None:
    emulated, native, again = (files for _, files in runs)
    assert part(emulated, native=True) == {}
    assert part(native, native=False) == part(emulated, native=False)
    assert part(native, native=True)
    assert part(again, native=True) == part(native, native=True)


def test_recipes_are_kept_apart_by_target_and_place(runs: "list[tuple[Run, dict[str, str]]]") -> None:
    kept = [name for name in runs[-1][1] if "recipes/" in name]
    assert [name for name in kept if name.startswith("recipes/debian-qemu/")]
    for name in kept:
        target = "native" if name.startswith("native/") else "qemu"
        assert Path(name).parent.name == f"debian-{target}"


def test_zips_of_both_stand_side_by_side(
    native_lab: "NativeLab", runs: "list[tuple[Run, dict[str, str]]]"
) -> None:
    assert len(runs) == 3
    zips = [file.name for file in native_lab.root.rglob("*.zip") if "-both-" in file.name]
    assert sum(name.endswith("-native.zip") for name in zips) == 1
    assert len(zips) == 3
