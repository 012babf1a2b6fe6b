"""Which build systems can build a tree: ranked candidates, best first, or the reason why there are none.

A candidate must not stand in for the project: what is bundled with it, or a stray file, builds and proves
nothing of it. So a likelier place comes before a likelier build system, and where a build system that is not
ours claims the tree others than the usual places count only when these have nothing.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from enum import IntEnum
from typing import NamedTuple

from pytest_atesor.core.text import count_of
from pytest_atesor.porter.builders import BUILDERS
from pytest_atesor.porter.builders.golang import has_programs
from pytest_atesor.porter.builders.interface import Builder, Candidate
from pytest_atesor.porter.builders.shared import depth_penalty
from pytest_atesor.porter.directories import (
    holds_helpers,
    is_usual,
    list_places,
    list_unlikely,
    read_submodules,
)
from pytest_atesor.porter.foreign import find_foreign
from pytest_atesor.porter.languages import count_source_bytes, has_compiled_sources, has_sources, is_minor
from pytest_atesor.porter.tree import Tree

__all__ = ["detect", "explain_unknown"]

_MANIFESTS = {"go": ("go.mod", "go.work"), "rust": ("Cargo.toml",)}
_DRIVES = {
    "go": re.compile(r"\bgo (build|install)\b|\$[({]GO[)}] (build|install)\b"),
    "rust": re.compile(r"\bcargo (\S+ ){0,6}(build|install|rustc)\b|\$[({]CARGO[)}]"),
}
_MAKEFILES = ("GNUmakefile", "makefile", "Makefile")


class _Place(IntEnum):
    ROOT = 0
    USUAL = 1
    GUESS = 2


# From this rank on, a candidate of a place builds something and is more than a helper.
_STRONG = {_Place.ROOT: 55, _Place.USUAL: 20}
_MINOR_BELOW = 45
_MOST_NAMED = 3
_MOST_PARTS = 20


class _Found(NamedTuple):
    builder: Builder
    place: _Place
    candidate: Candidate


def detect(tree: Tree, builders: Iterable[Builder] = BUILDERS) -> tuple[Candidate, ...]:
    """Return the candidates for ``tree``, best first; empty when no builder knows it.

    A root's build file comes before those below it, the usual directories before any others, which count
    only where nothing builds the root, or as the module that has the programs of a Go library. A Go or Cargo
    file of a tree whose own sources are mostly C (bindings, a helper) ranks behind the C build beside it. A
    tree that a foreign build system claims is not compiled by guess: other directories count there only when
    they have a build file and nothing else is left, and a Makefile only where it names a compiler or there is
    something to compile. Elsewhere what :func:`.list_unlikely` names is the last resort.
    """
    sizes = count_source_bytes(tree)
    claimed = find_foreign(tree).claims
    used = tuple(builders)
    found = _find(tree, used)
    if claimed and not has_compiled_sources(tree):
        found = [one for one in found if not one.candidate.is_driver]
    only_likely = claimed or any(map(_builds_the_root, found))
    kept = [
        one
        for one in found
        if not (only_likely and one.place is _Place.GUESS and not _may_have_the_programs(one, tree, found))
        and _stands_for_the_project(one, tree, sizes, claimed=claimed)
    ]
    if not kept:
        rest = found if claimed else _find_unlikely(tree, used, sizes)
        kept = [
            one for one in rest if _has_build_file(tree, one) and not holds_helpers(one.candidate.directory)
        ]
    ranked = _order_places(_put_minor_behind(kept, tree, sizes))
    return tuple(sorted((one.candidate for one in ranked), key=lambda one: -one.rank))


def explain_unknown(tree: Tree) -> str:
    """Return one line on why nothing can build ``tree``, with the build files that were passed over."""
    if not tree.files:
        return "the source tree is empty"
    places = frozenset(list_places(tree))
    aside = sorted(name for name in tree.directories if "/" not in name and name not in places)
    found = (*_find(tree, BUILDERS), *_find_in(tree, aside[:_MOST_PARTS], BUILDERS))
    files = [one.candidate.evidence for one in found if _has_build_file(tree, one)]
    passed = f"; passed over {', '.join(files[:_MOST_NAMED])}" if files else ""
    seen = find_foreign(tree).names
    if seen:
        return f"no supported build system: found {', '.join(seen)}{passed or ' only'}"
    place = f"among the {count_of('file', len(tree.files))} of the source tree{passed}"
    if has_sources(tree) or read_submodules(tree):
        return f"no known build system {place}"
    return f"nothing named like source code {place}; if another branch or tag has it, name that as ref"


def _find(tree: Tree, builders: Iterable[Builder]) -> list[_Found]:
    return [
        _Found(builder, _place_of(tree, candidate), candidate)
        for builder in builders
        for candidate in builder.find(tree)
    ]


def _find_unlikely(tree: Tree, builders: Iterable[Builder], sizes: Mapping[str, int]) -> list[_Found]:
    """Return what lies in directories that are left out, where the tree has no more of its own than these."""
    own = sum(sizes.values())
    unlikely = list_unlikely(tree)[:_MOST_PARTS]
    names = [one for one in unlikely if own <= sum(count_source_bytes(tree.at(one)).values())]
    return _find_in(tree, names, builders)


def _find_in(tree: Tree, names: Iterable[str], builders: Iterable[Builder]) -> list[_Found]:
    """Return what lies in the directories ``names`` themselves, each looked at as a tree of its own."""
    parts = {name: tree.at(name) for name in names}
    return [
        _Found(builder, _Place.GUESS, _moved(candidate, name))
        for name, part in parts.items()
        for builder in builders
        for candidate in builder.find(part)
        if not candidate.directory
    ]


def _moved(candidate: Candidate, directory: str) -> Candidate:
    return replace(
        candidate,
        directory=directory,
        rank=candidate.rank - depth_penalty(directory),
        evidence=f"{directory}/{candidate.evidence}",
    )


def _has_build_file(tree: Tree, one: _Found) -> bool:
    return not one.builder.is_stopgap and (not one.builder.language or _has_manifest(tree, one))


def _place_of(tree: Tree, candidate: Candidate) -> _Place:
    if not candidate.directory:
        return _Place.ROOT
    return _Place.USUAL if is_usual(tree, candidate.directory) else _Place.GUESS


def _builds_the_root(one: _Found) -> bool:
    return one.place is _Place.ROOT and one.candidate.rank >= _STRONG[_Place.ROOT]


def _stands_for_the_project(one: _Found, tree: Tree, sizes: Mapping[str, int], *, claimed: bool) -> bool:
    if claimed and one.builder.is_stopgap:
        return False
    language = one.builder.language or ("c" if one.builder.is_stopgap else "")
    if not language or _has_manifest(tree, one):
        return True
    if claimed and not _has_go_programs(tree):
        return False
    return sizes.get(language, 0) > 0 and not is_minor(language, sizes)


def _may_have_the_programs(one: _Found, tree: Tree, found: Iterable[_Found]) -> bool:
    """Say whether a module with a program stands beside a root's, which may be a library."""
    place = one.candidate.directory
    is_beside = one.builder.language == "go" and any(
        other.builder is one.builder and other.place is _Place.ROOT for other in found
    )
    return is_beside and not holds_helpers(place) and has_programs(tree, place)


def _has_go_programs(tree: Tree) -> bool:
    """Say whether Go files lie where a project older than modules has its programs: the root or ``cmd/``."""
    return any(name.endswith(".go") and ("/" not in name or name.startswith("cmd/")) for name in tree.files)


def _has_manifest(tree: Tree, one: _Found) -> bool:
    prefix = f"{one.candidate.directory}/" if one.candidate.directory else ""
    return tree.has(*(prefix + name for name in _MANIFESTS.get(one.builder.language, ())))


def _put_minor_behind(found: list[_Found], tree: Tree, sizes: Mapping[str, int]) -> list[_Found]:
    rivals = [one.candidate.rank for one in found if _builds_the_root(one) and not one.builder.language]
    before_rivals = min(rivals, default=1000) - 1
    return [_behind(one, before_rivals) if _is_helper(one, tree, sizes) else one for one in found]


def _behind(one: _Found, before_rivals: int) -> _Found:
    """At the root only what else builds the root is a reason; below it the C build is somewhere else."""
    if one.place is _Place.ROOT:
        return _limited(one, before_rivals)
    return _limited(one, one.candidate.rank - _MINOR_BELOW)


def _is_helper(one: _Found, tree: Tree, sizes: Mapping[str, int]) -> bool:
    """Say whether a candidate builds only a small part of a C project."""
    language = one.builder.language
    if not language or not is_minor(language, sizes, against="c"):
        return False
    return one.place is not _Place.ROOT or not any(
        _DRIVES[language].search(tree.text(name)) for name in _MAKEFILES
    )


def _order_places(found: list[_Found]) -> list[_Found]:
    """Put candidates of less likely places behind all strong ones of likelier places."""
    limits = {
        place: min(
            (
                one.candidate.rank
                for one in found
                if one.place < place and one.candidate.rank >= _STRONG[one.place]
            ),
            default=1000,
        )
        for place in _Place
    }
    return [_limited(one, limits[one.place] - 1) for one in found]


def _limited(one: _Found, most: int) -> _Found:
    return one._replace(candidate=replace(one.candidate, rank=min(one.candidate.rank, most)))
