"""Where a list is looked for, and what its node ids are called."""

from pathlib import Path

import pytest

from pytest_atesor.errors import BadInputError
from pytest_atesor.intake.request import find_list_file, shipped_directories


@pytest.fixture
def rootdir(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    for path in ("root/packages/smoke.json", "shipped/smoke.json", "shipped/full.json", "root/sub/my.json"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("{}")
    return root


PLACES = {
    "the rootdir's own comes first": ("smoke", "root/packages/smoke.json", "packages/smoke.json", "smoke"),
    "then the plugin's": ("full", "shipped/full.json", "packages/full.json", "full"),
    "a slash makes a path": ("sub/my.json", "root/sub/my.json", "sub/my.json", "my"),
    "so does .json": (
        "packages/../packages/smoke.json",
        "root/packages/smoke.json",
        "packages/smoke.json",
        "smoke",
    ),
    "outside the rootdir": ("../shipped/full.json", "shipped/full.json", "full.json", "full"),
}


@pytest.mark.parametrize(("value", "path", "source", "name"), PLACES.values(), ids=PLACES.keys())
def test_a_list_is_found(rootdir: Path, value: str, path: str, source: str, name: str) -> None:
    top = rootdir.parent
    found = find_list_file(value, rootdir=rootdir, directory=rootdir, shipped=[top / "shipped"])
    assert (found.path, found.source, found.name) == (top / path, source, name)


def test_a_path_counts_from_where_the_user_stands(rootdir: Path) -> None:
    found = find_list_file("./my.json", rootdir=rootdir, directory=rootdir / "sub", shipped=[])
    assert found.source == "sub/my.json"


@pytest.mark.parametrize("value", ["none", "", ".", "..", "packages/none.json", "none.json"])
def test_a_missing_list_is_named(rootdir: Path, value: str) -> None:
    with pytest.raises(BadInputError) as caught:
        find_list_file(value, rootdir=rootdir, directory=rootdir, shipped=[])
    assert repr(value) in str(caught.value)


def test_the_known_lists_are_shown(rootdir: Path) -> None:
    with pytest.raises(BadInputError, match=r"known: full, smoke$"):
        find_list_file("none", rootdir=rootdir, directory=rootdir, shipped=[rootdir.parent / "shipped"])


def test_a_checkout_ships_its_own_lists() -> None:
    assert any((directory / "smoke.json").is_file() for directory in shipped_directories())
