"""Debian's package indexes as values: what the catalogue asks of a Sources and a Packages index.

The parsers are pure. :func:`fetch_indexes` lets apt bring the indexes, with its own checks of their
signatures, from the Debian archive that this machine's apt already uses; the machine's own lists stay as they
are.
"""

import re
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

__all__ = [
    "ARCHITECTURE",
    "Binary",
    "CatalogueError",
    "Source",
    "fetch_indexes",
    "parse_binary",
    "parse_relations",
    "parse_source",
    "parse_stanzas",
    "read_indexes",
]

ARCHITECTURE: Final = "riscv64"

_KEYRING: Final = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_BUILT_USING: Final = ("Built-Using", "Static-Built-Using", "X-Cargo-Built-Using")
_FIELDS: Final = frozenset({
    *_BUILT_USING,
    *("Architecture", "Binary", "Build-Depends", "Build-Depends-Arch", "Checksums-Sha256", "Depends"),
    *(
        "Extra-Source-Only",
        "Format",
        "Go-Import-Path",
        "Homepage",
        "Installed-Size",
        "Package",
        "Pre-Depends",
    ),
    *("Recommends", "Section", "Source", "Standards-Version", "Suggests", "Tag"),
})
_NAME: Final = re.compile(r"\s*([a-z0-9][a-z0-9+.-]*)")
_FOR_TESTS_OR_MANUALS: Final = re.compile(r"<[^>]*!no(?:check|doc)\b")
_TARBALL: Final = re.compile(r"[^_]+_(?P<version>[^_]+)\.orig\.tar\.(?P<suffix>[a-z0-9]+)")
_OUR_WILDCARDS: Final = frozenset({
    ARCHITECTURE,
    f"linux-{ARCHITECTURE}",
    f"any-{ARCHITECTURE}",
    "any",
    "linux-any",
})


class CatalogueError(Exception):
    """The catalogue cannot be made; the text is one line for the person at the terminal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Binary:
    """One riscv64 binary package, or one for all architectures.

    ``depends`` are the packages that it cannot do without, ``uses`` those that it recommends or suggests.
    ``modules`` counts the source packages that are statically linked into it. ``is_python_module`` says that
    it works with one version of Python only.
    """

    name: str
    source: str
    section: str
    depends: frozenset[str]
    uses: frozenset[str]
    tags: frozenset[str]
    modules: int
    is_python_module: bool
    installed_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One source package.

    ``version``, ``suffix`` ("xz") and ``is_signed`` (by upstream) are those of its main upstream tarball;
    ``orig_bytes`` is the compressed size of all of them. ``standards`` is the version of Debian's policy that
    the package follows, which tells when somebody last looked after it.
    """

    name: str
    version: str
    suffix: str
    is_signed: bool
    is_native: bool
    has_kernel_module: bool
    orig_bytes: int
    homepage: str
    import_path: str
    build_depends: frozenset[str]
    standards: tuple[int, ...]


def parse_stanzas(lines: Iterable[str]) -> Iterator[dict[str, str]]:
    """Yield the stanzas of an index with the fields that matter here; continued values keep line ends."""
    stanza: dict[str, str] = {}
    key = ""
    for line in lines:
        if line.startswith((" ", "\t")):
            if key in stanza:
                stanza[key] += "\n" + line.strip()
            continue
        key, _, value = line.partition(":")
        if key in _FIELDS:
            stanza[key] = value.strip()
        elif not line.strip() and stanza:
            yield stanza
            stanza = {}
    if stanza:
        yield stanza


def parse_relations(*fields: str) -> frozenset[str]:
    """Return the packages named in relation fields, but those for other architectures, tests, manuals."""
    named: set[str] = set()
    for relation in re.split(r"[,|]", ",".join(fields)):
        name = _NAME.match(relation)
        architectures = re.search(r"\[([^]]*)\]", relation)
        is_ours = architectures is None or _is_ours(architectures[1].split())
        if name is not None and is_ours and not _FOR_TESTS_OR_MANUALS.search(relation):
            named.add(name[1])
    return frozenset(named)


def parse_binary(stanza: Mapping[str, str]) -> Binary:
    """Return the binary package of a stanza of a Packages index."""
    built_using = (stanza.get(key, "") for key in _BUILT_USING)
    is_ours = stanza.get("Architecture") == ARCHITECTURE
    return Binary(
        name=stanza["Package"],
        source=stanza.get("Source", stanza["Package"]).split()[0],
        section=stanza.get("Section", "misc"),
        depends=parse_relations(stanza.get("Depends", ""), stanza.get("Pre-Depends", "")),
        uses=parse_relations(stanza.get("Recommends", ""), stanza.get("Suggests", "")),
        tags=frozenset(stanza.get("Tag", "").replace(",", " ").split()),
        modules=len(parse_relations(*built_using)) if is_ours else 0,
        is_python_module="python3 (<<" in stanza.get("Depends", ""),
        installed_bytes=int(stanza.get("Installed-Size", "0")) * 1024,
    )


def parse_source(stanza: Mapping[str, str]) -> Source:
    """Return the source package of a stanza of a Sources index."""
    files = [line.split() for line in stanza.get("Checksums-Sha256", "").splitlines() if line]
    upstream = {name: int(size) for _, size, name in files if ".orig" in name}
    tarballs = {name: size for name, size in upstream.items() if not name.endswith((".asc", ".sig"))}
    main = next((found for name in tarballs if (found := _TARBALL.fullmatch(name))), None)
    standards = re.findall(r"\d+", stanza.get("Standards-Version", ""))
    return Source(
        name=stanza["Package"],
        version=main["version"] if main else "",
        suffix=main["suffix"] if main else "",
        is_signed=main is not None and f"{main[0]}.asc" in upstream,
        is_native="native" in stanza.get("Format", "") or not tarballs,
        has_kernel_module=any(name.strip().endswith("-dkms") for name in stanza.get("Binary", "").split(",")),
        orig_bytes=sum(tarballs.values()),
        homepage=stanza.get("Homepage", ""),
        import_path=stanza.get("Go-Import-Path", "").split(",")[0].strip(),
        build_depends=parse_relations(stanza.get("Build-Depends", ""), stanza.get("Build-Depends-Arch", "")),
        standards=tuple(int(number) for number in standards),
    )


def read_indexes(sources_file: Path, packages_file: Path) -> tuple[list[Source], list[Binary]]:
    """Read a Sources and a riscv64 Packages index, uncompressed; of several versions the last counts."""
    sources: dict[str, Source] = {}
    with sources_file.open(encoding="utf-8") as lines:
        for stanza in parse_stanzas(lines):
            if stanza.get("Extra-Source-Only") != "yes":
                sources[stanza["Package"]] = parse_source(stanza)
    with packages_file.open(encoding="utf-8") as lines:
        binaries = {stanza["Package"]: parse_binary(stanza) for stanza in parse_stanzas(lines)}
    return list(sources.values()), list(binaries.values())


def fetch_indexes(cache: Path, suite: str, *, refresh: bool, say: Callable[[str], None]) -> tuple[Path, Path]:
    """Return the suite's Sources and riscv64 Packages index, from ``cache`` unless absent or ``refresh``.

    Raises CatalogueError when apt has no Debian archive or cannot bring them.
    """
    lists = cache.resolve() / "lists"
    options = [
        f"Dir::Etc::sourcelist={cache.resolve() / 'debian.sources'}",
        "Dir::Etc::sourceparts=/dev/null",
        f"Dir::State={cache.resolve()}",
        f"Dir::State::lists={lists}",
        f"Dir::Cache={cache.resolve() / 'apt'}",
        f"APT::Architecture={ARCHITECTURE}",
        f"APT::Architectures={ARCHITECTURE}",
        "Acquire::Languages=none",
        "Acquire::GzipIndexes=false",
        "APT::Sandbox::User=",
    ]
    apt = ["apt-get", *(f"--option={option}" for option in options)]
    found = _find_indexes(lists, suite)
    if found is None or refresh:
        (lists / "partial").mkdir(parents=True, exist_ok=True)
        (cache / "debian.sources").write_text(format_apt_sources(_find_archive(), suite), "utf-8")
        say(f"apt-get update: Sources and {ARCHITECTURE} Packages of {suite}")
        _run([*apt, "update"])
        found = _find_indexes(lists, suite)
    if found is None:
        raise CatalogueError(f"apt left no index in {lists}; run again with --refresh and read what apt says")
    return found


def format_apt_sources(archive: str, suite: str) -> str:
    """Return apt's own description of where to fetch a suite's indexes."""
    signed_by = f"Signed-By: {_KEYRING}\n" if _KEYRING.exists() else ""
    return (
        f"Types: deb deb-src\nURIs: {archive}\nSuites: {suite}\nComponents: main\n"
        f"Architectures: {ARCHITECTURE}\n{signed_by}"
    )


def _find_archive() -> str:
    listing = _run(["apt-get", "indextargets", "--format", "$(ORIGIN)|$(LABEL)|$(REPO_URI)"])
    archives = [line.split("|")[2] for line in listing.splitlines() if line.startswith("Debian|Debian|")]
    if not archives:
        raise CatalogueError(
            "apt knows no Debian archive on this machine (apt-get indextargets shows none); "
            "run 'apt-get update' on a Debian machine or in a Debian container and try again"
        )
    return archives[0]


def _find_indexes(lists: Path, suite: str) -> tuple[Path, Path] | None:
    sources = sorted(lists.glob(f"*_dists_{suite}_main_source_Sources"))
    packages = sorted(lists.glob(f"*_dists_{suite}_main_binary-{ARCHITECTURE}_Packages"))
    return (sources[-1], packages[-1]) if sources and packages else None


def _run(argv: list[str]) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise CatalogueError(f"{argv[0]} {argv[-1]} failed: {last}")
    return done.stdout


def _is_ours(architectures: list[str]) -> bool:
    if architectures and architectures[0].startswith("!"):
        return _OUR_WILDCARDS.isdisjoint(word[1:] for word in architectures)
    return not _OUR_WILDCARDS.isdisjoint(architectures)
