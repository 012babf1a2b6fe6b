"""What the controller holds while a batch runs."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_atesor.bundle.writer import Bundle
    from pytest_atesor.control.crew import Crew
    from pytest_atesor.control.history import History
    from pytest_atesor.control.site import Site
    from pytest_atesor.core.clock import Clock

__all__ = ["Batch"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A batch that is ready to run, with its slots on ``sites``; ``held`` is given back last.

    ``image`` is the name of what its sandboxes are made from, "" without sandboxes.
    """

    bundle: Bundle
    crew: Crew
    clock: Clock
    workers: int
    sites: tuple[Site, ...]
    image: str
    history: History
    has_breaker: bool
    held: ExitStack = field(default_factory=ExitStack)

    def close(self) -> None:
        """Give slots and bundle back; the second time does nothing."""
        self.crew.close()
        self.bundle.close()
        self.held.close()
