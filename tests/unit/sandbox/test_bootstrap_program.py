"""The program ./bootstrap: what it decides. That it works is shown by running it."""

import importlib.machinery
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from types import ModuleType

import pytest

from pytest_atesor.sandbox.emulation import RISCV64_PROGRAM
from pytest_atesor.sandbox.slots import state_directory

PROGRAM = Path(__file__).resolve().parents[3] / "bootstrap"


@pytest.fixture(scope="module")
def bootstrap() -> ModuleType:
    loader = importlib.machinery.SourceFileLoader("bootstrap_program", str(PROGRAM))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    was, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    loader.exec_module(module)
    sys.dont_write_bytecode = was
    return module


def test_the_first_choice_that_the_release_knows_is_taken(bootstrap: ModuleType) -> None:
    needs = [
        bootstrap.Need("a", False, (("new", "with-it"), ("old",))),  # noqa: FBT003 - a NamedTuple in order
        bootstrap.Need("b", True, (("here-already",),)),  # noqa: FBT003 - a NamedTuple in order
        bootstrap.Need("c", False, (("old", "more"),)),  # noqa: FBT003 - a NamedTuple in order
    ]
    assert bootstrap.plan_packages(needs, {"new", "old", "more"}.__contains__) == ["old", "more"]
    assert bootstrap.plan_packages(needs, lambda _name: True) == ["new", "with-it", "old", "more"]


def test_a_release_without_the_packages_is_a_clear_problem(bootstrap: ModuleType) -> None:
    needs = [bootstrap.Need("an emulator", False, (("a", "b"), ("c",)))]  # noqa: FBT003 - a NamedTuple in order
    with pytest.raises(
        bootstrap.BootstrapError, match=r"an emulator: this release has no package a \+ b or c"
    ):
        bootstrap.plan_packages(needs, lambda _name: False)


def test_workers_are_chosen_where_the_arguments_choose_none(bootstrap: ModuleType) -> None:
    cpus = len(os.sched_getaffinity(0))
    assert bootstrap.choose_workers(["-k", "zlib"]) == ["-n", str(cpus)]
    assert bootstrap.choose_workers([], most=2) == ["-n", str(min(cpus, 2))]
    for own in (["-n0"], ["-n", "4"], ["--numprocesses=1"], ["--pdb"], ["-p", "no:xdist"]):
        assert bootstrap.choose_workers(own, most=2) == []


def test_it_knows_the_kernels_pattern_of_riscv64_programs(bootstrap: ModuleType) -> None:
    def matches(program: bytes) -> bool:
        pairs = zip(program, bootstrap.MAGIC, bootstrap.MASK, strict=False)
        return all(byte & mask == magic & mask for byte, magic, mask in pairs)

    assert len(bootstrap.MAGIC) == len(bootstrap.MASK) == 20
    assert matches(RISCV64_PROGRAM)
    assert not matches(Path(sys.executable).read_bytes()[:20])


@pytest.mark.parametrize(
    "environ",
    [
        {"ATESOR_STATE_DIR": "/a/b", "HOME": "/h"},
        {"XDG_STATE_HOME": "/x", "HOME": "/h"},
        {"XDG_STATE_HOME": "relative", "HOME": "/h"},
        {"HOME": "/h"},
    ],
    ids=["own", "xdg", "relative-xdg", "home"],
)
def test_it_keeps_its_state_where_the_project_does(
    bootstrap: ModuleType, monkeypatch: pytest.MonkeyPatch, environ: dict[str, str]
) -> None:
    for name in ("ATESOR_STATE_DIR", "XDG_STATE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    assert bootstrap.state_directory() == state_directory(environ)


def run(*arguments: str, path: str | None = None) -> "subprocess.CompletedProcess[str]":
    environ = {**os.environ, **({} if path is None else {"PATH": path})}
    return subprocess.run(
        [sys.executable, str(PROGRAM), *arguments], env=environ, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    ("arguments", "exit_code"),
    [([], 0), (["--help"], 0), (["frobnicate"], 2)],
    ids=["none", "help", "unknown"],
)
def test_it_explains_itself(arguments: list[str], exit_code: int) -> None:
    ended = run(*arguments)
    assert ended.returncode == exit_code
    assert "./bootstrap smoke" in ended.stdout


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become an ordinary user")
def test_without_root_and_sudo_it_says_what_to_run() -> None:
    python = Path("/usr/bin/python3")
    found = {name: shutil.which(name) for name in ("apt-get", "apt-cache")}
    if not python.exists() or None in found.values():
        pytest.skip("needs the distribution's own python3 and apt")
    # not pytest's directory: that is closed to other users
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        place.chmod(0o755)
        shutil.copy(PROGRAM, place)
        programs = place / "bin"
        programs.mkdir()
        for program, path in found.items():
            (programs / program).symlink_to(str(path))
        ended = subprocess.run(
            [str(python), str(place / "bootstrap"), "setup"],
            env={"PATH": str(programs), "HOME": "/nonexistent"},
            user=65534,
            group=65534,
            capture_output=True,
            text=True,
            check=False,
        )
    assert ended.returncode == 1
    assert "sudo is not installed; run as root: apt-get" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_stamp_that_cannot_be_read_is_no_stamp(bootstrap: ModuleType, tmp_path: Path) -> None:
    stamp = tmp_path / "stamp"
    assert bootstrap.read_stamp(stamp) == {}
    stamp.write_text("{broken")
    assert bootstrap.read_stamp(stamp) == {}
    stamp.write_text(json.dumps({"a": "b"}))
    assert bootstrap.read_stamp(stamp) == {"a": "b"}
