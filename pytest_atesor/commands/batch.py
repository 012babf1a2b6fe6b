"""``atesor batch``: plan, run, resume and rerun, as thin skins over pytest.

Each command only translates its flags, ends in ``pytest.main`` and returns its exit code. Cases run one after
the other unless ``--workers`` says otherwise; a bundle that goes on remembers how many it had.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from pytest_atesor.core.text import sanitize_line
from pytest_atesor.errors import BadInputError, UsageError
from pytest_atesor.option_table import LIST, MANIFEST, MOST_WORKERS, RERUN, RESUME

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    _Command = Callable[..., int]

__all__ = [
    "ExtraCommand",
    "batch",
    "check_workers",
    "has_plan",
    "list_spellings",
    "plan_arguments",
    "run_pytest",
    "split_extra",
    "with_input_options",
]

_SEPARATOR: Final = "--"
_LONGER_NAMES: Final = {
    "--failed": "rerun-failed",
    "--case": "rerun-case",
    "--all": "rerun-all",
    "names": "only",
}
"""The flags and arguments whose options of pytest are called otherwise."""
_COUNT: Final = re.compile(r"-n(?:\d+|auto|logical)?|--numprocesses(?:=.*)?", re.DOTALL)
# This program is imported before pytest can rewrite its asserts, of which it has none.
_QUIET: Final = ("-W", "ignore:Module already imported:pytest.PytestAssertRewriteWarning")
_PLAN: Final = "batch_plan.json"


class ExtraCommand(click.Command):
    """A command that takes what follows ``--`` as arguments of pytest, in ``context.obj``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Split them off before click mixes them with its own. Raises UsageError for two worker counts."""
        own, extra = split_extra(args)
        ctx.obj = extra
        left = super().parse_args(ctx, own)
        counts = [argument for argument in extra if _COUNT.fullmatch(argument)]
        if counts and ctx.params.get("workers") is not None:
            raise UsageError(f"--workers and {sanitize_line(counts[0], 40)} both count workers; drop one")
        return left


def split_extra(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return what stands before the first ``--``, and what stands behind it."""
    if _SEPARATOR not in arguments:
        return list(arguments), []
    index = list(arguments).index(_SEPARATOR)
    return list(arguments[:index]), list(arguments[index + 1 :])


def run_pytest(context: click.Context, arguments: Sequence[str]) -> int:
    """Run pytest and return the exit code of the batch; what pytest itself calls a usage error is 2.

    ``arguments`` are what the command's own were translated to; those in ``context.obj`` follow.
    """
    import pytest  # noqa: PLC0415 - `atesor --help` must not wait for it

    from pytest_atesor.commands.witness import Witness  # noqa: PLC0415 - the same
    from pytest_atesor.options import join_values  # noqa: PLC0415 - the same

    witness = Witness(list_spellings(context.command, context.obj))
    whole = [*arguments, *context.obj]
    joined = join_values(whole, Path.cwd())  # before pytest reads a separate @FILE, or fails to
    code = int(pytest.main([*_QUIET, *(joined or whole)], plugins=[witness]))
    is_theirs = code == pytest.ExitCode.USAGE_ERROR and not witness.has_begun
    return 2 if is_theirs else code


def list_spellings(command: click.Command, extra: Sequence[str]) -> dict[str, str]:
    """Return how each flag of ours is spelled in a command, but for those that were typed behind ``--``."""
    typed = {argument.partition("=")[0] for argument in extra}
    spellings = {}
    for parameter in command.params:
        for word in parameter.opts:
            name = _LONGER_NAMES.get(word, word.removeprefix("--"))
            spellings[f"--atesor-{name}"] = word.upper() if isinstance(parameter, click.Argument) else word
    return {flag: word for flag, word in spellings.items() if flag not in typed}


@click.group(
    name="batch",
    help="""Plan, run, resume and rerun batches of manifests and package lists.

    Everything behind -- goes to pytest as it is. Exit code: 0 all PASS; 4 mixed or failed outcomes of a
    manifest, 1 of a package list; 1 bad input or a failed set-up; 2 a bad flag; 130 Ctrl-C. """,
)
def batch() -> None:
    """Group of the batch commands."""


def with_input_options(group: str, source: str, bundles: str) -> Callable[[_Command], _Command]:
    """Give a command of a group the options of a new batch and its input, and say where bundles stand."""
    options = (
        click.argument("manifest", metavar=source.upper()),
        click.option("--batch-id", metavar="ID", help=f"Name of the bundle.  [default: {source} and time]"),
        click.option(
            "--output-root", metavar="PATH", help=f"Directory of the bundles.  [default: {bundles}]"
        ),
        click.option(
            "--profile-root",
            metavar="PATH",
            help=f"Directory that the imports of RunSpecs count from.  [default: the {source}'s]",
        ),
        click.option("--max-cases", metavar="N", help=f"Warn when the {group} has more cases than this."),
        click.option("--workers", metavar="N", help="Cases at a time.  [default: 1]"),
        click.option("--write-summary-csv", is_flag=True, help="Write batch_summary.csv too."),
    )

    def add(command: _Command) -> _Command:
        for option in reversed(options):
            command = option(command)
        return command

    return add


_with_batch_options: Final = with_input_options("batch", "manifest", "runs/batches")


@batch.command(
    name="plan",
    cls=ExtraCommand,
    help="""Check MANIFEST and write its bundle, and run nothing.

    MANIFEST is a batch manifest (YAML or JSON), or a package list: its path, or its bare name. `atesor batch
    resume` runs what was planned. """,
)
@_with_batch_options
@click.pass_context
def _plan(context: click.Context, /, manifest: str, **flags: str | bool | None) -> int:
    _refuse_sweep(manifest)
    return run_pytest(context, ["--atesor-plan-only", *plan_arguments(manifest, flags)])


@batch.command(
    name="run",
    cls=ExtraCommand,
    help="""Run the cases of MANIFEST, one after the other, or --workers at a time.

    MANIFEST is a batch manifest (YAML or JSON), or a package list: its path, or its bare name. """,
)
@_with_batch_options
@click.pass_context
def _run(context: click.Context, /, manifest: str, **flags: str | bool | None) -> int:
    _refuse_sweep(manifest)
    return run_pytest(context, plan_arguments(manifest, flags))


@batch.command(
    name="resume",
    cls=ExtraCommand,
    help="""Go on with the batch in BUNDLE: run its cases that have no outcome yet.

    What -k, -m or the like left out of every run stays out; rerun --case runs it. Attempts that ended unseen
    are adopted; those that were cut short stay as evidence, and their cases run again. Everything but
    --workers is as it was planned. """,
)
@click.argument("bundle")
@click.option(
    "--retry-failed", is_flag=True, help="Run what ended as neither PASS nor a skip of your own again too."
)
@click.option("--workers", metavar="N", help="Cases at a time.  [default: as planned]")
@click.pass_context
def _resume(context: click.Context, /, bundle: str, workers: str | None, *, retry_failed: bool) -> int:
    arguments = [f"{RESUME.flag}={bundle}", *_reopen_arguments(bundle, workers)]
    if retry_failed:
        arguments.append("--atesor-retry-failed")
    return run_pytest(context, arguments)


@batch.command(
    name="rerun",
    cls=ExtraCommand,
    help="""Run cases of BUNDLE again, as new attempts; earlier ones stay.

    Exactly one of --failed, --case and --all says which. """,
)
@click.argument("bundle")
@click.option("--failed", is_flag=True, help="What ended as neither PASS nor a skip of your own.")
@click.option(
    "--case", "cases", metavar="CASE", multiple=True, help="The case of this id or label; repeatable."
)
@click.option("--all", "everything", is_flag=True, help="Every case of the plan.")
@click.option("--workers", metavar="N", help="Cases at a time.  [default: as planned]")
@click.pass_context
def _rerun(
    context: click.Context,
    /,
    bundle: str,
    cases: tuple[str, ...],
    workers: str | None,
    *,
    failed: bool,
    everything: bool,
) -> int:
    if failed + bool(cases) + everything != 1:
        raise UsageError("a rerun needs exactly one selection; give --failed, --case or --all")
    arguments = [f"{RERUN.flag}={bundle}", *_reopen_arguments(bundle, workers)]
    arguments += ["--atesor-rerun-failed"] if failed else []
    arguments += ["--atesor-rerun-all"] if everything else []
    arguments += [f"--atesor-rerun-case={case}" for case in cases]
    return run_pytest(context, arguments)


def has_plan(source: str) -> bool:
    """Say whether a path is a bundle."""
    return (Path(source) / _PLAN).is_file()


def plan_arguments(source: str, flags: dict[str, str | bool | None], group: str = "batch") -> list[str]:
    """Return pytest's arguments for a new batch of ``source``; messages name ``group``. Raises UsageError."""
    from pytest_atesor.intake.request import is_package_list  # noqa: PLC0415 - imports pytest's world

    if has_plan(source):
        raise UsageError(f"{source} is a bundle; go on with it by `atesor {group} resume {source}`")
    option = LIST if is_package_list(source) else MANIFEST
    workers = flags.pop("workers")
    arguments = [f"{option.flag}={source}", *_worker_arguments(workers if isinstance(workers, str) else "1")]
    output_root = flags.pop("output_root")
    if isinstance(output_root, str) and not output_root.strip():
        raise UsageError("empty output root from --output-root; name a directory")
    if isinstance(output_root, str):
        arguments.append(f"--atesor-output-root={os.path.abspath(output_root)}")  # noqa: PTH100 - links stay
    for name, value in flags.items():
        flag = f"--atesor-{name.replace('_', '-')}"
        if isinstance(value, str):
            arguments.append(f"{flag}={value}")
        elif value:
            arguments.append(flag)
    return arguments


def _refuse_sweep(source: str) -> None:
    """Raise BadInputError for a sweep; what cannot be read is none, and pytest tells why."""
    from pytest_atesor.bundle.inputs import read_input  # noqa: PLC0415 - `atesor --help` must not wait for it
    from pytest_atesor.core.sweep import has_sweep  # noqa: PLC0415 - the same

    try:
        found = Path(source).is_file() and has_sweep(read_input(Path(source)))
    except BadInputError:
        return
    if found:
        raise BadInputError(
            f"{source} is a sweep, not a batch manifest; run it with `atesor sweep run {source}`"
        )


def _reopen_arguments(bundle: str, workers: str | None) -> list[str]:
    """Return how many workers, and the rootdir, as they were planned. A broken plan is pytest's to tell."""
    settings: dict[str, object] = {}
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        settings.update(json.loads((Path(bundle) / _PLAN).read_bytes())["settings"])
    arguments = _worker_arguments(str(settings.get("workers", 1)) if workers is None else workers)
    rootdir = settings.get("rootdir")
    if isinstance(rootdir, str) and Path(rootdir).is_dir():
        arguments.append(f"--rootdir={rootdir}")
    return arguments


def check_workers(text: str, most: int, limit: str) -> str:
    """Return a worker count from 1 to ``most``, which messages call ``limit``. Raises UsageError."""
    # int() refuses thousands of digits in words of its own.
    if not (re.fullmatch(r"[0-9]{1,9}", text) and 1 <= int(text) <= most):
        shown = sanitize_line(text, 40)
        raise UsageError(f"bad worker count {shown!r} from --workers; it must be from 1 to {limit}")
    return text


def _worker_arguments(text: str) -> list[str]:
    workers = check_workers(text, MOST_WORKERS, str(MOST_WORKERS))
    return ["-n", "0" if int(workers) == 1 else workers]
