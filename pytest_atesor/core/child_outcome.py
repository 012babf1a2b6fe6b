"""What the end of a child means, whatever the child was: it was stopped, ran out of time, or failed, and why.

The cause of a FAIL without a usable ``result.json``: an agent that chose its exit code says that the port
failed, which counts as "build", the nearest that can be known; one that died of a signal, could not be
started, passes on what a shell says about that (126, 127, 128 + n) or said nothing at all counts as
"agent"; a machine that is full counts as "environment".
"""

import errno
import signal
from typing import Final, NamedTuple

from pytest_atesor.core.child_end import ChildEnd, StartError
from pytest_atesor.core.log_lines import find_last_meaningful_line
from pytest_atesor.core.names import redact_text
from pytest_atesor.core.outcome import Cause, Status
from pytest_atesor.core.text import sanitize_line

__all__ = ["REASON_CHARACTERS", "AttemptOutcome", "clean_reason", "decide_stop", "explain_failure"]

REASON_CHARACTERS: Final = 300

_EXIT_NOT_RUNNABLE: Final = 126
_EXHAUSTED: Final = frozenset({
    errno.EAGAIN,
    errno.ENOMEM,
    errno.EMFILE,
    errno.ENFILE,
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EIO,
    errno.EROFS,
})
_FULL_MACHINE: Final = (
    b"No space left on device",
    b"Disk quota exceeded",
    b"Cannot allocate memory",
    b"Killed signal terminated program",
)
_TELLING_TAIL_BYTES: Final = 4096


class AttemptOutcome(NamedTuple):
    """The outcome of one attempt. ``reason`` is one sanitized line, empty only for PASS."""

    status: Status
    cause: Cause | None
    reason: str


def decide_stop(end: ChildEnd, cause: Cause | None = None, reason: str = "") -> AttemptOutcome | None:
    """Return the outcome of a child that was stopped or ran out of time, None for one that ended by itself.

    ``cause`` and ``reason`` are what the child said itself; that it was stopped is no cause of a TIMEOUT.
    """
    if end.interrupted:
        return AttemptOutcome(Status.SKIPPED, Cause.INTERRUPTED, _tell_interruption(end))
    if end.timed_out:
        line = clean_reason(find_last_meaningful_line(end.tail))
        said = reason or line
        if cause is Cause.INTERRUPTED:
            cause, said = None, f"{line} ({reason})" if line and reason else said
        last = f"; last: {said}" if said else "; it had said nothing"
        return AttemptOutcome(
            Status.TIMEOUT, cause, clean_reason(f"killed at the deadline, after {end.duration_s:.0f} s{last}")
        )
    return None


def explain_failure(end: ChildEnd, cause: Cause | None = None, reason: str = "") -> tuple[Cause, str]:
    """Return cause and reason of a child that failed; what it said itself comes first."""
    if end.start_error is not None:
        return _blame_start(end.start_error), clean_reason(end.start_error.message)
    if end.output_limited:
        written = end.log_bytes + end.dropped_bytes
        return Cause.OUTPUT_LIMIT, f"ended at the output limit, after {written} bytes"
    said = reason or clean_reason(find_last_meaningful_line(end.tail))
    if end.log_error is not None:
        full = f"the log could not be written ({end.log_error}); {_tell_failure(end, said)}"
        return Cause.ENVIRONMENT, clean_reason(full)
    return cause or _blame_end(end), reason or _tell_failure(end, said)


def clean_reason(text: str) -> str:
    """Return a reason as it may be shown: one line, credentials hidden, at most 300 characters."""
    return sanitize_line(redact_text(text), REASON_CHARACTERS)


def _tell_interruption(end: ChildEnd) -> str:
    never_ran = end.exit_code is None and end.signal is None and end.duration_s == 0
    return "the batch was stopped first" if never_ran else f"interrupted after {end.duration_s:.0f} s"


def _tell_failure(end: ChildEnd, said: str) -> str:
    """Return the reason of a failure: what was said last, behind how it ended if that was no plain exit."""
    how = f"exit {end.exit_code}"
    if end.exit_code is None:
        how = "it never ended" if end.signal is None else f"killed by {_name_signal(end.signal)}"
    if not said:
        return f"{how}, with no output at all"
    plain = end.exit_code is not None and end.exit_code < _EXIT_NOT_RUNNABLE
    return said if plain else clean_reason(f"{how}; last: {said}")


def _blame_start(error: StartError) -> Cause:
    return Cause.ENVIRONMENT if error.errno in _EXHAUSTED else Cause.AGENT


def _blame_end(end: ChildEnd) -> Cause:
    telling = end.tail[-_TELLING_TAIL_BYTES:]
    if any(phrase in telling for phrase in _FULL_MACHINE):
        return Cause.ENVIRONMENT
    if end.exit_code is None or end.exit_code >= _EXIT_NOT_RUNNABLE or not end.tail.strip():
        return Cause.AGENT
    return Cause.BUILD


def _name_signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # real-time signals have no names
        return f"signal {number}"
