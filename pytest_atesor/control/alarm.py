"""Stops a batch that cannot succeed: the circuit breaker, and engines that answer no more."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pytest_atesor.core.breaker import Breaker, is_environment
from pytest_atesor.core.outcome import Cause
from pytest_atesor.errors import SandboxError, SetupError
from pytest_atesor.work.bench import ENGINE_PATIENCE_S

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_atesor.control.session import BatchSession
    from pytest_atesor.control.site import Site
    from pytest_atesor.core.attempt import AttemptRecord

__all__ = ["Alarm", "Patience"]

_PAUSE_S: Final = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long an engine that does not answer is waited for, by which clock, and what takes seconds."""

    limit_s: float = ENGINE_PATIENCE_S
    clock: Callable[[], float] = time.monotonic
    wait: Callable[[float], None] = time.sleep


class Alarm:
    """Looks at every final record of a batch whose slots are on ``sites``.

    ``find_site`` tells where a slot is; ``end_running`` ends what runs, because it cannot come to a good end.
    """

    def __init__(
        self,
        session: BatchSession,
        sites: tuple[Site, ...],
        find_site: Callable[[str], Site | None],
        end_running: Callable[[], None],
        patience: Patience | None = None,
    ) -> None:
        self._session = session
        self._sites = sites
        self._find_site = find_site
        self._end_running = end_running
        self._patience = patience or Patience()
        self._breaker = Breaker()

    def case_ended(self, record: AttemptRecord) -> None:
        """Take the final record of a case, and stop the batch when it shows that going on is no use."""
        if self._session.stop_order is not None:
            return
        site = self._find_site(record.slot)
        gone = self._ask(site) if site is not None and is_environment(record) else ""
        if gone and self._has_others(site):
            return  # the slots of this machine wait for it, and what it did says nothing of the others
        reason = self._breaker.observe(record)
        if self._session.stop_order is not None:
            return
        if gone:
            self._stop(f"the engine does not answer: {gone}")
            self._end_running()
        elif reason is not None:
            self._stop(reason)

    def _stop(self, reason: str) -> None:
        self._session.stop(reason, Cause.ENVIRONMENT)
        self._session.defects.append(f"the batch was stopped: {reason}; --atesor-no-breaker would go on")

    def _ask(self, site: Site) -> str:
        """Return why the engine does not answer, "" when it does.

        One that may be starting again is waited for, as workers do. Nothing is lost meanwhile where there is
        no other machine: what runs cannot go on without it.
        """
        give_up = self._patience.clock() + self._patience.limit_s
        while gone := _probe(site):
            is_over = self._patience.clock() >= give_up or self._session.stop_order is not None
            if is_over or self._has_others(site):
                break
            self._patience.wait(_PAUSE_S)
        return gone

    def _has_others(self, site: Site | None) -> bool:
        return any(other.is_reachable() for other in self._sites if other is not site)


def _probe(site: Site) -> str:
    if site.engine is not None:
        try:
            site.engine.probe()
        except (SandboxError, SetupError) as error:
            return str(error)
    return ""
