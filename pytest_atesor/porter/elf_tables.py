"""The tables of one ELF file, read from a stream that a stranger made, a bounded number of bytes at a time.

pyelftools believes the counts, offsets and string lengths that stand in them and takes 20 microseconds
over each entry: a file of a few kilobytes can keep it busy for hours. Here every read has a limit, a table
that does not lie inside the file is an error, and nothing follows a chain.
"""

import os
import struct
from collections.abc import Iterator
from typing import BinaryIO, Final, NamedTuple

__all__ = ["Layout", "Section", "Segment", "Tables", "read_tables", "split_attributes"]

PT_LOAD: Final = 1
PT_DYNAMIC: Final = 2
PT_INTERP: Final = 3
PF_X: Final = 1
SHT_SYMTAB: Final = 2
SHT_NOBITS: Final = 8
SHT_RISCV_ATTRIBUTES: Final = 0x70000003
SHF_ALLOC: Final = 2
SHF_EXECINSTR: Final = 4

_MOST_SECTIONS: Final = 20_000
_MOST_SEGMENTS: Final = 512
_MOST_NEEDED: Final = 256
_MOST_DYNAMIC_BYTES: Final = 64 * 1024
_MOST_ATTRIBUTE_BYTES: Final = 64 * 1024
_LONGEST_STRING: Final = 4096
_MOST_CODE_BYTES: Final = 2 * 1024**3
_CHUNK: Final = 1024 * 1024
_HEADER_BYTES: Final = 64  # where the sections are stands there, and strip moves them
_DT_NULL, _DT_NEEDED, _DT_STRTAB, _DT_FLAGS_1 = 0, 1, 5, 0x6FFFFFFB
_TAG_FILE, _TAG_ARCH = 1, 5


class Layout(NamedTuple):
    """Where the file header says that the tables are: offsets, entry sizes in bytes, counts."""

    bits: int
    little_endian: bool
    segments_at: int
    segment_bytes: int
    segment_count: int
    sections_at: int
    section_bytes: int
    section_count: int


class Segment(NamedTuple):
    """A program header; offsets and sizes in bytes."""

    type: int
    flags: int
    offset: int
    address: int
    file_bytes: int


class Section(NamedTuple):
    """A section header; offset and size in bytes."""

    type: int
    flags: int
    offset: int
    size: int


class Dynamic(NamedTuple):
    """What the dynamic table says."""

    needed: tuple[str, ...]
    flags_1: int


class Tables:
    """The segments and sections of ``stream``, and what they lead to."""

    def __init__(
        self, stream: BinaryIO, layout: Layout, segments: tuple[Segment, ...], sections: tuple[Section, ...]
    ) -> None:
        self._stream = stream
        self._layout = layout
        self._size = stream.seek(0, os.SEEK_END)
        self.segments = segments
        self.sections = sections

    @property
    def is_loadable(self) -> bool:
        """Whether some segment brings bytes of this file into memory."""
        return any(
            one.type == PT_LOAD and self._is_inside(one.offset, one.file_bytes) for one in self.segments
        )

    @property
    def is_runnable(self) -> bool:
        """Whether some segment brings bytes of this file into memory to be executed."""
        return any(
            one.type == PT_LOAD and one.flags & PF_X and self._is_inside(one.offset, one.file_bytes)
            for one in self.segments
        )

    @property
    def has_linkable_code(self) -> bool:
        """Whether some section has bytes in this file that a linker would put into memory to be executed."""
        return any(
            one.flags & SHF_ALLOC
            and one.flags & SHF_EXECINSTR
            and one.type != SHT_NOBITS
            and self._is_inside(one.offset, one.size)
            for one in self.sections
        )

    def read_interpreter(self) -> str:
        """Return the program interpreter, "" without one."""
        for one in self.segments:
            if one.type == PT_INTERP:
                return self._string(one.offset, one.file_bytes)
        return ""

    def read_dynamic(self) -> Dynamic:
        """Return what the first dynamic table says."""
        table = next((one for one in self.segments if one.type == PT_DYNAMIC), None)
        if table is None:
            return Dynamic((), 0)
        form = self._order() + ("QQ" if self._layout.bits == 64 else "II")  # noqa: PLR2004 - bits
        data = self._read(table.offset, min(table.file_bytes, _MOST_DYNAMIC_BYTES))
        names: list[int] = []
        strings = flags_1 = 0
        for tag, value in struct.iter_unpack(
            form, data[: len(data) // struct.calcsize(form) * struct.calcsize(form)]
        ):
            if tag == _DT_NULL:
                break
            if tag == _DT_NEEDED and len(names) < _MOST_NEEDED:
                names.append(value)
            elif tag == _DT_STRTAB:
                strings = self._offset_of(value)
            elif tag == _DT_FLAGS_1:
                flags_1 = value
        needed = tuple(self._string(strings + name, _LONGEST_STRING) for name in names) if strings else ()
        return Dynamic(needed, flags_1)

    def read_attributes(self) -> bytes:
        """Return the content of the RISC-V attributes, empty without them."""
        for one in self.sections:
            if one.type == SHT_RISCV_ATTRIBUTES:
                return self._read(one.offset, min(one.size, _MOST_ATTRIBUTE_BYTES))
        return b""

    def iter_code(self) -> Iterator[bytes]:
        """Yield the bytes to be executed: of the executable sections, without those of such segments.

        At most 2 GiB of them, whatever the tables say.
        """
        left = _MOST_CODE_BYTES
        spans = [
            (one.offset, one.size)
            for one in self.sections
            if one.flags & SHF_EXECINSTR and one.type != SHT_NOBITS and self._is_inside(one.offset, one.size)
        ] or [
            (one.offset, one.file_bytes)
            for one in self.segments
            if one.type == PT_LOAD and one.flags & PF_X and self._is_inside(one.offset, one.file_bytes)
        ]
        for offset, size in spans:
            at, end = max(offset, _HEADER_BYTES), offset + size
            while at < end and left > 0:
                chunk = self._read(at, min(_CHUNK, end - at, left))
                if not chunk:
                    return
                yield chunk
                at, left = at + len(chunk), left - len(chunk)

    def _order(self) -> str:
        return "<" if self._layout.little_endian else ">"

    def _is_inside(self, offset: int, size: int) -> bool:
        return 0 < size <= self._size - offset

    def _offset_of(self, address: int) -> int:
        for one in self.segments:
            if one.type == PT_LOAD and one.address <= address < one.address + one.file_bytes:
                return address - one.address + one.offset
        return 0

    def _string(self, offset: int, limit: int) -> str:
        return self._read(offset, min(limit, _LONGEST_STRING)).partition(b"\0")[0].decode("utf-8", "replace")

    def _read(self, offset: int, size: int) -> bytes:
        if offset >= self._size:
            return b""
        self._stream.seek(offset)
        return self._stream.read(size)


def read_tables(stream: BinaryIO, layout: Layout) -> Tables:
    """Return the tables. Raises ValueError when they are larger than any real file's or not in the file."""
    wide = layout.bits == 64  # noqa: PLR2004 - bits
    order = "<" if layout.little_endian else ">"
    count = layout.section_count
    section_form, segment_form = (
        order + ("IIQQQQIIQQ" if wide else "10I"),
        order + ("IIQQQQQQ" if wide else "8I"),
    )
    if layout.sections_at and not count:  # more than 65279 sections: section 0 has the count
        ((*_, count, _, _, _, _),) = _entries(
            stream, section_form, layout.sections_at, layout.section_bytes, 1
        )
    if count > _MOST_SECTIONS or layout.segment_count > _MOST_SEGMENTS:
        raise ValueError("it has more segments or sections than a real file")
    segments = _entries(stream, segment_form, layout.segments_at, layout.segment_bytes, layout.segment_count)
    sections = _entries(stream, section_form, layout.sections_at, layout.section_bytes, count)
    return Tables(
        stream,
        layout,
        tuple(
            Segment(one[0], one[1], one[2], one[3], one[5])
            if wide
            else Segment(one[0], one[6], one[1], one[2], one[4])
            for one in segments
        ),
        tuple(Section(one[1], one[2], one[4], one[5]) for one in sections),
    )


def _entries(
    stream: BinaryIO, form: str, offset: int, entry_bytes: int, count: int
) -> Iterator[tuple[int, ...]]:
    if not count:
        return iter(())
    size = struct.calcsize(form)
    if entry_bytes != size:
        raise ValueError(f"its table entries have {entry_bytes} bytes, not {size}")
    stream.seek(offset)
    data = stream.read(size * count)
    if len(data) < size * count:
        raise ValueError("its tables end behind the file")
    return struct.iter_unpack(form, data)


def split_attributes(data: bytes, *, little_endian: bool) -> str:
    """Return the architecture string in the content of ``.riscv.attributes``, "" when there is none."""
    vendor = data.find(b"riscv\0", 5)
    if not data.startswith(b"A") or vendor != 5:  # noqa: PLR2004 - version and length stand before the vendor
        return ""
    at = vendor + len(b"riscv\0")
    if data[at : at + 1] != bytes([_TAG_FILE]):
        return ""
    length = int.from_bytes(data[at + 1 : at + 5], "little" if little_endian else "big")
    end, at = min(at + length, len(data)), at + 5
    while at < end:
        tag, at = _number(data, at)
        if tag % 2:
            text, _, _ = data[at:end].partition(b"\0")
            if tag == _TAG_ARCH:
                return text[:_LONGEST_STRING].decode("utf-8", "replace")
            at += len(text) + 1
        else:
            _, at = _number(data, at)
    return ""


def _number(data: bytes, at: int) -> tuple[int, int]:
    """Return the ULEB128 number at ``at`` and where it ends; a broken one ends with the data."""
    value = shift = 0
    for position in range(at, min(at + 10, len(data))):
        value |= (data[position] & 0x7F) << shift
        shift += 7
        if data[position] < 0x80:  # noqa: PLR2004 - the continuation bit
            return value, position + 1
    return value, len(data)
