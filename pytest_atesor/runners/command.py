"""The runner of commands: any program, run on this machine in a working directory of its own.

A command is the user's own, trusted as a line of a Makefile is; nothing here is a sandbox. It gets its
working files, its variables, a deadline and a capped log. What it leaves is checked: outputs that it
promised go to ``artifacts/``, its metrics file, read as a stranger's, becomes ``metrics.json``, and
``result.json`` lists what was collected.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final, cast, final

from pytest_atesor.bundle.files import explain_os_error, write_atomic
from pytest_atesor.bundle.layout import AttemptLayout
from pytest_atesor.core.child_outcome import AttemptOutcome
from pytest_atesor.core.command_outcome import decide_command_end
from pytest_atesor.core.jsontext import format_json, parse_json
from pytest_atesor.core.outcome import Status
from pytest_atesor.core.plan import Case, Json
from pytest_atesor.errors import BadInputError, BundleError, SandboxError
from pytest_atesor.runners.attempt import OWN_VARIABLES, make_attempt_end, run_in_context
from pytest_atesor.runners.files import read_strangers_file
from pytest_atesor.runners.interface import AttemptContext, AttemptEnd
from pytest_atesor.runners.outputs import (
    Listing,
    collect_outputs,
    describe_fault,
    list_artifacts,
    remove_tree,
)

__all__ = ["CommandRunner"]

_WORK: Final = "work"
# The latter are for the agent of a port; a command must not take them for its own.
_NOT_FOR_COMMANDS: Final = (
    *OWN_VARIABLES,
    "ATESOR_ATTEMPT_DIR",
    "ATESOR_REF",
    "ATESOR_MIRRORS",
)


@final
class CommandRunner:
    """Runs "command" cases."""

    __slots__ = ()

    @property
    def kind(self) -> str:
        """The kind of its cases."""
        return "command"

    def run(self, case: Case, context: AttemptContext) -> AttemptEnd:
        """Run the command to its end and collect what it left.

        Raises SandboxError when this machine's disk fails, and nothing that the command can cause.
        """
        attempt = AttemptLayout(context.attempt_dir)
        work = attempt.root / _WORK
        try:
            _write_files(work, cast("Mapping[str, str]", case.spec.get("files", {})))
        except OSError as error:
            raise SandboxError(str(explain_os_error(error, "write the working files in", work))) from error
        end = run_in_context(
            context, argv=_plan_argv(case, context, work), env=_plan_environment(case, context), cwd=work
        )
        try:
            faults = _collect(case, work, attempt)
            listing = list_artifacts(attempt.root)
            outcome = decide_command_end(end, (*faults, *listing.faults))
            result = _describe(case, listing, outcome, end.duration_s)
            fault = _write(attempt.result, result)
        except OSError as error:
            raise SandboxError(str(explain_os_error(error, "collect the outputs of", work))) from error
        except BundleError as error:
            raise SandboxError(str(error)) from error
        if fault:
            outcome = decide_command_end(end, (*faults, *listing.faults, fault))
            result = _describe(case, listing, outcome, end.duration_s)
        if outcome.status is Status.PASS:
            remove_tree(work)
        return make_attempt_end(end, outcome, result)


def _plan_argv(case: Case, context: AttemptContext, work: Path) -> tuple[str, ...]:
    """Return the command line. A program with a slash is a working file, else a path from the rootdir."""
    program, *arguments = cast("list[str]", case.spec["argv"])
    if "/" in program and not Path(program).is_absolute() and not (work / program).exists():
        program = str(context.cwd / program)
    return (program, *arguments)


def _plan_environment(case: Case, context: AttemptContext) -> dict[str, str]:
    """Return the whole environment: the context's, the command's own over it, and what we tell it."""
    inherited = {
        name: value for name, value in context.environ.items() if not name.startswith(_NOT_FOR_COMMANDS)
    }
    return {
        **inherited,
        "PYTHONUNBUFFERED": inherited.get("PYTHONUNBUFFERED", "1"),
        **cast("Mapping[str, str]", case.spec.get("env", {})),
        "ATESOR_ROOTDIR": str(context.cwd),
        "ATESOR_RUN_DEADLINE": str(int(context.deadline_epoch)),
    }


def _write_files(work: Path, files: Mapping[str, str]) -> None:
    work.mkdir()
    for name, text in files.items():
        path = work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="")
        if text.startswith("#!"):
            path.chmod(path.stat().st_mode | 0o111)


def _collect(case: Case, work: Path, attempt: AttemptLayout) -> tuple[str, ...]:
    """Move what was promised into the attempt and return what is not as promised.

    Raises OSError or BundleError when the disk fails.
    """
    faults: list[str] = []
    if "metrics" in case.spec:
        name = cast("str", case.spec["metrics"])
        try:
            metrics = _read_metrics(work, name)
        except FileNotFoundError:
            faults.append(f"the metrics file {name} is missing")
        except OSError as error:
            faults.append(f"the metrics file {name} is not usable: {describe_fault(error, work / name)}")
        except BadInputError as error:
            faults.append(f"the metrics file {name} is not usable: {error}")
        else:
            faults += filter(None, [_write(attempt.metrics, metrics)])
    promised = cast("list[str]", case.spec.get("outputs", []))
    return (*faults, *collect_outputs(promised, work, attempt.artifacts))


def _read_metrics(work: Path, name: str) -> dict[str, Json]:
    parent = (work / name).parent
    parent.stat()  # which knows where a way has too many links
    if not Path(os.path.realpath(parent)).is_relative_to(os.path.realpath(work)):
        raise BadInputError("it leads out of the working directory")
    value = parse_json(read_strangers_file(work / name), "it")
    if not isinstance(value, dict):
        raise BadInputError("it is no JSON object")
    return value


def _describe(case: Case, listing: Listing, outcome: AttemptOutcome, duration_s: float) -> dict[str, Json]:
    """Return ``result.json``: the collected files with size and SHA-256."""
    phase: Json = {"name": case.kind, "duration_s": round(duration_s, 3), "status": outcome.status.value}
    return {
        "schema_version": "result_v1",
        "verdict": None,
        "reason": outcome.reason,
        "phases": [phase],
        "artifacts": listing.artifacts,
        "notes": listing.notes,
    }


def _write(path: Path, value: Mapping[str, Json]) -> str:
    """Write one of the attempt's own files; return what of the command's is in its way, if so.

    Raises BundleError or OSError when the disk fails.
    """
    try:
        write_atomic(path, format_json(value), durable=False)
    except BundleError as error:
        if not isinstance(error.__cause__, OSError):
            raise
        return f"{path.name} cannot be written: {describe_fault(error.__cause__, path)}"
    return ""
