"""The recipe cache in a real sandbox: what a second port of the same package does, and when it does not."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from pytest_atesor.errors import AtesorError
from pytest_atesor.sandbox.interface import ExecSpec
from pytest_atesor.sandbox.select import select_engine

pytestmark = pytest.mark.engine

_CONTAINER = "atesor-cache-e2e"
_GIT = shutil.which("git") or "git"
_WHO = ("-c", "user.name=t", "-c", "user.email=t@t")
_FILES = {
    "Makefile": "hello: hello.c\n\t$(CC) -Wall -Werror -o hello hello.c\ntest: hello\n\t./hello\n",
    "hello.c": '#include <stdio.h>\nint main(void) { int unused; puts("hello"); return 0; }\n',
}


class Ported(NamedTuple):
    code: int
    log: str
    result: dict[str, Any]

    @property
    def steps(self) -> list[str]:
        return [one["name"] for one in self.result["phases"]]

    @property
    def digests(self) -> list[str]:
        return [one["sha256"] for one in self.result["artifacts"]]


@pytest.fixture
def engine() -> Iterator[str]:
    try:
        chosen = select_engine(os.environ.get("ATESOR_ENGINE", "auto"))
    except AtesorError as error:
        pytest.skip(str(error))
    chosen.remove(_CONTAINER)  # its workspace is that of another test's state directory
    yield chosen.name
    chosen.remove(_CONTAINER)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    tree = tmp_path / "upstream"
    tree.mkdir()
    for name, text in _FILES.items():
        (tree / name).write_text(text)
    _commit(tree, ["init", "-q"])
    return tree


def _commit(tree: Path, *before: list[str]) -> None:
    for arguments in (*before, ["add", "."], [*_WHO, "commit", "-qm", "x"]):
        subprocess.run([_GIT, *arguments], cwd=tree, check=True)


Port = Callable[..., Ported]


@pytest.fixture
def port(tmp_path: Path, engine: str, tree: Path) -> Port:
    """Port the tree with a state directory of the test's own, so that nobody else's recipes count."""
    runs = iter(range(100))

    def go(*flags: str) -> Ported:
        attempt = tmp_path / f"attempt-{next(runs)}"
        attempt.mkdir()
        done = subprocess.run(
            [
                Path(sys.executable).with_name("atesor"),
                "port",
                tree.as_uri(),
                "--container",
                _CONTAINER,
                *flags,
            ],
            env={
                **os.environ,
                "ATESOR_ATTEMPT_DIR": str(attempt),
                "ATESOR_ENGINE": engine,
                "ATESOR_STATE_DIR": str(tmp_path / "state"),
            },
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            text=True,
            errors="replace",
            check=False,
            timeout=900,
        )
        return Ported(done.returncode, done.stdout, json.loads((attempt / "result.json").read_text()))

    return go


def _entry(tmp_path: Path) -> Path:
    (path,) = (tmp_path / "state/recipes/debian-qemu").glob("*.json")
    return path


def test_a_second_port_carries_out_the_recipe_and_proves_it_again(port: Port) -> None:
    first = port()
    assert (first.code, first.result["metrics"]["attempts"]) == (0, 2)
    assert "attempt 2/5" in first.steps
    again = port()
    assert (again.code, again.result["verdict"]) == (0, "verified")
    assert again.result["metrics"]["recipe"] == "cache"
    assert not [one for one in again.steps if one == "detect" or one.startswith("attempt")]
    assert "recipe cache" in again.steps
    assert "scan" in again.steps
    assert again.digests == first.digests
    assert again.result["build_system"] == first.result["build_system"]
    assert again.result["package_tests"]["status"] == "passed"
    assert "fix: warnings-as-errors" in again.result["notes"]


def test_a_package_without_tests_is_recorded_as_one_again(port: Port, tree: Path) -> None:
    (tree / "Makefile").write_text(_FILES["Makefile"].partition("test:")[0])
    _commit(tree)
    assert port().result["package_tests"]["status"] == "none"
    again = port()
    assert "recipe cache" in again.steps
    assert again.result["package_tests"]["status"] == "none"


def test_force_finds_out_anew(port: Port) -> None:
    port()
    forced = port("--force")
    assert forced.code == 0
    assert forced.result["metrics"]["attempts"] == 2
    assert "recipe cache" not in forced.steps


def test_required_tests_are_run_although_an_earlier_port_skipped_them(port: Port, tree: Path) -> None:
    (tree / "Makefile").write_text(_FILES["Makefile"].replace("\t./hello", "\t@false"))
    _commit(tree)
    assert port("--tests", "skip").code == 0
    required = port("--tests", "require")
    assert (required.code, required.result["cause"]) == (1, "tests")
    assert "recipe cache" not in required.steps


def test_a_damaged_entry_is_removed_in_one_line_and_made_again(port: Port, tmp_path: Path) -> None:
    port()
    path = _entry(tmp_path)
    path.write_bytes(path.read_bytes()[:-200])
    again = port()
    assert (again.code, again.result["metrics"]["attempts"]) == (0, 2)
    assert len([line for line in again.log.splitlines() if line.startswith("recipe cache: ")]) == 1
    assert "recipe cache" in port().steps


def test_another_commit_is_ported_anew(port: Port, tmp_path: Path, tree: Path) -> None:
    port()
    (tree / "NEWS").write_text("something new\n")
    _commit(tree)
    again = port()
    assert (again.code, again.result["metrics"]["attempts"]) == (0, 2)
    (said,) = [line for line in again.log.splitlines() if line.startswith("recipe cache: ")]
    assert said.endswith("now; removed")
    assert json.loads(_entry(tmp_path).read_text())["recipe"]["commit"] == again.result["source"]["commit"]


@pytest.mark.parametrize("script", ["false", "true"], ids=["a-command-fails", "nothing-native-is-made"])
def test_a_recipe_that_proves_nothing_any_more_makes_way_in_a_fresh_sandbox(
    port: Port, tmp_path: Path, engine: str, script: str
) -> None:
    first = port()
    path = _entry(tmp_path)
    entry = json.loads(path.read_text())
    for one in entry["recipe"]["commands"]:
        if one["name"] == "build":
            one["argv"] = ["sh", "-c", f"touch /home/builder/left-behind; {script}"]
    text = json.dumps(entry["recipe"], sort_keys=True, separators=(",", ":"))
    path.write_text(json.dumps(entry | {"sha256": hashlib.sha256(text.encode()).hexdigest()}))
    again = port()
    assert (again.code, again.digests) == (0, first.digests)
    assert again.result["metrics"]["attempts"] == 2
    assert "recipe" not in again.result["metrics"]
    assert "its entry proves nothing" in again.log
    look = ExecSpec(argv=["ls", "/home/builder"])
    left = subprocess.run(
        select_engine(engine).exec_argv(_CONTAINER, look), capture_output=True, text=True, check=True
    )
    assert "left-behind" not in left.stdout
