"""The control group of a sandbox, version 1 or 2: which processes it holds, what the kernel counted there.

The runtime makes and removes the group; here it is only read, frozen and killed in.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytest_atesor.errors import SandboxError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["ControlGroup", "can_bound_swap", "end_process", "find_controllers", "read_birth"]

_MOUNT: Final = Path("/sys/fs/cgroup")
_DEATH_S: Final = 20.0
_ROUND_S: Final = 0.01
_DEAD: Final = frozenset({"Z", "X"})
_EXITING: Final = 0x4  # PF_EXITING in the kernel's include/linux/sched.h


class ControlGroup:
    """The group of that path below the hierarchies' roots, as ``/pytest-atesor/NAME``."""

    def __init__(self, path: str, mount: Path = _MOUNT) -> None:
        below = path.lstrip("/")
        self._path = path
        self._unified = mount / below
        self._of = {word: mount / word / below for word in ("freezer", "memory", "pids")}
        if not (mount / "cgroup.controllers").exists():
            self._unified = self._of["freezer"]
        else:
            self._of = dict.fromkeys(self._of, self._unified)

    def kill_all_but(self, spared: int) -> None:
        """Kill every process of the group but one, however fast they fork. Raises SandboxError."""
        give_up = time.monotonic() + _DEATH_S
        while others := [pid for pid in self._read_pids() if pid != spared]:
            with self._frozen():
                for pid in {*others, *self._read_pids()} - {spared}:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
            if time.monotonic() > give_up:
                raise SandboxError(
                    f"host: {len(others)} processes of the group {self._path} cannot be killed"
                )
            time.sleep(_ROUND_S)

    def count_oom_kills(self) -> int:
        """Return how many processes of the group the kernel has killed for want of memory."""
        for name in ("memory.events", "memory.oom_control"):
            with contextlib.suppress(OSError):
                for line in (self._of["memory"] / name).read_text(encoding="ascii").splitlines():
                    if line.startswith("oom_kill "):
                        return int(line.split()[1])
        return 0

    def _read_pids(self) -> Sequence[int]:
        for place in (self._unified, self._of["pids"]):
            with contextlib.suppress(OSError):
                return [
                    int(pid)
                    for pid in (place / "cgroup.procs").read_text(encoding="ascii").split()
                    if pid != "0"
                ]
        return ()

    def thaw(self) -> None:
        """Let the group's processes go on, which somebody who was killed meanwhile may have stopped."""
        self._switch(0)

    @contextlib.contextmanager
    def _frozen(self) -> Iterator[None]:
        """Stop the group's processes inside the block, where the kernel can do that."""
        self._switch(1)
        try:
            yield
        finally:
            self.thaw()

    def _switch(self, position: int) -> None:
        v2, v1 = self._unified / "cgroup.freeze", self._of["freezer"] / "freezer.state"
        switch, words = (v2, ("0", "1")) if v2.exists() else (v1, ("THAWED", "FROZEN"))
        with contextlib.suppress(OSError):
            switch.write_text(words[position], encoding="ascii")


def find_controllers(mount: Path = _MOUNT) -> frozenset[str]:
    """Return the names of the controllers that a group can have here, as "memory", "pids", "cpu".

    In a container the mount is a group like others and not the root: while processes are in it, it passes on
    only what it passes on already.
    """
    try:
        is_root = not (mount / "cgroup.type").exists()
        is_free = is_root or not (mount / "cgroup.procs").read_text(encoding="ascii")
        name = "cgroup.controllers" if is_free else "cgroup.subtree_control"
        return frozenset((mount / name).read_text(encoding="ascii").split())
    except OSError:
        words = ("memory", "pids", "cpu")
        return frozenset(word for word in words if (mount / word / "cgroup.procs").exists())


def can_bound_swap(mount: Path = _MOUNT) -> bool:
    """Say whether a group's swap can be bounded here: a kernel may count none, or was told not to."""
    first_version = mount / "memory/memory.memsw.limit_in_bytes"
    # the root of version 2 has no limits of its own, a group below it or a container's root has
    places = (first_version, mount / "memory.swap.max")
    return any(one.exists() for one in places) or any(mount.glob("*/memory.swap.max"))


def read_birth(pid: int) -> int | None:
    """Return when a living process was started, in clock ticks since the machine was; None for a dead one.

    One that was killed and waits for others to be reaped is dead, too: nothing can enter its namespaces.
    Together with its number that names a process for ever.
    """
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()  # proc(5): from the third field on
    is_dead = fields[0] in _DEAD or int(fields[6]) & _EXITING
    return None if is_dead else int(fields[19])


def end_process(pid: int, birth: int) -> None:
    """Kill a process and wait for its end, unless the number is another's by now. Raises SandboxError."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        if read_birth(pid) != birth:
            return
        signal.pidfd_send_signal(handle, signal.SIGKILL)
        if not select.select([handle], (), (), _DEATH_S)[0]:
            raise SandboxError(f"host: the process {pid} cannot be killed")
    finally:
        os.close(handle)
