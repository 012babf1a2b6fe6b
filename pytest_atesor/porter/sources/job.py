"""One fetch in progress: its sandbox, its log, its deadline, and the way in for what only the host has.

Nothing secret passes here: every line of the log is redacted, and the environment of a command inside, which
an engine may show in a process list, gets only what is made for it.
"""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from pytest_atesor.core.names import redact_text
from pytest_atesor.core.text import sanitize_line
from pytest_atesor.errors import SandboxError
from pytest_atesor.porter.download_pool import DownloadPool
from pytest_atesor.porter.sources.interface import RunsCommands, SourceError, Trouble
from pytest_atesor.sandbox.interface import ExecSpec

__all__ = ["SOURCE_ROOT", "CommandEnd", "Incoming", "Job", "opening_incoming"]

SOURCE_ROOT: Final = "/workspace/src"
_TIMED_OUT_CODES: Final = frozenset({124, 137, 143})
_INCOMING: Final = "incoming-"
_GRACE_S: Final = 15.0
_SHORTEST_S: Final = 1.0


class CommandEnd(NamedTuple):
    """How a command ended: exit code, the end of its output, and whether its time limit ended it."""

    code: int
    output: bytes
    timed_out: bool

    @property
    def text(self) -> str:
        """The output as text; bytes that are no UTF-8 are replaced."""
        return self.output.decode("utf-8", "replace")


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What a fetch works with. ``deadline`` is in seconds of ``clock``, which never goes back.

    ``pool`` is what the slots share of their downloads, None for nothing.
    """

    sandbox: RunsCommands
    workspace: Path
    sink: BinaryIO | None
    deadline: float
    clock: Callable[[], float]
    environ: Mapping[str, str]
    pool: DownloadPool | None = None

    def say(self, text: str) -> None:
        """Write one redacted line to the log."""
        if self.sink is not None:
            self.sink.write(f"[source] {redact_text(sanitize_line(text, 2000))}\n".encode())
            self.sink.flush()

    def until(self, deadline: float) -> "Job":
        """Return the same job with an earlier deadline."""
        return replace(self, deadline=min(self.deadline, deadline))

    def limit_s(self, wanted_s: float) -> float:
        """Return how long a step may take: ``wanted_s`` or what is left of the time. Raises SourceError."""
        left = self.deadline - self.clock()
        if left < _SHORTEST_S:
            raise SourceError(Trouble.TIMEOUT, "the time for fetching the source is over")
        return min(wanted_s, left)

    def run(
        self,
        argv: Sequence[str],
        *,
        limit_s: float,
        env: Mapping[str, str] | None = None,
        user: str = "builder",
        cwd: str = SOURCE_ROOT,
        quiet: bool = False,
    ) -> CommandEnd:
        """Run a command inside for at most ``limit_s`` seconds; ``quiet`` keeps its output out of the log."""
        limit = self.limit_s(limit_s)
        # The limit is held inside: killing an engine's client would leave the command running.
        bounded = ("timeout", "-k", "5", f"{limit:.0f}", *argv)
        done = self.sandbox.run(
            ExecSpec(argv=bounded, user=user, cwd=cwd, env=dict(env or {})),
            timeout_s=limit + _GRACE_S,
            sink=None if quiet else self.sink,
            tail_bytes=1024 * 1024 if quiet else 65536,
        )
        timed_out = done.timed_out or (done.exit_code in _TIMED_OUT_CODES and done.duration_s >= limit - 1)
        if b"No space left on device" in done.tail:
            raise SandboxError(
                "fetching the source: no space left on the device that holds the sandbox's workspace"
            )
        return CommandEnd(done.exit_code, done.tail, timed_out)

    def must(
        self, script: str, *args: str, limit_s: float = 120, user: str = "builder", cwd: str = "/"
    ) -> str:
        """Run our own small shell script inside and return its output. Raises SandboxError when it fails."""
        end = self.run(("sh", "-euc", script, "sh", *args), limit_s=limit_s, user=user, cwd=cwd, quiet=True)
        if end.code != 0:
            raise SandboxError(
                f"the sandbox could not prepare the source directory: {sanitize_line(end.text)}"
            )
        return end.text

    def incoming(self) -> AbstractContextManager["Incoming"]:
        """Open a directory through which the host hands files in; it is removed afterwards."""
        return opening_incoming(self.workspace)

    def remove_stale(self) -> None:
        """Remove what a fetch that was killed in this workspace has left on the host."""
        for left in self.workspace.glob(f"{_INCOMING}*"):
            shutil.rmtree(left, ignore_errors=True)


class Incoming(NamedTuple):
    """The same directory as the host and as the sandbox see it."""

    host: Path
    inside: str

    def hand_in(self, name: str, data: bytes) -> str:
        """Write a file that the builder can read; returns its path inside."""
        path = self.host / name
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
        path.chmod(0o644)
        return f"{self.inside}/{name}"


@contextmanager
def opening_incoming(workspace: Path) -> Iterator[Incoming]:
    """Open a directory of the workspace through which the host hands files in; it is removed afterwards.

    Its name cannot be guessed and it cannot be listed, so nobody else on the host finds what lies in it.
    Raises OSError.
    """
    directory = Path(tempfile.mkdtemp(prefix=_INCOMING, dir=workspace))
    try:
        directory.chmod(0o711)
        yield Incoming(directory, f"/workspace/{directory.name}")
    finally:
        shutil.rmtree(directory, ignore_errors=True)
