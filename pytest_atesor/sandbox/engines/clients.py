"""Clients of an engine that were stopped in the middle of a request, and hold up everybody after them.

A stopped ``podman exec`` keeps its container's lock; a stopped runtime reaps no command that it started, and
so PID 1 of the sandbox cannot end. Who removes or empties a sandbox ends such clients first: what they wait
for is about to be killed.
"""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

__all__ = ["end_stopped_clients"]

_STOPPED: Final = frozenset({b"T", b"t"})


def end_stopped_clients(programs: Collection[str], name: str) -> None:
    """Kill the stopped processes of these programs (base names) that name the sandbox in their words."""
    for pid in _iter_stopped():
        with contextlib.suppress(OSError):
            words = [os.fsdecode(word) for word in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")]
            if os.path.basename(words[0]) in programs and name in words:  # noqa: PTH119 - a word, no path
                os.kill(pid, signal.SIGKILL)


def _iter_stopped() -> Iterator[int]:
    for entry in os.scandir("/proc"):
        if entry.name.isdecimal():
            with contextlib.suppress(OSError):
                text = Path(entry.path, "stat").read_bytes()
                if text.rpartition(b") ")[2][:1] in _STOPPED:
                    yield int(entry.name)
