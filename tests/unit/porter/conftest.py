"""Small native files and trees, made here: no compiler, no container."""

import struct
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from pytest_atesor.porter.tree import Tree, read_tree

RISCV, X86_64 = 243, 62
_EXEC, _DYN, _REL = 2, 3, 1


def make_elf(
    *,
    machine: int = RISCV,
    kind: int = _DYN,
    flags: int = 0x5,
    interpreter: bytes = b"",
    load: bool = True,
    bits: int = 64,
) -> bytes:
    """Return a minimal ELF file: a header, program headers, and for objects one text section."""
    if kind == _REL:
        return _make_object(machine, flags, load=load)
    headers = []
    count = int(load) + int(bool(interpreter))
    content_at = 64 + 56 * count
    if interpreter:
        headers.append(
            struct.pack("<IIQQQQQQ", 3, 4, content_at, 0, 0, len(interpreter) + 1, len(interpreter) + 1, 1)
        )
    if load:
        headers.append(struct.pack("<IIQQQQQQ", 1, 5, 0, 0, 0, content_at, content_at, 0x1000))
    head = struct.pack(
        "<4sBBBBB7sHHIQQQIHHHHHH",
        b"\x7fELF",
        2 if bits == 64 else 1,
        1,
        1,
        0,
        0,
        b"",
        kind,
        machine,
        1,
        0,
        64,
        0,
        flags,
        64,
        56,
        count,
        64,
        0,
        0,
    )
    return head + b"".join(headers) + (interpreter + b"\0" if interpreter else b"")


def _make_object(machine: int, flags: int, *, load: bool) -> bytes:
    text, names = b"\x82\x80" * 4, b"\0.text\0.shstrtab\0"
    at = 64 + len(text) + len(names)
    head = struct.pack(
        "<4sBBBBB7sHHIQQQIHHHHHH",
        b"\x7fELF",
        2,
        1,
        1,
        0,
        0,
        b"",
        _REL,
        machine,
        1,
        0,
        0,
        at,
        flags,
        64,
        0,
        0,
        64,
        3,
        2,
    )
    sections = struct.pack("<IIQQQQIIQQ", 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
    sections += struct.pack(
        "<IIQQQQIIQQ", 1, 1, 6 if load else 0, 0, 64, len(text) if load else 0, 0, 0, 2, 0
    )
    sections += struct.pack("<IIQQQQIIQQ", 7, 3, 0, 0, 64 + len(text), len(names), 0, 0, 1, 0)
    return head + text + names + sections


def make_archive(members: Mapping[bytes, bytes], *, magic: bytes = b"!<arch>\n") -> bytes:
    """Return a GNU archive; names longer than 15 bytes go through the name table."""
    table = b"".join(name + b"/\n" for name in members if len(name) > 15)
    parts = [magic, _member(b"/", b"\0\0\0\0")]
    if table:
        parts.append(_member(b"//", table))
    for name, content in members.items():
        shown = b"/%d" % table.index(name + b"/\n") if len(name) > 15 else name + b"/"
        parts.append(_member(shown, content))
    return b"".join(parts)


def _member(name: bytes, content: bytes) -> bytes:
    head = b"%-16s%-12s%-6s%-6s%-8s%-10d`\n" % (name, b"0", b"0", b"0", b"644", len(content))
    return head + content + (b"\n" if len(content) % 2 else b"")


@pytest.fixture
def make_tree(tmp_path: Path) -> Callable[..., Tree]:
    """Write files (name to text or bytes) below a fresh directory and read them back as a Tree."""

    def make(files: Mapping[str, str | bytes]) -> Tree:
        root = tmp_path / "tree"
        root.mkdir(exist_ok=True)
        for name, content in files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        return read_tree(root)

    return make


@pytest.fixture(name="elf")
def elf_maker() -> Callable[..., bytes]:
    return make_elf


@pytest.fixture(name="archive")
def archive_maker() -> Callable[..., bytes]:
    return make_archive
