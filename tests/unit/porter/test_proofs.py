"""Evidence beside the verdict: libraries that are there, programs that start, oddities of the ABI."""

from dataclasses import replace
from typing import Any

import pytest

from pytest_atesor.errors import SandboxError
from pytest_atesor.porter.abi import describe_abi
from pytest_atesor.porter.elf import ElfFacts, ElfType
from pytest_atesor.porter.proofs import Proof, Start, StartStatus, describe_proofs, gather_proofs
from pytest_atesor.porter.scan import Artifact
from pytest_atesor.porter.shell import Shell
from pytest_atesor.sandbox.interface import Completed, ExecSpec
from tests.unit.porter.fake_sandbox import FakeSandbox

_FACTS = ElfFacts(
    type=ElfType.EXECUTABLE,
    machine="riscv",
    bits=64,
    little_endian=True,
    float_abi="double",
    compressed=True,
    abi="lp64d",
    interpreter="/lib/ld-linux-riscv64-lp64d.so.1",
    needed=("libx.so.1", "libc.so.6"),
    stripped=False,
    has_content=True,
    architecture="rv64i2p1_m2p0_a2p1_f2p2_d2p2_c2p0_zicsr2p0_zifencei2p0_zmmul1p0_zaamo1p0_zalrsc1p0",
)
_TOOL = Artifact(path="build/p/tool", size_bytes=9, type="executable", sha256="a" * 64, facts=_FACTS)
_SHARED = Artifact(
    path="build/p/lib/libx.so.1", size_bytes=9, type="shared object", sha256="b" * 64, facts=_FACTS
)


def _gather(*artifacts: Artifact, answers: list[tuple[str, list[tuple[int, bytes]]]]) -> dict[str, Proof]:
    return gather_proofs(Shell(FakeSandbox(answers), deadline=None, output=None), artifacts)


@pytest.mark.parametrize(
    ("said", "missing"),
    [
        pytest.param(b"@atesor-file 0\n", (), id="all-there"),
        pytest.param(b"@atesor-file 0\n\tlibx.so.1 => not found\n", ("libx.so.1",), id="glibc"),
        pytest.param(
            b"@atesor-file 0\nError loading shared library libx.so.1: No such file (needed by /w)\n",
            ("libx.so.1",),
            id="musl",
        ),
        pytest.param(b"@atesor-file 99\n@atesor-file x\n", None, id="no-answer-for-it"),
        pytest.param(b"", None, id="no-answer"),
    ],
)
def test_the_loader_says_which_libraries_are_missing(said: bytes, missing: tuple[str, ...] | None) -> None:
    proofs = _gather(_SHARED, answers=[("LD_TRACE", [(0, said)])])
    assert proofs.get(_SHARED.sha256, Proof()).missing == missing


def test_the_loader_searches_where_the_build_left_its_own_libraries() -> None:
    sandbox = FakeSandbox([])
    gather_proofs(Shell(sandbox, deadline=None, output=None), (_TOOL, _SHARED))
    (asked,) = sandbox.scripts("LD_TRACE")
    assert "LD_LIBRARY_PATH=/workspace/build/p/lib " in asked
    assert {one.user for one in sandbox.ran} == {"builder"}
    assert sandbox.network == [False]


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        pytest.param(
            [("--version", [(0, b"tool 1.2\n")])],
            Start(argument="--version", status=StartStatus.STARTED, exit_code=0, said="tool 1.2"),
            id="version",
        ),
        pytest.param(
            [("--version", [(2, b"bad option\n")]), ("--help", [(0, b"\n\nusage: tool\n")])],
            Start(argument="--help", status=StartStatus.STARTED, exit_code=0, said="usage: tool"),
            id="help",
        ),
        pytest.param(
            [("--version", [(139, b"")]), ("--help", [(1, b"no\x1b[31m file\n")])],
            Start(argument="--help", status=StartStatus.STARTED, exit_code=1, said="no file"),
            id="refuses-options",
        ),
        pytest.param(
            [("--version", [(139, b"")]), ("--help", [(134, b"")])],
            Start(argument="--version", status=StartStatus.CRASHED, exit_code=139, said=""),
            id="crash",
        ),
        pytest.param(
            [("--version|--help", [(124, b"listening\n")])],
            Start(argument="--version", status=StartStatus.RUNNING, exit_code=None, said="listening"),
            id="daemon",
        ),
        pytest.param(
            [("--version|--help", [(127, b"error while loading shared libraries\n")])],
            Start(
                argument="--version",
                status=StartStatus.REFUSED,
                exit_code=127,
                said="error while loading shared libraries",
            ),
            id="library-gone",
        ),
    ],
)
def test_how_a_program_starts_is_told_by_its_best_answer(
    answers: list[tuple[str, list[tuple[int, bytes]]]], expected: Start
) -> None:
    answers = [(rf"^({pattern})$", replies) for pattern, replies in answers]
    proofs = _gather(replace(_TOOL, facts=replace(_FACTS, needed=())), answers=answers)
    assert proofs[_TOOL.sha256].start == expected


def test_only_a_few_programs_are_started_and_archives_never() -> None:
    many = [replace(_TOOL, path=f"build/p/t{one}", sha256=f"{one:064}") for one in range(20)]
    archive = replace(_TOOL, path="build/p/a.a", type="static archive", sha256="c" * 64)
    proofs = _gather(archive, *many, answers=[])
    assert sum(one.start is not None for one in proofs.values()) == 4
    assert archive.sha256 not in proofs


def test_no_program_is_started_when_the_time_is_up() -> None:
    shell = Shell(FakeSandbox([]), deadline=None, output=None)
    proofs = gather_proofs(shell, (replace(_TOOL, facts=replace(_FACTS, needed=())),), budget_s=0.0)
    assert proofs[_TOOL.sha256].start is None


def test_a_program_that_runs_on_is_not_started_again() -> None:
    sandbox = FakeSandbox([("^--version$", [(124, b"")])])
    gather_proofs(Shell(sandbox, deadline=None, output=None), (_TOOL,))
    assert [one.argv[-1] for one in sandbox.ran if one.argv[0] == "timeout"] == ["--version"]


def test_a_sandbox_that_fails_meanwhile_costs_the_evidence_and_nothing_else() -> None:
    class Broken(FakeSandbox):
        def run(self, command: ExecSpec, **options: object) -> Completed:  # noqa: ARG002 - the protocol's
            raise SandboxError("gone")

    assert gather_proofs(Shell(Broken([]), deadline=None, output=None), (_TOOL,)) == {}


def test_what_a_reader_should_know_of_a_product_is_one_line() -> None:
    crash = Start(argument="--help", status=StartStatus.CRASHED, exit_code=139, said="")
    assert describe_proofs([_TOOL], {_TOOL.sha256: Proof(missing=("libx.so.1",), start=crash)}) == [
        "needs libraries that the sandbox lacks (libx.so.1): build/p/tool",
        "crashed when started with --help (exit code 139): build/p/tool",
    ]
    fine = Start(argument="--version", status=StartStatus.STARTED, exit_code=0, said="1.2")
    assert describe_proofs([_TOOL], {_TOOL.sha256: Proof(missing=(), start=fine)}) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        pytest.param({}, [], id="usual"),
        pytest.param({"architecture": ""}, [], id="no-attributes"),
        pytest.param(
            {"abi": "lp64"}, ["unusual ABI lp64 (this platform's is lp64d): build/p/tool"], id="abi"
        ),
        pytest.param(
            {"compressed": False}, ["code without compressed instructions (RVC): build/p/tool"], id="no-rvc"
        ),
        pytest.param(
            {"interpreter": "/lib/ld-linux-riscv64-lp64.so.1"},
            ["unusual program interpreter /lib/ld-linux-riscv64-lp64.so.1: build/p/tool"],
            id="interpreter",
        ),
        pytest.param(
            {"architecture": "rv64i2p1_m2p0_v1p0_zicsr2p0_zba1p0_zvl128b1p0"},
            ["code may need instructions beyond RV64GC (v, zba, zvl128b): build/p/tool"],
            id="vector",
        ),
    ],
)
def test_an_odd_abi_is_told_once(change: dict[str, Any], said: list[str]) -> None:
    odd = replace(_TOOL, facts=replace(_FACTS, **change))
    assert describe_abi([odd, replace(odd, path="build/p/second")]) == said
