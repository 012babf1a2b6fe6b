"""The two clocks as one value, so that nothing reads the time behind its caller's back."""

from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["Clock"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """``monotonic`` gives seconds for durations and intervals.

    ``now`` the UTC wall clock as ISO 8601, for display.
    """

    monotonic: Callable[[], float]
    now: Callable[[], str]
