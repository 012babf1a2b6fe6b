"""``atesor sweep``: plan, run, resume and rerun sweeps with the engine and the options of batches."""

from __future__ import annotations

from copy import copy
from pathlib import Path
from typing import Final

import click

from pytest_atesor.commands.batch import (
    ExtraCommand,
    batch,
    has_plan,
    plan_arguments,
    run_pytest,
    with_input_options,
)
from pytest_atesor.errors import BadInputError

__all__ = ["sweep"]

_with_sweep_options: Final = with_input_options("sweep", "sweep", "runs/sweeps")
_GOING_ON: Final = {
    "resume": """Go on with the sweep in BUNDLE: run its cases that have no outcome yet.

    What -k, -m or the like left out of every run stays out; rerun --case runs it. Attempts that ended unseen
    are adopted; those that were cut short stay as evidence, and their cases run again. Everything but
    --workers is as it was planned. """,
    "rerun": """Run cases of the sweep in BUNDLE again, as new attempts; earlier ones stay.

    Exactly one of --failed, --case and --all says which. """,
}


@click.group(
    name="sweep",
    help="""Plan, run, resume and rerun sweeps: parameter variants of one RunSpec.

    Everything behind -- goes to pytest as it is. Bundles stand in runs/sweeps. Exit code: 0 all PASS; 4 mixed
    or failed outcomes; 1 bad input or a failed set-up; 2 a bad flag; 130 Ctrl-C. """,
)
def sweep() -> None:
    """Group of the sweep commands."""


@sweep.command(
    name="plan",
    cls=ExtraCommand,
    help="""Check SWEEP and write its bundle, and run nothing.

    SWEEP is a YAML or JSON file. `atesor sweep resume` runs what was planned. """,
)
@_with_sweep_options
@click.pass_context
def _plan(context: click.Context, /, manifest: str, **flags: str | bool | None) -> int:
    arguments = _sweep_arguments(manifest, flags)
    return run_pytest(context, ["--atesor-plan-only", *arguments])


@sweep.command(
    name="run",
    cls=ExtraCommand,
    help="""Run the cases of SWEEP, one after the other, or --workers at a time.

    SWEEP is a YAML or JSON file. """,
)
@_with_sweep_options
@click.pass_context
def _run(context: click.Context, /, manifest: str, **flags: str | bool | None) -> int:
    return run_pytest(context, _sweep_arguments(manifest, flags))


# A bundle knows what it is: going on with one is the same for both groups, but for the words.
for _name, _help in _GOING_ON.items():
    _command = copy(batch.commands[_name])
    _command.help = _help
    sweep.add_command(_command)


def _sweep_arguments(source: str, flags: dict[str, str | bool | None]) -> list[str]:
    """Return pytest's arguments for a new sweep. Raises BadInputError for anything else, or UsageError."""
    if not has_plan(source):
        _require_sweep(source)
    return plan_arguments(source, flags, group="sweep")


def _require_sweep(source: str) -> None:
    """Raise BadInputError for what is no sweep, and for what nobody can read."""
    from pytest_atesor.bundle.inputs import read_input  # noqa: PLC0415 - `atesor --help` must not wait for it
    from pytest_atesor.core.documents import parse_document  # noqa: PLC0415 - the same
    from pytest_atesor.core.sweep import has_sweep  # noqa: PLC0415 - the same

    found = read_input(Path(source))
    if not has_sweep(found):
        parse_document(found.data, found.path)
        raise BadInputError(f"{source} is no sweep; for manifests and package lists use `atesor batch`")
