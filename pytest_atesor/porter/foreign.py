"""The build systems that the agent cannot use, by what they leave in a tree's root."""

import re
from dataclasses import dataclass

from pytest_atesor.porter.tree import Tree

__all__ = ["Foreign", "find_foreign"]

_FILES = {
    "SConstruct": "SCons",
    "BUILD.bazel": "Bazel",
    "WORKSPACE": "Bazel",
    "WORKSPACE.bazel": "Bazel",
    "MODULE.bazel": "Bazel",
    "BUCK": "Buck",
    "BUILD.gn": "GN",
    "Jamroot": "Jam",
    "Jamroot.jam": "Jam",
    "Jamfile": "Jam",
    "Tupfile": "tup",
    "build.zig": "Zig",
    "wscript": "waf",
    "xmake.lua": "xmake",
    "premake5.lua": "Premake",
    "premake4.lua": "Premake",
    "nob.c": "nob",
    "build.gradle": "Gradle",
    "build.gradle.kts": "Gradle",
    "settings.gradle": "Gradle",
    "pom.xml": "Maven",
    "build.xml": "Ant",
    "build.sbt": "sbt",
    "project.clj": "Clojure",
    "deps.edn": "Clojure",
    "package.json": "npm",
    "setup.py": "Python",
    "pyproject.toml": "Python",
    "Gemfile": "Ruby",
    "Rakefile": "Ruby",
    "composer.json": "PHP",
    "Makefile.PL": "Perl",
    "Build.PL": "Perl",
    "NAMESPACE": "R",
    "Package.swift": "Swift",
    "pubspec.yaml": "Dart",
    "dub.json": "D",
    "dub.sdl": "D",
    "shard.yml": "Crystal",
    "fpm.toml": "Fortran",
    "alire.toml": "Ada",
    "dune-project": "Dune",
    "stack.yaml": "Haskell",
    "cabal.project": "Haskell",
    "rebar.config": "Erlang",
    "mix.exs": "Elixir",
    "Imakefile": "Imake",
    "config": "an nginx module",
}
_ENDINGS = {
    ".pro": "qmake",
    ".cabal": "Haskell",
    ".gemspec": "RubyGems",
    ".nimble": "Nim",
    ".rockspec": "Lua",
    ".gpr": "Ada",
    ".csproj": ".NET",
    ".fsproj": ".NET",
    ".sln": "Visual Studio",
    ".vcxproj": "Visual Studio",
}
# These stand beside what builds without them; npm does, too, where it only lists tools.
_BESIDE = frozenset({"Imake", "Ruby", "Swift", "Visual Studio", "Xcode", "Zig"})
# Files of the same name for something else, told by what only the build system's own have.
_TELLS = {
    "pyproject.toml": re.compile(r"^[ \t]*\[(build-system|project|tool\.poetry)\]", re.MULTILINE),
    "config": re.compile(r"^[ \t]*ngx_(addon_name|module_name)=", re.MULTILINE),
    # clib's list of a C library's files has nothing of npm's
    "package.json": re.compile(r'^(?!.*"src"\s*:\s*\[)|"(main|bin|dependencies)"\s*:', re.DOTALL),
}
_NPM_PRODUCT = re.compile(r'"(main|bin|exports)"\s*:')
_QMAKE = re.compile(r"^[ \t]*(TEMPLATE|SOURCES|SUBDIRS)[ \t]*[+*]?=", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Foreign:
    """The names of the build systems whose files are in the root, sorted.

    Where one of them ``claims`` the tree, sources that no build file of ours names are not the project.
    """

    names: tuple[str, ...]
    claims: bool


def find_foreign(tree: Tree) -> Foreign:
    """Return what the root of ``tree`` has of build systems that the agent cannot use."""
    names = {label for file, label in _FILES.items() if tree.has(file) and _is_real(tree, file)}
    for file in tree.below(""):
        label = _ENDINGS.get(f".{file.rpartition('.')[2]}") if "." in file else None
        if label and (label != "qmake" or _QMAKE.search(tree.text(file))):
            names.add(label)
    if any(one.endswith(".xcodeproj") and "/" not in one for one in tree.directories):
        names.add("Xcode")
    beside = _BESIDE if _NPM_PRODUCT.search(tree.text("package.json")) else {*_BESIDE, "npm"}
    return Foreign(names=tuple(sorted(names)), claims=bool(names - beside))


def _is_real(tree: Tree, file: str) -> bool:
    tell = _TELLS.get(file)
    return tell is None or tell.search(tree.text(file)) is not None
