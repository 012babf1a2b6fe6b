"""The checks before a native batch: settings, local tools, login, and one look at each machine.

All problems come in one list, each with the command that mends it. Nothing is installed there, and nothing
runs with sudo.
"""

import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from pytest_atesor.errors import SandboxError, SetupError
from pytest_atesor.sandbox.native.connection import Connection, cache_directory, make_connection, read_script
from pytest_atesor.sandbox.native.probe import (
    PROBE,
    SIZE,
    Machine,
    Problem,
    find_problems,
    find_twins,
    parse_machine,
    parse_size,
)
from pytest_atesor.sandbox.native.settings import NativeSettings, parse_settings

__all__ = ["Found", "Survey", "examine_machines", "format_problems", "read_workers", "require_machines"]

_LOCAL_TOOLS: Mapping[str, str] = {"ssh": "openssh-client", "rsync": "rsync"}
_LOGIN_S = 120.0
_PROBE_S = 400.0


class Found(NamedTuple):
    """A machine that answered: what was asked for, how it is reached, what it says of itself."""

    settings: NativeSettings
    connection: Connection
    machine: Machine


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """What the checks found: the machines that could be read, and all problems, each with its machine."""

    machines: tuple[Found, ...]
    problems: tuple[Problem, ...]


def examine_machines(environ: Mapping[str, str]) -> Survey:
    """Check everything, as far as one thing does not need the other. Raises nothing that a user can cause."""
    problems = [
        Problem(f"{program} is not installed on this machine", f"sudo apt-get install {package}")
        for program, package in _LOCAL_TOOLS.items()
        if shutil.which(program) is None
    ]
    wanted: list[tuple[NativeSettings, Connection]] = []
    try:
        wanted = _list_machines(environ)
    except SetupError as error:
        problems.append(_as_problem(error))
    machines: list[Found] = []
    for settings, connection in wanted if shutil.which("ssh") is not None else ():
        machine, found = _look(settings, connection)
        problems += [one._replace(machine=settings.name) for one in found]
        machines += [] if machine is None else [Found(settings, connection, machine)]
    if machines and "twice" not in machines[0].settings.allowed:
        problems += find_twins([(one.settings.name, one.machine) for one in machines])
    return Survey(machines=tuple(machines), problems=tuple(problems))


def require_machines(environ: Mapping[str, str]) -> tuple[Found, ...]:
    """Return the machines when all passed all checks. Raises SetupError with the whole list of problems."""
    survey = examine_machines(environ)
    if survey.problems or not survey.machines:
        raise SetupError(f"the target native cannot be used: {format_problems(survey.problems)}")
    return survey.machines


def read_workers(environ: Mapping[str, str]) -> int | None:
    """Return how many cases the machines can hold, each asked in one call; None when one cannot be read.

    Why it cannot, the preflight says.
    """
    try:
        answers = [one.script(SIZE, timeout_s=_LOGIN_S) for _, one in _list_machines(environ)]
    except (SandboxError, SetupError):
        return None
    sizes = [parse_size(one.stdout.decode("ascii", "replace")) for one in answers]
    known = [size for size in sizes if size is not None]
    return sum(known) if len(known) == len(sizes) else None


def format_problems(problems: tuple[Problem, ...]) -> str:
    """Return all problems in one line, each with what mends it."""
    return " | ".join(f"{one.line}; {one.fix}" for one in problems)


def _list_machines(environ: Mapping[str, str]) -> list[tuple[NativeSettings, Connection]]:
    directory = cache_directory(environ)
    return [(one, make_connection(one, directory)) for one in parse_settings(environ)]


def _as_problem(error: Exception, more: str = "") -> Problem:
    text, _, fix = str(error).rpartition("; ")
    return Problem(text, f"{fix}{more}")


def _look(settings: NativeSettings, connection: Connection) -> tuple[Machine | None, tuple[Problem, ...]]:
    login = connection.login
    try:
        greeting = connection.run(
            connection.argv("exec sh -c 'echo \"atesor  $((6*7))\"'"), timeout_s=_LOGIN_S
        )
        if b"atesor  42" not in greeting.stdout:
            fix = "give that user a POSIX shell: sudo chsh -s /bin/sh USER"
            return None, (Problem("the login shell there does not run POSIX shell commands", fix),)
        ended = connection.script(read_script(PROBE), settings.workdir, timeout_s=_PROBE_S)
    except (SandboxError, SetupError) as error:
        return None, (_as_problem(error, f" ({login})"),)
    machine = parse_machine(ended.stdout.decode("utf-8", "replace"))
    if machine is None:
        return None, (
            Problem("its cores and memory cannot be read", f"{login} nproc, and see what is wrong"),
        )
    return machine, find_problems(machine, settings, now_s=time.time())
