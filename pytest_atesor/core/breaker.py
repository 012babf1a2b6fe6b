"""The circuit breaker: when all that ended so far failed for the machine's sake, no more starts."""

from typing import Final

from pytest_atesor.core.attempt import AttemptRecord
from pytest_atesor.core.outcome import Cause, Status

__all__ = ["Breaker", "is_environment"]

_FIRST_CASES: Final = 5


def is_environment(record: AttemptRecord) -> bool:
    """Say whether an attempt failed for the machine's or the sandbox's sake."""
    return record.status is Status.FAIL and record.cause is Cause.ENVIRONMENT


class Breaker:
    """Watches the first five cases of a run. One that ended otherwise keeps the circuit closed for good."""

    __slots__ = ("_reasons",)

    def __init__(self) -> None:
        self._reasons: list[str] | None = []

    def observe(self, record: AttemptRecord) -> str | None:
        """Take the final record of a case; return why the batch must stop, None while it may go on."""
        if self._reasons is None or record.status is Status.SKIPPED:
            return None
        if not is_environment(record):
            self._reasons = None
            return None
        self._reasons.append(record.reason)
        if len(self._reasons) < _FIRST_CASES:
            return None
        first, count = self._reasons[0], len(self._reasons)
        self._reasons = None
        return f"the first {count} cases all failed for the environment's sake; the first: {first}"
