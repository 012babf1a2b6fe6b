"""Which build systems can build a tree: ranked candidates, best first, or the reason why there are none."""

from collections.abc import Iterable
from dataclasses import replace

from pytest_atesor.core.text import count_of
from pytest_atesor.porter.builders import BUILDERS
from pytest_atesor.porter.builders.interface import Builder, Candidate
from pytest_atesor.porter.tree import Tree

__all__ = ["detect", "explain_unknown"]

_COMPILED = {
    ".c": "c",
    ".cc": "c",
    ".cpp": "c",
    ".cxx": "c",
    ".go": "go",
    ".rs": "rust",
}
_FOREIGN = {
    "SConstruct": "SCons",
    "BUILD.bazel": "Bazel",
    "WORKSPACE": "Bazel",
    "MODULE.bazel": "Bazel",
    "build.zig": "Zig",
    "wscript": "waf",
    "xmake.lua": "xmake",
    "premake5.lua": "Premake",
    "premake4.lua": "Premake",
    "build.gradle": "Gradle",
    "pom.xml": "Maven",
    "build.xml": "Ant",
    "package.json": "npm",
    "setup.py": "Python",
    "pyproject.toml": "Python",
    "Gemfile": "Ruby",
    "Makefile.PL": "Perl",
    "dune-project": "Dune",
    "stack.yaml": "Haskell",
    "mix.exs": "Elixir",
    "Imakefile": "Imake",
}


def detect(tree: Tree, builders: Iterable[Builder] = BUILDERS) -> tuple[Candidate, ...]:
    """Return the candidates for ``tree``, best first; empty when no builder knows it.

    A Go or Cargo file in a tree whose sources are mostly C (bindings, a helper) ranks behind the C build.
    """
    share = _language_shares(tree)
    found: list[Candidate] = []
    for builder in builders:
        for candidate in builder.find(tree):
            language = builder.language
            minor = bool(language) and share.get("c", 0.0) > 0 and share.get(language, 0.0) < share["c"] / 4
            found.append(replace(candidate, rank=candidate.rank - 45) if minor else candidate)
    return tuple(sorted(found, key=lambda one: -one.rank))


def explain_unknown(tree: Tree) -> str:
    """Return one line on why nothing can build ``tree``."""
    if not tree.files:
        return "the source tree is empty"
    seen = {label for name, label in _FOREIGN.items() if name in tree.files}
    if any(name.endswith(".pro") for name in tree.below("")):
        seen.add("qmake")
    if seen:
        return f"no supported build system: found {', '.join(sorted(seen))} only"
    return f"no known build system among the {count_of('file', len(tree.files))} of the source tree"


def _language_shares(tree: Tree) -> dict[str, float]:
    sizes: dict[str, float] = {}
    for name, entry in tree.files.items():
        language = _COMPILED.get("." + name.rpartition(".")[2])
        if language and "vendor/" not in name and "third_party/" not in name:
            sizes[language] = sizes.get(language, 0.0) + entry.size_bytes
    total = sum(sizes.values())
    return {name: size / total for name, size in sizes.items()} if total else {}
