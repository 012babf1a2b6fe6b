"""What runners of one child process share: the context's limits go in, the facts of an attempt come out."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from pytest_atesor.core.child_end import ChildEnd
from pytest_atesor.core.child_outcome import AttemptOutcome
from pytest_atesor.core.plan import Json
from pytest_atesor.runners.interface import AttemptContext, AttemptEnd
from pytest_atesor.runners.process import ChildSpec, run_child

__all__ = ["OWN_VARIABLES", "make_attempt_end", "run_in_context"]

OWN_VARIABLES: Final = ("PYTEST_XDIST_", "PYTEST_CURRENT_TEST", "PYTEST_VERSION")
"""How the variables that describe this pytest process begin; a child that runs pytest must not have them."""


def run_in_context(
    context: AttemptContext, *, argv: tuple[str, ...], env: Mapping[str, str], cwd: Path
) -> ChildEnd:
    """Run a child to its end, with the context's log, deadline and limits; raises as little as run_child."""
    spec = ChildSpec(
        argv=argv,
        env=env,
        cwd=cwd,
        log_path=context.log_path,
        deadline=context.deadline,
        term_grace_s=context.term_grace_s,
        output_cap_bytes=context.output_cap_bytes,
        end_at_output_cap=context.end_at_output_cap,
    )
    return run_child(spec, stop=context.stop)


def make_attempt_end(
    end: ChildEnd, outcome: AttemptOutcome, result: Mapping[str, Json] | None, notes: Iterable[str] = ()
) -> AttemptEnd:
    """Return the end of an attempt; a log that lost bytes to the disk is one more note."""
    lost = () if end.log_error is None else (f"the log is incomplete: {end.log_error}",)
    return AttemptEnd(
        status=outcome.status,
        cause=outcome.cause,
        reason=outcome.reason,
        exit_code=end.exit_code,
        duration_s=end.duration_s,
        log_bytes=end.log_bytes,
        log_dropped_bytes=end.dropped_bytes,
        leaks=end.leaks,
        notes=(*notes, *lost),
        result=result,
    )
