"""Which files of a tree are products for riscv64, and which only look like ones.

Reads every regular file's first bytes, never through a symlink. What was in the tree before the build (by
content) proves nothing, nor do the probes that build systems compile for themselves.
"""

import hashlib
import io
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import BinaryIO

from pytest_atesor.porter.archive import AR_MAGIC, THIN_MAGIC, iter_members
from pytest_atesor.porter.elf import ELF_MAGIC, ElfFacts, ElfType, read_elf
from pytest_atesor.porter.tree import Tree, open_inside

__all__ = ["Artifact", "Scan", "digest_natives", "scan_tree", "set_aside"]

_PROBES = re.compile(
    r"(^|/)(CMakeFiles|CMakeScripts|meson-private|meson-info|meson-logs|autom4te\.cache|\.git|\.fingerprint|incremental"
    r"|node_modules|\.deps|_deps)(/|$)|(^|/)(conftest[^/]*|a\.out\.dSYM|CompilerId[^/]*)(/|$)"
    r"|(^|/)target/([^/]+/)?(debug|release)/(build|deps|examples/[^/]*-[0-9a-f]{16})(/|$)"
)
_TESTS = re.compile(
    r"(^|/)(tests?|testing|unit_?tests?|testsuite|t|examples?|samples?|benchmarks?|bench|fuzz(ing)?|demos?)/|(^|[/_-])tests?([._-][^/]*)?$",
    re.IGNORECASE,
)
_MOST_ARTIFACTS = 2_000
_MOST_PARSED_MEMBERS = 5_000
_LARGEST = 2 * 1024**3


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
    """What a scan found. ``products`` are proof; the other lists say why something else is none."""

    products: tuple[Artifact, ...]
    objects: int = 0
    prebuilt: tuple[str, ...] = ()
    packaged: tuple[str, ...] = ()
    foreign: tuple[tuple[str, str], ...] = ()
    empty: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()


def digest_natives(tree: Tree) -> frozenset[str]:
    """Return the SHA-256 of each ELF file and archive in ``tree``, as they are before anything is built."""
    return frozenset(digest for _, digest in _natives(tree))


def scan_tree(tree: Tree, before: frozenset[str]) -> Scan:
    """Return the native files of ``tree`` apart from those whose content is in ``before``."""
    found = _Findings()
    for name, digest in _natives(tree):
        if _PROBES.search(name):
            continue
        if digest in before:
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
        broken=tuple(found.broken),
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

    def __init__(self) -> None:
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
            self._add_elf(name, digest, size, read_elf(stream))
        else:
            self._add_archive(name, digest, size, stream)

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
        count = foreign = 0
        machine = ""
        for number, member in enumerate(iter_members(stream)):
            if number >= _MOST_PARSED_MEMBERS:
                break
            content = member.read(stream)
            facts = read_elf(io.BytesIO(content), detailed=False) if content.startswith(ELF_MAGIC) else None
            if facts is None or not facts.has_content:
                continue
            if facts.is_riscv64:
                first, count = first or facts, count + 1
            else:
                machine, foreign = facts.machine, foreign + 1
        if first is not None:
            self.products.append(_artifact(name, digest, size, "static archive", first, count))
        elif foreign:
            self.foreign.append((name, machine))
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
        is_test=bool(_TESTS.search(name)),
    )


def _natives(tree: Tree) -> Iterator[tuple[str, str]]:
    """Yield (path, SHA-256) of each file that starts like an ELF file or an archive.

    Unreadable ones are skipped.
    """
    for name, entry in tree.files.items():
        if not len(AR_MAGIC) <= entry.size_bytes <= _LARGEST:
            continue
        try:
            with open_inside(tree.root, name) as handle:
                head = os.pread(handle, len(AR_MAGIC), 0)
                if not (head.startswith(ELF_MAGIC) or head in {AR_MAGIC, THIN_MAGIC}):
                    continue
                with os.fdopen(os.dup(handle), "rb") as stream:
                    yield name, hashlib.file_digest(stream, "sha256").hexdigest()
        except OSError:
            continue
