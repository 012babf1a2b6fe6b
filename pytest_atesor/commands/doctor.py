"""``atesor doctor``: all that a batch needs of the machine it builds on, checked without running one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from pytest_atesor.commands.machine import (
    MachineChoice,
    choose_machine,
    read_environment,
    with_machine_options,
)
from pytest_atesor.core.plan import Target
from pytest_atesor.errors import SetupError
from pytest_atesor.sandbox.kernel import check_kernel

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["doctor"]

_NOT_READY: Final = 1


@click.command(
    help="""Check the machine that builds run on, and print every problem with the command that mends it.

    Nothing is installed and nothing runs. What is not given comes from the environment, or from .env in this
    directory. With --target native the machines of ATESOR_SSH_* are looked at, and the other flags say
    nothing. Exit code: 0 ready; 1 not ready, or not readable; 2 a bad flag. """,
)
@click.option("--target", metavar="NAME", help="qemu or native.  [default: ATESOR_TARGET, else qemu]")
@with_machine_options
def doctor(target: str | None, platform: str | None, engine: str | None, *, no_acceleration: bool) -> int:
    """Look at the machine of the target."""
    environ = read_environment()
    choice = choose_machine(
        environ, platform=platform, target=target, engine=engine, no_acceleration=no_acceleration
    )
    try:
        check_kernel()
    except SetupError as error:
        _tell_problems([str(error)])
        click.echo("not ready: 1 problem(s)")
        return _NOT_READY
    if choice.target is Target.NATIVE:
        return _check_native(environ)
    if choice.engine == "none":
        click.echo("engine: none; the agent brings its own sandbox\nready")
        return 0
    return _check_emulated(choice, environ)


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


def _check_emulated(choice: MachineChoice, environ: Mapping[str, str]) -> int:
    from pytest_atesor.sandbox.image import describe_image  # noqa: PLC0415 - only for this target
    from pytest_atesor.sandbox.preflight import run_preflight  # noqa: PLC0415 - the same
    from pytest_atesor.sandbox.select import NoEngineError, select_engine  # noqa: PLC0415 - the same
    from pytest_atesor.sandbox.slots import state_directory  # noqa: PLC0415 - the same

    state = state_directory(environ)
    try:
        engine = select_engine(choice.engine, state=state)
        info = run_preflight(
            engine, choice.platform, Target.QEMU, state=state, accelerated=choice.is_accelerated
        )
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
    image = describe_image(engine, choice.platform, state=state, accelerated=choice.is_accelerated)
    click.echo(f"image: {image}")
    click.echo("ready")
    return 0


def _tell_problems(reasons: Iterable[str]) -> None:
    """Print each reason, and on a line of its own what mends it, where the reason ends with that."""
    for reason in reasons:
        problem, _, fix = reason.rpartition("; ")
        click.echo(f"problem: {problem}\n    {fix}" if problem else f"problem: {fix}")
