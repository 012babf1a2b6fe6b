"""Stops a batch that cannot succeed: the circuit breaker, and an engine that answers no more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_atesor.core.breaker import Breaker, is_environment
from pytest_atesor.core.outcome import Cause
from pytest_atesor.errors import SandboxError, SetupError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_atesor.control.session import BatchSession
    from pytest_atesor.core.attempt import AttemptRecord
    from pytest_atesor.sandbox.interface import Engine

__all__ = ["Alarm"]


class Alarm:
    """Looks at every final record. ``end_running`` ends what runs, because it cannot come to a good end."""

    def __init__(self, session: BatchSession, engine: Engine | None, end_running: Callable[[], None]) -> None:
        self._session = session
        self._engine = engine
        self._end_running = end_running
        self._breaker = Breaker()

    def case_ended(self, record: AttemptRecord) -> None:
        """Take the final record of a case, and stop the batch when it shows that going on is no use."""
        reason = self._breaker.observe(record)
        if self._session.stop_order is not None:
            return
        gone = self._ask_engine() if is_environment(record) else ""
        if gone:
            self._stop(f"the engine does not answer: {gone}")
            self._end_running()
        elif reason is not None:
            self._stop(reason)

    def _stop(self, reason: str) -> None:
        self._session.stop(reason, Cause.ENVIRONMENT)
        self._session.defects.append(f"the batch was stopped: {reason}; --atesor-no-breaker would go on")

    def _ask_engine(self) -> str:
        if self._engine is not None:
            try:
                self._engine.probe()
            except (SandboxError, SetupError) as error:
                return str(error)
        return ""
