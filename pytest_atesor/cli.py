"""The ``atesor`` command: the predecessor's flags on top of pytest, and the built-in agent by hand.

``atesor run`` only translates: it ends in ``pytest.main`` and returns its exit code. Its bad flags end with
2 and one line, like every other mistake.
"""

from __future__ import annotations

import io
import os
import sys
from typing import TYPE_CHECKING, TextIO

import click

from pytest_atesor import __version__
from pytest_atesor.commands.batch import ExtraCommand, batch, check_workers, run_pytest
from pytest_atesor.commands.doctor import doctor
from pytest_atesor.commands.machine import choose_machine, read_environment, with_machine_options
from pytest_atesor.commands.report import compare, history, report
from pytest_atesor.commands.resources import resources
from pytest_atesor.commands.sweep import sweep
from pytest_atesor.core.plan import Target
from pytest_atesor.core.text import LONGEST_LINE, sanitize_line
from pytest_atesor.errors import AtesorError, UsageError, explaining_paths
from pytest_atesor.option_table import MOST_WORKERS, RUN

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["main", "plan_pytest_arguments"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code; the console script exits with it."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    _spell_out_strangers(sys.stdout)
    try:
        with explaining_paths():
            result = _atesor.main(arguments, prog_name="atesor", standalone_mode=False)
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.Abort:
        return 130
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)  # no flag was bad: the help is the answer
        return 2
    except click.ClickException as error:
        message = sanitize_line(error.format_message(), LONGEST_LINE).rstrip(".")
        click.echo(f"atesor: error: {message}; see {_name_command(arguments)} --help", err=True)
        return 2
    except AtesorError as error:
        # A path in it may have any character.
        click.echo(f"atesor: error: {sanitize_line(str(error), LONGEST_LINE)}", err=True)
        return error.exit_code
    return int(result or 0)


def _name_command(arguments: Sequence[str]) -> str:
    """Return the command that was called, with its groups; click does not tell it for each error."""
    names = ["atesor"]
    command: click.Command = _atesor
    for argument in arguments:
        if not (isinstance(command, click.Group) and argument in command.commands):
            break
        command = command.commands[argument]
        names.append(argument)
    return " ".join(names)


def _spell_out_strangers(stream: TextIO) -> None:
    """Let a stream spell out what it cannot encode, as standard error always does."""
    if isinstance(stream, io.TextIOWrapper) and stream.errors in {"strict", "surrogateescape"}:
        stream.reconfigure(errors="backslashreplace")


def plan_pytest_arguments(  # noqa: PLR0913 - the predecessor's flags, one by one
    *,
    package_list: str | None,
    workers: str | None,
    platform: str | None,
    target: str | None,
    package: bool,
    shard_index: str | None,
    shard_total: str | None,
    names: Sequence[str],
    cpus: int,
) -> list[str]:
    """Translate ``atesor run`` into pytest's arguments, which those behind ``--`` follow.

    What no flag says is left to the settings that pytest finds from the rootdir: the list, else smoke, and
    the target with what it allows. There the workers are counted: by default as many as there are CPUs, or as
    the native machines can hold; the batch refuses more than they have cores. Raises UsageError for a worker
    count that no target can have.
    """
    if workers is not None:
        limit = f"{cpus}, the CPU count, or on native machines to their core count"
        check_workers(workers, cpus if target == Target.QEMU else MOST_WORKERS, limit)
    arguments = ["-n", workers or "auto", f"{RUN.flag}={workers or ''}"]
    optional = {
        "list": package_list,
        "platform": platform,
        "target": target,
        "shard-index": shard_index,
        "shard-total": shard_total,
    }
    arguments += [f"--atesor-{name}={value}" for name, value in optional.items() if value is not None]
    if package:
        arguments.append("--atesor-package")
    for name in names:
        if name.startswith("@"):
            raise UsageError(f"unknown package name {name!r}: no name begins with @")
        arguments.append(f"--atesor-only={name}")
    return arguments


@click.group(
    name="atesor",
    help="Port lists of upstream packages to riscv64, in sandbox containers, with proof.",
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, prog_name="atesor")
def _atesor() -> None:
    """Group of all commands."""


_atesor.add_command(batch)
_atesor.add_command(doctor)
_atesor.add_command(report)
_atesor.add_command(compare)
_atesor.add_command(history)
_atesor.add_command(sweep)
_atesor.add_command(resources)


@_atesor.command(
    name="run",
    cls=ExtraCommand,
    help="""Port a package list, or only the packages NAMES of it.

    A thin skin over pytest: everything behind -- goes to pytest as it is, as in `atesor run --list full
    gron anew -- -v --junitxml=junit.xml`. Exit code: 0 all PASS; 1 any FAIL, TIMEOUT or UNVERIFIED, a bad
    list file or a failed set-up; 2 a bad flag, worker count, shard or name; 130 Ctrl-C. """,
)
@click.option(
    "--list",
    "package_list",
    metavar="NAME",
    help="The package list: a name, or a path when it has a slash or ends in .json.  [default: "
    "ATESOR_LIST, else smoke]",
)
@click.option(
    "--workers",
    metavar="N",
    help="Parallel workers, from 1 to the CPU count.  [default: that; native: as many as its machines hold]",
)
@click.option(
    "--platform", metavar="NAME", help="alpine, debian or ubuntu.  [default: ATESOR_PLATFORM, else debian]"
)
@click.option("--target", metavar="NAME", help="qemu or native.  [default: ATESOR_TARGET, else qemu]")
@click.option("--package", is_flag=True, help="Ask each run to package what it built.")
@click.option("--shard-index", metavar="I", help="Run only shard I, counted from 0; needs --shard-total.")
@click.option(
    "--shard-total", metavar="N", help="Cut the list into N contiguous shards; 1 turns sharding off."
)
@click.argument("names", nargs=-1)
@click.pass_context
def _run(context: click.Context, /, **flags: object) -> int:
    arguments = plan_pytest_arguments(
        **flags,  # type: ignore[arg-type]  # click's values, as declared above
        cpus=os.cpu_count() or 1,
    )
    return run_pytest(context, arguments)


@_atesor.command(
    name="port",
    help="""Port one package with the built-in agent: `atesor port URL`, then the agent's own flags.

    `atesor port --help` lists them. Exit code: 0 riscv64 output proven, 3 nothing proven, else failure.
    """,
    add_help_option=False,
    context_settings={
        "ignore_unknown_options": True,
        "allow_extra_args": True,
        "allow_interspersed_args": False,
    },
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def _port(arguments: tuple[str, ...]) -> int:
    from pytest_atesor.porter.agent import main as port  # noqa: PLC0415 - only for this command

    has_url = bool(arguments) and not arguments[0].startswith("-")
    return port(["--repo", *arguments] if has_url else list(arguments), read_environment())


@_atesor.command(
    name="replay",
    help="""Replay a recipe: `atesor replay recipe.json`, then the agent's own flags.

    Builds in an empty sandbox with the recipe's source, packages and commands, and proves the products again.
    """,
    add_help_option=False,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def _replay(arguments: tuple[str, ...]) -> int:
    from pytest_atesor.porter.agent import replay_main  # noqa: PLC0415 - only for this command

    return replay_main(arguments, read_environment())


@_atesor.command(
    name="setup",
    help="""Check this machine and make the sandbox image, so that a batch can start at once.

    What is not given comes from the environment, or from .env in this directory. """,
)
@with_machine_options
@click.option("--rebuild", is_flag=True, help="Make the image again even when it is current.")
def _setup(platform: str | None, engine: str | None, *, no_acceleration: bool, rebuild: bool) -> int:
    from pytest_atesor.sandbox.image import describe_image, ensure_image  # noqa: PLC0415 - only for this command
    from pytest_atesor.sandbox.preflight import run_preflight  # noqa: PLC0415 - the same
    from pytest_atesor.sandbox.select import select_engine  # noqa: PLC0415 - the same
    from pytest_atesor.sandbox.slots import state_directory  # noqa: PLC0415 - the same

    environ = read_environment()
    choice = choose_machine(environ, platform=platform, engine=engine, no_acceleration=no_acceleration)
    if choice.engine == "none":
        raise UsageError(
            "the engine 'none' of ATESOR_ENGINE has no image to make; choose another with --engine"
        )
    state = state_directory(environ)
    chosen = select_engine(choice.engine, state=state)
    run_preflight(chosen, choice.platform, Target.QEMU, state=state, accelerated=choice.is_accelerated)
    image = ensure_image(
        chosen,
        choice.platform,
        state=state,
        progress=click.echo,
        rebuild=rebuild,
        accelerated=choice.is_accelerated,
        must_prove=True,
        environ=environ,
    )
    click.echo(f"{chosen.name} has the image {image}")
    if choice.is_accelerated:
        click.echo(f"image: {describe_image(chosen, choice.platform, state=state)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
