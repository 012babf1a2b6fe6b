#!/usr/bin/env python3
"""Write packages/full.json, the catalogue, from Debian's own package metadata.

    python tools/catalogue.py --cache DIR [--refresh] [--output packages/full.json] [--report]

Three questions are asked of the suite's Sources index and its riscv64 Packages index, and of nothing else: is it an
upstream program or library in C, C++, Go or Rust that Debian builds for riscv64; where is its repository; how many
other packages need it. The answers are rules, in this file, and tables, in ``catalogue.toml``. The same metadata
gives the same file, byte by byte. No package is downloaded or built.

apt fetches the two indexes, with its own checks of their signatures, from the Debian archive that this machine's apt
already uses; the cache directory keeps them. Run it with the project's Python: the code that reads the list checks it.
"""

import argparse
import dataclasses
import json
import re
import subprocess
import sys
import tomllib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pytest_atesor.core.names import derive_package_name
from pytest_atesor.core.package_list import parse_package_list

ROOT: Final = Path(__file__).resolve().parent.parent
TABLES: Final = Path(__file__).with_suffix(".toml")
ARCHITECTURE: Final = "riscv64"
KEYRING: Final = Path("/usr/share/keyrings/debian-archive-keyring.gpg")

DEFAULTS: Final = {"max_attempts": 5, "timeout_seconds": 2400}
HUGE_SOURCE_BYTES: Final = 40_000_000
"""Compressed upstream source above which a package is left out: its build does not end within the list's timeout."""
SLOW_SOURCE_BYTES: Final = {"c": 5_000_000, "c++": 2_500_000, "go": 4_000_000, "rust": 4_000_000}
"""Compressed upstream source from which a package is tagged ``slow``, by language."""
SLOW_MODULES: Final = {"go": 100, "rust": 150}
"""Statically linked modules or crates, which are compiled too, from which it is tagged ``slow``."""
MINIMUM_SCORE: Final = {"library": 12, "program": 2, "game": 5, "gui": 8, "go": 0, "rust": 0}
"""How many other source packages must need one of its kind, so that people may want it on riscv64."""

_STANZA_KEYS: Final = frozenset(
    "Package Source Version Format Architecture Section Homepage Go-Import-Path Extra-Source-Only Tag Checksums-Sha256 "
    "Build-Depends Build-Depends-Arch Depends Pre-Depends Recommends Suggests Built-Using Static-Built-Using "
    "X-Cargo-Built-Using".split()
)
_RELATION_NAME: Final = re.compile(r"\s*([a-z0-9][a-z0-9+.-]*)")
_GUI_LIBRARY: Final = re.compile(
    r"lib(?:gtk|adwaita|qt[56]|kf[56]|x11|xcb|wayland|fltk|wxgtk|wxbase|sdl|allegro|glfw|gl1|glx|opengl|glut|xaw|xm|irrlicht|"
    r"sfml|webkit|ogre|vte|imlib2|fox|elementary|efl)\S*|freeglut\S*"
)
_GUI_SECTIONS: Final = frozenset({"gnome", "kde", "x11", "xfce"})

# Homepage without its scheme -> clone URL. Each pattern stands for hosting whose addresses follow from one another.
_REWRITES: Final = tuple(
    (re.compile(pattern), template)
    for pattern, template in (
        (r"github\.com/([\w.-]+)/([\w.-]+?)(?:\.git)?(?:/(?:releases|wiki|issues)?)?", r"https://github.com/\1/\2"),
        (r"codeberg\.org/([\w.-]+)/([\w.-]+?)(?:\.git)?/?", r"https://codeberg.org/\1/\2"),
        (r"([\w-]+)\.github\.io/([\w.-]+)(?:/.*)?", r"https://github.com/\1/\2"),
        (r"([\w-]+)\.gitlab\.io/([\w.-]+)(?:/.*)?", r"https://gitlab.com/\1/\2.git"),
        (r"([\w-]+)\.codeberg\.page/([\w.-]+)(?:/.*)?", r"https://codeberg.org/\1/\2"),
        (
            r"((?:gitlab\.(?:com|[\w-]+\.[\w.-]+)|invent\.kde\.org|code\.videolan\.org|framagit\.org|0xacab\.org)"
            r"(?:/(?!-)[\w.+-]+){2,4}?)(?:\.git)?(?:/(?:-/.*)?)?",
            r"https://\1.git",
        ),
        (r"git\.sr\.ht/(~[\w.-]+)/([\w.-]+)/?", r"https://git.sr.ht/\1/\2"),
        (r"pagure\.io/([\w.-]+)/?", r"https://pagure.io/\1.git"),
        (r"git\.kernel\.org/(?:cgit|pub/scm)/([\w./-]+?\.git)(?:/.*)?", r"https://git.kernel.org/pub/scm/\1"),
        (r"([\w-]+)\.googlesource\.com/([\w./-]+?)/?", r"https://\1.googlesource.com/\2"),
        (r"(?:www\.)?netfilter\.org/projects/([\w-]+)(?:/.*)?", r"https://git.netfilter.org/\1"),
        (r"developers\.yubico\.com/([\w-]+)/?", r"https://github.com/Yubico/\1"),
        (r"drobilla\.net/software/([\w-]+?)(?:\.html|/)?", r"https://gitlab.com/drobilla/\1.git"),
        (r"skarnet\.org/software/([\w-]+)/?", r"https://github.com/skarnet/\1"),
        (r"docs\.xfce\.org/((?:apps|xfce|panel-plugins)/[\w-]+)(?:/.*)?", r"https://gitlab.xfce.org/\1.git"),
    )
)
_IMPORTS: Final = tuple(
    (re.compile(pattern), template)
    for pattern, template in (
        (r"(github\.com|codeberg\.org)/([\w.-]+)/([\w.-]+)(?:/.*)?", r"https://\1/\2/\3"),
        (r"gitlab\.com/([\w.-]+)/([\w.-]+)(?:/v\d+)?", r"https://gitlab.com/\1/\2.git"),
        (r"git\.sr\.ht/(~[\w.-]+)/([\w.-]+)(?:/.*)?", r"https://git.sr.ht/\1/\2"),
        (r"golang\.org/x/([\w-]+)", r"https://go.googlesource.com/\1"),
        (r"k8s\.io/([\w-]+)", r"https://github.com/kubernetes/\1"),
    )
)
_NOT_UPSTREAM: Final = re.compile(
    r"https://(?:salsa\.debian\.org|android\.googlesource\.com|chromium\.googlesource\.com)/.*"
    r"|https://github\.com/(?:orgs|features|debian[\w-]*)/.*|.*\.github\.io(?:\.git)?",
    re.IGNORECASE,
)
_GNU_HOMEPAGE: Final = re.compile(r"(?:www\.)?gnu\.org/(?:software|s)/([\w-]+)(?:/.*)?")
_ORIG: Final = re.compile(r"[^_]+_(?P<version>[^_]+)\.orig(?:-[\w-]+)?\.tar\.(?P<suffix>[a-z0-9]+)")
_BUILD_SYSTEMS: Final = (
    ("go", re.compile(r"golang-any|golang-go|dh-golang|dh-sequence-golang|golang-\d\S*-go")),
    ("cargo", re.compile(r"dh-cargo|dh-sequence-cargo")),
    ("meson", re.compile(r"meson|dh-meson")),
    ("cmake", re.compile(r"cmake|dh-cmake|extra-cmake-modules")),
    ("qmake", re.compile(r"qt5-qmake|qmake6")),
    ("scons", re.compile(r"scons")),
    ("autotools", re.compile(r"autoconf|automake(?:-\S*)?|autotools-dev|dh-autoreconf|libtool|libtool-bin|autoconf-archive|gnulib")),
    ("cargo", re.compile(r"cargo")),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """What no rule can know, from ``catalogue.toml``: see there."""

    urls: Mapping[str, str]
    gnu: Mapping[str, str]
    modules: re.Pattern[str]
    parts: re.Pattern[str]
    build_depends: re.Pattern[str]
    sections: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Binary:
    """One riscv64 binary package. ``uses`` are the packages in its other relations; ``depends`` those it cannot do without."""

    name: str
    source: str
    section: str
    depends: frozenset[str]
    uses: frozenset[str]
    tags: frozenset[str]
    modules: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One source package. ``orig_bytes`` is the compressed size of its upstream tarballs, ``release`` its signed one."""

    name: str
    version: str
    is_native: bool
    homepage: str
    import_path: str
    build_depends: frozenset[str]
    orig_bytes: int
    suffix: str
    is_signed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One line of the catalogue, with what decides whether it gets in."""

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


class CatalogueError(Exception):
    """The catalogue cannot be made; the text is one line for the person at the terminal."""


# --- reading the indexes ---------------------------------------------------------------------------------------------


def parse_stanzas(lines: Iterable[str]) -> Iterator[dict[str, str]]:
    """Yield the stanzas of a Debian index, with the fields that matter here; continuation lines are kept apart by \\n."""
    stanza: dict[str, str] = {}
    key = ""
    for line in lines:
        if line[:1] in {" ", "\t"}:
            if key in stanza:
                stanza[key] += "\n" + line.strip()
            continue
        key, _, value = line.partition(":")
        if key in _STANZA_KEYS:
            stanza[key] = value.strip()
        elif not line.strip() and stanza:
            yield stanza
            stanza = {}
    if stanza:
        yield stanza


def parse_relations(*fields: str) -> frozenset[str]:
    """Return the packages named in relation fields, but those for other architectures, for tests and for manuals."""
    named: set[str] = set()
    for relation in re.split(r"[,|]", ",".join(fields)):
        name = _RELATION_NAME.match(relation)
        architectures = re.search(r"\[([^]]*)\]", relation)
        if name and not re.search(r"<!no(?:check|doc)>", relation):
            if architectures is None or _is_for_architecture(architectures[1].split()):
                named.add(name[1])
    return frozenset(named)


def parse_binary(stanza: Mapping[str, str]) -> Binary:
    """Return the binary package that a stanza of a Packages index describes."""
    modules = parse_relations(*(stanza.get(key, "") for key in ("Built-Using", "Static-Built-Using", "X-Cargo-Built-Using")))
    return Binary(
        name=stanza["Package"],
        source=stanza.get("Source", stanza["Package"]).split()[0],
        section=stanza.get("Section", "misc"),
        depends=parse_relations(stanza.get("Depends", ""), stanza.get("Pre-Depends", "")),
        uses=parse_relations(stanza.get("Recommends", ""), stanza.get("Suggests", "")),
        tags=frozenset(stanza.get("Tag", "").replace(",", " ").split()),
        modules=len(modules),
    )


def parse_source(stanza: Mapping[str, str]) -> Source:
    """Return the source package that a stanza of a Sources index describes."""
    files = [line.split() for line in stanza.get("Checksums-Sha256", "").splitlines() if line]
    tarballs = {name: int(size) for _, size, name in files if ".orig" in name and not name.endswith(".asc")}
    main = next((found for name in sorted(tarballs) if (found := _ORIG.fullmatch(name))), None)
    return Source(
        name=stanza["Package"],
        version=main["version"] if main else "",
        is_native="native" in stanza["Format"] or not tarballs,
        homepage=stanza.get("Homepage", ""),
        import_path=stanza.get("Go-Import-Path", "").split(",")[0].strip(),
        build_depends=parse_relations(stanza.get("Build-Depends", ""), stanza.get("Build-Depends-Arch", "")),
        orig_bytes=sum(tarballs.values()),
        suffix=main["suffix"] if main else "",
        is_signed=any(name.endswith(".asc") for _, _, name in files if ".orig" in name),
    )


def _is_for_architecture(words: list[str]) -> bool:
    ours = {ARCHITECTURE, f"linux-{ARCHITECTURE}", f"any-{ARCHITECTURE}", "any", "linux-any"}
    if words and words[0].startswith("!"):
        return ours.isdisjoint(word[1:] for word in words)
    return not ours.isdisjoint(words)


# --- the rules -------------------------------------------------------------------------------------------------------


def derive_url(source: Source, tables: Tables) -> str | None:
    """Return where upstream keeps its source, or None when the metadata does not say it for certain."""
    if source.name in tables.urls:
        return tables.urls[source.name]
    bare = re.sub(r"^(?:git\+)?https?://|[?#].*$", "", source.homepage)
    found = _rewrite(bare, _REWRITES) or _rewrite(source.import_path, _IMPORTS)
    if found and not _NOT_UPSTREAM.fullmatch(found):
        return found
    return _derive_gnu_release(source, bare, tables)


def _rewrite(text: str, rules: tuple[tuple[re.Pattern[str], str], ...]) -> str | None:
    return next((match.expand(to) for pattern, to in rules if (match := pattern.fullmatch(text))), None)


def _derive_gnu_release(source: Source, homepage: str, tables: Tables) -> str | None:
    """Return a GNU program's release: its repository builds only with gnulib and a set of GNU maintainers' tools.

    With upstream's signature in the source package the tarball is upstream's own file, so its name is known.
    """
    project, _, suffix = tables.gnu.get(source.name, "").partition(".tar.")
    version = re.sub(r"\+(?:dfsg|ds)\d*$", "", source.version)
    homepage_of = _GNU_HOMEPAGE.fullmatch(homepage)
    if not project and source.is_signed and homepage_of and homepage_of[1] == source.name:
        project, suffix = source.name, source.suffix
    if not project or not re.fullmatch(r"\d+(?:\.\d+)*", version):
        return None
    return f"https://ftp.gnu.org/gnu/{project}/{project}-{version}.tar.{suffix}"


def decide_build_system(build_depends: frozenset[str]) -> str | None:
    """Return the build system that a source package's build dependencies give away, or None."""
    return next(
        (name for name, pattern in _BUILD_SYSTEMS if any(pattern.fullmatch(package) for package in build_depends)), None
    )


def decide_language(build_system: str | None, main: Binary, *, needs_rust: bool) -> str:
    """Return "c", "c++", "go" or "rust": by the toolchain, else what people tagged, else what the binary links with."""
    tagged = {"implemented-in::c", "implemented-in::c++"} & main.tags
    if build_system == "go":
        return "go"
    if needs_rust and not tagged and "libstdc++6" not in main.depends:
        return "rust"
    if len(tagged) == 1:
        return next(iter(tagged)).removeprefix("implemented-in::")
    return "c++" if "libstdc++6" in main.depends else "c"


def decide_group(main: Binary) -> str:
    """Return the group of a package: the Debian section of its main binary, all libraries in one."""
    return "libs" if main.section in {"libs", "libdevel"} else main.section


def choose_main(source: Source, binaries: Iterable[Binary], scores: Mapping[str, int]) -> Binary | None:
    """Return the binary package that stands for its source: its namesake, else the most needed; None without programs.

    ``scores`` tells how often each binary package is needed.
    """
    names = {source.name, re.sub(r"^rust-|[-.\d]+$", "", source.name)}
    return min(binaries, key=lambda binary: (binary.name not in names, -scores.get(binary.name, 0), binary.name), default=None)


def is_compiled(binary: Binary, tables: Tables) -> bool:
    """Tell whether a binary package holds riscv64 programs or libraries that are no module of an interpreter."""
    module = re.compile(r"perlapi-.*|python3-(?:all|minimal)|phpapi-.*|r-api-.*|ruby\d.*|lua5.*|octave-abi.*|libgcj.*")
    return (
        ("libc6" in binary.depends or binary.modules > 0)
        and binary.section not in tables.sections
        and not tables.modules.fullmatch(binary.name)
        and not any(module.fullmatch(name) for name in binary.depends)
    )


def plan_entry(source: Source, main: Binary | None, score: int, tables: Tables) -> Entry | Skipped:
    """Return the catalogue's entry for a source package, or why there is none."""

    def skip(reason: str) -> Skipped:
        return Skipped(source=source.name, score=score, reason=reason)

    if main is None:
        return skip("nothing compiled for riscv64")
    is_known = source.name in tables.urls or source.name in tables.gnu
    reason = None if is_known else find_obstacle(source, tables)
    if reason is not None:
        return skip(reason)
    url = derive_url(source, tables)
    if url is None:
        return skip("no repository known")
    build_system = decide_build_system(source.build_depends)
    lang = decide_language(build_system, main, needs_rust="cargo" in source.build_depends)
    tags = [build_system] if build_system else []
    if main.section in _GUI_SECTIONS or any(_GUI_LIBRARY.fullmatch(name) for name in main.depends):
        tags.append("gui")
    if source.orig_bytes >= SLOW_SOURCE_BYTES[lang] or main.modules >= SLOW_MODULES.get(lang, sys.maxsize):
        tags.append("slow")
    entry = Entry(
        name=derive_package_name(url),
        url=url,
        source=source.name,
        lang=lang,
        group=decide_group(main),
        tags=tuple(tags),
        score=score,
    )
    return entry if is_known or is_wanted(entry) else skip("few packages need it")


def find_obstacle(source: Source, tables: Tables) -> str | None:
    """Return why a source package is not for the catalogue, whoever may need it, or None."""
    if tables.modules.fullmatch(source.name) or tables.parts.fullmatch(source.name):
        return "a module, plug-in, toolchain or Debian's own"
    if source.is_native:
        return "native to Debian"
    if re.search(r"[~+]?(?:git|svn|hg|bzr|cvs)(?![a-z])|^0\.0~|^20\d{6}", source.version):
        return "no releases"
    if source.orig_bytes > HUGE_SOURCE_BYTES:
        return "huge"
    exotic = sorted(name for name in source.build_depends if tables.build_depends.fullmatch(name))
    return f"built with {exotic[0]}" if exotic else None


def is_wanted(entry: Entry) -> bool:
    """Tell whether enough packages need an entry for its kind: see MINIMUM_SCORE."""
    if "gui" in entry.tags:
        kind = "gui"
    elif entry.lang in MINIMUM_SCORE:
        kind = entry.lang
    elif entry.group == "games":
        kind = "game"
    else:
        kind = "library" if entry.group == "libs" else "program"
    return entry.score >= MINIMUM_SCORE[kind]


def choose_entries(planned: Iterable[Entry]) -> tuple[Entry, ...]:
    """Return the entries in the order of their names, one per repository, with the names told apart.

    Of several packages from one repository the most needed stays. Of different repositories with one name the one
    that Debian calls by it keeps it, else the most needed; the others take Debian's name.
    """
    chosen: dict[str, Entry] = {}
    seen: set[str] = set()
    for entry in sorted(planned, key=lambda entry: (entry.name != entry.source, -entry.score, entry.source)):
        repository = re.sub(r"(?:\.git)?/?$", "", entry.url.lower())
        if repository in seen:
            continue
        name = entry.name if entry.name not in chosen else entry.source
        if name not in chosen:
            seen.add(repository)
            chosen[name] = entry if name == entry.name else _rename(entry, name)
    return tuple(chosen[name] for name in sorted(chosen))


def format_catalogue(entries: Iterable[Entry]) -> str:
    """Return the text of the package list: one package per line, in the order given."""
    lines = ",\n".join(
        "    "
        + json.dumps(
            {
                "name": entry.name,
                "url": entry.url,
                "mirrors": [f"deb:{entry.source}"],
                "lang": entry.lang,
                "group": entry.group,
                "tags": list(entry.tags),
            },
            ensure_ascii=False,
        )
        for entry in entries
    )
    return f'{{\n  "$schema_version": 1,\n  "defaults": {json.dumps(DEFAULTS)},\n  "packages": [\n{lines}\n  ]\n}}\n'


def _rename(entry: Entry, name: str) -> Entry:
    return dataclasses.replace(entry, name=name)


def count_scores(sources: Iterable[Source], binaries: Iterable[Binary]) -> tuple[dict[str, int], dict[str, int]]:
    """Return by how many other source packages each source package, and each binary package, is needed.

    To build or to run, strictly or by recommendation.
    """
    owner = {binary.name: binary.source for binary in binaries}
    by_source: defaultdict[str, set[str]] = defaultdict(set)
    by_binary: defaultdict[str, set[str]] = defaultdict(set)
    needs = [(binary.source, binary.depends | binary.uses) for binary in binaries]
    needs += [(source.name, source.build_depends) for source in sources]
    for needing, names in needs:
        for name in names:
            if owner.get(name, needing) != needing:
                by_source[owner[name]].add(needing)
                by_binary[name].add(needing)
    return (
        {name: len(needing) for name, needing in by_source.items()},
        {name: len(needing) for name, needing in by_binary.items()},
    )


def plan_catalogue(sources: list[Source], binaries: list[Binary], tables: Tables) -> list[Entry | Skipped]:
    """Return what becomes of each source package, in the order of their names."""
    of_source, of_binary = count_scores(sources, binaries)
    compiled: defaultdict[str, list[Binary]] = defaultdict(list)
    for binary in binaries:
        if is_compiled(binary, tables):
            compiled[binary.source].append(binary)
    return [
        plan_entry(source, choose_main(source, compiled[source.name], of_binary), of_source.get(source.name, 0), tables)
        for source in sorted(sources, key=lambda source: source.name)
    ]


# --- apt, files and the command line ---------------------------------------------------------------------------------


def read_tables(path: Path) -> Tables:
    """Read ``catalogue.toml``."""
    raw = tomllib.loads(path.read_text("utf-8"))
    return Tables(
        urls=raw["urls"],
        gnu=raw["gnu"],
        modules=re.compile("|".join(raw["excluded"]["modules"])),
        parts=re.compile("|".join(raw["excluded"]["parts"])),
        build_depends=re.compile("|".join(raw["excluded"]["build_depends"])),
        sections=frozenset(raw["excluded"]["sections"]),
    )


def read_metadata(index: Callable[[str], Path]) -> tuple[list[Source], list[Binary]]:
    """Read the two indexes; ``index`` gives the file for "Sources" and "Packages"."""
    sources: dict[str, Source] = {}
    with index("Sources").open(encoding="utf-8") as lines:
        for stanza in parse_stanzas(lines):
            if stanza.get("Extra-Source-Only") != "yes":
                sources[stanza["Package"]] = parse_source(stanza)
    with index("Packages").open(encoding="utf-8") as lines:
        binaries = [parse_binary(stanza) for stanza in parse_stanzas(lines) if stanza["Architecture"] in {ARCHITECTURE, "all"}]
    return list(sources.values()), binaries
