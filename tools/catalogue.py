"""Write packages/full.json, the catalogue, from Debian's own package metadata.

    python tools/catalogue.py --cache DIR [--refresh] [--suite trixie] [--output packages/full.json]

Three questions are asked of the suite's Sources and riscv64 Packages indexes, and of nothing else: is it an
upstream program or library in C, C++, Go or Rust that Debian builds for riscv64; where is its repository; how
many other projects need it. The answers are the rules in this directory and the tables in ``catalogue.toml``.
The same metadata gives the same file, byte by byte. No package is downloaded or built.
"""

import argparse
import dataclasses
import json
import re
import sys
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from debian_index import Binary, CatalogueError, Source, fetch_indexes, read_indexes
from upstream_urls import derive_project, derive_url

from pytest_atesor.core.names import derive_package_name
from pytest_atesor.core.package_list import parse_package_list

ROOT: Final = Path(__file__).resolve().parent.parent
TABLES: Final = Path(__file__).with_suffix(".toml")

DEFAULTS: Final = {"max_attempts": 5, "timeout_seconds": 2400}
HUGE_SOURCE_BYTES: Final = 40_000_000
"""Compressed upstream source above which a package is left out: it is not built within the list's timeout."""
SLOW_SOURCE_BYTES: Final = {"c": 4_000_000, "c++": 2_000_000, "go": 0, "rust": 0}
SLOW_INSTALLED_BYTES: Final = {"c": 5_000_000, "c++": 4_000_000, "go": 30_000_000, "rust": 8_000_000}
"""A package is tagged ``slow`` when its compressed source and its compiled binary packages are this large.

Test data makes sources large and translations make binary packages large, so one alone says little. Go and
Rust programs are linked statically: they are as large as what is compiled for them.
"""
MINIMUM_SCORE: Final = {"library": 10, "program": 3, "game": 5, "gui": 20, "go": 1, "rust": 1}
"""How many other projects must need a package of a kind, so that people are likely to want it on riscv64.

Few need a Go or Rust program, which people start themselves and whose libraries are linked into it.
"""
NEGLECTED_BELOW: Final = (4, 6)
"""Debian policy of August 2021; who needs little and was not looked after since is hardly used."""

_GUI_LIBRARY: Final = re.compile(
    r"lib(?:gtk|adwaita|qt[56]|kf[56]|x11-|wayland-client|fltk|wxgtk|sdl|allegro|glfw|gl1|glx0|opengl0|glut|xaw7|"
    r"xm4|sfml|webkit|fox-|elementary)\S*"
)
_GROUPS: Final = {"libdevel": "libs", "rust": "devel"}
_GUI_SECTIONS: Final = frozenset({"gnome", "kde", "x11", "xfce"})
_MODULE_OF_INTERPRETER: Final = re.compile(r"perlapi-.*|phpapi-.*|r-api-.*|ruby\d.*|lua5.*|octave-abi.*")
_NEVER_RELEASED: Final = re.compile(r"(?:^|[~+.])(?:git|svn|hg|bzr|cvs)(?![a-z])|^0\.0~|^20\d{6}")


# The first that fits; cargo comes last because meson and cmake projects call it for a part of them.
_BUILD_SYSTEMS: Final = (
    ("go", re.compile(r"golang-any|golang-go|golang-\d\S*-go|dh-golang|dh-sequence-golang")),
    ("cargo", re.compile(r"dh-cargo|dh-sequence-cargo")),
    ("meson", re.compile(r"meson|dh-meson")),
    ("cmake", re.compile(r"cmake|dh-cmake|extra-cmake-modules")),
    ("qmake", re.compile(r"qt5-qmake|qmake6")),
    ("scons", re.compile(r"scons")),
    (
        "autotools",
        re.compile(
            r"autoconf(?:-archive)?|automake(?:-\S*)?|autotools-dev|dh-autoreconf|libtool(?:-bin)?|gnulib"
        ),
    ),
    ("cargo", re.compile(r"cargo")),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """What no rule can know, from ``catalogue.toml``; each is explained there."""

    sections: frozenset[str]
    modules: re.Pattern[str]
    parts: re.Pattern[str]
    build_depends: re.Pattern[str]
    known: frozenset[str]
    urls: Mapping[str, str]
    gnu: Mapping[str, str]
    languages: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One line of the catalogue; ``source`` is Debian's name, ``score`` how many other projects need it."""

    name: str
    url: str
    source: str
    lang: str
    group: str
    tags: tuple[str, ...]
    score: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """A source package that is not for the catalogue, and why."""

    source: str
    score: int
    reason: str


def decide_build_system(build_depends: frozenset[str]) -> str | None:
    """Return the build system that build dependencies give away, or None."""
    return next(
        (name for name, pattern in _BUILD_SYSTEMS if any(map(pattern.fullmatch, build_depends))), None
    )


def decide_language(build_depends: frozenset[str], main: Binary) -> str:
    """Return "c", "c++", "go" or "rust" by the toolchain, what the binary links with and what people tagged.

    Linking with the C++ library outweighs the tags, which are old: programs were rewritten since.
    """
    build_system = decide_build_system(build_depends)
    if build_system == "go":
        return "go"
    if "libstdc++6" in main.depends or "implemented-in::c++" in main.tags:
        return "c++"
    uses_cargo = build_system == "cargo" or "cargo" in build_depends
    return "rust" if uses_cargo and "implemented-in::c" not in main.tags else "c"


def decide_tags(source: Source, main: Binary, lang: str, installed_bytes: int) -> tuple[str, ...]:
    """Return the build system, ``gui`` for what shows windows, ``slow`` for what builds long."""
    build_system = decide_build_system(source.build_depends)
    tags = [build_system] if build_system else []
    if main.section in _GUI_SECTIONS or any(map(_GUI_LIBRARY.fullmatch, main.depends)):
        tags.append("gui")
    if source.orig_bytes >= SLOW_SOURCE_BYTES[lang] and installed_bytes >= SLOW_INSTALLED_BYTES[lang]:
        tags.append("slow")
    return tuple(tags)


def is_compiled(binary: Binary, tables: Tables) -> bool:
    """Tell whether a binary package has compiled programs or libraries and is no interpreter's module."""
    return (
        ("libc6" in binary.depends or binary.modules > 0)
        and binary.section not in tables.sections
        and not binary.is_python_module
        and not tables.modules.fullmatch(binary.name)
        and not any(map(_MODULE_OF_INTERPRETER.fullmatch, binary.depends))
    )


def rank_binaries(source: str, binaries: Iterable[Binary], scores: Mapping[str, int]) -> tuple[Binary, ...]:
    """Return binary packages, led by the one that stands for the source: namesake, else most needed."""
    namesakes = {source, source.removeprefix("rust-"), re.sub(r"[-.\d]+$", "", source)}
    return tuple(
        sorted(
            binaries,
            key=lambda binary: (binary.name not in namesakes, -scores.get(binary.name, 0), binary.name),
        )
    )


def find_obstacle(source: Source, tables: Tables) -> str | None:
    """Return why a source package is not for the catalogue, whoever may need it, or None."""
    if tables.modules.fullmatch(source.name) or tables.parts.fullmatch(source.name):
        return "a module, plug-in, toolchain or Debian's own"
    if source.is_native:
        return "native to Debian"
    if source.has_kernel_module:
        return "a kernel module"
    if _NEVER_RELEASED.search(source.version):
        return "never released"
    if source.orig_bytes > HUGE_SOURCE_BYTES:
        return "huge"
    exotic = sorted(filter(tables.build_depends.fullmatch, source.build_depends))
    return f"built with {exotic[0]}" if exotic else None


def is_wanted(entry: Entry, standards: tuple[int, ...]) -> bool:
    """Tell whether an entry is needed by enough projects for its kind, and looked after if they are few."""
    if "gui" in entry.tags:
        kind = "gui"
    elif entry.lang in MINIMUM_SCORE:
        kind = entry.lang
    elif entry.group == "games":
        kind = "game"
    else:
        kind = "library" if entry.group == "libs" else "program"
    if entry.score < MINIMUM_SCORE["game"] and standards < NEGLECTED_BELOW:
        return False
    return entry.score >= MINIMUM_SCORE[kind]


def plan_entry(source: Source, compiled: Sequence[Binary], score: int, tables: Tables) -> Entry | Skipped:
    """Return the catalogue's entry for a source package, or why there is none.

    ``compiled`` are its binary packages with programs or libraries, the one that stands for it first.
    """
    is_known = source.name in tables.known
    obstacle = None if is_known else find_obstacle(source, tables)
    url = derive_url(source, tables.urls, tables.gnu)
    if not compiled:
        return Skipped(source=source.name, score=score, reason="nothing compiled for riscv64")
    if obstacle is not None:
        return Skipped(source=source.name, score=score, reason=obstacle)
    if url is None:
        return Skipped(source=source.name, score=score, reason="no repository known")
    main = compiled[0]
    lang = tables.languages.get(source.name) or decide_language(source.build_depends, main)
    entry = Entry(
        name=derive_package_name(url),
        url=url,
        source=source.name,
        lang=lang,
        group=_GROUPS.get(main.section, main.section),
        tags=decide_tags(source, main, lang, sum(binary.installed_bytes for binary in compiled)),
        score=score,
    )
    if not is_known and not is_wanted(entry, source.standards):
        return Skipped(source=source.name, score=score, reason="few projects need it")
    return entry


def count_scores(
    sources: Iterable[Source], binaries: Iterable[Binary]
) -> tuple[dict[str, int], dict[str, int]]:
    """Return how many other projects need each source package and each binary package, to build or to run.

    Recommendations count. The packages of one project count once, and not at all for each other: a desktop's
    libraries are not popular for being many.
    """
    project = {source.name: derive_project(source) for source in sources}
    owner = {binary.name: binary.source for binary in binaries}
    needs = [(binary.source, binary.depends | binary.uses) for binary in binaries]
    needs += [(source.name, source.build_depends) for source in sources]
    of_source: defaultdict[str, set[str]] = defaultdict(set)
    of_binary: defaultdict[str, set[str]] = defaultdict(set)
    for needing, names in needs:
        needing_project = project.get(needing, needing)
        for name in names & owner.keys():
            if project.get(owner[name], owner[name]) != needing_project:
                of_source[owner[name]].add(needing_project)
                of_binary[name].add(needing_project)
    return {name: len(by) for name, by in of_source.items()}, {
        name: len(by) for name, by in of_binary.items()
    }


def plan_catalogue(
    sources: Iterable[Source], binaries: Iterable[Binary], tables: Tables
) -> tuple[tuple[Entry, ...], tuple[Skipped, ...]]:
    """Return the entries in the order of their names, and what was left out."""
    of_source, of_binary = count_scores(sources, binaries)
    compiled: defaultdict[str, list[Binary]] = defaultdict(list)
    for binary in binaries:
        if is_compiled(binary, tables):
            compiled[binary.source].append(binary)
    planned = [
        plan_entry(
            source,
            rank_binaries(source.name, compiled[source.name], of_binary),
            of_source.get(source.name, 0),
            tables,
        )
        for source in sources
    ]
    entries = choose_entries(found for found in planned if isinstance(found, Entry))
    return entries, tuple(found for found in planned if isinstance(found, Skipped))


def choose_entries(planned: Iterable[Entry]) -> tuple[Entry, ...]:
    """Return one entry per repository, with the names told apart, in the order of their names.

    Of several packages from one repository the most needed stays. Of several repositories with one name, the
    one that Debian calls by it has it, else the most needed one; the others take Debian's name, or are left
    out if that is taken too.
    """
    chosen: dict[str, Entry] = {}
    repositories: set[str] = set()
    for entry in sorted(planned, key=lambda entry: (entry.name != entry.source, -entry.score, entry.source)):
        repository = re.sub(r"(?:\.git)?/?$", "", entry.url.lower())
        name = entry.source if entry.name in chosen else entry.name
        if repository not in repositories and name not in chosen:
            repositories.add(repository)
            chosen[name] = dataclasses.replace(entry, name=name)
    return tuple(chosen[name] for name in sorted(chosen))


def format_catalogue(entries: Iterable[Entry]) -> str:
    """Return the package list's text: one package per line, in the order given."""
    lines = ",\n".join(
        "    "
        + json.dumps({
            "name": entry.name,
            "url": entry.url,
            "mirrors": [f"deb:{entry.source}"],
            "lang": entry.lang,
            "group": entry.group,
            "tags": list(entry.tags),
        })
        for entry in entries
    )
    head = f'  "$schema_version": 1,\n  "defaults": {json.dumps(DEFAULTS)},\n'
    return f'{{\n{head}  "packages": [\n{lines}\n  ]\n}}\n'


def format_report(entries: Iterable[Entry], skipped: Iterable[Skipped]) -> str:
    """Return how the entries spread over languages, groups, tags and hosts, and why others were left out."""
    entries = tuple(entries)
    rows = {
        "languages": Counter(entry.lang for entry in entries),
        "groups": Counter(entry.group for entry in entries),
        "tags": Counter(tag for entry in entries for tag in entry.tags or ("no tag",)),
        "hosts": Counter(urlsplit(entry.url).hostname or "" for entry in entries),
        "left out": Counter(
            re.sub(r"^built with .*", "another toolchain", found.reason) for found in skipped
        ),
    }
    text = f"{len(entries)} packages\n"
    for title, counts in rows.items():
        ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        text += f"{title}: " + ", ".join(f"{name} {count}" for name, count in ordered) + "\n"
    return text


def read_tables(path: Path) -> Tables:
    """Read ``catalogue.toml``."""
    raw = tomllib.loads(path.read_text("utf-8"))
    excluded = raw["excluded"]
    return Tables(
        sections=frozenset(excluded["sections"]),
        modules=re.compile("|".join(excluded["modules"])),
        parts=re.compile("|".join(excluded["parts"])),
        build_depends=re.compile("|".join(excluded["build_depends"])),
        known=frozenset(raw["known"]["sources"]) | raw["urls"].keys() | raw["gnu"].keys(),
        urls=raw["urls"],
        gnu=raw["gnu"],
        languages=raw["languages"],
    )


def main(argv: list[str]) -> int:
    """Write the catalogue; returns 1 after a one-line message when that is impossible."""
    parser = argparse.ArgumentParser(description="Write packages/full.json from Debian's package metadata.")
    parser.add_argument("--cache", type=Path, required=True, help="directory that keeps Debian's indexes")
    parser.add_argument("--refresh", action="store_true", help="fetch the indexes again")
    parser.add_argument("--suite", default="trixie", help="Debian suite (default: %(default)s)")
    parser.add_argument("--output", type=Path, default=ROOT / "packages" / "full.json", help="file to write")
    arguments = parser.parse_args(argv)
    try:
        indexes = fetch_indexes(arguments.cache, arguments.suite, refresh=arguments.refresh, say=print)
    except CatalogueError as error:
        print(f"catalogue: error: {error}", file=sys.stderr)
        return 1
    tables = read_tables(TABLES)
    sources, binaries = read_indexes(*indexes)
    entries, skipped = plan_catalogue(sources, binaries, tables)
    text = format_catalogue(entries)
    parse_package_list(text, str(arguments.output))
    arguments.output.write_text(text, "utf-8")
    print(format_report(entries, skipped), end="")
    missing = sorted(tables.known - {entry.source for entry in entries})
    if missing:
        print(f"in catalogue.toml but not in the catalogue: {', '.join(missing)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
