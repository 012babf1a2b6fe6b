"""The open connection of a batch, and the keeper at its other end that outlives it by seconds.

The keeper is a shell script on the machine. It hears from us every few seconds and answers; when it has heard
nothing for a while, or its input ends, it removes every sandbox of this batch there. So nothing goes on
building for a controller that was killed, hung or cut off. At our end a thread keeps the conversation: an
answer that does not come is a connection that is down, which is closed and made again until the batch ends.
"""

import contextlib
import os
import select
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from pytest_atesor.errors import SandboxError, SetupError
from pytest_atesor.sandbox.native.connection import Connection, read_script

__all__ = ["CONNECTED", "KEEPER_LABEL", "Link", "Pace", "is_there"]

CONNECTED: Final = "connected"
"""The file beside the connection's socket that stands there while a keeper listens."""

KEEPER_LABEL: Final = "org.pytest-atesor.keeper"
"""Marks the sandboxes that a batch's keeper removes; its value is the batch's token."""


_MOST_ERRORS_BYTES: Final = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How often the machine is asked for a sign of life, how long it may take, and how long it waits for us.

    After ``silence_s`` without a word the keeper there gives us up; ``open_s`` is the patience with a login,
    ``clear_s`` that with what is removed at the end: the keeper waits ten minutes for what podman is making.
    """

    ask_s: float = 5.0
    answer_s: float = 20.0
    silence_s: int = 45
    open_s: float = 120.0
    again_s: float = 3.0
    clear_s: float = 660.0


class Link:
    """The connection that all commands of a batch share; its ``token`` marks the batch's sandboxes there.

    Use it as a context manager; ``say`` gets a line when the connection is lost and when it is back.
    ``on_loss`` is called first; ``restore`` makes the place of the connection's files ready, also when it has
    gone since. While that raises OSError or SetupError there is no new connection.
    """

    def __init__(
        self,
        connection: Connection,
        token: str,
        *,
        say: Callable[[str], None],
        on_loss: Callable[[], None] = lambda: None,
        restore: Callable[[], None] = lambda: None,
        pace: Pace | None = None,
    ) -> None:
        self.connection = connection
        self.token = token
        self._say = say
        self._on_loss = on_loss
        self._restore = restore
        self._pace = pace or Pace()
        self._process: subprocess.Popen[bytes] | None = None
        self._closing, self._wake = os.pipe()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def open(self) -> None:
        """Connect and start the keeper. Raises SetupError with the reason and what to do."""
        try:
            self._restore()
            self._process = self._connect()
        except SandboxError as error:
            raise SetupError(str(error)) from error
        except OSError as error:
            raise SetupError(f"ssh has no place for its messages ({error}); free some space") from error
        self._mark(connected=True)
        self._thread = threading.Thread(target=self._keep, name="atesor-link", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Have the keeper remove what is left of the batch there, and disconnect; twice does nothing."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        os.write(self._wake, b"x")
        thread.join()
        self._mark(connected=False)
        os.close(self._wake)
        os.close(self._closing)

    def _keep(self) -> None:
        """Ask for signs of life until the batch ends; connect again when they stop."""
        while True:
            if self._process is not None and self._talk(self._process):
                self._leave(self._process)
                return
            if self._process is not None:
                self._mark(connected=False)
                with contextlib.suppress(OSError, SetupError):
                    self._restore()
                self._on_loss()
                self._tell(
                    f"the connection to {self.connection.host} is lost: its slots wait; connecting again"
                )
                _end(self._process)
                self._process = None
            else:
                ready, _, _ = select.select([self._closing], [], [], self._pace.again_s)
                if ready:
                    self._tell(
                        f"{self.connection.host} cannot be reached at the end; "
                        "what this batch has left there ends by itself"
                    )
                    return
            self._connect_again()

    def _connect_again(self) -> None:
        """Connect, unless something is in the way."""
        with contextlib.suppress(SandboxError, SetupError, OSError):
            self._restore()
            self._process = self._connect()
            self._mark(connected=True)
            self._tell(f"connected to {self.connection.host} again")

    def _tell(self, line: str) -> None:
        with contextlib.suppress(OSError):  # whoever listened may have gone
            self._say(line)

    def _mark(self, *, connected: bool) -> None:
        """Tell the other processes; the socket that a killed client left is of no use any more."""
        control = self.connection.control
        if control is None:
            return
        mark = control.with_name(CONNECTED)
        with contextlib.suppress(OSError):  # a full disk is found out by whoever needs it
            if connected:
                mark.touch()
            else:
                mark.unlink(missing_ok=True)
                control.unlink(missing_ok=True)

    def _talk(self, process: "subprocess.Popen[bytes]") -> bool:
        """Ask and hear until we are to close (True) or nothing is heard any more (False)."""
        if process.stdout is None:
            return False
        voice = process.stdout.fileno()
        while True:
            ready, _, _ = select.select([self._closing, voice], [], [], self._pace.ask_s)
            if self._closing in ready:
                return True
            if voice in ready:  # nobody asked: this is the end
                return False
            if not _ask(process, b".") or not _hear(process, b".", self._pace.answer_s):
                return False
            if not self._is_of_use():
                return False

    def _is_of_use(self) -> bool:
        """Say whether the other processes find the connection; a mark alone that is gone is set again."""
        control = self.connection.control
        if control is None:
            return True
        if not is_there(control.with_name(CONNECTED)):
            self._mark(connected=True)
        return is_there(control)

    def _leave(self, process: "subprocess.Popen[bytes]") -> None:
        host = self.connection.host
        if _ask(process, b"q") and not _hear(process, b"bye", self._pace.answer_s):
            self._tell(f"waiting until {host} has removed what this batch left there")
            if not _hear(process, b"bye", self._pace.clear_s):
                self._tell(
                    f"{host} did not say that it is done; what this batch has left there ends by itself"
                )
        _end(process)

    def _connect(self) -> "subprocess.Popen[bytes]":
        """Return the connected client with the keeper's first word read. Raises SandboxError, SetupError."""
        connection = self.connection
        if connection.control is not None:
            with contextlib.suppress(OSError):
                connection.control.unlink(missing_ok=True)
        connection.count()
        argv = connection.script_argv(
            read_script("keeper.sh"), self.token, str(self._pace.silence_s), KEEPER_LABEL
        )
        argv = [*connection.ssh(is_master=True), *argv[argv.index("--") :]]
        with tempfile.TemporaryFile() as errors:
            try:
                process = subprocess.Popen(
                    argv,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    bufsize=0,
                    # a Ctrl-C in the terminal is for the batch, which still needs the connection to end well
                    start_new_session=True,
                )
            except OSError as error:
                raise SetupError(
                    f"ssh cannot be started ({error}); apt-get install openssh-client"
                ) from error
            if not _hear(process, b"ready", self._pace.open_s):
                _end(process)
                errors.seek(0)
                raise SandboxError(connection.explain(errors.read(_MOST_ERRORS_BYTES)))
            return process


def is_there(file: Path) -> bool:
    """Say whether ``file`` is found; what cannot be looked for is not."""
    try:
        return file.exists()
    except OSError:
        return False


def _ask(process: "subprocess.Popen[bytes]", word: bytes) -> bool:
    try:
        return process.stdin is not None and process.stdin.write(word) == len(word)
    except OSError:
        return False


def _hear(process: "subprocess.Popen[bytes]", word: bytes, patience_s: float) -> bool:
    """Say whether that word comes in time; what a login shell says before it is skipped."""
    if process.stdout is None:
        return False
    handle = process.stdout.fileno()
    give_up = time.monotonic() + patience_s
    heard = b""
    while word not in heard:
        ready, _, _ = select.select([handle], [], [], max(0.0, give_up - time.monotonic()))
        chunk = os.read(handle, 4096) if ready else b""
        if not chunk:
            return False
        heard = (heard + chunk)[-8192:]
    return True


def _end(process: "subprocess.Popen[bytes]") -> None:
    """End the client at once; its channels' other ends notice by themselves."""
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()
    process.kill()
    process.wait()
