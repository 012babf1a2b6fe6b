"""Where the slots of a batch are: this machine, or one of those that a native batch holds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytest_atesor.sandbox.interface import Engine
    from pytest_atesor.sandbox.slots import SlotLease

__all__ = ["Berth", "Site"]


def _always() -> bool:
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A machine of a batch, as far as its slots need to know.

    ``engine`` is None where agents bring their own sandbox. ``machine`` is the name of a machine elsewhere,
    "" for this one, and ``description`` the rest of its row in the header. Workers get ``image``,
    ``memory_bytes`` and ``environment`` with their orders. ``is_reachable`` costs no round trip.
    """

    engine: Engine | None
    slots: int
    image: str = ""
    memory_bytes: int | None = None
    machine: str = ""
    description: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    is_reachable: Callable[[], bool] = _always


class Berth(NamedTuple):
    """A leased slot and where it is."""

    lease: SlotLease
    site: Site
