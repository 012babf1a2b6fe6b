"""The record of one attempt at one case, as the worker writes it and everybody else reads it.

An attempt is over when its record exists: ``attempt.json`` is written last, atomically. Durations are seconds
of the monotonic clock; ``started_at`` and ``ended_at`` are UTC wall-clock times in ISO 8601, for display
only.
"""

from dataclasses import dataclass

from pytest_atesor.core.outcome import Cause, Status

__all__ = ["AttemptRecord"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRecord:
    """One attempt: what ended it and where its evidence lies.

    ``reason`` is one sanitized line that a person can act on, empty for PASS. ``exit_code`` is the agent's
    own, None when it never ended by itself. ``log`` is relative to the bundle. ``log_dropped_bytes`` counts
    what the output cap cut out. ``leaks`` names processes that outlived the agent and were killed.
    ``target`` is where it ran, "" in records that are older than the word; ``machine`` is the name of the
    machine, "" for this one.
    """

    case_id: str
    attempt_id: str
    status: Status
    cause: Cause | None
    reason: str
    exit_code: int | None
    slot: str
    started_at: str
    ended_at: str
    duration_s: float
    log: str
    log_bytes: int
    log_dropped_bytes: int
    leaks: tuple[str, ...] = ()
    target: str = ""
    machine: str = ""
