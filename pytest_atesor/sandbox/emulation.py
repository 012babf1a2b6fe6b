"""Finds out whether this machine's kernel runs riscv64 programs, and if not, what to do about it."""

import platform as host_platform
import struct
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pytest_atesor.errors import SetupError

__all__ = [
    "BINFMT",
    "RISCV64_PROGRAM",
    "check_emulation",
    "explain_binfmt",
    "explain_emulation",
    "is_runnable",
    "read_handlers",
]

BINFMT: Final = Path("/proc/sys/fs/binfmt_misc")

_INSTALL: Final = "apt-get install qemu-user-static binfmt-support (or qemu-user-binfmt on newer releases)"
_MACHINE: Final = "f300"  # EM_RISCV, little endian, as the kernel shows it in hexadecimal


def _make_program() -> bytes:
    """Return the smallest riscv64 program: it ends with exit code 0."""
    code = struct.pack("<III", 0x05D00893, 0x00000513, 0x00000073)  # li a7, 93; li a0, 0; ecall
    base, start = 0x10000, 64 + 56
    identification = b"\x7fELF\x02\x01\x01" + bytes(9)
    header = struct.pack("<HHIQQQIHHHHHH", 2, 0xF3, 1, base + start, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    segment = struct.pack("<IIQQQQQQ", 1, 5, 0, base, base, start + len(code), start + len(code), 0x1000)
    return identification + header + segment + code


RISCV64_PROGRAM: Final = _make_program()


def check_emulation(place: Path) -> None:
    """Return when riscv64 programs run here, in containers too. Raises SetupError that names the fix.

    A program is tried in the directory ``place`` where the temporary one lets none run.
    """
    if host_platform.machine() == "riscv64":
        return
    handlers = read_handlers(BINFMT)
    problem = explain_emulation(handlers, runnable=is_runnable(RISCV64_PROGRAM, place))
    if problem is not None:
        raise SetupError(f"this machine does not run riscv64 programs: {problem}")


def explain_emulation(handlers: Mapping[str, str] | None, *, runnable: bool | None) -> str | None:
    """Say what is wrong and how to mend it; None when riscv64 programs run, in containers too.

    ``runnable`` says whether one ran, None when that could not be tried: then the handlers' word counts.
    """
    if handlers is None:
        if runnable:
            return None  # registered, but not to be seen from here (this is a container)
        if runnable is None:
            return "no program could be tried, as no place for one lets any run; set TMPDIR to one that does"
    problem = explain_binfmt(handlers)
    if problem is None and runnable is False:
        problem = "the registered emulator does not run; " + _INSTALL.replace(
            "install", "install --reinstall"
        )
    return None if problem is None else f"{problem}; ./bootstrap setup does it for you"


def is_runnable(program: bytes, *more_places: Path) -> bool | None:
    """Tell whether the kernel runs that program and it ends with exit code 0.

    It is tried in the temporary directory, else in the others. None when none of them lets programs run, as
    where they are mounted noexec.
    """
    for place in (None, *more_places):
        runs = _try_program(program, place)
        if runs is not None:
            return runs
    return None


def _try_program(program: bytes, place: Path | None) -> bool | None:
    try:
        with tempfile.TemporaryDirectory(prefix="atesor-riscv64-", dir=place) as directory:
            file = Path(directory) / "program"
            file.write_bytes(program)
            file.chmod(0o700)
            return _ends_well(file)
    except OSError:  # full, not ours or not there
        return None


def _ends_well(file: Path) -> bool | None:
    try:
        ended = subprocess.run([file], stdin=subprocess.DEVNULL, capture_output=True, timeout=30, check=False)
    except PermissionError:  # the place lets none run, or the emulator may not be executed
        return False if _lets_scripts_run(file.parent) else None
    except (OSError, subprocess.TimeoutExpired):
        return False
    return ended.returncode == 0


def _lets_scripts_run(directory: Path) -> bool:
    script = directory / "script"
    script.write_bytes(b"#!/bin/sh\nexit 0\n")
    script.chmod(0o700)
    try:
        subprocess.run([script], stdin=subprocess.DEVNULL, capture_output=True, timeout=30, check=False)
    except PermissionError:
        return False
    except (OSError, subprocess.TimeoutExpired):
        pass
    return True


def read_handlers(directory: Path) -> Mapping[str, str] | None:
    """Return the text of every registered handler and of "status"; None when binfmt_misc is not mounted."""
    if not (directory / "status").exists():
        return None
    found = {}
    for file in directory.iterdir():
        if file.name != "register":
            found[file.name] = file.read_text(encoding="utf-8", errors="replace")
    return found


def explain_binfmt(handlers: Mapping[str, str] | None) -> str | None:
    """Say what is wrong with the registered handlers and how to mend it; None when containers are served."""
    if handlers is None:
        return f"binfmt_misc is not mounted; mount -t binfmt_misc binfmt_misc {BINFMT}"
    if not handlers.get("status", "").startswith("enabled"):
        return f"binfmt_misc is switched off; echo 1 > {BINFMT}/status"
    problem = f"no handler for riscv64 is registered; {_INSTALL}, then update-binfmts --enable qemu-riscv64"
    for name, text in handlers.items():
        fields = dict(line.partition(" ")[::2] for line in text.splitlines())
        if fields.get("magic", "")[36:40] != _MACHINE:
            continue
        if not text.startswith("enabled"):
            problem = (
                f"the handler {name} is disabled; update-binfmts --enable {name}, or echo 1 > {BINFMT}/{name}"
            )
        elif "F" not in fields.get("flags:", ""):
            problem = (
                f"the handler {name} is registered without the F flag and cannot serve containers; "
                f"echo -1 > {BINFMT}/{name}, then {_INSTALL}"
            )
        else:
            return None
    return problem
