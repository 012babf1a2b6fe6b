"""Which build systems can build a tree: ranked candidates, best first, or the reason why there are none.

A candidate must not stand in for the project: what is bundled with it, or a stray file, builds and proves
nothing of it. So a likelier place comes before a likelier build system, and where a build system that is not
ours claims the tree only files in the usual places count.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from enum import IntEnum
from typing import NamedTuple

from pytest_atesor.core.text import count_of
from pytest_atesor.porter.builders import BUILDERS
from pytest_atesor.porter.builders.interface import Builder, Candidate
from pytest_atesor.porter.directories import is_usual
from pytest_atesor.porter.foreign import find_foreign
from pytest_atesor.porter.languages import count_source_bytes, is_minor
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


class _Found(NamedTuple):
    builder: Builder
    place: _Place
    candidate: Candidate


def detect(tree: Tree, builders: Iterable[Builder] = BUILDERS) -> tuple[Candidate, ...]:
    """Return the candidates for ``tree``, best first; empty when no builder knows it.

    A root's build file comes before those below it, the usual directories before any others, which count
    only where nothing builds the root. A Go or Cargo file of a tree whose own sources are mostly C (bindings,
    a helper) ranks behind the C build beside it. A tree that a foreign build system claims is not compiled
    by guess.
    """
    sizes = count_source_bytes(tree)
    claimed = find_foreign(tree).claims
    found = [
        _Found(builder, _place_of(tree, candidate), candidate)
        for builder in builders
        for candidate in builder.find(tree)
    ]
    only_likely = claimed or any(map(_builds_the_root, found))
    kept = [
        one
        for one in found
        if not (only_likely and one.place is _Place.GUESS)
        and _stands_for_the_project(one, tree, sizes, claimed=claimed)
    ]
    ranked = _order_places(_put_minor_behind(kept, tree, sizes))
    return tuple(sorted((one.candidate for one in ranked), key=lambda one: -one.rank))


def explain_unknown(tree: Tree) -> str:
    """Return one line on why nothing can build ``tree``."""
    if not tree.files:
        return "the source tree is empty"
    seen = find_foreign(tree).names
    if seen:
        return f"no supported build system: found {', '.join(seen)} only"
    return f"no known build system among the {count_of('file', len(tree.files))} of the source tree"


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
