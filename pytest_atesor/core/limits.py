"""What one slot's sandbox may use of the machine."""

import re
from dataclasses import dataclass
from typing import Final

__all__ = ["DEFAULT_CPU_WEIGHT", "DEFAULT_PIDS", "SlotLimits", "parse_size", "share_memory"]

DEFAULT_PIDS: Final = 4096
"""Emulated programs have two or more threads each, and all of them count."""

DEFAULT_CPU_WEIGHT: Final = 512
"""Half of what a container gets where nobody says anything: other people's containers come first."""

_LEAST_MEMORY_BYTES: Final = 512 * 1024**2
_UNITS: Final = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3, "T": 1024**4}
_SIZE: Final = re.compile(r"([0-9]{1,15})([KMGT]?)(?:i?B)?", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotLimits:
    """The limits that were asked for; ``memory_bytes`` of None means the slot's share of the machine."""

    memory_bytes: int | None = None
    pids: int = DEFAULT_PIDS
    cpu_weight: int = DEFAULT_CPU_WEIGHT


def parse_size(text: str) -> int:
    """Return the bytes of "512M", "4G" or "4GiB". Raises ValueError, saying what a size is."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise ValueError("a size is a number with K, M, G or T behind it, such as 4G")
    size = int(match[1]) * _UNITS[match[2].upper()]
    if size < _LEAST_MEMORY_BYTES // 8:
        raise ValueError("it is less than 64M, too little for any build")
    return size


def share_memory(total_bytes: int, slots: int) -> int:
    """Return each slot's share of the machine's memory, at least 512 MiB."""
    return max(_LEAST_MEMORY_BYTES, total_bytes // max(1, slots))
