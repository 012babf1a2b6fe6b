"""The exit code of a batch, from where its selected cases stand.

A selected case that has no outcome, or was skipped for a cause (the circuit breaker, ``--maxfail``), makes
the batch incomplete, and an incomplete batch is never 0. A skip without a cause (nothing to do for that case)
is as good as absent. No selected case at all, as in an empty trailing shard, is 0.
"""

from collections.abc import Iterable
from typing import Final

from pytest_atesor.core.ledger import CaseState, Ended, NotStarted, Running, Skipped
from pytest_atesor.core.outcome import Status
from pytest_atesor.core.plan import BatchKind

__all__ = ["EXIT_BAD", "EXIT_MIXED", "EXIT_OK", "EXIT_USAGE", "decide_exit_code"]

EXIT_OK: Final = 0
EXIT_BAD: Final = 1
EXIT_USAGE: Final = 2
EXIT_MIXED: Final = 4


def decide_exit_code(kind: BatchKind, states: Iterable[CaseState], *, stopped_by: int | None = None) -> int:
    """Return the exit code of a batch whose selected cases stand so.

    ``stopped_by`` is the number of the signal that stopped it (2 gives 130, 15 gives 143, 1 gives 129), None
    when it ran to its end. Package lists end with 1, manifests and sweeps with 4 when anything but PASS came
    out.
    """
    if stopped_by is not None:
        return 128 + stopped_by
    if all(_is_good(state) for state in states):
        return EXIT_OK
    return EXIT_BAD if kind is BatchKind.PACKAGE_LIST else EXIT_MIXED


def _is_good(state: CaseState) -> bool:
    match state:
        case Ended(record=record):
            return record.status is Status.PASS or (record.status is Status.SKIPPED and record.cause is None)
        case Skipped(cause=cause):
            return cause is None
        case NotStarted() | Running():
            return False
