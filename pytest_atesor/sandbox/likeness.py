"""Compares what two compilers made of the same sources: ELF files by their parts, archives by their members.

Pure: bytes in, lines out.
"""

import io
import struct
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, Final

from elftools.common.exceptions import ELFError
from elftools.construct.core import ConstructError
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import RISCVAttributesSection, SymbolTableSection

from pytest_atesor.sandbox.proof import Likeness

__all__ = ["compare_files"]

# Why these may differ stands in MAY_DIFFER, which the proof's file repeats.
_FREE_SECTIONS: Final = frozenset({".note.gnu.build-id", ".comment", ".symtab", ".strtab", ".shstrtab"})
_FREE_PREFIX: Final = ".debug"
_ELF: Final = b"\x7fELF"
_ARCHIVE: Final = b"!<arch>\n"
_MEMBER_BYTES: Final = 60
_HEADER: Final = ("e_type", "e_machine", "e_version", "e_entry", "e_flags")
_SEGMENT: Final = ("p_type", "p_flags", "p_offset", "p_vaddr", "p_filesz", "p_memsz", "p_align")
_SECTION: Final = ("sh_type", "sh_flags", "sh_addr", "sh_size", "sh_addralign", "sh_entsize")
_SHOWN: Final = 3
_BROKEN: Final = (
    ELFError,
    ConstructError,
    struct.error,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    AssertionError,
)


def compare_files(one: bytes, other: bytes) -> Likeness:
    """Compare two files: ELF files and ``ar`` archives part by part, anything else byte by byte."""
    if one == other:
        return Likeness()
    try:
        if one.startswith(_ELF) and other.startswith(_ELF):
            return _compare_elf(one, other)
        if one.startswith(_ARCHIVE) and other.startswith(_ARCHIVE):
            return _compare_archives(one, other)
    except _BROKEN as error:
        return Likeness((f"cannot be read ({str(error) or type(error).__name__})",))
    return Likeness((_find_first(one, other),))


def _compare_elf(one: bytes, other: bytes) -> Likeness:
    first, second = ELFFile(io.BytesIO(one)), ELFFile(io.BytesIO(other))
    parts = (_compare_header, _compare_attributes, _compare_segments, _compare_sections, _compare_symbols)
    differences = tuple(line for compare in parts for line in compare(first, second))
    allowed = _find_allowed(first, second)
    if not differences and not allowed:
        return Likeness(("the bytes between the sections differ",))
    return Likeness(differences, allowed)


def _find_allowed(first: ELFFile, second: ELFFile) -> tuple[str, ...]:
    before, after = (
        {section.name: section.data() for section in file.iter_sections() if _may_differ(section.name)}
        for file in (first, second)
    )
    names = sorted(before.keys() | after.keys())
    return tuple(name for name in names if before.get(name) != after.get(name))


def _may_differ(name: str) -> bool:
    return name in _FREE_SECTIONS or name.startswith(_FREE_PREFIX)


def _compare_header(first: ELFFile, second: ELFFile) -> Iterator[str]:
    if first.header["e_ident"] != second.header["e_ident"]:
        yield "header: the identification differs"
    for key in _HEADER:
        before, after = first.header[key], second.header[key]
        if before != after:
            yield f"header: {key} {_show(before)} against {_show(after)}"


def _compare_attributes(first: ELFFile, second: ELFFile) -> Iterator[str]:
    before, after = _read_attributes(first), _read_attributes(second)
    for tag in before.keys() | after.keys():
        if before.get(tag) != after.get(tag):
            yield f"attributes: {tag} {before.get(tag, 'absent')} against {after.get(tag, 'absent')}"


def _read_attributes(file: ELFFile) -> dict[str, str]:
    return {
        str(attribute.tag): str(attribute.value)
        for section in file.iter_sections()
        if isinstance(section, RISCVAttributesSection)
        for subsection in section.subsections
        for group in subsection.subsubsections
        for attribute in group.attributes
        if attribute.tag != "TAG_FILE"
    }


def _compare_segments(first: ELFFile, second: ELFFile) -> Iterator[str]:
    before = [tuple(segment[key] for key in _SEGMENT) for segment in first.iter_segments()]
    after = [tuple(segment[key] for key in _SEGMENT) for segment in second.iter_segments()]
    if len(before) != len(after):
        yield f"segments: {len(before)} against {len(after)}"
    for index, (mine, theirs) in enumerate(zip(before, after, strict=False)):
        for key, value, wanted in zip(_SEGMENT, mine, theirs, strict=True):
            if value != wanted:
                yield f"segment {index} ({mine[0]}): {key} {_show(value)} against {_show(wanted)}"


def _compare_sections(first: ELFFile, second: ELFFile) -> Iterator[str]:
    before, after = _read_sections(first), _read_sections(second)
    for name in (name for name in before if name not in after):
        yield f"section {name}: missing in the second"
    for name in (name for name in after if name not in before):
        yield f"section {name}: missing in the first"
    for name in (name for name in before if name in after):
        yield from _compare_section(name, before[name], after[name])


def _read_sections(file: ELFFile) -> dict[str, Any]:
    """Return the sections by name; a name that stands twice gets a number."""
    found: dict[str, Any] = {}
    for section in file.iter_sections():
        if section["sh_type"] == "SHT_NULL" or section.name.startswith(_FREE_PREFIX):
            continue
        name, number = section.name, 1
        while name in found:
            number += 1
            name = f"{section.name} {number}"
        found[name] = section
    return found


def _compare_section(name: str, mine: Any, theirs: Any) -> Iterator[str]:  # noqa: ANN401 - pyelftools has no types
    is_free = _may_differ(name)
    keys = [key for key in _SECTION if not (is_free and key in {"sh_addr", "sh_size"})]
    for key in keys:
        if mine[key] != theirs[key]:
            yield f"section {name}: {key} {_show(mine[key])} against {_show(theirs[key])}"
    if not is_free and mine["sh_size"] == theirs["sh_size"] and mine.data() != theirs.data():
        yield f"section {name}: {_find_first(mine.data(), theirs.data())}"


def _compare_symbols(first: ELFFile, second: ELFFile) -> Iterator[str]:
    before, after = _count_symbols(first), _count_symbols(second)
    yield from _list_symbols("only in the first", before - after)
    yield from _list_symbols("only in the second", after - before)


def _count_symbols(file: ELFFile) -> Counter[tuple[str, ...]]:
    names = [section.name for section in file.iter_sections()]
    symbols: Counter[tuple[str, ...]] = Counter()
    for table in file.iter_sections():
        if isinstance(table, SymbolTableSection):
            symbols.update(_describe_symbols(table, names))
    return symbols


def _describe_symbols(table: Any, names: list[str]) -> Iterable[tuple[str, ...]]:  # noqa: ANN401 - as above
    for symbol in table.iter_symbols():
        index = symbol["st_shndx"]
        section = names[index] if isinstance(index, int) and index < len(names) else str(index)
        if section.startswith(_FREE_PREFIX):
            continue
        info = symbol["st_info"]
        yield (
            symbol.name,
            f"{info['bind']} {info['type']} {symbol['st_other']['visibility']}",
            section,
            f"{symbol['st_value']:#x} {symbol['st_size']}",
            table.name,
        )


def _list_symbols(where: str, symbols: Counter[tuple[str, ...]]) -> Iterator[str]:
    listed = sorted(symbols)
    for name, kind, section, place, table in listed[:_SHOWN]:
        yield f"symbol {name or '(no name)'} of {table}: {where} ({kind} in {section}, {place})"
    if len(listed) > _SHOWN:
        yield f"symbols: {len(listed) - _SHOWN} more {where}"


def _compare_archives(one: bytes, other: bytes) -> Likeness:
    before, after = list(_read_members(one)), list(_read_members(other))
    if [name for name, _ in before] != [name for name, _ in after]:
        return Likeness((f"members: {_name(before)} against {_name(after)}",))
    compared = [
        (name, compare_files(mine, theirs)) for (name, mine), (_, theirs) in zip(before, after, strict=True)
    ]
    differences = tuple(f"{name}: {line}" for name, found in compared for line in found.differences)
    allowed = tuple(f"{name}: {part}" for name, found in compared for part in found.allowed)
    if not differences and not allowed:
        return Likeness(("the headers of the members differ",))
    return Likeness(differences, allowed)


def _read_members(archive: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield name and bytes of each member; the names of tables (``/``, ``//``) come first, as they stand."""
    at = len(_ARCHIVE)
    while at + _MEMBER_BYTES <= len(archive):
        header = archive[at : at + _MEMBER_BYTES]
        name = header[:16].decode("ascii", "replace").rstrip()
        size = int(header[48:58])
        at += _MEMBER_BYTES
        data = archive[at : at + size]
        yield name, _drop_offsets(data) if name == "/" else data
        at += size + size % 2


def _drop_offsets(index: bytes) -> bytes:
    """Return the names of an archive's symbol index: where members begin follows from their sizes."""
    count = int.from_bytes(index[:4], "big")
    return index[4 + 4 * count :]


def _name(members: Iterable[tuple[str, bytes]]) -> str:
    return " ".join(name for name, _ in members) or "none"


def _find_first(one: bytes, other: bytes) -> str:
    shared = min(len(one), len(other))
    at = next((index for index in range(shared) if one[index] != other[index]), shared)
    if len(one) != len(other):
        return f"{len(one)} bytes against {len(other)}, the same up to byte {at}"
    return f"the bytes differ from byte {at} of {len(one)} on"


def _show(value: object) -> str:
    return hex(value) if isinstance(value, int) else str(value)
