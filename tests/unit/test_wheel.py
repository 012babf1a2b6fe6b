"""The wheel has everything that an installed program reads, and nothing else of the project.

So has one that is built from the source distribution.
"""

import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
LEFT_OUT = {"__pycache__"}


def build(kind: str, source: Path, folder: Path) -> Path:
    argv = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(folder)]
    subprocess.run(argv, cwd=source, check=True, capture_output=True)
    (path,) = (path for path in folder.iterdir() if path.is_file())
    return path


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[zipfile.ZipFile]:
    with zipfile.ZipFile(build("wheel", PROJECT, tmp_path_factory.mktemp("wheel"))) as archive:
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


def test_a_wheel_of_the_source_distribution_has_the_same_files(
    wheel: zipfile.ZipFile, tmp_path: Path
) -> None:
    for name in ("sdist", "source", "wheel"):
        (tmp_path / name).mkdir()
    with tarfile.open(build("sdist", PROJECT, tmp_path / "sdist")) as archive:
        archive.extractall(tmp_path / "source", filter="data")
    (source,) = (tmp_path / "source").iterdir()
    with zipfile.ZipFile(build("wheel", source, tmp_path / "wheel")) as other:
        assert {name: other.read(name) for name in sorted(other.namelist())} == {
            name: wheel.read(name) for name in sorted(wheel.namelist())
        }
