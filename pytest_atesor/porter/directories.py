"""What the names of a tree's directories say: where a project keeps its build files, where others' code lies.

Names are conventions: they order guesses and leave some out, and never prove anything.
"""

import re
from collections.abc import Iterable, Iterator

from pytest_atesor.porter.tree import Tree

__all__ = [
    "holds_helpers",
    "holds_others_code",
    "holds_tests",
    "is_usual",
    "list_places",
    "list_unlikely",
    "read_submodules",
]

_USUAL = (
    "src",
    "Src",
    "source",
    "Source",
    "sources",
    "build",
    "unix",
    "linux",
    "posix",
    "gnu",
    "gcc",
    "make",
    "c",
    "C",
    "cpp",
    "c++",
    "lib",
    "code",
    "core",
)
_OF_ONE_TOOL = frozenset({"cmake", "cmake_unofficial", "contrib", "rust", "cli", "crates", "cmd", "go"})
_NESTED = re.compile(
    r"(builds?|projects?|platforms?|ports?|make(files)?|src|sources?)"
    r"/(cmake|g?make2?|meson|autotools|unix|linux|gnu|gcc|posix)(/(library|cli))?",
    re.IGNORECASE,
)
_VERSION = re.compile(r".+-v?\d+(\.\d+)+([-_.].*)?")  # zlib-1.3.1
_OTHERS = re.compile(
    r"(3rd|third)[-_ ]?part(y|ies)([-_ ]?(libs?|src|sources?))?|vendor(ed|s)?|ext|extern|externals?"
    r"|ext(ern(al)?)?[-_]?(libs?|deps|src)|deps?|dependenc(y|ies)|sub_?modules?|subprojects|bundled?|imported"
    r"|node_modules|pods|carthage|g(oogle)?test|g(oogle)?mock|catch2?|doctest"
    rf"|{_VERSION.pattern}",
    re.IGNORECASE,
)
_ASIDE = re.compile(
    r"(unit|integration)?[-_]?tests?|testing|testsuite|testdata|docs?|documentation|(code[-_]?)?examples?"
    r"|samples?|demos?|bench(marks?|marking)?|fuzz(ing|er|ers)?|contrib|man|website",
    re.IGNORECASE,
)
_OTHER_PLATFORMS = re.compile(
    r"((build|projects?)[-_])?(win(32|64|dows|nt|ce)?|ms-?dos|dos|djgpp|mingw(32|64)?|cygwin|os2|amiga|atari|acorn"
    r"|vms|mac(os)?x?|osx|ios|android|be_?os|msvc?|vc\d*|vs\d*|visual[-_ ]?studio|xcode)",
    re.IGNORECASE,
)
_HELPERS = re.compile(
    r"(dev|build|release)?[-_]?(helpers?|tools?|scripts?)|hack|ci|packaging|docker|misc", re.IGNORECASE
)
_MAY_BE_OWN = re.compile(
    r"ext|demos?|samples?|bench(marks?|marking)?|fuzz(ing|er|ers)?|" + _OTHER_PLATFORMS.pattern, re.IGNORECASE
)
_SUBMODULE = re.compile(r"^[ \t]*path[ \t]*=[ \t]*\"?([^\"\n]+)", re.MULTILINE)


def list_places(tree: Tree, extra: Iterable[str] = ()) -> tuple[str, ...]:
    """Return where build files are looked for: the root, the usual directories, then most one level down.

    ``extra`` are directories that one build system uses. Left out one level down are tests, documentation,
    ports to other systems, what the names say is others' code, and submodules.
    """
    usual = [name for name in (*_USUAL, *extra) if name in tree.directories]
    nested = sorted(name for name in tree.directories if _NESTED.fullmatch(name))
    others = set(read_submodules(tree))
    rest = sorted(
        name
        for name in tree.directories
        if "/" not in name
        and not name.startswith((".", "_"))
        and name not in others
        and (_is_own(tree, name) or not (_is_aside(name) or _OTHER_PLATFORMS.fullmatch(name)))
    )
    return tuple(dict.fromkeys(["", *usual, *nested, *rest]))


def list_unlikely(tree: Tree) -> tuple[str, ...]:
    """Return what :func:`list_places` leaves out one level down and yet may be all that a project has.

    These are submodules, demos, benchmarks, ports, and a release that was unpacked: of several directories
    with a version only those with the tree's own name. Dependencies, tests and documentation never are.
    """
    modules = set(read_submodules(tree))
    versions = [name for name in tree.directories if "/" not in name and _VERSION.fullmatch(name)]
    releases = {one for one in versions if len(versions) == 1 or _has_own_name(tree, one)}
    return tuple(
        name
        for name in sorted(tree.directories)
        if "/" not in name
        and not _is_own(tree, name)
        and (_MAY_BE_OWN.fullmatch(name) or name in releases or (name in modules and not _is_aside(name)))
    )


def holds_helpers(directory: str) -> bool:
    """Say whether a directory's name tells that it serves the work on a project."""
    return _HELPERS.fullmatch(directory.partition("/")[0]) is not None


def is_usual(tree: Tree, directory: str) -> bool:
    """Say whether projects often have their build files in ``directory``, or it has the tree's own name."""
    top = directory.partition("/")[0]
    return (
        top in {"", *_USUAL, *_OF_ONE_TOOL} or _NESTED.fullmatch(directory) is not None or _is_own(tree, top)
    )


def holds_others_code(name: str) -> bool:
    """Say whether a path leads through a directory of dependencies, tests, examples or documentation."""
    return any(map(_is_aside, name.split("/")[:-1]))


def holds_tests(name: str) -> bool:
    """Say whether a path leads through a directory of tests, examples or documentation."""
    return any(_ASIDE.fullmatch(part) for part in name.split("/")[:-1])


def read_submodules(tree: Tree) -> tuple[str, ...]:
    """Return the directories that ``.gitmodules`` names."""
    return tuple(_plain_paths(tree.text(".gitmodules")))


def _plain_paths(text: str) -> Iterator[str]:
    for found in _SUBMODULE.finditer(text):
        yield found.group(1).strip().removeprefix("./").rstrip("/")


def _is_aside(name: str) -> bool:
    return _OTHERS.fullmatch(name) is not None or _ASIDE.fullmatch(name) is not None


def _has_own_name(tree: Tree, name: str) -> bool:
    return name.lower().startswith(f"{tree.root.name.lower()}-")


def _is_own(tree: Tree, name: str) -> bool:
    return name.lower() == tree.root.name.lower()
