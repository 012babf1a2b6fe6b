"""``atesor sweep``: plan, run, resume and rerun sweeps with the engine and the options of batches."""

from __future__ import annotations

from pathlib import Path

import click

from pytest_atesor.commands.batch import (
    ExtraCommand,
    batch,
    is_sweep,
    plan_arguments,
    run_pytest,
    with_input_options,
)
from pytest_atesor.errors import BadInputError

__all__ = ["sweep"]


@click.group(
    name="sweep",
    help="""Plan, run, resume and rerun sweeps: parameter variants of one RunSpec.

    Everything behind -- goes to pytest as it is. Bundles stand in runs/sweeps. Exit code: 0 all PASS; 4 mixed
    or failed outcomes; 1 bad input or a failed set-up; 2 a bad flag; 130 Ctrl-C. """,
)
def sweep() -> None:
    """Group of the sweep commands."""


@sweep.command(
    name="plan", cls=ExtraCommand, help="Check the sweep MANIFEST and write its bundle, and run nothing."
)
@with_input_options
@click.pass_context
def _plan(context: click.Context, /, manifest: str, **flags: str | bool | None) -> int:
    _require_sweep(manifest)
    return run_pytest(["--atesor-plan-only", *plan_arguments(manifest, flags), *context.obj])


@sweep.command(
    name="run",
    cls=ExtraCommand,
    help="Run the cases of the sweep MANIFEST, one after the other, or --workers at a time.",
)
@with_input_options
@click.pass_context
def _run(context: click.Context, /, manifest: str, **flags: str | bool | None) -> int:
    _require_sweep(manifest)
    return run_pytest([*plan_arguments(manifest, flags), *context.obj])


# A bundle knows what it is: going on with one is the same for both groups.
for _name in ("resume", "rerun"):
    sweep.add_command(batch.commands[_name])


def _require_sweep(source: str) -> None:
    path = Path(source)
    if path.is_file() and path.suffix in {".yaml", ".yml", ".json"} and not is_sweep(source):
        raise BadInputError(
            f"{source} is no sweep that can be read; `atesor batch plan {source}` tells what it is"
        )
