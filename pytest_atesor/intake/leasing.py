"""The slots of a batch: leased before its first case, cleared of what a killed batch left in them.

A batch that was killed with SIGKILL, workers and all, cannot remove its sandboxes. The next start does it,
for the slots that it leases and for those that nobody holds any more. Only sandboxes that a batch made are
touched, and of those only what belongs to a batch that is known to be dead.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_atesor.control.site import Berth
from pytest_atesor.errors import SandboxError
from pytest_atesor.options import MOST_WORKERS
from pytest_atesor.sandbox.interface import Foreign, Present
from pytest_atesor.sandbox.slots import claim_name, holding_lock, lease_slot, network_namespace
from pytest_atesor.work.bench import LEASE_LABEL, NETWORK_LABEL

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pytest_atesor.control.site import Site
    from pytest_atesor.core.plan import Platform
    from pytest_atesor.sandbox.interface import Engine
    from pytest_atesor.sandbox.slots import SlotLease

__all__ = ["clear_slot", "lease_slots", "reap_strays"]


def lease_slots(state: Path, platform: Platform, sites: Sequence[Site]) -> list[Berth]:
    """Lease the slots of each site and empty them. Raises SetupError when there are not so many.

    Their numbers are one row over all sites, so that a name means one slot.
    """
    berths: list[Berth] = []
    try:
        for site in sites:
            for _ in range(site.slots):
                first = berths[-1].lease.number + 1 if berths else 1
                berths.append(Berth(_lease(state, platform, site.engine, first), site))
                clear_slot(site.engine, berths[-1].lease.name)
    except BaseException:
        for berth in berths:
            berth.lease.release()
        raise
    return berths


def _lease(state: Path, platform: Platform, engine: Engine | None, first: int) -> SlotLease:
    def is_foreign(name: str) -> bool:
        found = None if engine is None else engine.state(name)
        if not isinstance(found, Present) or found.labels.get(LEASE_LABEL) in {None, str(state)}:
            return isinstance(found, Foreign)
        with _holding_slot(found.labels, name) as is_dead:
            return not is_dead

    owner = None if engine is None else engine.name
    return lease_slot(state, platform, range(first, MOST_WORKERS + 1), is_foreign=is_foreign, engine=owner)


def clear_slot(engine: Engine | None, name: str) -> None:
    """Remove the sandbox of a slot that is ours. What cannot be removed fails the next case there, loudly."""
    if engine is not None:
        with contextlib.suppress(SandboxError):
            engine.remove(name)


def reap_strays(engine: Engine | None) -> tuple[str, ...]:
    """Remove the sandboxes of batches that are dead; return their names. What cannot be removed stays."""
    if engine is None:
        return ()
    reaped: list[str] = []
    for name in engine.list_sandboxes():
        found = engine.state(name)
        if not isinstance(found, Present) or LEASE_LABEL not in found.labels:
            continue
        # Held while we remove: a batch that starts in this moment takes another number.
        claim = claim_name(engine.name, name)
        if claim is None:
            continue
        with claim, _holding_slot(found.labels, name) as is_dead, contextlib.suppress(SandboxError):
            if is_dead:
                engine.remove(name)
                reaped.append(name)
    return tuple(reaped)


@contextlib.contextmanager
def _holding_slot(labels: Mapping[str, str], name: str) -> Iterator[bool]:
    """Say whether the batch that made a sandbox is dead; the caller has claimed the name, and so it seems.

    The lock of its slot knows, and is held while entered. Where that cannot be seen from here the claim
    decides, if that batch's was made in this network namespace (without its label it counts as that).
    """
    with holding_lock(Path(labels[LEASE_LABEL]), name) as is_free:
        here = network_namespace()
        yield labels.get(NETWORK_LABEL, here) == here if is_free is None else is_free
