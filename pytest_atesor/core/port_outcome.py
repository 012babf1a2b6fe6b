"""What the end of an agent means for its case: a status, a cause and one line of reason.

Our own deadline alone makes a TIMEOUT, our own stop signal alone an interruption; otherwise the exit code
is the contract (0 PASS, 3 UNVERIFIED, anything else FAIL). ``result.json`` adds cause and reason. It can
take a PASS away, when it contradicts exit 0, but never give one.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, cast

from pytest_atesor.core.child_end import ChildEnd
from pytest_atesor.core.child_outcome import AttemptOutcome, clean_reason, decide_stop, explain_failure
from pytest_atesor.core.jsontext import parse_json
from pytest_atesor.core.outcome import Cause, Status, Verdict
from pytest_atesor.core.plan import Json
from pytest_atesor.core.schema import check_schema

__all__ = ["AgentResult", "NoResult", "decide_port_end", "parse_agent_result"]

_EXIT_UNVERIFIED: Final = 3
_NOTHING_PROVEN: Final = "the commands passed, but no riscv64 output was proven"


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
        reason=clean_reason(cast("str | None", document.get("reason")) or ""),
        artifacts=None if artifacts is None else len(artifacts),
        document=document,
    )


def decide_port_end(end: ChildEnd, result: AgentResult | NoResult) -> AttemptOutcome:
    """Return the outcome of an agent's run."""
    cause = result.cause if isinstance(result, AgentResult) else None
    reason = result.reason if isinstance(result, AgentResult) else ""
    stopped = decide_stop(end, cause, reason)
    if stopped is not None:
        return stopped
    if end.exit_code == 0 and not end.output_limited:
        if doubt := _find_contradiction(result):
            return AttemptOutcome(Status.UNVERIFIED, cause, doubt)
        return AttemptOutcome(Status.PASS, None, "")
    if end.exit_code == _EXIT_UNVERIFIED and not end.output_limited:
        return AttemptOutcome(Status.UNVERIFIED, cause, reason or _NOTHING_PROVEN)
    return AttemptOutcome(Status.FAIL, *explain_failure(end, cause, reason))


def _find_contradiction(result: AgentResult | NoResult) -> str:
    """Return why exit 0 is not to be believed, empty when nothing speaks against it."""
    if isinstance(result, NoResult):
        return ""
    if result.verdict is not Verdict.VERIFIED:
        verdict = "no verdict" if result.verdict is None else f"the verdict {result.verdict}"
        return clean_reason(f"exit 0, but result.json gives {verdict}: {result.reason or _NOTHING_PROVEN}")
    if result.artifacts == 0:
        return "exit 0 and verified, but result.json lists no artifact"
    return ""
