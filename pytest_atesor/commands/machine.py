"""The machine that ``doctor`` and ``setup`` look at: that of a batch with the same flags and environment.

``.env`` counts too, that of the working directory; an ini file, which only pytest can find, does not.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from pytest_atesor.core.dotenv import Surroundings, describe_mistyped, tell_origin
from pytest_atesor.core.plan import Platform, Target
from pytest_atesor.core.text import LONGEST_LINE, sanitize_line
from pytest_atesor.options import (
    ENGINES,
    INTERNAL_VARIABLES,
    OPTIONS,
    VARIABLES,
    Value,
    parse_choice,
    parse_flag,
    read_dotenv,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["MachineChoice", "choose_machine", "read_environment", "with_machine_options"]

_OPTIONS: Final = {option.name: option for option in OPTIONS}
_MACHINE_OPTIONS: Final = (
    click.option(
        "--platform",
        metavar="NAME",
        help="alpine, debian or ubuntu.  [default: ATESOR_PLATFORM, else debian]",
    ),
    click.option(
        "--engine", metavar="NAME", help="auto, docker, podman or host.  [default: ATESOR_ENGINE, else auto]"
    ),
    click.option(
        "--no-acceleration",
        is_flag=True,
        help="The plain image, for batches with --atesor-no-acceleration.  [default: ATESOR_NO_ACCELERATION]",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineChoice:
    """What a batch would use here. ``engine`` is "none" only where a setting says so."""

    platform: Platform
    target: Target
    engine: str
    is_accelerated: bool


def with_machine_options(command: Callable[..., int]) -> Callable[..., int]:
    """Give a command the options of :func:`choose_machine` but the target."""
    for option in reversed(_MACHINE_OPTIONS):
        command = option(command)
    return command


def choose_machine(
    environ: Mapping[str, str],
    *,
    platform: str | None = None,
    target: str | None = None,
    engine: str | None = None,
    no_acceleration: bool = False,
) -> MachineChoice:
    """Return what the flags say, and of what they leave open, what ``environ`` does.

    Raises UsageError for an unknown value.
    """
    engines = ENGINES if engine is None else ENGINES[:-1]
    plain = Value("1", "--no-acceleration") if no_acceleration else _find("no-acceleration", None, environ)
    return MachineChoice(
        platform=Platform(parse_choice(_find("platform", platform, environ), "platform", list(Platform))),
        target=Target(parse_choice(_find("target", target, environ), "target", list(Target))),
        engine=parse_choice(_find("engine", engine, environ), "engine", engines),
        is_accelerated=not parse_flag(plain),
    )


def read_environment() -> Mapping[str, str]:
    """Return the environment over what ``.env`` in the working directory says; errors tell which of the two.

    A batch's agent gets the environment alone: its worker has put there what the batch's ``.env`` says.
    A mistyped name of ours in the file is warned of. Raises UsageError when the file cannot be read.
    """
    if os.environ.get("ATESOR_ATTEMPT_DIR"):
        return dict(os.environ)
    dotenv = read_dotenv(Path(".env"))
    for line in describe_mistyped(dotenv, VARIABLES, INTERNAL_VARIABLES):
        click.echo(f"atesor: warning: {sanitize_line(line, LONGEST_LINE)}", err=True)
    return Surroundings(dotenv, os.environ)


def _find(name: str, flag: str | None, environ: Mapping[str, str]) -> Value:
    option = _OPTIONS[name]
    if flag is not None:
        return Value(flag, f"--{name}")
    return Value(environ.get(option.env) or option.default, tell_origin(option.env, environ))
