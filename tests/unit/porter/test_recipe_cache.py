"""The recipes that verified ports leave on the host, and what is refused as one."""

import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_atesor.core.plan import Platform, Target
from pytest_atesor.porter.recipe import Command, Recipe, format_recipe
from pytest_atesor.porter.recipe_cache import Known, RecipeCache, Source, Unknown, identify_image

_RECIPE = Recipe(
    url="https://example.org/o/p",
    url_used="https://example.org/o/p",
    platform="debian",
    build_system="make",
    commit="1" * 40,
    fixes=("warnings-as-errors",),
    packages={"libfoo-dev": "1.2-3"},
    commands=(Command(name="build", argv=("sh", "-eu", "-c", "make -j 2"), cwd="/workspace/build/p"),),
    name="p",
)
_SOURCE = Source(url=_RECIPE.url, ref=None, commit="1" * 40, sha256=None)


def _cache(
    root: Path,
    *,
    platform: Platform = Platform.DEBIAN,
    target: Target = Target.QEMU,
    image: str = "one",
    version: str = "1",
    most: int = 100,
) -> RecipeCache:
    return RecipeCache(root, platform, target, image=lambda: image, version=version, most=most)


def _entry(root: Path) -> Path:
    (path,) = root.rglob("*.json")
    return path


def test_a_recipe_is_found_again_for_the_same_source(tmp_path: Path) -> None:
    _cache(tmp_path).keep(_RECIPE)
    assert _cache(tmp_path).find(_SOURCE) == Known(recipe=_RECIPE)


def test_a_port_that_skipped_the_tests_leaves_nothing_for_one_that_wants_them(tmp_path: Path) -> None:
    _cache(tmp_path).keep(_RECIPE, knows_tests=False)
    assert _cache(tmp_path).find(_SOURCE, wants_tests=False) == Known(recipe=_RECIPE)
    found = _cache(tmp_path).find(_SOURCE)
    assert isinstance(found, Unknown)
    assert "without the package's tests" in found.reason


def test_only_its_owner_can_look_into_the_cache(tmp_path: Path) -> None:
    _cache(tmp_path / "recipes").keep(_RECIPE)
    path = _entry(tmp_path)
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(replace(_SOURCE, url="https://example.org/o/q"), id="url"),
        pytest.param(replace(_SOURCE, ref="v1"), id="ref"),
    ],
)
def test_another_package_has_another_entry(tmp_path: Path, other: Source) -> None:
    _cache(tmp_path).keep(_RECIPE)
    assert _cache(tmp_path).find(other) == Unknown()


@pytest.mark.parametrize(
    "cache",
    [
        pytest.param(lambda root: _cache(root, platform=Platform.ALPINE), id="platform"),
        pytest.param(lambda root: _cache(root, target=Target.NATIVE), id="target"),
    ],
)
def test_another_platform_or_target_has_its_own_entries(
    tmp_path: Path, cache: Callable[[Path], RecipeCache]
) -> None:
    _cache(tmp_path).keep(_RECIPE)
    assert cache(tmp_path).find(_SOURCE) == Unknown()
    assert _entry(tmp_path).exists()


@pytest.mark.parametrize(
    ("cache", "source", "reason"),
    [
        pytest.param(lambda root: _cache(root, image="two"), _SOURCE, "another sandbox image", id="image"),
        pytest.param(lambda root: _cache(root, version="2"), _SOURCE, "version 1 of this", id="version"),
        pytest.param(_cache, replace(_SOURCE, commit="2" * 40), "is of 111111111111", id="commit"),
        pytest.param(
            _cache, replace(_SOURCE, commit=None, sha256="1" * 64), "the source is 1111", id="archive"
        ),
        pytest.param(_cache, replace(_SOURCE, commit=None), "nothing now", id="no-identity"),
    ],
)
def test_a_stale_entry_is_removed_and_says_why(
    tmp_path: Path, cache: Callable[[Path], RecipeCache], source: Source, reason: str
) -> None:
    _cache(tmp_path).keep(_RECIPE)
    found = cache(tmp_path).find(source)
    assert isinstance(found, Unknown)
    assert reason in found.reason
    assert "\n" not in found.reason
    assert list(tmp_path.rglob("*.json")) == []


def _forge(path: Path) -> None:
    entry = json.loads(path.read_text())
    entry["recipe"]["commands"][0]["argv"] = ["sh", "-c", "cp prebuilt stage/"]
    path.write_text(json.dumps(entry))


def _make_symlink(path: Path) -> None:
    path.rename(path.with_suffix(".elsewhere"))
    path.symlink_to(path.with_suffix(".elsewhere"))


def _make_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path, 0o600)


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(_forge, id="changed-by-hand"),
        pytest.param(lambda path: path.write_bytes(path.read_bytes()[:200]), id="cut"),
        pytest.param(lambda path: path.write_bytes(b"\0\xff" * 100), id="binary"),
        pytest.param(lambda path: path.write_text("[]"), id="no-object"),
        pytest.param(lambda path: path.write_text("[" * 100_000), id="deep"),
        pytest.param(lambda path: path.write_text(""), id="empty"),
        pytest.param(lambda path: path.chmod(0o666), id="others-may-write"),
        pytest.param(lambda path: path.parent.chmod(0o777), id="others-may-replace"),
        pytest.param(_make_symlink, id="symlink"),
        pytest.param(_make_pipe, id="pipe"),
        pytest.param(lambda path: os.truncate(path, 1 << 40), id="giant"),
    ],
)
def test_what_cannot_be_trusted_is_removed_in_one_line(tmp_path: Path, spoil: Callable[[Path], None]) -> None:
    _cache(tmp_path).keep(_RECIPE)
    path = _entry(tmp_path)
    spoil(path)
    found = _cache(tmp_path).find(_SOURCE)
    assert isinstance(found, Unknown)
    assert found.reason
    assert "\n" not in found.reason
    assert not path.is_symlink()
    assert not path.exists()


def test_the_oldest_entries_make_room(tmp_path: Path) -> None:
    cache = _cache(tmp_path, most=3)
    for number in range(5):
        cache.keep(replace(_RECIPE, ref=f"v{number}"))
        for path in tmp_path.rglob("*.json"):
            os.utime(path, (path.stat().st_mtime - 10,) * 2)
    kept = [isinstance(cache.find(replace(_SOURCE, ref=f"v{one}")), Known) for one in range(5)]
    assert kept == [False, False, True, True, True]


_KEEPS_MANY = """
import sys
from pathlib import Path
from pytest_atesor.core.plan import Platform, Target
from pytest_atesor.porter.recipe import parse_recipe
from pytest_atesor.porter.recipe_cache import RecipeCache
recipe = parse_recipe(sys.argv[2], "argv")
root = Path(sys.argv[1])
cache = RecipeCache(root, Platform.DEBIAN, Target.QEMU, image=lambda: "one", version="1", most=100)
for _ in range(200):
    cache.keep(recipe)
"""


def test_ports_at_the_same_time_read_whole_entries_only(tmp_path: Path) -> None:
    _cache(tmp_path).keep(replace(_RECIPE, fixes=("start",)))
    recipes = [format_recipe(replace(_RECIPE, fixes=(word,) * 500)) for word in ("one", "two")]
    commands = [[sys.executable, "-c", _KEEPS_MANY, str(tmp_path), recipe] for recipe in recipes]
    seen = set()
    with subprocess.Popen(commands[0]) as one, subprocess.Popen(commands[1]) as two:
        while one.poll() is None or two.poll() is None:
            found = _cache(tmp_path).find(_SOURCE)
            assert isinstance(found, Known), found
            seen.add(found.recipe.fixes[0])
    assert (one.returncode, two.returncode) == (0, 0)
    assert seen <= {"start", "one", "two"}
    assert [one.name for one in tmp_path.rglob(".new-*")] == []


def test_an_image_is_told_by_recipe_and_time_of_making() -> None:
    labels = {"org.pytest-atesor.recipe": "abc", "org.pytest-atesor.created": "1700000000", "other": "x"}
    assert identify_image(labels) == "abc 1700000000"
    assert identify_image(labels | {"org.pytest-atesor.created": "1"}) != identify_image(labels)
