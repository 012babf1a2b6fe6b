"""What the end of a command means for its case: exit 0 with everything that it promised is a PASS.

There is no UNVERIFIED: a command proves what its exit code, its outputs and its metrics say. Whatever goes
wrong by the command's own doing has the cause "agent", for the command is the case's agent.
"""

from collections.abc import Sequence
from dataclasses import replace

from pytest_atesor.core.child_end import ChildEnd
from pytest_atesor.core.names import redact_text
from pytest_atesor.core.outcome import Cause, Status
from pytest_atesor.core.port_outcome import REASON_CHARACTERS, NoResult, PortEnd, decide_port_end
from pytest_atesor.core.text import sanitize_line

__all__ = ["decide_command_end"]

_AN_ORDINARY_FAILURE = 1


def decide_command_end(end: ChildEnd, faults: Sequence[str]) -> PortEnd:
    """Return the outcome of a command. ``faults`` say what it promised and did not leave."""
    # A port's exit 3 has a meaning of its own; a command's is a failure like any other.
    fails = end.exit_code is not None and end.exit_code != 0 and not end.timed_out and not end.interrupted
    plain = replace(end, exit_code=_AN_ORDINARY_FAILURE) if fails and end.exit_code == 3 else end  # noqa: PLR2004 - named above
    status, cause, reason = decide_port_end(plain, NoResult())
    if status is Status.PASS and faults:
        status, cause, reason = Status.FAIL, Cause.AGENT, "; ".join(faults)
    elif cause is Cause.BUILD:
        cause = Cause.AGENT
    return PortEnd(status, cause, sanitize_line(redact_text(reason), REASON_CHARACTERS))
