"""How many bytes of a tree's own sources are in which programming language.

Left out is what the tree has of others: submodules, and by name directories of dependencies, tests, examples
and documentation. C that lies beside Go files with ``import "C"`` is Go's: cgo compiles it.
"""

from collections import defaultdict
from collections.abc import Mapping

from pytest_atesor.porter.directories import holds_others_code, holds_tests, read_submodules
from pytest_atesor.porter.tree import Tree

__all__ = ["count_source_bytes", "has_compiled_sources", "has_sources", "is_minor"]

_LANGUAGES = {
    "c": "c cc cpp cxx c++",
    "go": "go",
    "rust": "rs",
    "python": "py pyx",
    "javascript": "js mjs ts tsx jsx",
    "jvm": "java kt scala clj groovy",
    "dotnet": "cs fs vb",
    "ruby": "rb",
    "php": "php",
    "perl": "pl pm",
    "lisp": "lisp scm el rkt",
    "haskell": "hs",
    "ocaml": "ml",
    "erlang": "erl ex exs",
    "swift": "swift",
    "objective-c": "m mm",
    "d": "d",
    "nim": "nim",
    "zig": "zig",
    "crystal": "cr",
    "pascal": "pas pp",
    "ada": "adb",
    "fortran": "f f77 f90 f95 f03",
    "lua": "lua",
    "r": "r",
    "julia": "jl",
    "dart": "dart",
    "shell": "sh bash",
    "starlark": "bzl star",
    "coffeescript": "coffee",
}
_BY_SUFFIX = {suffix: name for name, suffixes in _LANGUAGES.items() for suffix in suffixes.split()}
_NATIVE = {
    *("c", "go", "rust", "haskell", "ocaml", "swift", "objective-c", "d", "nim", "zig", "crystal", "pascal"),
    *("ada", "fortran"),
}
_ALSO_SOURCE = {
    *("h", "hh", "hpp", "hxx", "h++", "inl", "ipp", "inc", "cppm", "ixx", "l", "ll", "y", "yy", "f08", "v"),
    *("sv", "vhd", "tcl", "awk", "m4", "in", "am"),
}
_ALSO_NATIVE = {"s", "asm", "pyx", "xs", "cu", "vala"}
_MOST_GO_FILES = 500
_MINOR = 4


def count_source_bytes(tree: Tree) -> Mapping[str, int]:
    """Return language to bytes; a language that the tree has no sources in is 0."""
    submodules = tuple(f"{one}/" for one in read_submodules(tree))
    of_others: dict[str, bool] = {}
    sizes: dict[str, int] = defaultdict(int)
    of_c: dict[str, int] = defaultdict(int)
    go_files: list[str] = []
    for name, entry in tree.files.items():
        language = _BY_SUFFIX.get(name.rpartition(".")[2].lower())
        if language is None or ".min." in name:
            continue
        directory = name.rpartition("/")[0]
        if directory not in of_others:
            of_others[directory] = name.startswith(submodules) or holds_others_code(name)
        if of_others[directory]:
            continue
        sizes[language] += entry.size_bytes
        if language == "c":
            of_c[directory] += entry.size_bytes
        elif language == "go":
            go_files.append(name)
    beside = [name for name in go_files if name.rpartition("/")[0] in of_c]
    for name in beside[:_MOST_GO_FILES]:
        size = of_c.get(name.rpartition("/")[0], 0)
        if size and '\nimport "C"' in tree.text(name):
            of_c[name.rpartition("/")[0]] = 0
            sizes["c"] -= size
            sizes["go"] += size
    return sizes


def has_sources(tree: Tree) -> bool:
    """Say whether any file is named like source code, whoever's it is."""
    return any(
        suffix in _ALSO_NATIVE or suffix in _ALSO_SOURCE or suffix in _BY_SUFFIX
        for suffix in (name.rpartition(".")[2].lower() for name in tree.files)
    )


def has_compiled_sources(tree: Tree) -> bool:
    """Say whether anything but tests, examples and documentation can become native code, whoever's it is."""
    suffixes = ((name, name.rpartition(".")[2].lower()) for name in tree.files)
    return any(
        (suffix in _ALSO_NATIVE or _BY_SUFFIX.get(suffix) in _NATIVE) and not holds_tests(name)
        for name, suffix in suffixes
    )


def is_minor(language: str, sizes: Mapping[str, int], against: str = "") -> bool:
    """Say whether another language, or ``against``, has more than four times the bytes of ``language``."""
    others = (size for name, size in sizes.items() if name != language and against in {"", name})
    return max(others, default=0) > _MINOR * sizes.get(language, 0)
