"""Members of a static archive (``ar``), read with bounds; the file's sizes and names are a stranger's.

Knows the System V/GNU and BSD forms and thin archives, whose members lie elsewhere and so prove nothing by
themselves.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

__all__ = ["AR_MAGIC", "THIN_MAGIC", "Member", "iter_members"]

AR_MAGIC = b"!<arch>\n"
THIN_MAGIC = b"!<thin>\n"

_HEADER = 60
_END = b"`\n"
_MOST_MEMBERS = 100_000
_LARGEST_NAMES = 16 * 1024 * 1024
_LARGEST_MEMBER = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One member: its name, where its content starts in the file, its size in bytes."""

    name: bytes
    offset: int
    size_bytes: int

    def read(self, stream: BinaryIO) -> bytes:
        """Return the content, cut at 256 MiB."""
        stream.seek(self.offset)
        return stream.read(min(self.size_bytes, _LARGEST_MEMBER))


def iter_members(stream: BinaryIO) -> Iterator[Member]:
    """Yield the members that have content here, symbol tables left out; stops at the first broken header."""
    end = stream.seek(0, os.SEEK_END)
    stream.seek(0)
    magic = stream.read(len(AR_MAGIC))
    if magic != AR_MAGIC:
        return
    long_names = b""
    at = len(AR_MAGIC)
    for _ in range(_MOST_MEMBERS):
        stream.seek(at)
        header = stream.read(_HEADER)
        size = _parse_size(header)
        if size is None or at + _HEADER + size > end:
            return
        content = at + _HEADER
        at = content + size + size % 2
        raw = header[:16].rstrip(b" ")
        if raw == b"//":
            long_names = stream.read(min(size, _LARGEST_NAMES))
        elif raw.startswith(b"#1/"):
            length = _digits(raw[3:])
            if length is None or length > min(size, 65_536):
                return
            name = stream.read(length).rstrip(b"\0")
            if not name.startswith(b"__.SYMDEF"):
                yield Member(name=name, offset=content + length, size_bytes=size - length)
        elif raw not in {b"/", b"/SYM64/"}:
            yield Member(name=_name(raw, long_names), offset=content, size_bytes=size)


def _parse_size(header: bytes) -> int | None:
    if len(header) != _HEADER or header[58:60] != _END:
        return None
    return _digits(header[48:58].strip())


def _digits(text: bytes) -> int | None:
    return int(text) if text.isdigit() else None


def _name(raw: bytes, long_names: bytes) -> bytes:
    if raw.startswith(b"/") and (start := _digits(raw[1:])) is not None and start < len(long_names):
        return long_names[start : start + 4096].partition(b"/\n")[0].partition(b"\n")[0]
    return raw.removesuffix(b"/")
