"""Where a case runs: made ready before each attempt, examined when it failed, emptied after it."""

from __future__ import annotations

import select
import time
from typing import TYPE_CHECKING, Final

from pytest_atesor.errors import SandboxError, SetupError
from pytest_atesor.runners.stop import TERMINATE

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_atesor.core.environment import Evidence
    from pytest_atesor.runners.stop import StopSignal
    from pytest_atesor.sandbox.interface import Engine
    from pytest_atesor.sandbox.sandbox import Limits

__all__ = ["ENGINE_PATIENCE_S", "LEASE_LABEL", "NETWORK_LABEL", "Bench", "NoBench", "SandboxBench"]

LEASE_LABEL: Final = "org.pytest-atesor.lease"
"""Marks a sandbox that a batch made in a slot that it leased; its value is the batch's state directory."""

NETWORK_LABEL: Final = "org.pytest-atesor.network"
"""The batch's network namespace, the only one in which its claim of the sandbox's name is seen."""

ENGINE_PATIENCE_S: Final = 20.0
"""How long an engine that does not answer is waited for."""

_POLL_S: Final = 0.5


class Bench:
    """What a worker needs of the place where its cases run."""

    def prepare(self) -> None:
        """Make the place ready. Raises SandboxError."""

    def examine(self, directory: Path) -> Evidence:
        """Return what the machine says after a failed attempt, whose files are in ``directory``."""
        raise NotImplementedError

    def recover(self, stop: StopSignal) -> bool:
        """Wait until another attempt makes sense; False when it does not."""
        return not stop.level

    def rest(self, stop: StopSignal) -> None:
        """Pause for a bounded time while there is no use in a next case."""

    def clear(self) -> None:
        """Leave nothing running. Raises SandboxError."""


class NoBench(Bench):
    """For agents that bring their own sandbox: only this machine can be examined."""

    def __init__(self) -> None:
        self._oom_kills = 0

    def prepare(self) -> None:
        """Remember the kernel's count."""
        from pytest_atesor.sandbox.evidence import count_oom_kills  # noqa: PLC0415 - plain runs are light

        self._oom_kills = count_oom_kills()

    def examine(self, directory: Path) -> Evidence:
        """Ask the kernel."""
        from pytest_atesor.sandbox.evidence import read_machine_evidence  # noqa: PLC0415 - only after failures

        return read_machine_evidence(directory, self._oom_kills)


class SandboxBench(Bench):
    """A slot's sandbox: created anew before each attempt, removed after it, so nothing can stay behind."""

    patience_s = ENGINE_PATIENCE_S
    """How long an engine that does not answer is waited for."""

    def __init__(self, engine: Engine, slot: str, image: str, state: Path, limits: Limits) -> None:
        self._engine = engine
        self._slot = slot
        self._image = image
        self._state = state
        self._limits = limits

    def prepare(self) -> None:
        """Create the sandbox; whatever stood under its name is gone."""
        from pytest_atesor.sandbox.sandbox import open_sandbox  # noqa: PLC0415 - not for NoBench
        from pytest_atesor.sandbox.slots import network_namespace  # noqa: PLC0415 - the same

        open_sandbox(
            self._engine,
            self._slot,
            image=self._image,
            state=self._state,
            limits=self._limits,
            reset=True,
            labels={LEASE_LABEL: str(self._state), NETWORK_LABEL: network_namespace()},
        )

    def examine(self, directory: Path) -> Evidence:
        """Ask the engine, the sandbox and its control group."""
        from pytest_atesor.sandbox.evidence import read_evidence  # noqa: PLC0415 - only after failures

        return read_evidence(self._engine, self._slot, directory)

    def recover(self, stop: StopSignal) -> bool:
        """Wait for the engine, which may be starting again, for a bounded time."""
        give_up = time.monotonic() + self.patience_s
        while not stop.level:
            try:
                self._engine.probe()
            except (SandboxError, SetupError):
                if time.monotonic() >= give_up:
                    return False
                select.select([stop.fileno(TERMINATE)], [], [], _POLL_S)
            else:
                return True
        return False

    def clear(self) -> None:
        """Remove the sandbox with everything in it."""
        self._engine.remove(self._slot)
