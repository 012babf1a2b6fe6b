"""One machine over the user's own OpenSSH client: command lines for it, commands there, a count of trips.

Nothing here asks for a password or a confirmation: what would need one fails at once. A batch holds one
connection open (see :mod:`pytest_atesor.sandbox.native.link`); every command is a channel of it. While it is
down, commands connect by themselves or fail within seconds.
"""

import contextlib
import hashlib
import os
import re
import shlex
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from pytest_atesor.core.text import sanitize_line
from pytest_atesor.errors import SandboxError, SetupError
from pytest_atesor.sandbox.native.settings import FIELD_ALIAS, Fields, NativeSettings, format_ssh_config
from pytest_atesor.sandbox.slots import home_directory

__all__ = [
    "COMMAND",
    "SSH_FAILED",
    "Connection",
    "cache_directory",
    "explain_ssh",
    "hide_address",
    "is_lost",
    "make_connection",
    "read_script",
]

SSH_FAILED: Final = 255
"""The exit code of ssh itself when there is no connection."""

COMMAND: Final = b"x"
"""Counts a round trip that runs a command in a sandbox."""

_CONNECT_S: Final = 30
_ALIVE_S: Final = 5
_ALIVE_COUNT: Final = 5
_OPTIONS: Final = (
    "BatchMode=yes",
    f"ConnectTimeout={_CONNECT_S}",
    f"ServerAliveInterval={_ALIVE_S}",
    f"ServerAliveCountMax={_ALIVE_COUNT}",
    "ForwardAgent=no",
    "ForwardX11=no",
    "ClearAllForwardings=yes",
    "PermitLocalCommand=no",
    "RequestTTY=no",
    "LogLevel=ERROR",
)
_REASON_CHARACTERS: Final = 300
_ADDRESS: Final = re.compile(
    r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w.]*\w)|(?<![\w:])(?:[0-9a-f]{0,4}:){2,7}[0-9a-f]{1,4}(?:%\w+)?",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """How the machine is reached. ``config`` is a private ssh configuration, None for the user's own.

    ``control`` is the socket of the open connection, None without one; ``trips`` a file that grows by one
    byte per round trip, shared by all processes of a batch.
    """

    host: str
    config: Path | None = None
    control: Path | None = None
    trips: Path | None = None

    def ssh(self, *, is_master: bool = False, is_logged: bool = False) -> list[str]:
        """Return the front of every command line: the client, its options, without the host.

        What a client ``is_logged`` for goes to a log, where no address of the settings may stand.
        """
        argv = ["ssh", *(("-F", str(self.config)) if self.config else ())]
        argv += ["-o", "LogLevel=QUIET"] if is_logged and self.config is not None else []
        for option in _OPTIONS:
            argv += ["-o", option]
        if self.control is not None:
            argv += ["-o", f"ControlPath={_escape(self.control)}", "-o", "ControlPersist=no"]
            argv += ["-o", f"ControlMaster={'yes' if is_master else 'no'}"]
        else:
            argv += ["-o", "ControlPath=none"]
        return argv

    def argv(self, command: str, *, is_logged: bool = False) -> list[str]:
        """Return the command line that has the login shell there run ``command``."""
        return [*self.ssh(is_logged=is_logged), "--", self.host, command]

    def script_argv(self, script: str, *arguments: str) -> list[str]:
        """Return the command line that runs a POSIX shell script there, whatever the login shell is."""
        return self.argv(shlex.join(["sh", "-c", script, "sh", *arguments]))

    def count(self, kind: bytes = b".") -> None:
        """Count one round trip; its kind is one byte, :data:`COMMAND` for a command in a sandbox.

        What cannot be counted is no failure: figures are for the last line of a batch.
        """
        if self.trips is None:
            return
        with contextlib.suppress(OSError):
            handle = os.open(self.trips, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.write(handle, kind)
            finally:
                os.close(handle)

    def run(
        self, argv: list[str], *, timeout_s: float, stdin: "int | IO[bytes] | bytes | None" = None
    ) -> "subprocess.CompletedProcess[bytes]":
        """Run a command line of ours. Raises SandboxError without an answer in time or a connection."""
        self.count()
        try:
            if isinstance(stdin, bytes):
                ended = subprocess.run(argv, input=stdin, capture_output=True, timeout=timeout_s, check=False)
            else:
                ended = subprocess.run(
                    argv,
                    stdin=subprocess.DEVNULL if stdin is None else stdin,
                    capture_output=True,
                    timeout=timeout_s,
                    check=False,
                )
        except OSError as error:
            raise SetupError(f"ssh cannot be started ({error}); apt-get install openssh-client") from error
        except subprocess.TimeoutExpired as error:
            raise SandboxError(
                f"the machine {self.host} did not answer within {timeout_s:.0f} s; check the connection"
            ) from error
        if is_lost(ended.returncode):
            raise SandboxError(self.explain(ended.stderr))
        return ended

    def explain(self, stderr: bytes) -> str:
        """Return one line about a client that could not connect; an address of the settings is left out."""
        said = stderr.decode("utf-8", "replace")
        if self.config is not None:
            said = hide_address(said, _read_hostname(self.config), self.host)
        return explain_ssh(self.host, said)

    @property
    def login(self) -> str:
        """The command line with which a user connects by hand, without an address."""
        return shlex.join(["ssh", *(("-F", str(self.config)) if self.config else ()), self.host])

    def script(
        self,
        script: str,
        *arguments: str,
        timeout_s: float,
        stdin: "int | IO[bytes] | bytes | None" = None,
    ) -> "subprocess.CompletedProcess[bytes]":
        """Run a POSIX shell script there. Raises as :meth:`run`."""
        return self.run(self.script_argv(script, *arguments), timeout_s=timeout_s, stdin=stdin)


def is_lost(exit_code: int) -> bool:
    """Say whether a client ended for its connection's sake: by ssh's own exit code, or by a signal here."""
    return exit_code == SSH_FAILED or exit_code < 0


def make_connection(settings: NativeSettings, directory: Path) -> Connection:
    """Return the way to the machine; fields become a private configuration below ``directory``.

    Raises SetupError when that cannot be written.
    """
    config = None if settings.fields is None else _write_config(settings.fields, directory)
    return Connection(host=settings.name, config=config)


def cache_directory(environ: Mapping[str, str]) -> Path:
    """Return the user's cache directory of this program. Raises SetupError for a user without a home."""
    chosen = environ.get("XDG_CACHE_HOME", "")
    if chosen.startswith("/"):
        return Path(chosen) / "pytest-atesor"
    return home_directory(environ, instead="XDG_CACHE_HOME") / ".cache/pytest-atesor"


def hide_address(said: str, hostname: str, name: str) -> str:
    """Return what ssh said with ``name`` in the place of the host's name and of all addresses."""
    if hostname:
        said = re.sub(rf"(?<![\w.-]){re.escape(hostname)}(?![\w-])", name, said)
    return _ADDRESS.sub(name, said)


def explain_ssh(host: str, stderr: str) -> str:
    """Return one line about an ssh that could not connect, with what to do."""
    said = [line for line in stderr.splitlines() if line.strip()]
    reason = sanitize_line(said[-1], _REASON_CHARACTERS) if said else "no message"
    text = "\n".join(said)
    if "Host key verification failed" in text or "REMOTE HOST IDENTIFICATION" in text:
        advice = "connect once by hand and check the machine's key"
    elif "Permission denied" in text:
        advice = "no password is ever asked for: load your key into the agent (ssh-add)"
    elif "Could not resolve" in text:
        advice = "check the name in your ssh configuration or settings"
    else:
        advice = "check that the machine is up and reachable"
    return f"no connection to {host} ({reason}); {advice}"


def read_script(name: str) -> str:
    """Return a script that runs on the machine."""
    directory = Path(__file__).resolve().parents[2] / "resources" / "native"
    return (directory / name).read_text(encoding="utf-8")


def _write_config(fields: Fields, directory: Path) -> Path:
    """Write the private configuration, readable by its owner alone from its first moment on."""
    text = format_ssh_config(fields, FIELD_ALIAS)
    # named after its content: two batches with two machines must not rewrite each other's
    file = directory / f"ssh_config-{hashlib.sha256(text.encode()).hexdigest()[:12]}"
    partial = directory / f".{file.name}.{os.getpid()}"
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        partial.unlink(missing_ok=True)
        handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
        partial.replace(file)
    except OSError as error:
        raise SetupError(f"{file} cannot be written ({error}); set XDG_CACHE_HOME") from error
    return file


def _read_hostname(config: Path) -> str:
    """Return the host's name or address in a configuration of ours, "" when it cannot be read."""
    with contextlib.suppress(OSError):
        for line in config.read_text(encoding="utf-8").splitlines():
            word, _, value = line.strip().partition(" ")
            if word == "HostName":
                return value.replace("%%", "%")
    return ""


def _escape(path: Path) -> str:
    """Return a path without ssh's tokens."""
    return str(path).replace("%", "%%")
