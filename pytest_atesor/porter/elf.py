"""Facts about one ELF file, read from a stream that a stranger made.

Whatever is wrong with the file ends as None or as missing facts, never as an exception or an endless read.
pyelftools reads the file header; the tables behind it are read with bounds (:mod:`.elf_tables`).
"""

import hashlib
from dataclasses import dataclass
from enum import StrEnum, unique
from typing import BinaryIO, assert_never

from elftools.common.exceptions import DWARFError, ELFError
from elftools.elf.elffile import ELFFile

from pytest_atesor.porter.elf_tables import SHT_SYMTAB, Layout, Tables, read_tables, split_attributes

__all__ = ["ELF_MAGIC", "ElfFacts", "ElfType", "digest_code", "read_elf"]

ELF_MAGIC = b"\x7fELF"

_FLOAT_ABI = {0x0: "soft", 0x2: "single", 0x4: "double", 0x6: "quad"}
_FLOAT_LETTER = {"soft": "", "single": "f", "double": "d", "quad": "q"}
_RVC, _FLOAT_MASK, _RVE = 0x1, 0x6, 0x8
_DF_1_PIE = 0x08000000
# What a hostile file makes pyelftools and struct raise.
_BROKEN = (
    ELFError,
    DWARFError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    MemoryError,
    OSError,
    ArithmeticError,
)
_MACHINES = {
    "EM_X86_64": "x86-64",
    "EM_386": "x86",
    "EM_AARCH64": "aarch64",
    "EM_ARM": "arm",
    "EM_RISCV": "riscv",
    "EM_PPC64": "ppc64",
    "EM_S390": "s390",
    "EM_BPF": "bpf",
    "EM_MIPS": "mips",
}


@unique
class ElfType(StrEnum):
    """What kind of product an ELF file is."""

    EXECUTABLE = "executable"
    SHARED_OBJECT = "shared object"
    OBJECT = "object"
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class ElfFacts:
    """What the headers say. ``bits`` is 32 or 64; ``abi`` such as "lp64d", "" off RISC-V.

    ``has_content`` is True when the file has something to put into memory: for executables and objects, code.
    ``architecture`` is the string of ``.riscv.attributes``, "" without one.
    """

    type: ElfType
    machine: str
    bits: int
    little_endian: bool
    float_abi: str
    compressed: bool
    abi: str
    interpreter: str
    needed: tuple[str, ...]
    stripped: bool
    has_content: bool
    architecture: str

    @property
    def is_riscv64(self) -> bool:
        """Say whether this is code for riscv64."""
        return self.machine == "riscv" and self.bits == 64 and self.little_endian  # noqa: PLR2004 - bits


def read_elf(stream: BinaryIO, *, detailed: bool = True) -> ElfFacts | None:
    """Return the facts of the ELF file in ``stream``; None when it is none or is broken.

    Without ``detailed`` the segments and attributes are left out, which is enough for archive members.
    """
    try:
        return _read(ELFFile(stream), stream, detailed=detailed)
    except _BROKEN:
        return None


def digest_code(stream: BinaryIO) -> str:
    """Return the SHA-256 of the machine code in the ELF file; "" without any or when it is broken.

    It stays the same when symbols are stripped or the file becomes another archive's member.
    """
    digest = hashlib.sha256()
    has_code = False
    try:
        stream.seek(0)
        for chunk in _lay_out(ELFFile(stream), stream).iter_code():
            has_code = True
            digest.update(chunk)
    except _BROKEN:
        return ""
    return digest.hexdigest() if has_code else ""


def _read(file: ELFFile, stream: BinaryIO, *, detailed: bool) -> ElfFacts:
    header = file.header
    flags = header["e_flags"]
    machine = _MACHINES.get(header["e_machine"], str(header["e_machine"]).removeprefix("EM_").lower())
    riscv = machine == "riscv"
    float_abi = _FLOAT_ABI[flags & _FLOAT_MASK] if riscv else ""
    tables = _lay_out(file, stream)
    interpreter = tables.read_interpreter() if detailed else ""
    needed, flags_1 = tables.read_dynamic() if detailed else ((), 0)
    kind = _decide_type(header["e_type"], interpreter, is_pie=bool(flags_1 & _DF_1_PIE))
    architecture = (
        split_attributes(tables.read_attributes(), little_endian=file.little_endian)
        if riscv and detailed
        else ""
    )
    return ElfFacts(
        type=kind,
        machine=machine,
        bits=file.elfclass,
        little_endian=file.little_endian,
        float_abi=float_abi,
        compressed=riscv and bool(flags & _RVC),
        abi=_format_abi(file.elfclass, float_abi, embedded=bool(flags & _RVE)) if riscv else "",
        interpreter=interpreter,
        needed=needed,
        stripped=not any(one.type == SHT_SYMTAB for one in tables.sections),
        has_content=_has_content(kind, tables),
        architecture=architecture[:300],
    )


def _lay_out(file: ELFFile, stream: BinaryIO) -> Tables:
    header = file.header
    return read_tables(
        stream,
        Layout(
            bits=file.elfclass,
            little_endian=file.little_endian,
            segments_at=header["e_phoff"],
            segment_bytes=header["e_phentsize"],
            segment_count=header["e_phnum"],
            sections_at=header["e_shoff"],
            section_bytes=header["e_shentsize"],
            section_count=header["e_shnum"],
        ),
    )


def _decide_type(kind: str, interpreter: str, *, is_pie: bool) -> ElfType:
    if kind == "ET_EXEC" or (kind == "ET_DYN" and (interpreter or is_pie)):
        return ElfType.EXECUTABLE
    return {"ET_DYN": ElfType.SHARED_OBJECT, "ET_REL": ElfType.OBJECT}.get(kind, ElfType.OTHER)


def _format_abi(bits: int, float_abi: str, *, embedded: bool) -> str:
    return f"{'lp64' if bits == 64 else 'ilp32'}{'e' if embedded else ''}{_FLOAT_LETTER[float_abi]}"  # noqa: PLR2004 - bits


def _has_content(kind: ElfType, tables: Tables) -> bool:
    match kind:
        case ElfType.EXECUTABLE:
            return tables.is_runnable
        case ElfType.SHARED_OBJECT:
            return tables.is_loadable
        case ElfType.OBJECT | ElfType.OTHER:
            return tables.has_linkable_code
        case _:
            assert_never(kind)
