"""The comparison of two builds, on real riscv64 files; elf/make.sh tells how each was made."""

from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_atesor.sandbox.likeness import compare_files
from pytest_atesor.sandbox.proof import MAY_DIFFER, Likeness

FILES = Path(__file__).parent / "elf"


def compare(one: str, other: str) -> Likeness:
    return compare_files((FILES / one).read_bytes(), (FILES / other).read_bytes())


@pytest.mark.parametrize("name", ["program", "library.so", "archive.a"])
def test_a_file_is_like_itself(name: str) -> None:
    assert compare(name, name) == Likeness()


@pytest.mark.parametrize(
    ("one", "other", "parts"),
    [
        ("program", "other-attributes", ["attributes: TAG_ARCH", "section .riscv.attributes: sh_size"]),
        ("program", "other-flags", ["header: e_flags 0x5 against 0x4", "attributes: TAG_ARCH"]),
        ("program", "other-data", ["section .rodata: the bytes differ from byte 8"]),
        ("program", "other-code", ["section .text: sh_size"]),
        ("program", "extra-symbol", ["symbol extra of .symtab: only in the second (STB_GLOBAL STT_FUNC"]),
        (
            "program",
            "other-segments",
            ["segments: 4 against 6", "segment 1 (PT_LOAD): p_flags 0x5 against 0x4"],
        ),
        ("program", "stripped", ["section .symtab: missing in the second"]),
        ("program", "without-comment", ["section .comment: missing in the second"]),
        ("without-comment", "program", ["section .comment: missing in the first"]),
        ("program", "build-id", ["section .note.gnu.build-id: missing in the first"]),
        ("program", "library.so", ["header: e_type ET_EXEC against ET_DYN"]),
        ("library.so", "other-name.so", ["section .dynstr: the bytes differ"]),
        ("archive.a", "other-member.a", ["object.o/: section .rodata: the bytes differ"]),
        ("archive.a", "more-members.a", ["members: / object.o/ against / object.o/ second.o/"]),
        ("program", "archive.a", ["1984 bytes against 2702, the same up to byte 0"]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_differs_is_named(one: str, other: str, parts: list[str]) -> None:
    differences = compare(one, other).differences
    for part in parts:
        assert any(line.startswith(part) for line in differences), differences


def test_a_symbol_s_binding_counts() -> None:
    differences = compare("other-code", "other-binding").differences
    assert [line for line in differences if line.startswith("symbol next")] == [
        "symbol next of .symtab: only in the first (STB_GLOBAL STT_FUNC STV_DEFAULT in .text, 0x10120 40)",
        "symbol next of .symtab: only in the second (STB_WEAK STT_FUNC STV_DEFAULT in .text, 0x10120 40)",
    ]


def test_a_build_id_and_debug_information_may_differ() -> None:
    assert compare("build-id", "other-build-id") == Likeness(allowed=(".note.gnu.build-id",))
    likeness = compare("program", "debug")
    assert likeness.differences == ()
    assert ".debug_info" in likeness.allowed


def test_every_section_that_may_differ_has_its_reason() -> None:
    reasons = " ".join(MAY_DIFFER)
    for name in compare("program", "debug").allowed:
        assert (".debug" if name.startswith(".debug") else name) in reasons


@pytest.mark.parametrize(
    "spoil",
    [
        lambda data: data[:100],
        lambda data: data[:40] + b"\xff" * 24 + data[64:],
        lambda data: data[: len(data) - 300],
        lambda data: data[:32] + b"\x01" + data[33:],
    ],
    ids=["cut", "section-table-nowhere", "end-missing", "program-table-elsewhere"],
)
def test_a_broken_file_is_a_difference_and_no_crash(spoil: Callable[[bytes], bytes]) -> None:
    whole = (FILES / "program").read_bytes()
    assert compare_files(whole, spoil(whole)).differences


def test_a_byte_that_no_part_accounts_for_is_a_difference() -> None:
    whole = (FILES / "program").read_bytes()
    assert compare_files(whole, whole + b"\0").differences == ("the bytes between the sections differ",)


def test_of_other_files_every_byte_counts() -> None:
    assert compare_files(b"#define A 1\n", b"#define A 2\n").differences == (
        "the bytes differ from byte 10 of 12 on",
    )
