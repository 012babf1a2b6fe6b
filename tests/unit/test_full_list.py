"""The catalogue that is shipped, packages/full.json."""

import json
import re
from collections import Counter
from pathlib import Path

import pytest

from pytest_atesor.core.names import derive_package_name
from pytest_atesor.core.package_list import PackageEntry, parse_package_list
from pytest_atesor.core.urls import DebianSource, SourceKind, parse_mirror, parse_source_url

FULL = Path(__file__).resolve().parents[2] / "packages" / "full.json"


@pytest.fixture(scope="module")
def entries() -> tuple[PackageEntry, ...]:
    return parse_package_list(FULL.read_bytes(), "packages/full.json").entries


def test_catalogue_is_large_and_has_its_defaults(entries: tuple[PackageEntry, ...]) -> None:
    document = json.loads(FULL.read_text("utf-8"))
    assert document["$schema_version"] == 1
    assert document["defaults"] == {"max_attempts": 5, "timeout_seconds": 2400}
    assert len(entries) >= 698
    assert {(entry.max_attempts, entry.timeout_s) for entry in entries} == {(5, 2400)}


def test_catalogue_spreads_over_the_four_languages(entries: tuple[PackageEntry, ...]) -> None:
    languages = Counter(entry.lang for entry in entries)
    assert languages.keys() == {"c", "c++", "go", "rust"}
    assert languages["c"] >= 400
    assert languages["c++"] >= 120
    assert languages["go"] >= 80
    assert languages["rust"] >= 40


def test_catalogue_has_one_package_per_line_sorted_by_name() -> None:
    head, *lines, tail = FULL.read_text("utf-8").partition('"packages": [\n')[2].splitlines()[:-1]
    packages = [json.loads(line.strip().removesuffix(",")) for line in (head, *lines)]
    assert tail == "  ]"
    assert [package["name"] for package in packages] == sorted({package["name"] for package in packages})
    assert packages == json.loads(FULL.read_text("utf-8"))["packages"]


def test_catalogue_urls_are_repositories_or_gnu_releases_over_https(
    entries: tuple[PackageEntry, ...],
) -> None:
    release = re.compile(r"https://ftp\.gnu\.org/gnu/([a-z0-9-]+)/\1-[\d.]+\.tar\.(?:gz|bz2|xz)")
    for entry in entries:
        source = parse_source_url(entry.url)
        assert source.scheme == "https", entry.url
        assert "salsa.debian.org" not in source.host, entry.url
        assert source.kind is SourceKind.GIT or release.fullmatch(entry.url), entry.url
        assert entry.url.endswith(".git") or not source.host.startswith("gitlab."), entry.url


def test_catalogue_has_no_repository_twice(entries: tuple[PackageEntry, ...]) -> None:
    repositories = Counter(entry.url.lower().removesuffix(".git") for entry in entries)
    assert [url for url, count in repositories.items() if count > 1] == []


def test_catalogue_names_are_derived_or_told_apart_by_debians(entries: tuple[PackageEntry, ...]) -> None:
    derived = Counter(derive_package_name(entry.url) for entry in entries)
    told_apart = [entry for entry in entries if entry.name != derive_package_name(entry.url)]
    for entry in told_apart:
        assert derived[derive_package_name(entry.url)] > 1, entry.name
        assert entry.mirrors == (f"deb:{entry.name}",)
    assert {name for name, count in derived.items() if count > 1} == {
        derive_package_name(entry.url) for entry in told_apart
    }


def test_catalogue_mirrors_are_distinct_debian_sources(entries: tuple[PackageEntry, ...]) -> None:
    mirrors = [parse_mirror(mirror) for entry in entries for mirror in entry.mirrors]
    assert all(isinstance(mirror, DebianSource) for mirror in mirrors)
    assert len(set(mirrors)) == len(entries)


def test_catalogue_tags_are_a_closed_set(entries: tuple[PackageEntry, ...]) -> None:
    known = {"autotools", "cargo", "cmake", "go", "gui", "meson", "qmake", "scons", "slow"}
    assert {tag for entry in entries for tag in entry.tags} <= known
