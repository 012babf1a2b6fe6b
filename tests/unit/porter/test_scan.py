import io
import os
import struct
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_atesor.core.outcome import Verdict
from pytest_atesor.porter.archive import iter_members
from pytest_atesor.porter.elf import ElfType, read_elf
from pytest_atesor.porter.scan import Before, Scan, digest_natives, scan_tree
from pytest_atesor.porter.tree import Entry, Limits, Tree, open_inside, read_tree
from pytest_atesor.porter.verdict import decide_verdict

_X86_64, _REL, _EXEC = 62, 1, 2
Make = Callable[..., bytes]
MakeTree = Callable[..., Tree]


@pytest.mark.parametrize(
    ("flags", "abi", "compressed"),
    [
        (0x0, "lp64", False),
        (0x5, "lp64d", True),
        (0x4, "lp64d", False),
        (0x3, "lp64f", True),
        (0x6, "lp64q", False),
    ],
    ids=["soft", "double-compressed", "double", "single-compressed", "quad"],
)
def test_the_abi_is_read_from_the_flags(elf: Make, flags: int, abi: str, compressed: object) -> None:
    facts = read_elf(io.BytesIO(elf(flags=flags)))
    assert facts is not None
    assert (facts.abi, facts.compressed, facts.is_riscv64) == (abi, compressed, True)


def test_a_position_independent_program_is_an_executable(elf: Make) -> None:
    facts = read_elf(io.BytesIO(elf(interpreter=b"/lib/ld-linux-riscv64-lp64d.so.1")))
    assert facts is not None
    assert facts.type is ElfType.EXECUTABLE
    assert facts.interpreter == "/lib/ld-linux-riscv64-lp64d.so.1"


@given(at=st.integers(0, 200), byte=st.integers(0, 255))
@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_a_broken_elf_file_never_raises(elf: Make, at: int, byte: int) -> None:
    data = bytearray(elf(interpreter=b"/lib/x"))
    data[at % len(data)] = byte
    read_elf(io.BytesIO(bytes(data)))
    read_elf(io.BytesIO(bytes(data[:at])))


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("bin/tool", {"kind": _EXEC}),
        ("lib/libx.so.1", {}),
    ],
    ids=["executable", "shared-object"],
)
def test_a_linked_riscv64_file_is_a_product(
    make_tree: MakeTree, elf: Make, name: str, options: dict[str, int]
) -> None:
    scan = scan_tree(make_tree({name: elf(**options)}), Before())
    assert [one.path for one in scan.products] == [name]
    assert decide_verdict(scan).verdict is Verdict.VERIFIED


def test_an_archive_with_riscv64_code_is_a_product(make_tree: MakeTree, elf: Make, archive: Make) -> None:
    content = archive({b"a.o": elf(kind=_REL), b"a_very_long_member_name.o": elf(kind=_REL)})
    (product,) = scan_tree(make_tree({"libx.a": content}), Before()).products
    assert (product.type, product.members, product.facts.abi) == ("static archive", 2, "lp64d")


def _data_only(elf: Make) -> bytes:
    """Return an object whose one section with content has data: ``const char icon[] = {...}``."""
    data = bytearray(elf(kind=_REL))
    sections_at = int.from_bytes(data[40:48], "little")
    struct.pack_into("<Q", data, sections_at + 64 + 8, 2)  # SHF_ALLOC alone
    return bytes(data)


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(lambda _elf, archive: archive({}), id="no-members"),
        pytest.param(lambda _elf, archive: archive({b"readme": b"text"}), id="text-only"),
        pytest.param(
            lambda elf, archive: archive({b"a.o": elf(kind=_REL, load=False)}), id="objects-without-code"
        ),
        pytest.param(lambda elf, archive: archive({b"icon.o": _data_only(elf)}), id="data-only"),
        pytest.param(lambda elf, archive: archive({b"a.o": elf(kind=_REL)}, magic=b"!<thin>\n"), id="thin"),
        pytest.param(lambda _elf, _archive: b"!<arch>\n", id="magic-only"),
    ],
)
def test_an_archive_without_code_proves_nothing(
    make_tree: MakeTree, elf: Make, archive: Make, content: Callable[[Make, Make], bytes]
) -> None:
    scan = scan_tree(make_tree({"libx.a": content(elf, archive)}), Before())
    assert scan.products == ()
    assert scan.empty == ("libx.a",)


def test_files_for_another_processor_never_pass(make_tree: MakeTree, elf: Make, archive: Make) -> None:
    scan = scan_tree(
        make_tree({
            "gen": elf(machine=_X86_64, kind=_EXEC),
            "libh.a": archive({b"a.o": elf(machine=_X86_64, kind=_REL)}),
        }),
        Before(),
    )
    outcome = decide_verdict(scan)
    assert outcome.exit_code == 3
    assert "another processor" in outcome.reason
    assert dict(scan.foreign) == {"gen": "x86-64", "libh.a": "x86-64"}


def test_a_file_that_was_there_before_the_build_proves_nothing_even_as_a_copy(
    make_tree: MakeTree, elf: Make
) -> None:
    before = digest_natives(make_tree({"prebuilt/lib.so": elf()}))
    scan = scan_tree(make_tree({"out/copy.so": elf()}), before)
    assert scan.products == ()
    assert set(scan.prebuilt) == {"prebuilt/lib.so", "out/copy.so"}
    assert "before the build" in decide_verdict(scan).reason


def test_an_archive_of_objects_that_were_there_before_proves_nothing(
    make_tree: MakeTree, elf: Make, archive: Make
) -> None:
    old = elf(kind=_REL)
    before = digest_natives(make_tree({"lib/old.a": archive({b"a.o": old})}))
    scan = scan_tree(make_tree({"out/new.a": archive({b"renamed.o": old, b"readme": b"text"})}), before)
    assert scan.products == ()
    assert "out/new.a" in scan.prebuilt


def test_one_new_object_makes_an_archive_a_product(make_tree: MakeTree, elf: Make, archive: Make) -> None:
    old = elf(kind=_REL)
    before = digest_natives(make_tree({"old.o": old}))
    new = bytearray(old)
    new[64] ^= 0xFF  # the first byte of the text section
    (product,) = scan_tree(make_tree({"out.a": archive({b"a.o": old, b"b.o": bytes(new)})}), before).products
    assert product.members == 1


def test_symbols_that_were_stripped_make_no_new_file(make_tree: MakeTree, elf: Make) -> None:
    old = elf(kind=_REL)
    before = digest_natives(make_tree({"old.o": old}))
    stripped = bytearray(old)
    stripped[16:18] = struct.pack("<H", 3)  # the same code in a shared object
    scan = scan_tree(make_tree({"new.so": bytes(stripped)}), before)
    assert "new.so" in scan.prebuilt
    assert scan.products == ()


def test_a_source_that_was_not_read_whole_proves_nothing(make_tree: MakeTree, elf: Make) -> None:
    tree = make_tree({"a.so": elf(), "b.so": elf(flags=4)})
    before = digest_natives(tree, most_bytes=len(elf()))
    assert before.gaps == 1
    outcome = decide_verdict(scan_tree(tree, Before(gaps=1)))
    assert (outcome.verdict, outcome.exit_code) == (Verdict.UNVERIFIED, 3)
    assert outcome.reason.startswith("1 entries of the source could not be read before the build")


def _make_huge(path: Path, head: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(head)
    os.truncate(path, (2 << 30) + 1)


@pytest.mark.parametrize("head", [b"\x7fELF", b"!<arch>\n"], ids=["elf", "archive"])
def test_a_native_file_of_the_source_that_is_too_large_to_read_is_a_gap(tmp_path: Path, head: bytes) -> None:
    _make_huge(tmp_path / "prebuilt", head)
    _make_huge(tmp_path / "data.bin", b"no native file")
    assert digest_natives(read_tree(tmp_path)).gaps == 1


def test_a_native_file_that_is_too_large_to_read_is_named(tmp_path: Path) -> None:
    _make_huge(tmp_path / "build/p/lib.a", b"!<arch>\n")
    outcome = decide_verdict(scan_tree(read_tree(tmp_path), Before()))
    assert outcome.reason.startswith("the build made native files that cannot be read, e.g. build/p/lib.a")


def _with_a_file_that_cannot_be_opened(tree: Tree) -> Tree:
    return replace(tree, files={"build/p/key.pem": Entry(size_bytes=99), **tree.files})  # gone since the walk


def test_a_file_that_cannot_be_opened_is_not_called_native(make_tree: MakeTree) -> None:
    tree = _with_a_file_that_cannot_be_opened(make_tree({"build/p/x.txt": "text\n" * 9}))
    scan = scan_tree(tree, Before())
    assert (scan.broken, scan.unreadable) == ((), ("build/p/key.pem",))
    assert decide_verdict(scan).reason == (
        "no native file; 1 could not be read, e.g. build/p/key.pem;"
        " no riscv64 executable, shared object or archive with code"
    )
    assert digest_natives(tree).gaps == 1


def test_a_file_that_cannot_be_opened_hides_no_reason(make_tree: MakeTree, elf: Make) -> None:
    tree = _with_a_file_that_cannot_be_opened(make_tree({"build/p/x.o": elf(kind=_REL)}))
    assert decide_verdict(scan_tree(tree, Before())).reason.startswith("the build made 1 object file(s)")


def test_what_lies_deeper_than_the_walk_goes_is_a_gap(tmp_path: Path, elf: Make) -> None:
    deep = tmp_path / "/".join("d" * 5)
    deep.mkdir(parents=True)
    (deep / "prebuilt.so").write_bytes(elf())
    assert digest_natives(read_tree(tmp_path, Limits(depth=3))).gaps == 1


def test_giant_sparse_files_cost_no_hour(tmp_path: Path, elf: Make) -> None:
    for number in range(40):
        path = tmp_path / f"giant-{number}"
        path.write_bytes(elf())
        os.truncate(path, 1 << 40 if number % 2 else 1 << 30)
    started = time.process_time()
    before = digest_natives(read_tree(tmp_path), most_bytes=1 << 31)
    assert before.gaps == 38  # two of a gigabyte fit
    assert time.process_time() - started < 60


def test_symlink_loops_are_not_entered(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d/up").symlink_to("..")
    (tmp_path / "self").symlink_to("self")
    tree = read_tree(tmp_path)
    assert (dict(tree.files), set(tree.directories), tree.cut) == ({}, {"d"}, 0)


def test_a_name_of_any_bytes_is_scanned_and_named(tmp_path: Path, elf: Make) -> None:
    name = os.fsdecode(b"new\nline \xff.so")
    (tmp_path / name).write_bytes(elf())
    (product,) = scan_tree(read_tree(tmp_path), Before()).products
    assert product.path == name


@pytest.mark.parametrize(
    "name",
    [
        "b/CMakeFiles/3.31.6/CompilerIdC/a.out",
        "b/CMakeFiles/CMakeScratch/x/cmTC_1",
        "conftest",
        "conftest.exe",
        "sub/conftest.dir/x",
        "b/meson-private/sanitycheckc.exe",
        "target/riscv64gc-unknown-linux-gnu/release/deps/libx-0123456789abcdef.so",
        "target/release/build/x-0123/build-script-build",
        "target/debug/incremental/x-0123/s.so",
        "atesor-build/_deps/fmt-build/libfmt.so",
    ],
)
def test_probes_of_build_systems_are_no_products(make_tree: MakeTree, elf: Make, name: str) -> None:
    files = {f"build/p/{name}": elf(kind=_EXEC), "build/p/config.log": "", "build/p/sub/configure": ""}
    assert scan_tree(make_tree(files), Before()).products == ()


@pytest.mark.parametrize("configure", ["configure.sh", "Configure", "config", "auto/configure"])
@pytest.mark.parametrize("name", ["conftest", "conftest.exe", "out/conftest.dir/x"])
def test_a_probe_that_any_configure_left_is_no_product(
    make_tree: MakeTree, elf: Make, configure: str, name: str
) -> None:
    tree = make_tree({f"build/p/{name}": elf(kind=_EXEC), f"build/p/{configure}": "#!/bin/sh\n"})
    assert scan_tree(tree, Before()).products == ()


@pytest.mark.parametrize(
    "name",
    [
        "build/conftest/atesor-build/conftest",
        "build/p/conftester",
        "build/conftest-2/tool",
        "build/incremental/tool",
        "build/_deps/tool",
        "build/CompilerIdC/tool",
        "build/CMakeFiles/tool",
        "build/node_modules/tool",
        "build/p/incremental/tool",
        "build/p/CompilerId",
        "stage/usr/bin/conftest",
        "stage/usr/lib/node_modules/x/addon.node",
    ],
)
def test_a_name_like_a_probe_hides_no_product(make_tree: MakeTree, elf: Make, name: str) -> None:
    (product,) = scan_tree(make_tree({name: elf(kind=_EXEC)}), Before()).products
    assert product.path == name


@pytest.mark.parametrize(
    ("name", "is_test"),
    [
        ("build/benchmark/atesor-build/src/tool", False),
        ("build/test/tool", False),
        ("build/demo/bin/tool", False),
        ("stage/usr/bin/test", False),
        ("stage/usr/sbin/speed-test", False),
        ("build/p/tests/tool", True),
        ("build/p/test", True),
        ("build/test/atesor-build/unit_tests/tool", True),
        ("stage/usr/lib/p/tests/tool", True),
    ],
)
def test_a_product_is_a_test_by_its_place_in_the_package(
    make_tree: MakeTree, elf: Make, name: str, *, is_test: bool
) -> None:
    (product,) = scan_tree(make_tree({name: elf(kind=_EXEC)}), Before()).products
    assert product.is_test is is_test


def test_objects_alone_are_unverified_and_counted(make_tree: MakeTree, elf: Make) -> None:
    scan = scan_tree(make_tree({"a.o": elf(kind=_REL), "b.o": elf(kind=_REL, flags=4)}), Before())
    assert scan.objects == 2
    assert "2 object file(s)" in decide_verdict(scan).reason


def test_a_32_bit_file_is_no_proof(make_tree: MakeTree, elf: Make) -> None:
    assert scan_tree(make_tree({"x": elf(bits=32)}), Before()).products == ()


def test_nothing_native_is_unverified_with_the_missing_proof() -> None:
    outcome = decide_verdict(Scan(products=()))
    assert (outcome.verdict, outcome.exit_code) == (Verdict.UNVERIFIED, 3)
    assert "nothing native" in outcome.reason


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(
            b"!<arch>\n" + b"a.o/            0           0     0     644     9999999999`\nxx",
            id="size-beyond-the-end",
        ),
        pytest.param(
            b"!<arch>\n" + b"a.o/            0           0     0     644     -4        `\nxx",
            id="negative-size",
        ),
        pytest.param(
            b"!<arch>\n" + b"#1/99999        0           0     0     644     4         `\nabcd",
            id="bsd-name-beyond",
        ),
        pytest.param(b"!<arch>\n" + b"x" * 60, id="no-header"),
        pytest.param(b"!<arch>\n\0", id="cut"),
    ],
)
def test_a_hostile_archive_ends_quietly(data: bytes) -> None:
    assert list(iter_members(io.BytesIO(data))) == []


def test_long_and_bsd_names_are_read(archive: Make) -> None:
    bsd = b"!<arch>\n#1/8            0           0     0     644     10        `\nname.o\0\0hi"
    assert [(one.name, one.read(io.BytesIO(bsd))) for one in iter_members(io.BytesIO(bsd))] == [
        (b"name.o", b"hi")
    ]
    data = archive({b"a_very_long_member_name.o": b"x"})
    assert [one.name for one in iter_members(io.BytesIO(data))] == [b"a_very_long_member_name.o"]


@pytest.mark.parametrize(
    ("links", "name"),
    [
        pytest.param({"Makefile": "make/linux.mk"}, "Makefile", id="file"),
        pytest.param(
            {"Makefile": "GNUmakefile", "GNUmakefile": "./make/../make/linux.mk"}, "Makefile", id="chain"
        ),
        pytest.param({"unix": "make"}, "unix/linux.mk", id="directory"),
        pytest.param(
            {"a/b": "../make", "Makefile": "a/b/linux.mk"}, "Makefile", id="file-through-a-directory"
        ),
        pytest.param(
            {"a/b": "../make", "a/Makefile": "b/../make/linux.mk"}, "a/Makefile", id="up-from-a-link"
        ),
    ],
)
def test_a_link_inside_the_tree_is_a_name_of_its_file(
    make_tree: MakeTree, links: dict[str, str], name: str
) -> None:
    root = make_tree({"make/linux.mk": "all:\n"}).root
    for link, target in links.items():
        (root / link).parent.mkdir(exist_ok=True)
        (root / link).symlink_to(target)
    tree = read_tree(root)
    assert (tree.has(name), tree.text(name)) == (True, "all:\n")
    assert set(tree.files) == {"make/linux.mk"}
    assert (root / name).read_text() == "all:\n"  # the kernel agrees


@pytest.mark.parametrize(
    "links",
    [
        pytest.param({"Makefile": "/etc/passwd"}, id="absolute"),
        pytest.param({"Makefile": "../secret"}, id="above"),
        pytest.param({"Makefile": "a/../../secret"}, id="above-through-a-directory"),
        pytest.param({"Makefile": "x", "x": "Makefile"}, id="loop"),
        pytest.param({"Makefile": "gone"}, id="dangling"),
        pytest.param({"Makefile": "a"}, id="directory"),
        pytest.param({"Makefile": "Makefile/" * 200 + "x"}, id="nested-loop"),
    ],
)
def test_a_link_that_leads_to_no_file_of_the_tree_is_none(make_tree: MakeTree, links: dict[str, str]) -> None:
    root = make_tree({"a/b": "x"}).root
    (root.parent / "secret").write_text("secret")
    for link, target in links.items():
        (root / link).symlink_to(target)
    tree = read_tree(root)
    assert (tree.has("Makefile"), tree.text("Makefile")) == (False, "")


def test_a_long_way_through_links_costs_next_to_nothing(make_tree: MakeTree) -> None:
    links = {f"l{number}": f"l{number + 1}" + "/p" * 1900 for number in range(38)}
    tree = replace(make_tree({"l38/x": ""}), links={**links, "Makefile": "l0"})
    started = time.process_time()
    assert not tree.has(*["Makefile"] * 100)
    assert time.process_time() - started < 5


def test_a_link_that_is_swapped_after_the_walk_is_not_followed(make_tree: MakeTree) -> None:
    root = make_tree({"real.mk": "all:\n"}).root
    (root / "Makefile").symlink_to("real.mk")
    tree = read_tree(root)
    (root.parent / "secret").write_text("secret")
    (root / "real.mk").unlink()
    (root / "real.mk").symlink_to("../secret")
    assert tree.text("Makefile") == ""


def test_symlinks_are_not_followed(tmp_path: Path, elf: Make) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "lib.so").write_bytes(elf())
    root = tmp_path / "root"
    root.mkdir()
    (root / "link.so").symlink_to(outside / "lib.so")
    (root / "dir").symlink_to(outside)
    tree = read_tree(root)
    assert dict(tree.files) == {}
    with pytest.raises(OSError, match=r"."), open_inside(root, "dir/lib.so"):
        pass
    with pytest.raises(OSError, match=r"."), open_inside(root, "../outside/lib.so"):
        pass


def test_hostile_names_and_special_files_survive(tmp_path: Path) -> None:
    for name in (b"new\nline", b"\xff\xfe", b"x" * 250, b"\x1b[31m"):
        Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name)).write_bytes(b"data")
    os.mkfifo(tmp_path / "pipe")
    tree = read_tree(tmp_path)
    assert len(tree.files) == 4
    assert tree.text("pipe") == ""


def test_depth_and_number_of_entries_are_bounded(tmp_path: Path) -> None:
    deep = tmp_path
    for _ in range(30):
        deep /= "d"
        deep.mkdir()
    (deep / "f").write_text("x")
    cut = read_tree(tmp_path, Limits(depth=10))
    assert cut.cut == 1
    assert not cut.files
    for number in range(20):
        (tmp_path / f"f{number}").write_text("x")
        (tmp_path / f"l{number}").symlink_to("f1")
    small = read_tree(tmp_path, Limits(entries=5))
    assert small.cut > 0
    assert len(small.files) + len(small.directories) + len(small.links) == 5


def test_only_the_directories_asked_for_are_listed(make_tree: MakeTree, tmp_path: Path) -> None:
    make_tree({"stage/a": "x", "build/p/b": "x", "src/p/c": "x"})
    tree = read_tree(tmp_path / "tree", below=("stage", "build/p", "missing"))
    assert sorted(tree.files) == ["build/p/b", "stage/a"]


def _tables(
    elf: Make, *, segments: bytes = b"", sections: bytes = b"", count: int | None = None, size: int = 64
) -> bytes:
    """Return a riscv64 executable with those program and section headers; ``count`` sections are claimed."""
    head = bytearray(elf(kind=_EXEC, load=False)[:64])
    at = 64 + len(segments)
    struct.pack_into("<QQ", head, 32, 64, at if sections else 0)
    struct.pack_into(
        "<HHHH", head, 54, 56, len(segments) // 56, size, len(sections) // 64 if count is None else count
    )
    return bytes(head) + segments + sections


def _load(*, flags: int = 5, offset: int = 0, file_bytes: int = 64) -> bytes:
    return struct.pack("<IIQQQQQQ", 1, flags, offset, 0, 0, file_bytes, file_bytes or 1, 4096)


def _section(*, kind: int = 1, offset: int = 0, size: int = 0) -> bytes:
    return struct.pack("<IIQQQQIIQQ", 0, kind, 2, 0, offset, size, 0, 0, 1, 0)


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(_tables, id="header-only"),
        pytest.param(lambda elf: _tables(elf, segments=_load(file_bytes=0)), id="only-zeros-in-memory"),
        pytest.param(lambda elf: _tables(elf, segments=_load(offset=1 << 30)), id="behind-the-end"),
        pytest.param(lambda elf: _tables(elf, segments=_load(file_bytes=1 << 40)), id="truncated"),
        pytest.param(lambda elf: _tables(elf, segments=_load(flags=4)), id="nothing-to-execute"),
        pytest.param(lambda elf: _tables(elf, sections=_section(size=5)), id="sections-alone"),
    ],
)
def test_an_executable_without_code_in_the_file_proves_nothing(
    make_tree: MakeTree, elf: Make, content: Callable[[Make], bytes]
) -> None:
    scan = scan_tree(make_tree({"tool": content(elf)}), Before())
    assert scan.products == ()
    assert scan.empty == ("tool",)


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(
            lambda elf: _tables(elf, sections=_section(size=1 << 60), count=0, size=0), id="endless-sections"
        ),
        pytest.param(
            lambda elf: _tables(elf, sections=_section(size=1 << 24), count=0), id="millions-of-sections"
        ),
        pytest.param(
            lambda elf: _tables(elf, sections=_section(), count=20_000), id="sections-behind-the-end"
        ),
        pytest.param(
            lambda elf: _tables(elf, sections=_section(kind=5, offset=4096, size=1 << 30) * 4),
            id="huge-hash-table",
        ),
        pytest.param(
            lambda elf: _tables(elf, segments=struct.pack("<IIQQQQQQ", 3, 4, 64, 0, 0, 1 << 62, 0, 1) * 500),
            id="endless-interpreters",
        ),
        pytest.param(
            lambda elf: _tables(
                elf, segments=struct.pack("<IIQQQQQQ", 2, 4, 1 << 20, 0, 0, 1 << 62, 0, 1) * 500
            ),
            id="endless-dynamic-tables",
        ),
    ],
)
def test_absurd_tables_cost_next_to_nothing(
    tmp_path: Path, elf: Make, content: Callable[[Make], bytes]
) -> None:
    path = tmp_path / "hostile"
    with path.open("wb") as file:
        file.write(content(elf))
        file.seek(1 << 20)
        file.write(b"\1\0\0\0\0\0\0\0" * (1 << 18))
        file.truncate(1 << 31)  # a sparse file: what is read behind the end of the tables never ends
    started = time.process_time()
    with path.open("rb") as file:
        facts = read_elf(file)
    assert facts is None or not facts.has_content
    assert time.process_time() - started < 2
