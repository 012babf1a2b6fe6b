"""Facts about one ELF file, read with pyelftools from a stream that a stranger made.

Whatever is wrong with the file ends as None or as missing facts, never as an exception or an endless read.
"""

from dataclasses import dataclass
from enum import StrEnum, unique
from typing import Any, BinaryIO, cast

from elftools.common.exceptions import DWARFError, ELFError
from elftools.elf.elffile import ELFFile

__all__ = ["ELF_MAGIC", "ElfFacts", "ElfType", "read_elf"]

ELF_MAGIC = b"\x7fELF"

_MOST_SECTIONS = 20_000
_MOST_SEGMENTS = 512
_MOST_NEEDED = 256
_FLOAT_ABI = {0x0: "soft", 0x2: "single", 0x4: "double", 0x6: "quad"}
_FLOAT_LETTER = {"soft": "", "single": "f", "double": "d", "quad": "q"}
_RVC, _FLOAT_MASK, _RVE = 0x1, 0x6, 0x8
_SHF_ALLOC = 0x2
_DF_1_PIE = 0x08000000
# What a hostile file makes pyelftools raise: it trusts offsets, sizes and strings.
_BROKEN = (
    ELFError,
    DWARFError,
    ValueError,
    KeyError,
    IndexError,
    TypeError,
    AttributeError,
    OverflowError,
    MemoryError,
    OSError,
    ArithmeticError,
    RecursionError,
    AssertionError,
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

    ``has_content`` is True when some section or segment is loaded into memory. ``architecture`` is the string
    of ``.riscv.attributes``, "" without one.
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
        file = ELFFile(stream)
        header = file.header
        if header["e_shnum"] > _MOST_SECTIONS or header["e_phnum"] > _MOST_SEGMENTS:
            return None
        return _read(file, detailed=detailed)
    except _BROKEN:
        return None


def _read(file: ELFFile, *, detailed: bool) -> ElfFacts:
    header = file.header
    flags = header["e_flags"]
    machine = _MACHINES.get(header["e_machine"], str(header["e_machine"]).removeprefix("EM_").lower())
    riscv = machine == "riscv"
    float_abi = _FLOAT_ABI[flags & _FLOAT_MASK] if riscv else ""
    interpreter, needed, is_pie = _read_dynamic(file) if detailed else ("", (), False)
    sections = [file.get_section(number) for number in range(file.num_sections())] if detailed else []
    return ElfFacts(
        type=_decide_type(header["e_type"], interpreter, is_pie=is_pie),
        machine=machine,
        bits=file.elfclass,
        little_endian=file.little_endian,
        float_abi=float_abi,
        compressed=riscv and bool(flags & _RVC),
        abi=_format_abi(file.elfclass, float_abi, embedded=bool(flags & _RVE)) if riscv else "",
        interpreter=interpreter,
        needed=needed,
        stripped=not any(one["sh_type"] == "SHT_SYMTAB" for one in sections),
        has_content=_has_content(file),
        architecture=_read_architecture(file) if riscv and detailed else "",
    )


def _decide_type(kind: str, interpreter: str, *, is_pie: bool) -> ElfType:
    if kind == "ET_EXEC" or (kind == "ET_DYN" and (interpreter or is_pie)):
        return ElfType.EXECUTABLE
    return {"ET_DYN": ElfType.SHARED_OBJECT, "ET_REL": ElfType.OBJECT}.get(kind, ElfType.OTHER)


def _format_abi(bits: int, float_abi: str, *, embedded: bool) -> str:
    return f"{'lp64' if bits == 64 else 'ilp32'}{'e' if embedded else ''}{_FLOAT_LETTER[float_abi]}"  # noqa: PLR2004 - bits


def _read_dynamic(file: ELFFile) -> tuple[str, tuple[str, ...], bool]:
    interpreter, is_pie = "", False
    needed: list[str] = []
    for segment in file.iter_segments():
        kind = segment["p_type"]
        if kind == "PT_INTERP":
            interpreter = str(cast("Any", segment).get_interp_name())[:4096]
        elif kind == "PT_DYNAMIC":
            for tag in cast("Any", segment).iter_tags():
                if tag.entry.d_tag == "DT_NEEDED" and len(needed) < _MOST_NEEDED:
                    needed.append(str(tag.needed)[:4096])
                elif tag.entry.d_tag == "DT_FLAGS_1":
                    is_pie = bool(tag.entry.d_val & _DF_1_PIE)
    return interpreter, tuple(needed), is_pie


def _has_content(file: ELFFile) -> bool:
    if any(segment["p_type"] == "PT_LOAD" and segment["p_memsz"] for segment in file.iter_segments()):
        return True
    for number in range(file.num_sections()):
        header = file._get_section_header(number)  # noqa: SLF001 - the public way parses each section's content
        if header["sh_flags"] & _SHF_ALLOC and header["sh_size"] and header["sh_type"] != "SHT_NOTE":
            return True
    return False


def _read_architecture(file: ELFFile) -> str:
    try:
        section = file.get_section_by_name(".riscv.attributes")
        if section is None or section["sh_size"] > 65_536:  # noqa: PLR2004 - real ones have a hundred bytes
            return ""
        for part in cast("Any", section).iter_subsections():
            for inner in part.iter_subsubsections():
                for attribute in inner.iter_attributes("TAG_ARCH"):
                    return str(attribute.value)[:300]
    except _BROKEN:
        pass
    return ""
