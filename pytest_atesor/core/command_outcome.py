"""What the end of a command means for its case: exit 0 with everything that it promised is a PASS.

There is no UNVERIFIED: a command proves what its exit code, its outputs and its metrics say. Whatever goes
wrong by the command's own doing has the cause "agent", for the command is the agent of its case.
"""

from collections.abc import Sequence

from pytest_atesor.core.child_end import ChildEnd
from pytest_atesor.core.child_outcome import AttemptOutcome, clean_reason, decide_stop, explain_failure
from pytest_atesor.core.outcome import Cause, Status

__all__ = ["decide_command_end"]


def decide_command_end(end: ChildEnd, faults: Sequence[str]) -> AttemptOutcome:
    """Return the outcome of a command. ``faults`` say what it promised and did not leave."""
    stopped = decide_stop(end)
    if stopped is not None:
        return stopped
    if end.exit_code == 0 and not end.output_limited:
        if not faults:
            return AttemptOutcome(Status.PASS, None, "")
        return AttemptOutcome(Status.FAIL, Cause.AGENT, clean_reason("; ".join(faults)))
    cause, reason = explain_failure(end)
    # "build" is what a port's failure is called when nothing better is known.
    return AttemptOutcome(Status.FAIL, Cause.AGENT if cause is Cause.BUILD else cause, reason)
