"""The wheel has everything that an installed program reads, and nothing else of the project."""

import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
LEFT_OUT = {"__pycache__"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[zipfile.ZipFile]:
    folder = tmp_path_factory.mktemp("wheel")
    argv = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(argv, cwd=PROJECT, check=True, capture_output=True)
    (path,) = folder.glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        yield archive


def list_files(directory: str) -> set[str]:
    return {
        path.relative_to(PROJECT).as_posix()
        for path in (PROJECT / directory).rglob("*")
        if path.is_file() and not LEFT_OUT.intersection(path.parts)
    }


def test_every_module_resource_and_schema_is_in_the_wheel(wheel: zipfile.ZipFile) -> None:
    expected = list_files("pytest_atesor")
    assert expected - set(wheel.namelist()) == set()
    assert {"pytest_atesor/resources/sandbox/bootstrap.sh", "pytest_atesor/py.typed"} <= expected
    assert any(name.endswith(".schema.json") for name in expected)


def test_package_lists_are_in_the_wheel_with_their_bytes(wheel: zipfile.ZipFile) -> None:
    lists = list_files("packages")
    assert {"packages/smoke.json", "packages/full.json"} <= lists
    for name in lists:
        assert wheel.read(f"pytest_atesor/{name}") == (PROJECT / name).read_bytes()


def test_nothing_else_is_in_the_wheel(wheel: zipfile.ZipFile) -> None:
    tops = {name.split("/")[0] for name in wheel.namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"pytest_atesor"}
