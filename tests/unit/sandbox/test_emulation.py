import io
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from elftools.elf.elffile import ELFFile

from pytest_atesor.sandbox.emulation import (
    RISCV64_PROGRAM,
    explain_binfmt,
    explain_emulation,
    is_runnable,
    read_handlers,
)

if TYPE_CHECKING:
    from conftest import ClosedPlace

HANDLER = """enabled
interpreter /usr/libexec/qemu-binfmt/riscv64-binfmt-P
flags: {flags}
offset 0
magic 7f454c460201010000000000000000000200{machine}00
mask ffffffffffffff00fffffffffffffffffeffffff
"""
GOOD = HANDLER.format(flags="PF", machine="f3")


def test_the_probe_program_is_a_riscv64_executable() -> None:
    elf = ELFFile(io.BytesIO(RISCV64_PROGRAM))
    assert (elf.get_machine_arch(), elf.elfclass, elf.little_endian) == ("RISC-V", 64, True)
    assert elf.header["e_type"] == "ET_EXEC"
    assert next(elf.iter_segments())["p_type"] == "PT_LOAD"


@pytest.mark.parametrize(
    ("program", "runnable"),
    [(b"#!/bin/sh\nexit 0\n", True), (b"#!/bin/sh\nexit 1\n", False), (b"\x7fELF nothing", False)],
    ids=["runs", "fails", "is-no-program"],
)
def test_runnable_means_run_with_exit_code_0(program: bytes, *, runnable: bool) -> None:
    assert is_runnable(program) is runnable


WITHOUT_PROGRAMS = """
import sys
from pathlib import Path
from pytest_atesor.sandbox.emulation import is_runnable
script = b"#!/bin/sh\\nexit %d\\n"
closed, opened = Path(sys.argv[1]), Path(sys.argv[2])
print(is_runnable(script % 0, closed), is_runnable(script % 0, opened), is_runnable(script % 1, opened))
"""


def test_where_no_program_may_run_nothing_is_said_of_emulation(
    tmp_path: Path, closed_place: "ClosedPlace"
) -> None:
    argv = [*closed_place.argv, sys.executable, "-c", WITHOUT_PROGRAMS, closed_place.path, tmp_path]
    environ = {**os.environ, "TMPDIR": str(closed_place.path)}
    said = subprocess.run(argv, env=environ, capture_output=True, text=True, check=True)
    assert said.stdout == "None True False\n"


def test_an_emulator_that_may_not_be_executed_is_one_that_does_not_run(tmp_path: Path) -> None:
    emulator = tmp_path / "qemu-riscv64-static"
    emulator.write_text("#!/bin/sh\n")
    emulator.chmod(0o644)
    # a script's interpreter stands for a handler's: the kernel refuses both in the same words
    assert is_runnable(f"#!{emulator}\n".encode(), tmp_path) is False


def test_a_place_that_is_not_there_says_nothing_of_emulation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "absent"))
    assert is_runnable(b"#!/bin/sh\nexit 0\n") is None
    assert is_runnable(b"#!/bin/sh\nexit 0\n", tmp_path) is True


@pytest.mark.parametrize(
    ("handlers", "runnable", "problem"),
    [
        pytest.param({"status": "enabled\n", "qemu-riscv64": GOOD}, True, None, id="runs"),
        pytest.param(
            {"status": "enabled\n", "qemu-riscv64": GOOD}, False, "emulator does not run", id="fails"
        ),
        pytest.param({"status": "enabled\n", "qemu-riscv64": GOOD}, None, None, id="not-tried"),
        pytest.param({"status": "enabled\n"}, None, "no handler for riscv64", id="not-tried-and-no-handler"),
        pytest.param(None, True, None, id="runs-in-a-container"),
        pytest.param(None, False, "binfmt_misc is not mounted", id="not-mounted"),
        pytest.param(None, None, "set TMPDIR", id="not-tried-in-a-container"),
    ],
)
def test_what_could_not_be_tried_is_what_the_handlers_say(
    handlers: Mapping[str, str] | None, problem: str | None, *, runnable: bool | None
) -> None:
    said = explain_emulation(handlers, runnable=runnable)
    assert said is None if problem is None else problem in str(said)


@pytest.mark.parametrize(
    "handlers",
    [
        {"status": "enabled\n", "qemu-riscv64": GOOD},
        {"status": "enabled\n", "qemu-arm": HANDLER.format(flags="P", machine="28"), "mine": GOOD},
        {"status": "enabled\n", "old": HANDLER.format(flags="P", machine="f3"), "qemu-riscv64": GOOD},
    ],
    ids=["alone", "under-another-name", "beside-an-unusable-one"],
)
def test_a_handler_that_serves_containers_is_fine(handlers: Mapping[str, str]) -> None:
    assert explain_binfmt(handlers) is None


@pytest.mark.parametrize(
    ("handlers", "fix"),
    [
        pytest.param(None, "mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc", id="not-mounted"),
        pytest.param({"status": "disabled\n", "qemu-riscv64": GOOD}, "echo 1 >", id="switched-off"),
        pytest.param({"status": "enabled\n"}, "apt-get install qemu-user-static binfmt-support", id="absent"),
        pytest.param(
            {"status": "enabled\n", "qemu-arm": HANDLER.format(flags="PF", machine="28")},
            "update-binfmts --enable qemu-riscv64",
            id="other-architecture",
        ),
        pytest.param(
            {"status": "enabled\n", "qemu-riscv64": GOOD.replace("enabled", "disabled")},
            "update-binfmts --enable qemu-riscv64",
            id="disabled",
        ),
        pytest.param(
            {"status": "enabled\n", "qemu-riscv64": HANDLER.format(flags="P", machine="f3")},
            "without the F flag",
            id="not-for-containers",
        ),
    ],
)
def test_each_fault_is_named_with_its_fix(handlers: Mapping[str, str] | None, fix: str) -> None:
    problem = explain_binfmt(handlers)
    assert problem is not None
    assert fix in problem
    assert "\n" not in problem


def test_handlers_are_read_from_the_directory(tmp_path: Path) -> None:
    assert read_handlers(tmp_path) is None
    for name, text in (("status", "enabled\n"), ("register", "secret"), ("qemu-riscv64", GOOD)):
        (tmp_path / name).write_text(text)
    assert read_handlers(tmp_path) == {"status": "enabled\n", "qemu-riscv64": GOOD}
