"""Shell scripts inside the sandbox, as the builder or as root; their output is passed on and kept."""

import io
import re
import time
from collections.abc import Mapping, Sequence
from typing import BinaryIO, Protocol, cast

from pytest_atesor.errors import SandboxError
from pytest_atesor.sandbox.interface import Completed, ExecSpec

__all__ = ["Capture", "SandboxLike", "Shell"]

_HEAD_BYTES = 128 * 1024
_TAIL_BYTES = 1024 * 1024
_NO_DEADLINE_S = 24 * 3600.0
_KILL_S = 30.0
_LONG_LINE = re.compile(r"([^\n]{2000})[^\n]+")


class SandboxLike(Protocol):
    """What the agent needs of a sandbox."""

    def run(
        self, command: ExecSpec, *, timeout_s: float, sink: BinaryIO | None = None, tail_bytes: int = 65_536
    ) -> Completed:
        """Run a command to its end; raises SandboxError when the sandbox failed."""

    def clear(self) -> None:
        """Kill everything that runs inside."""

    def set_network(self, *, enabled: bool) -> None:
        """Connect or cut the network."""


class Capture(io.RawIOBase):
    """A sink that passes output on and keeps its first and last bytes, in bounded memory."""

    def __init__(self, through: BinaryIO | None) -> None:
        super().__init__()
        self._through = through
        self._head = bytearray()
        self._tail = bytearray()

    def writable(self) -> bool:
        """Say that it can be written to."""
        return True

    def write(self, data: "bytes | bytearray | memoryview") -> int:  # type: ignore[override]  # the stub's buffer type needs Python 3.12
        """Take all of ``data``."""
        chunk = bytes(data)
        if self._through is not None:
            self._through.write(chunk)
            self._through.flush()
        room = _HEAD_BYTES - len(self._head)
        if room > 0:
            self._head += chunk[:room]
            chunk = chunk[room:]
        self._tail += chunk
        if len(self._tail) > 2 * _TAIL_BYTES:
            del self._tail[:-_TAIL_BYTES]
        return len(data)

    def as_sink(self) -> BinaryIO:
        """Return itself under the type that sandboxes ask for; they only write."""
        return cast("BinaryIO", self)

    def text(self) -> str:
        """Return what is kept as text, undecodable bytes replaced, each line cut at 2000 characters.

        What is searched in it takes time that grows with the square of a line's length.
        """
        kept = (bytes(self._head) + bytes(self._tail)).decode("utf-8", "replace")
        return _LONG_LINE.sub(r"\1", kept)


class Shell:
    """Runs scripts in one sandbox until a deadline, given in seconds of the monotonic clock (None: a day).

    With ``keeps_network`` the network is never cut.
    """

    def __init__(
        self,
        sandbox: SandboxLike,
        *,
        deadline: float | None,
        output: BinaryIO | None,
        keeps_network: bool = False,
    ) -> None:
        self.sandbox = sandbox
        self.keeps_network = keeps_network
        self.output = output
        self._deadline = deadline
        self._network: bool | None = None

    def remaining_s(self) -> float:
        """Return the seconds that a command may take."""
        return _NO_DEADLINE_S if self._deadline is None else max(1.0, self._deadline - time.monotonic())

    def script(  # noqa: PLR0913 - keyword-only settings of one command
        self,
        text: str,
        *,
        user: str = "builder",
        cwd: str = "/workspace",
        environment: Mapping[str, str] | None = None,
        sink: BinaryIO | None = None,
        timeout_s: float | None = None,
        stall_s: float | None = None,
    ) -> Completed:
        """Run ``text`` with ``sh -eu``. Output goes to ``sink``, by default nowhere but the result's tail.

        It is ended when nothing has gone on for ``stall_s`` seconds.
        """
        # One pipe for both streams: engines carry two side by side, and lines of the two change places.
        argv = ["sh", "-c", 'exec sh -eu -c "$0" 2>&1', text]
        command = ExecSpec(argv=argv, user=user, cwd=cwd, env=dict(environment or {}), stall_s=stall_s)
        return self.sandbox.run(
            command, timeout_s=min(timeout_s or self.remaining_s(), self.remaining_s()), sink=sink
        )

    def run(
        self, argv: Sequence[str], *, cwd: str, environment: Mapping[str, str], sink: BinaryIO | None
    ) -> Completed:
        """Run one command as the builder until the deadline. Raises SandboxError."""
        command = ExecSpec(argv=list(argv), cwd=cwd, env=dict(environment))
        return self.sandbox.run(command, timeout_s=self.remaining_s(), sink=sink)

    def end_builders(self) -> None:
        """Kill what the builder's commands left running: it must not see the network of a later phase.

        Raises SandboxError.
        """
        # The kernel spares the sender alone, and no process can fork out of the reach of this.
        try:
            done = self.script("kill -s KILL -- -1 2>/dev/null || :", timeout_s=_KILL_S)
            is_done = done.exit_code == 0 and not done.timed_out
        except SandboxError:  # at its process limit a sandbox has no room for one more
            is_done = False
        if not is_done:
            self.sandbox.clear()

    def set_network(self, *, enabled: bool) -> bool:
        """Connect or cut the network where it is not so already; return whether it is connected now."""
        is_on = enabled or self.keeps_network
        if self._network is not is_on:
            self.sandbox.set_network(enabled=is_on)
            self._network = is_on
        return is_on
