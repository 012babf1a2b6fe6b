"""Notices that nothing goes on in a sandbox any more: all its processes together use no processor.

An emulated program may hang for ever without using any; a build that is only slow uses much. What is looked
at is the kernel's count for the sandbox's control group, so nothing inside can hide or fake it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["StallWatch", "read_cpu_s"]

_IDLE_SHARE: Final = 0.01
"""Threads that only look around now and then use up to this part of one processor."""


class StallWatch:
    """Says whether ``limit_s`` seconds went by with next to no processor time.

    ``read`` returns what was used so far, in seconds, None when that is not known: then nothing stalls.
    """

    def __init__(self, read: Callable[[], float | None], limit_s: float) -> None:
        self.interval_s = min(20.0, limit_s / 4)
        self._read = read
        self._limit_s = limit_s
        self._mark: tuple[float, float] | None = None

    def is_stalled(self, now_s: float) -> bool:
        """Look, at the moment ``now_s`` of a clock that never goes back."""
        used_s = self._read()
        if used_s is None:
            self._mark = None
            self.interval_s = self._limit_s  # most likely another machine's, where each look is a round trip
            return False
        if self._mark is None or used_s - self._mark[1] > _IDLE_SHARE * self._limit_s:
            self._mark = now_s, used_s
        return now_s - self._mark[0] >= self._limit_s


def read_cpu_s(pid: int, root: Path = Path("/")) -> float | None:
    """Return the processor time of a process's control group in seconds, None when it has none of its own."""
    try:
        groups = (root / f"proc/{pid}/cgroup").read_text(encoding="utf-8").splitlines()
        for line in groups:
            _, controllers, path = line.split(":", 2)
            place = root / "sys/fs/cgroup" / controllers / path.lstrip("/")
            if path == "/":
                continue
            if "cpuacct" in controllers.split(","):
                return int((place / "cpuacct.usage").read_text(encoding="ascii")) / 1e9
            if not controllers and (place / "cpu.stat").is_file():
                for entry in (place / "cpu.stat").read_text(encoding="ascii").splitlines():
                    name, _, value = entry.partition(" ")
                    if name == "usage_usec":
                        return int(value) / 1e6
    except (OSError, ValueError):
        return None
    return None
