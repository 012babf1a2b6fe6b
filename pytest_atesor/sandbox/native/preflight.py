"""The checks before a native batch: settings, local tools, login, and one look at the machine.

All problems come in one list, each with the command that mends it. Nothing is installed there, and nothing
runs with sudo.
"""

import shlex
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass

from pytest_atesor.errors import SandboxError, SetupError
from pytest_atesor.sandbox.native.connection import Connection, cache_directory, make_connection, read_script
from pytest_atesor.sandbox.native.probe import (
    PROBE,
    SIZE,
    Machine,
    Problem,
    find_problems,
    parse_machine,
    parse_size,
)
from pytest_atesor.sandbox.native.settings import NativeSettings, parse_settings

__all__ = ["Findings", "examine_machine", "format_problems", "read_workers", "require_machine"]

_LOCAL_TOOLS: Mapping[str, str] = {"ssh": "openssh-client", "rsync": "rsync"}
_LOGIN_S = 60.0
_PROBE_S = 400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """What the checks found; ``machine`` is None when it could not be read."""

    settings: NativeSettings | None
    connection: Connection | None
    machine: Machine | None
    problems: tuple[Problem, ...]


def examine_machine(environ: Mapping[str, str]) -> Findings:
    """Check everything, as far as one thing does not need the other. Raises nothing that a user can cause."""
    problems = [
        Problem(f"{program} is not installed on this machine", f"sudo apt-get install {package}")
        for program, package in _LOCAL_TOOLS.items()
        if shutil.which(program) is None
    ]
    settings = connection = None
    try:
        settings = parse_settings(environ)
        connection = make_connection(settings, cache_directory(environ))
    except SetupError as error:
        text, _, fix = str(error).rpartition("; ")
        problems.append(Problem(text, fix))
    machine = None
    if settings is not None and connection is not None and shutil.which("ssh") is not None:
        machine, found = _look(settings, connection)
        problems += found
    return Findings(settings=settings, connection=connection, machine=machine, problems=tuple(problems))


def require_machine(environ: Mapping[str, str]) -> tuple[NativeSettings, Connection, Machine]:
    """Return the machine that all checks passed on. Raises SetupError with the whole list of problems."""
    found = examine_machine(environ)
    if found.problems or found.settings is None or found.connection is None or found.machine is None:
        raise SetupError(f"the target native cannot be used: {format_problems(found.problems)}")
    return found.settings, found.connection, found.machine


def read_workers(environ: Mapping[str, str]) -> int | None:
    """Return how many cases the machine can hold, asked in one call; None when it cannot be read.

    Why it cannot, the preflight says.
    """
    try:
        connection = make_connection(parse_settings(environ), cache_directory(environ))
        answer = connection.script(SIZE, timeout_s=_LOGIN_S)
    except (SandboxError, SetupError):
        return None
    return parse_size(answer.stdout.decode("ascii", "replace"))


def format_problems(problems: tuple[Problem, ...]) -> str:
    """Return all problems in one line, each with what mends it."""
    return " | ".join(f"{one.text}; {one.fix}" for one in problems)


def _look(settings: NativeSettings, connection: Connection) -> tuple[Machine | None, tuple[Problem, ...]]:
    login = (
        f"ssh {shlex.quote(settings.alias)}" if settings.alias else "ssh with the settings of ATESOR_SSH_*"
    )
    try:
        greeting = connection.run(
            connection.argv("exec sh -c 'echo \"atesor  $((6*7))\"'"), timeout_s=_LOGIN_S
        )
        if b"atesor  42" not in greeting.stdout:
            fix = "give that user a POSIX shell: sudo chsh -s /bin/sh USER"
            return None, (Problem("the login shell there does not run POSIX shell commands", fix),)
        ended = connection.script(read_script(PROBE), settings.workdir, timeout_s=_PROBE_S)
    except (SandboxError, SetupError) as error:
        text, _, fix = str(error).rpartition("; ")
        return None, (Problem(text, f"{fix} ({login})"),)
    machine = parse_machine(ended.stdout.decode("utf-8", "replace"))
    if machine is None:
        return None, (
            Problem("its cores and memory cannot be read", f"{login} nproc, and see what is wrong"),
        )
    return machine, find_problems(machine, settings, now_s=time.time())
