"""The native target's bench: a lost connection is evidence, a machine that starts again is waited for."""

from __future__ import annotations

import select
import time
from typing import TYPE_CHECKING, Final

from pytest_atesor.core.environment import Evidence, SandboxState
from pytest_atesor.errors import SandboxError
from pytest_atesor.runners.stop import TERMINATE
from pytest_atesor.sandbox.native.hold import native_engine
from pytest_atesor.work.bench import SandboxBench

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_atesor.runners.stop import StopSignal
    from pytest_atesor.sandbox.sandbox import Limits

__all__ = ["NativeBench"]

_PREPARE_S: Final = 60.0
_REST_S: Final = 2.0
_POLL_S: Final = 0.2


class NativeBench(SandboxBench):
    """A slot's sandbox on the machine of a batch's session."""

    patience_s = 300.0

    def __init__(self, session: str, slot: str, image: str, state: Path, limits: Limits) -> None:
        engine = native_engine(session)
        super().__init__(engine, slot, image, state, limits)
        self._session = engine.session
        self._losses = b""

    def prepare(self) -> None:
        """Create the sandbox, and remember which losses of the connection were before."""
        give_up = time.monotonic() + _PREPARE_S
        while not self._session.is_connected:
            if time.monotonic() > give_up:
                raise SandboxError(
                    f"native: there is no connection to the machine {self._session.host}; check that it is up"
                )
            time.sleep(_POLL_S)
        self._losses = self._session.losses
        super().prepare()

    def recover(self, stop: StopSignal) -> bool:
        """Wait until the connection stands again, for a bounded time."""
        return self._await_connection(stop, self.patience_s) and super().recover(stop)

    def rest(self, stop: StopSignal) -> None:
        """Wait a little for a lost connection: the controller gives no case to this slot meanwhile."""
        self._await_connection(stop, _REST_S)

    def examine(self, directory: Path) -> Evidence:
        """Take a connection that was lost meanwhile for the reason, else ask the engine and the sandbox."""
        if self._session.losses != self._losses:
            return Evidence(
                engine_error=f"the connection to the machine {self._session.host} was lost",
                state=SandboxState.ABSENT,
            )
        return super().examine(directory)

    def _await_connection(self, stop: StopSignal, patience_s: float) -> bool:
        give_up = time.monotonic() + patience_s
        while not self._session.is_connected:
            if stop.level or time.monotonic() > give_up:
                return False
            select.select([stop.fileno(TERMINATE)], [], [], _POLL_S)
        return True
