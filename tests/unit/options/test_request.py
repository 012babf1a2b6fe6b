"""Where a list is looked for, and what its node ids are called."""

from pathlib import Path

import pytest

from pytest_atesor.errors import BadInputError
from pytest_atesor.intake.request import find_list_file, is_package_list, shipped_directories


@pytest.fixture
def rootdir(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    for path in (
        "root/packages/smoke.json",
        "root/.github/packages/smoke.json",
        "root/.github/packages/ci.json",
        "shipped/smoke.json",
        "shipped/ci.json",
        "shipped/full.json",
        "root/sub/my.json",
    ):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("{}")
    return root


PLACES = {
    "the rootdir's own comes first": ("smoke", "root/packages/smoke.json", "packages/smoke.json", "smoke"),
    "then the rootdir's workflows'": (
        "ci",
        "root/.github/packages/ci.json",
        ".github/packages/ci.json",
        "ci",
    ),
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
    with pytest.raises(BadInputError, match=r"known: ci, full, smoke$"):
        find_list_file("none", rootdir=rootdir, directory=rootdir, shipped=[rootdir.parent / "shipped"])


LIST = '{"$schema_version": 1, "packages": [%s]}'
MANIFEST = '{"schema_version": "batch_v1", "batch": {"cases": [{"label": "packages", "runspec": "a.yaml"}]}}'
KINDS = {
    "a name": ("smoke", None, True),
    "a list": ("x.json", LIST % "", True),
    "a list without version": ("x.json", '{"packages": []}', True),
    "a list of strange names": ("x.json", LIST % '{"name": "batch_viewer"}, {"name": "sweep_v2"}', True),
    "a manifest": ("x.json", MANIFEST, False),
    "a manifest with a body of packages": ("x.json", MANIFEST[:-1] + ', "packages": []}', False),
    "a manifest with sorted keys": (
        "x.json",
        '{"batch": {"x": "%s", "packages": []}, "schema_version": "batch_v1"}' % (" " * 100_000),
        False,
    ),
    "a list among lists": ("packages/x.json", "{", True),
    "a manifest among lists": ("packages/x.json", MANIFEST, False),
    "something else": ("x.json", '{"packages": {}}', False),
    "YAML": ("x.yaml", "packages: []", False),
    "nothing": ("x.json", None, False),
}


@pytest.mark.parametrize(("value", "text", "is_list"), KINDS.values(), ids=KINDS.keys())
def test_a_value_is_told_to_be_a_list_by_its_signs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str, text: str | None, *, is_list: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("packages").mkdir()
    if text is not None:
        Path(value).write_text(text)
    assert is_package_list(value) is is_list


def test_a_checkout_ships_its_own_lists() -> None:
    assert any((directory / "smoke.json").is_file() for directory in shipped_directories())
