"""``atesor doctor``: all that a batch needs of the machine it builds on, checked without running one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from pytest_atesor.core.plan import Platform, Target
from pytest_atesor.errors import SetupError, UsageError
from pytest_atesor.options import ENGINES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["doctor", "read_environment"]

_NOT_READY: Final = 1


@click.command(
    help="""Check the machine that builds run on, and print every problem with the command that mends it.

    Nothing is installed and nothing runs. With --target native the machines of ATESOR_SSH_* (environment
    or .env) are looked at. Exit code: 0 ready; 1 not ready, or not readable; 2 a bad flag. """,
)
@click.option("--target", metavar="NAME", help="qemu or native.  [default: ATESOR_TARGET, else qemu]")
@click.option("--engine", metavar="NAME", default="auto", show_default=True, help="For qemu: the engine.")
def doctor(target: str | None, engine: str) -> int:
    """Look at the machine of the target."""
    environ = read_environment()
    chosen = target or environ.get("ATESOR_TARGET") or Target.QEMU.value
    if chosen not in list(Target):
        raise UsageError(f"unknown target {chosen!r}; use one of: {', '.join(Target)}")
    if engine not in ENGINES[:-1]:
        raise UsageError(f"unknown engine {engine!r}; use one of: {', '.join(ENGINES[:-1])}")
    return _check_native(environ) if chosen == Target.NATIVE else _check_emulated(engine, environ)


def read_environment() -> dict[str, str]:
    """Return the environment over what ``.env`` in the working directory says."""
    from dotenv import dotenv_values  # noqa: PLC0415 - only for this command

    try:
        dotenv = dotenv_values(Path(".env"), encoding="utf-8", interpolate=False)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read .env: {error}; it holds NAME=value lines in UTF-8") from error
    return {**{name: text for name, text in dotenv.items() if text is not None}, **os.environ}


def _check_native(environ: Mapping[str, str]) -> int:
    from pytest_atesor.sandbox.native.preflight import examine_machines  # noqa: PLC0415 - only for this target
    from pytest_atesor.sandbox.native.probe import format_machine  # noqa: PLC0415 - the same

    survey = examine_machines(environ)
    for one in survey.machines:
        click.echo(f"machine: {one.settings.name}: {format_machine(one.machine)}")
    if survey.machines:
        click.echo(f"workers: {sum(one.machine.workers for one in survey.machines)}")
    for problem in survey.problems:
        click.echo(f"problem: {problem.line}\n    {problem.fix}")
    if survey.problems or not survey.machines:
        click.echo(f"not ready: {len(survey.problems)} problem(s)")
        return _NOT_READY
    click.echo("ready")
    return 0


def _check_emulated(engine: str, environ: Mapping[str, str]) -> int:
    from pytest_atesor.sandbox.image import describe_image  # noqa: PLC0415 - only for this target
    from pytest_atesor.sandbox.preflight import run_preflight  # noqa: PLC0415 - the same
    from pytest_atesor.sandbox.select import NoEngineError, select_engine  # noqa: PLC0415 - the same
    from pytest_atesor.sandbox.slots import state_directory  # noqa: PLC0415 - the same

    state = state_directory(environ)
    try:
        chosen = select_engine(engine)
        info = run_preflight(chosen, Platform.DEBIAN, Target.QEMU, state=state)
    except NoEngineError as error:
        _tell_problems(error.reasons)
        click.echo("not ready: no container engine answers; mend one of them")
        return _NOT_READY
    except SetupError as error:
        _tell_problems([str(error)])
        click.echo("not ready: 1 problem(s)")
        return _NOT_READY
    click.echo(f"engine: {info.name} {info.version}{', without root' if info.rootless else ''}")
    if info.unenforced:
        click.echo(f"it cannot enforce here: {', '.join(info.unenforced)}")
    click.echo(f"image: {describe_image(chosen, Platform.DEBIAN, state=state)}")
    click.echo("ready")
    return 0


def _tell_problems(reasons: Iterable[str]) -> None:
    """Print each reason, and on a line of its own what mends it, where the reason ends with that."""
    for reason in reasons:
        problem, _, fix = reason.rpartition("; ")
        click.echo(f"problem: {problem}\n    {fix}" if problem else f"problem: {fix}")
