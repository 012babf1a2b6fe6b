"""From a missing thing to the distribution package that has it, by the distribution's own file index.

Nothing is guessed: a package is named only when the index says that it holds the very file. Pure but for the
index.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Protocol

from pytest_atesor.porter.dependency_tables import (
    CMAKE_MODULES,
    COMMANDS,
    GO_MODULES,
    MACROS,
    SPOKEN_NAMES,
    STOP_WORDS,
)
from pytest_atesor.porter.needs import Need, NeedKind

__all__ = ["FileIndex", "Owner", "Resolution", "resolve_need"]

_FOREIGN = re.compile(
    r"-cross$|mingw|-avr|avr-|^avr|klibc|dietlibc|^musl|-msp430|-sh4|-arm-|-m68k|uclibc|^lib64|^lib32|^libx32|-kfreebsd|-udeb$"
    r"|^libc6-dev-|^linux-headers|^emscripten|-dbg(sym)?$|^gcc-|^libgcc-|^libstdc|^postgresql-server|^llvm-toolchain|^hurd-|^crossbuild|^pypy"
)
_TRIPLET = "riscv64-linux-gnu"
_MOST_DIRECTORIES = 2
_MOST_OWNERS = 4


class Owner(Protocol):
    """One line of the index."""

    @property
    def path(self) -> str:
        """The file, without a leading slash."""

    @property
    def packages(self) -> tuple[str, ...]:
        """The binary packages that have it."""


class FileIndex(Protocol):
    """Which package has which file."""

    def ending_with(self, suffix: str) -> Iterable[Owner]:
        """Yield the files whose path ends with ``suffix``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution:
    """The package for a need, and the file that proves it."""

    need: Need
    package: str
    evidence: str


def resolve_need(need: Need, index: FileIndex, spoken: AbstractSet[str] = frozenset()) -> Resolution | None:
    """Return the package that provides ``need``; None when the index knows no such file.

    ``spoken`` are the words of the tree's build files, in lower case: of many packages with a header of that
    name the one whose directory they mention is meant.
    """
    if need.kind is NeedKind.PACKAGE:
        return Resolution(need=need, package=need.name, evidence="named directly")
    if need.kind is NeedKind.WORDS:
        return _resolve_words(need, index)
    for suffix, wanted in _places(need):
        found = _choose(need, index, suffix, wanted, spoken)
        if found is not None:
            return found
    return None


def _places(need: Need) -> Iterable[tuple[str, str]]:
    """Return (suffix, what the directory must match) in order of preference."""
    return _PLACES[need.kind](need.name)


def _library_places(name: str) -> Iterable[tuple[str, str]]:
    return ((f"/lib{name}{end}", rf"^usr/lib(/{_TRIPLET})?$") for end in (".so", ".a"))


def _module_places(name: str) -> Iterable[tuple[str, str]]:
    return ((f"/pkgconfig/{name}.pc", rf"^usr/(lib/{_TRIPLET}|lib|share)/pkgconfig$"),)


def _command_places(name: str) -> Iterable[tuple[str, str]]:
    known = COMMANDS.get(name, name)
    return ((f"{place}/{known}", "") for place in ("usr/bin", "usr/sbin", "bin", "sbin"))


def _python_places(name: str) -> Iterable[tuple[str, str]]:
    path, top = name.replace(".", "/"), name.partition(".")[0]
    files = (f"{path}/__init__.py", f"{path}.py", f"{top}/__init__.py")
    return ((f"usr/lib/python3/dist-packages/{one}", "") for one in files)


def _perl_places(name: str) -> Iterable[tuple[str, str]]:
    return ((f"/{name}", rf"^usr/(share/perl5|lib/{_TRIPLET}/perl5|share/perl|lib/{_TRIPLET}/perl)"),)


def _macro_places(name: str) -> Iterable[tuple[str, str]]:
    low = name.lower()
    files = (MACROS.get(name, f"{low}.m4"), f"{low.replace('_', '-')}.m4")
    return tuple((f"usr/share/aclocal/{one}", "") for one in dict.fromkeys(files))


def _go_places(name: str) -> Iterable[tuple[str, str]]:
    parts = name.split("/")
    for length in range(len(parts), 1, -1):
        module = "/".join(parts[:length])
        for one in (module, GO_MODULES.get(module)):
            if one:
                yield f"usr/share/gocode/src/{one}/", ""


def _crate_places(name: str) -> Iterable[tuple[str, str]]:
    return ((f"/{name.partition('@')[0]}.crate", r"^crate/"),)


def _header_places(name: str) -> Iterable[tuple[str, str]]:
    plain = name.lstrip("./")
    yield f"usr/include/{plain}", ""
    yield f"usr/include/{_TRIPLET}/{plain}", ""
    # Below more directories, as with glib-2.0/glib.h; a name that many packages use tells nothing.
    if ".." not in plain:
        yield f"/{plain}", rf"^usr/(include|lib/{_TRIPLET})(/[^/]+){{1,{_MOST_DIRECTORIES}}}"


def _cmake_places(name: str) -> Iterable[tuple[str, str]]:
    name, _, version = name.partition("@")
    if version:
        yield from _version_places(name, version)
        return
    name, _, part = name.partition("::")
    if part:
        yield from _part_places(name, part)
    bare = name.removesuffix("Config").removesuffix("-config")
    known = next((files for name, files in CMAKE_MODULES.items() if name.lower() == bare.lower()), ())
    yield from ((one, "") for one in known)
    for one in dict.fromkeys((bare, bare.lower(), bare.capitalize())):
        yield f"/{one}Config.cmake", ""
        yield f"/{one}-config.cmake", ""
    low = bare.lower()
    for one in dict.fromkeys((low, f"lib{low}", low.removeprefix("lib"))):
        yield f"/pkgconfig/{one}.pc", rf"^usr/(lib/{_TRIPLET}|lib|share)/pkgconfig$"
    yield f"usr/lib/{_TRIPLET}/lib{low.removeprefix('lib')}.so", ""
    yield f"usr/include/{low}.h", ""
    yield f"usr/bin/{low}", ""


def _version_places(name: str, version: str) -> Iterable[tuple[str, str]]:
    """Return where a version has its own directory, as llvm-21/lib/cmake/llvm and cmake/Boost-1.83.0."""
    parts = version.split(".")
    for length in range(len(parts), 0, -1):
        known = re.escape(".".join(parts[:length]))
        end = r"(?:[./]|$)" if length == len(parts) else "(?:/|$)"
        yield f"/{name}Config.cmake", rf".*-{known}{end}"
        yield f"/{name.lower()}-config.cmake", rf".*-{known}{end}"


def _part_places(whole: str, part: str) -> Iterable[tuple[str, str]]:
    """Return where a component is: Qt6Svg of Qt6::Svg, the library boost_thread of Boost::thread."""
    for one in dict.fromkeys((f"{whole}{part}", f"{whole[:1].upper()}{whole[1:]}{part}")):
        yield f"/{one}Config.cmake", ""
    yield from _library_places(f"{whole.lower()}_{part}")


def _choose(
    need: Need, index: FileIndex, suffix: str, wanted: str, spoken: AbstractSet[str]
) -> Resolution | None:
    best: tuple[tuple[int, int, int, int, str], Resolution] | None = None
    owners: set[str] = set()
    for owner in index.ending_with(suffix):
        directory = owner.path.rpartition("/")[0]
        if (wanted and not re.match(wanted, directory)) or (not wanted and not _exact(owner.path, suffix)):
            continue
        silence = 0 if directory.rpartition("/")[2].lower() in spoken else 1
        for package in owner.packages:
            if _FOREIGN.search(package):
                continue
            owners.add(package)
            order = (
                silence,
                _misfit(need, owner.path),
                0 if package.endswith("-dev") else 1,
                len(package),
                package,
            )
            if best is None or order < best[0]:
                best = (order, Resolution(need=need, package=package, evidence=owner.path))
    if best is None:
        return None
    is_vague = need.kind is NeedKind.HEADER and bool(wanted) and len(owners) > _MOST_OWNERS and best[0][0] > 0
    return None if is_vague else best[1]


def _misfit(need: Need, path: str) -> int:
    """Return how badly a file fits: by depth, for crates by the version that was asked for."""
    if need.kind is not NeedKind.CRATE:
        return path.count("/")
    wanted = re.search(r"\d+(?:\.\d+)?", need.name.partition("@")[2])
    parts = (wanted.group() if wanted else "").split(".")
    significant = (
        parts[:1] if parts[0] not in {"", "0"} else parts[:2]
    )  # what semantic versioning calls compatible
    return 0 if path.split("/")[1].split(".")[: len(significant)] == significant else 1


def _exact(path: str, suffix: str) -> bool:
    return path == suffix if suffix.startswith(("usr/", "bin/", "sbin/")) else path.startswith("usr/")


def _resolve_words(need: Need, index: FileIndex) -> Resolution | None:
    for word in _telling_words(need.name):
        low = word.lower()
        stem = re.sub(r"^lib|-?(dev|devel)$|[><=].*$", "", low)
        known = SPOKEN_NAMES.get(low) or SPOKEN_NAMES.get(stem)
        found = _choose(need, index, known, "", frozenset()) if known else None
        if found is not None:
            return found
        for one in _word_tries(word, low, stem):
            found = resolve_need(one, index) if len(one.name) > 1 else None
            if found is not None and not _is_deep_header(one, found):
                return Resolution(need=need, package=found.package, evidence=found.evidence)
    return None


def _word_tries(word: str, low: str, stem: str) -> Iterable[Need]:
    if word.endswith((".h", ".hpp")):
        yield Need(kind=NeedKind.HEADER, name=word)
    for one in dict.fromkeys((word, low, stem, f"lib{stem}")):
        yield Need(kind=NeedKind.PKG_CONFIG, name=one)
    for one in dict.fromkeys((stem, word)):
        yield Need(kind=NeedKind.LIBRARY, name=one)
    yield Need(kind=NeedKind.CMAKE, name=word)
    yield Need(kind=NeedKind.HEADER, name=f"{stem}.h")
    yield Need(kind=NeedKind.COMMAND, name=low)


def _is_deep_header(need: Need, found: Resolution) -> bool:
    """Say whether a header found for a word is a part of something else, as xcb/randr.h of XCB."""
    directory = re.sub(rf"^usr/include/(?:{_TRIPLET}/)?", "", found.evidence).rpartition("/")[0]
    stem = need.name.rpartition(".")[0].lower()
    return need.kind is NeedKind.HEADER and bool(directory) and stem not in directory.lower()


def _telling_words(text: str) -> list[str]:
    """Return the words of a message that may name a library, the most telling first."""
    address = re.fullmatch(r"(?:https?|git|ssh)://\S+", text.strip())
    if address:
        base = re.sub(r"\.git$|\.(tar\.\w+|tgz|zip)$", "", text.strip().rstrip("/").rpartition("/")[2])
        return [base, re.sub(r"[-_]?v?\d[\w.]*$", "", base)]
    found = []
    for raw in re.findall(r"[A-Za-z][\w.+/-]*[\w+]|[A-Za-z]\w", text):
        word = raw.strip("./-")
        if (
            len(word) > 1
            and word.lower() not in STOP_WORDS
            and not word.startswith(("with-", "enable-", "disable-", "without-", "usr/", "http"))
        ):
            found.append(word)
    telling = [one for one in found if re.match(r"lib\w", one) or re.search(r"\d|\.h$|-", one)]
    return list(dict.fromkeys([*telling, *found]))[:8]


_PLACES: Mapping[NeedKind, Callable[[str], Iterable[tuple[str, str]]]] = {
    NeedKind.HEADER: _header_places,
    NeedKind.LIBRARY: _library_places,
    NeedKind.PKG_CONFIG: _module_places,
    NeedKind.CMAKE: _cmake_places,
    NeedKind.COMMAND: _command_places,
    NeedKind.PYTHON: _python_places,
    NeedKind.PERL: _perl_places,
    NeedKind.MACRO: _macro_places,
    NeedKind.GO: _go_places,
    NeedKind.CRATE: _crate_places,
}
