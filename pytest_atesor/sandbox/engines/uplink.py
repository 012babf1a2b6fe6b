"""The network of a sandbox without an engine: slirp4netns, a network stack in an ordinary program.

It makes the interface eth0 in a network namespace of its own, where the interface is parked. Giving a sandbox
the network is moving eth0 into its namespace, cutting it off is moving it back: it counts for everything that
runs there, at once, and starts no process that must live on. The parking namespace has no name; an open file
of slirp4netns keeps it. slirp4netns lives as long as somebody holds the other end of its lifeline, a pipe.
"""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytest_atesor.errors import SandboxError
from pytest_atesor.sandbox.engines.control_group import read_birth
from pytest_atesor.sandbox.engines.host_programs import OWN_MOUNTS, find_program, run_program

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["RESOLVER", "Uplink", "connect", "disconnect", "start_uplink"]

RESOLVER: Final = "10.0.2.3"
"""slirp4netns's own, which asks whoever resolves names for this machine."""

_DEVICE: Final = "eth0"
_MTU: Final = "65520"
_PATIENCE_S: Final = 10.0
_SETTINGS: Final = f"""\
link set {_DEVICE} mtu {_MTU}
address add 10.0.2.100/24 dev {_DEVICE}
link set {_DEVICE} up
route add default via 10.0.2.2
"""
# In a session of its own and nobody's child, so that it is no part of whoever starts a sandbox.
_DETACHED: Final = 'setsid "$@" </dev/null >/dev/null 2>&1 & echo $!'


@dataclass(frozen=True, slots=True, kw_only=True)
class Uplink:
    """A running slirp4netns: its process, when it was started, its open file on the parking namespace."""

    pid: int
    birth: int
    parking: int

    @property
    def parking_path(self) -> str:
        """Where the parking namespace can be entered."""
        return f"/proc/{self.pid}/fd/{self.parking}"


def start_uplink(lifeline: int) -> Uplink:
    """Start slirp4netns with its interface parked. It ends when the other end of ``lifeline`` is closed.

    Raises SandboxError when it does not come up.
    """
    ready, told = os.pipe()
    try:
        with _new_namespace() as parking:
            try:
                pid = _start_detached(lifeline, told, parking)
            finally:
                os.close(told)
            birth = read_birth(pid)
            is_up = bool(select.select([ready], (), (), _PATIENCE_S)[0]) and os.read(ready, 1) == b"1"
            if birth is None or not is_up:
                raise SandboxError("host: slirp4netns cannot make a network; does /dev/net/tun work?")
            return Uplink(pid=pid, birth=birth, parking=parking)
    finally:
        os.close(ready)


def connect(init: int, uplink: Uplink) -> None:
    """Move the interface into the network namespace of ``init``; done when it is there."""
    if _is_connected(init):
        return
    namespace = f"/proc/{init}/ns/net"
    _require_life(uplink)
    _run_in(uplink.parking_path, ["link", "set", _DEVICE, "netns", namespace])
    _run_in(namespace, ["-batch", "-"], text=_SETTINGS)


def disconnect(init: int, uplink: Uplink) -> None:
    """Move the interface away from ``init``; done when it is not there."""
    if _is_connected(init):
        _require_life(uplink)
        _run_in(f"/proc/{init}/ns/net", ["link", "set", _DEVICE, "netns", uplink.parking_path])


def _is_connected(init: int) -> bool:
    try:
        table = Path(f"/proc/{init}/net/dev").read_text(encoding="ascii")
    except OSError as error:
        raise SandboxError("host: the sandbox does not run; it must be created again") from error
    return any(line.strip().startswith(f"{_DEVICE}:") for line in table.splitlines())


def _require_life(uplink: Uplink) -> None:
    if read_birth(uplink.pid) != uplink.birth:
        raise SandboxError("host: the sandbox's slirp4netns has ended; it must be created again")


def _run_in(namespace: str, arguments: list[str], text: str = "") -> None:
    run_program([find_program("nsenter"), f"--net={namespace}", find_program("ip"), *arguments], text=text)


@contextlib.contextmanager
def _new_namespace() -> Iterator[int]:
    """Yield an open file on a new network namespace. Only what is open keeps it."""
    # What a line of it says is that unshare has done its work.
    argv = [find_program("unshare"), "--net", "cat"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        if holder.stdin is None or holder.stdout is None:
            raise SandboxError("host: unshare has no pipes")
        with contextlib.suppress(BrokenPipeError):
            holder.stdin.write(b"\n")
            holder.stdin.flush()
        if holder.stdout.readline() != b"\n":
            raise SandboxError("host: no network namespace can be made")
        namespace = os.open(f"/proc/{holder.pid}/ns/net", os.O_RDONLY)
    try:
        yield namespace
    finally:
        os.close(namespace)


def _start_detached(lifeline: int, told: int, parking: int) -> int:
    argv = [
        # as root its own sandbox would take down what others have mounted below shared mounts
        *OWN_MOUNTS,
        find_program("slirp4netns"),
        "--configure",
        f"--mtu={_MTU}",
        "--disable-host-loopback",
        "--enable-sandbox",
        "--enable-seccomp",
        f"--exit-fd={lifeline}",
        f"--ready-fd={told}",
        "--netns-type=path",
        f"/proc/self/fd/{parking}",
        _DEVICE,
    ]
    return int(run_program(["sh", "-c", _DETACHED, "sh", *argv], pass_fds=(lifeline, told, parking)))
