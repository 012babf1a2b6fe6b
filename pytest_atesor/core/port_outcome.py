"""What the end of an agent means for its case: a status, a cause and one line of reason.

Our own deadline alone makes a TIMEOUT, our own stop signal alone an interruption; otherwise the exit code
is the contract (0 PASS, 3 UNVERIFIED, anything else FAIL). ``result.json`` adds cause and reason. It can
take a PASS away, when it contradicts exit 0, but never give one.

The cause of a FAIL without a usable ``result.json``: an agent that chose its exit code says that the port
failed, which counts as "build", the nearest that can be known; one that died of a signal, could not be
started, passes on what a shell says about that (126, 127, 128 + n) or said nothing at all counts as
"agent"; a machine that is full counts as "environment".
"""

import errno
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, cast

from pytest_atesor.core.child_end import ChildEnd, StartError
from pytest_atesor.core.jsontext import parse_json
from pytest_atesor.core.log_lines import find_last_meaningful_line
from pytest_atesor.core.names import redact_text
from pytest_atesor.core.outcome import Cause, Status, Verdict
from pytest_atesor.core.plan import Json
from pytest_atesor.core.schema import check_schema
from pytest_atesor.core.text import sanitize_line

__all__ = [
    "REASON_CHARACTERS",
    "AgentResult",
    "NoResult",
    "PortEnd",
    "decide_port_end",
    "decide_stop",
    "explain_failure",
    "parse_agent_result",
]

REASON_CHARACTERS: Final = 300

_EXIT_UNVERIFIED: Final = 3
_EXIT_NOT_RUNNABLE: Final = 126
_NOTHING_PROVEN: Final = "the commands passed, but no riscv64 output was proven"
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


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentResult:
    """A valid ``result.json``, whole in ``document``.

    ``artifacts`` counts them; None when it does not speak of artifacts.
    """

    verdict: Verdict | None
    cause: Cause | None
    reason: str
    artifacts: int | None
    document: Mapping[str, Json]


@dataclass(frozen=True, slots=True)
class NoResult:
    """No usable ``result.json``; ``note`` says why, empty when there simply was none."""

    note: str = ""


class PortEnd(NamedTuple):
    """The outcome of one attempt at a port. ``reason`` is one sanitized line, empty only for PASS."""

    status: Status
    cause: Cause | None
    reason: str


def parse_agent_result(data: bytes, where: str) -> AgentResult:
    """Return what an agent said. Raises BadInputError, one line, for all that is no result_v1 document."""
    parsed = parse_json(data, where)
    check_schema(parsed, "result_v1", where)
    document = cast("dict[str, Json]", parsed)
    verdict = cast("str | None", document.get("verdict"))
    cause = cast("str | None", document.get("cause"))
    artifacts = cast("list[Json] | None", document.get("artifacts"))
    return AgentResult(
        verdict=None if verdict is None else Verdict(verdict),
        cause=None if cause is None else Cause(cause),
        reason=_line(cast("str | None", document.get("reason")) or ""),
        artifacts=None if artifacts is None else len(artifacts),
        document=document,
    )


def decide_port_end(end: ChildEnd, result: AgentResult | NoResult) -> PortEnd:
    """Return the outcome of an agent's run."""
    cause = result.cause if isinstance(result, AgentResult) else None
    reason = result.reason if isinstance(result, AgentResult) else ""
    stopped = decide_stop(end, cause, reason)
    if stopped is not None:
        return stopped
    if end.exit_code == 0 and not end.output_limited:
        doubt = _find_contradiction(result)
        return PortEnd(Status.UNVERIFIED, cause, doubt) if doubt else PortEnd(Status.PASS, None, "")
    if end.exit_code == _EXIT_UNVERIFIED and not end.output_limited:
        return PortEnd(Status.UNVERIFIED, cause, reason or _NOTHING_PROVEN)
    return PortEnd(Status.FAIL, *explain_failure(end, cause, reason))


def decide_stop(end: ChildEnd, cause: Cause | None = None, reason: str = "") -> PortEnd | None:
    """Return the outcome of a child that was stopped or ran out of time, None for one that ended by itself.

    ``cause`` and ``reason`` are what the child said itself.
    """
    if end.interrupted:
        return PortEnd(Status.SKIPPED, Cause.INTERRUPTED, _tell_interruption(end))
    if end.timed_out:
        said = reason or _line(find_last_meaningful_line(end.tail))
        last = f"; last: {said}" if said else "; it had said nothing"
        return PortEnd(
            Status.TIMEOUT, cause, _line(f"killed at the deadline, after {end.duration_s:.0f} s{last}")
        )
    return None


def explain_failure(end: ChildEnd, cause: Cause | None = None, reason: str = "") -> tuple[Cause, str]:
    """Return cause and reason of a child that failed; what it said itself comes first."""
    if end.start_error is not None:
        return _blame_start(end.start_error), _line(end.start_error.message)
    if end.output_limited:
        written = end.log_bytes + end.dropped_bytes
        return Cause.OUTPUT_LIMIT, f"ended at the output limit, after {written} bytes"
    said = reason or _line(find_last_meaningful_line(end.tail))
    if end.log_error is not None:
        full = f"the log could not be written ({end.log_error}); {_tell_failure(end, said)}"
        return Cause.ENVIRONMENT, _line(full)
    return cause or _blame_end(end), reason or _tell_failure(end, said)


def _find_contradiction(result: AgentResult | NoResult) -> str:
    """Return why exit 0 is not to be believed, empty when nothing speaks against it."""
    if isinstance(result, NoResult):
        return ""
    if result.verdict is not Verdict.VERIFIED:
        verdict = "no verdict" if result.verdict is None else f"the verdict {result.verdict}"
        return _line(f"exit 0, but result.json gives {verdict}: {result.reason or _NOTHING_PROVEN}")
    if result.artifacts == 0:
        return "exit 0 and verified, but result.json lists no artifact"
    return ""


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
    return said if plain else _line(f"{how}; last: {said}")


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


def _line(text: str) -> str:
    return sanitize_line(redact_text(text), REASON_CHARACTERS)
