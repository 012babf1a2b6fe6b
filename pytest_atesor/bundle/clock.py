"""The machine's own clocks."""

import time
from datetime import UTC, datetime

from pytest_atesor.core.clock import Clock

__all__ = ["system_clock"]


def system_clock() -> Clock:
    """Return the clocks of this machine: monotonic seconds, and UTC with milliseconds."""
    return Clock(monotonic=time.monotonic, now=_utc_now)


def _utc_now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
