"""Which files of a tree are products for riscv64, and which only look like ones.

Reads every regular file's first bytes, never through a symlink. What was in the tree before the build proves
nothing, whole or stripped or filed into another archive, nor do the probes that build systems compile for
themselves. The bytes that are read are bounded; what of the source could not be read is counted.
"""

import hashlib
import io
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO

from pytest_atesor.porter.archive import AR_MAGIC, THIN_MAGIC, iter_members
from pytest_atesor.porter.elf import ELF_MAGIC, ElfFacts, ElfType, digest_code, read_elf
from pytest_atesor.porter.tree import Tree, open_inside

__all__ = ["Artifact", "Before", "Scan", "digest_natives", "scan_tree", "set_aside"]

_PROBES = re.compile(
    r"(^|/)(CMakeFiles|CMakeScripts|meson-private|meson-info|meson-logs|autom4te\.cache|\.git|\.fingerprint"
    r"|node_modules|\.deps|_deps|a\.out\.dSYM)/"
    r"|(^|/)target/([^/]+/)?(debug|release)/(build/|deps/|incremental/|examples/[^/]*-[0-9a-f]{16}(/|$))"
)
_CONFTEST = re.compile(r"(?P<place>(^|.*/))conftest[^/]*(/|$)")
_SURE_CONFTEST = re.compile(r"(^|/)conftest(\.[^/]*)?(/|$)")
_CONFIGURES = ("configure", "config.log")
_TESTS = re.compile(
    r"(^|/)(tests?|testing|unit_?tests?|testsuite|t|examples?|samples?|benchmarks?|bench|fuzz(ing)?|demos?)/|(^|[/_-])tests?([._-][^/]*)?$",
    re.IGNORECASE,
)
_BUILD = re.compile(r"build/[^/]+/")
_STAGED_PROGRAM = re.compile(r"stage/(.+/)?s?bin/[^/]+$")
_MOST_ARTIFACTS = 2_000
_MOST_PARSED_MEMBERS = 5_000
_LARGEST = 2 * 1024**3
_MOST_BYTES = 8 * 1024**3  # in one pass over a tree, sparse files included


@dataclass(frozen=True, slots=True, kw_only=True)
class Before:
    """What was native in a tree before the build.

    ``files`` are the SHA-256 of ELF files and archives, ``code`` those of machine code in riscv64 ones and
    in archives' members. ``gaps`` counts what could not be looked at.
    """

    files: frozenset[str] = frozenset()
    code: frozenset[str] = frozenset()
    gaps: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """One native file.

    ``type`` is an ElfType's value or "static archive"; ``members`` counts an archive's riscv64 members.
    """

    path: str
    size_bytes: int
    type: str
    sha256: str
    facts: ElfFacts
    members: int = 0
    is_test: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """What a scan found. ``products`` are proof; the other lists say why something else is none.

    ``broken`` start like native files, of the ``unreadable`` not even the first bytes are known.
    ``gaps`` counts what of the source was not looked at before the build: anything may have been there.
    ``root`` is the workspace, or its copy, in which the host reads them.
    """

    products: tuple[Artifact, ...]
    objects: int = 0
    prebuilt: tuple[str, ...] = ()
    packaged: tuple[str, ...] = ()
    foreign: tuple[tuple[str, str], ...] = ()
    empty: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()
    unreadable: tuple[str, ...] = ()
    gaps: int = 0
    root: Path = Path()


def digest_natives(tree: Tree, most_bytes: int = _MOST_BYTES) -> Before:
    """Return what is native in ``tree``, as it is before anything is built."""
    reader = _Reader(tree, most_bytes)
    files: set[str] = set()
    code: set[str] = set()
    for name, digest in reader.natives():
        files.add(digest)
        try:
            with open_inside(tree.root, name) as handle, os.fdopen(os.dup(handle), "rb") as stream:
                code.update(_code_digests(stream))
        except OSError:
            reader.unread.append(name)
    return Before(
        files=frozenset(files), code=frozenset(code), gaps=tree.cut + len(reader.unread) + len(reader.unknown)
    )


def scan_tree(tree: Tree, before: Before) -> Scan:
    """Return the native files of ``tree``, a workspace, apart from those that were there ``before``.

    What lies below ``build/NAME/`` is the package's tree, what lies below ``stage/`` was installed.
    """
    found = _Findings(before)
    reader = _Reader(tree, _MOST_BYTES)
    for name, digest in reader.natives():
        if _is_probe(name, tree):
            continue
        if digest in before.files:
            found.prebuilt.append(name)
            continue
        try:
            with open_inside(tree.root, name) as handle, os.fdopen(os.dup(handle), "rb") as stream:
                found.add(name, digest, stream)
        except OSError:  # something that the build has left running took it away
            found.broken.append(name)
        if len(found.products) >= _MOST_ARTIFACTS:
            break
    return Scan(
        products=tuple(found.products),
        objects=found.objects,
        prebuilt=tuple(found.prebuilt),
        foreign=tuple(found.foreign),
        empty=tuple(found.empty),
        broken=(*found.broken, *(() if before.gaps else reader.unread)),
        unreadable=() if before.gaps else tuple(reader.unknown),
        gaps=before.gaps,
        root=tree.root,
    )


def set_aside(scan: Scan, packaged: frozenset[str]) -> Scan:
    """Return ``scan`` without the products at the paths ``packaged``: copies of the sandbox's own files."""
    return replace(
        scan,
        products=tuple(one for one in scan.products if one.path not in packaged),
        packaged=tuple(sorted(packaged)),
    )


class _Findings:
    """Collects what the files turn out to be."""

    def __init__(self, before: Before) -> None:
        self._before = before
        self.products: list[Artifact] = []
        self.prebuilt: list[str] = []
        self.foreign: list[tuple[str, str]] = []
        self.empty: list[str] = []
        self.broken: list[str] = []
        self.objects = 0

    def add(self, name: str, digest: str, stream: BinaryIO) -> None:
        """File one native file under what it is."""
        size = os.fstat(stream.fileno()).st_size
        if stream.read(4) == ELF_MAGIC:
            stream.seek(0)
            facts = read_elf(stream)
            if facts is not None and facts.is_riscv64 and self._is_old(stream):
                self.prebuilt.append(name)
            else:
                self._add_elf(name, digest, size, facts)
        else:
            self._add_archive(name, digest, size, stream)

    def _is_old(self, stream: BinaryIO) -> bool:
        """Say whether the machine code was there before: a file that was stripped since has other bytes."""
        return bool(self._before.code) and digest_code(stream) in self._before.code

    def _add_elf(self, name: str, digest: str, size: int, facts: ElfFacts | None) -> None:
        if facts is None:
            self.broken.append(name)
        elif not facts.is_riscv64:
            self.foreign.append((name, facts.machine))
        elif facts.type in {ElfType.OBJECT, ElfType.OTHER}:
            self.objects += 1
        elif not facts.has_content:
            self.empty.append(name)
        else:
            self.products.append(_artifact(name, digest, size, facts.type.value, facts))

    def _add_archive(self, name: str, digest: str, size: int, stream: BinaryIO) -> None:
        first: ElfFacts | None = None
        count = foreign = old = 0
        machine = ""
        for number, member in enumerate(iter_members(stream)):
            if number >= _MOST_PARSED_MEMBERS:
                break
            content = member.read(stream)
            facts = read_elf(io.BytesIO(content), detailed=False) if content.startswith(ELF_MAGIC) else None
            if facts is None or not facts.has_content:
                continue
            if facts.is_riscv64 and self._is_old(io.BytesIO(content)):
                old += 1
            elif facts.is_riscv64:
                first, count = first or facts, count + 1
            else:
                machine, foreign = facts.machine, foreign + 1
        if first is not None:
            self.products.append(_artifact(name, digest, size, "static archive", first, count))
        elif foreign:
            self.foreign.append((name, machine))
        elif old:
            self.prebuilt.append(name)
        else:
            self.empty.append(name)


def _artifact(name: str, digest: str, size: int, kind: str, facts: ElfFacts, members: int = 0) -> Artifact:
    return Artifact(
        path=name,
        size_bytes=size,
        type=kind,
        sha256=digest,
        facts=facts,
        members=members,
        is_test=_is_test(name),
    )


def _is_probe(name: str, tree: Tree) -> bool:
    """Say whether a build system made the file for itself; of what was installed nothing is."""
    if name.startswith("stage/"):
        return False
    own = _within_package(name)
    if _PROBES.search(own) or (_SURE_CONFTEST.search(own) and not name.startswith("build/conftest/")):
        return True
    conftest = _CONFTEST.match(own)
    if conftest is None:
        return False
    place = name.removesuffix(own) + conftest["place"]
    return tree.has(*(place + one for one in _CONFIGURES))


def _is_test(name: str) -> bool:
    if _STAGED_PROGRAM.match(name):
        return False  # whatever it is called, it was installed to be run
    return bool(_TESTS.search(_within_package(name)))


def _within_package(name: str) -> str:
    """Return a path below ``build/NAME/`` without these two: the package's own name tells nothing."""
    found = _BUILD.match(name)
    return name[found.end() :] if found else name


def _code_digests(stream: BinaryIO) -> Iterator[str]:
    """Yield the digests of riscv64 machine code in an ELF file or in an archive's members."""
    if stream.read(4) == ELF_MAGIC:
        yield from _code_of(stream)
        return
    for number, member in enumerate(iter_members(stream)):
        if number >= _MOST_PARSED_MEMBERS:
            break
        content = member.read(stream)
        if content.startswith(ELF_MAGIC):
            yield from _code_of(io.BytesIO(content))


def _code_of(stream: BinaryIO) -> Iterator[str]:
    stream.seek(0)
    facts = read_elf(stream, detailed=False)
    digest = digest_code(stream) if facts is not None and facts.is_riscv64 else ""
    if digest:
        yield digest


@dataclass(slots=True)
class _Reader:
    """One pass over a tree's native files within a number of bytes.

    Lists the native files that it did not read, and those that may be anything as they cannot be opened.
    """

    tree: Tree
    left_bytes: int
    unread: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)

    def natives(self) -> Iterator[tuple[str, str]]:
        """Yield (path, SHA-256) of each file that starts like an ELF file or an archive."""
        for name, entry in self.tree.files.items():
            if entry.size_bytes < len(AR_MAGIC):
                continue
            is_native = False
            try:
                with open_inside(self.tree.root, name) as handle:
                    head = os.pread(handle, len(AR_MAGIC), 0)
                    if not (head.startswith(ELF_MAGIC) or head in {AR_MAGIC, THIN_MAGIC}):
                        continue
                    is_native = True
                    size = os.fstat(handle).st_size
                    if size > min(self.left_bytes, _LARGEST):
                        self.unread.append(name)
                        continue
                    self.left_bytes -= size
                    with os.fdopen(os.dup(handle), "rb") as stream:
                        yield name, hashlib.file_digest(stream, "sha256").hexdigest()
            except OSError:
                (self.unread if is_native else self.unknown).append(name)
