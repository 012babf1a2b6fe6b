"""What all processes of a native batch share: how the machine is reached, and what was found there.

The controller writes it into a private directory; workers and agents read it there. The directory's files
also carry what they tell each other: the socket of the open connection, the round trips, its losses.
"""

import contextlib
import errno
import getpass
import hashlib
import json
import os
import secrets
import shutil
import socket
import stat
import tempfile
import threading
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from filelock import FileLock, Timeout

from pytest_atesor.core.native import SESSION_VARIABLE
from pytest_atesor.errors import SetupError
from pytest_atesor.sandbox.native.connection import COMMAND, Connection
from pytest_atesor.sandbox.native.link import CONNECTED, is_there

__all__ = ["Restore", "Session", "clear_stale", "find_user", "make_directory", "make_owner", "read_session"]

_FILE: Final = "session.json"
_LOCK: Final = "lock"
_LOSSES: Final = "losses"
_PREFIX: Final = "atesor-native-"
_LONGEST_PARENT: Final = 55  # of the 107 bytes that the kernel has for a socket; ssh adds some of its own


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A batch's hold on a machine.

    ``work`` is the work directory there, absolute; ``owner`` tells whose sandboxes are ours there, ``token``
    which of them are this batch's. ``options`` are podman's on that machine, ``unenforced`` the limits that
    it cannot enforce.
    """

    directory: str
    host: str
    config: str | None
    token: str
    owner: str
    work: str
    image: str
    image_id: str
    podman: str
    is_rootless: bool
    options: tuple[str, ...]
    unenforced: tuple[str, ...]

    @property
    def connection(self) -> Connection:
        """The way to the machine, over the open connection while there is one."""
        place = Path(self.directory)
        return Connection(
            host=self.host,
            config=None if self.config is None else Path(self.config),
            control=place / "control",
            trips=place / "trips",
        )

    @property
    def losses(self) -> bytes:
        """What is another value after each loss of the connection, and of the directory."""
        try:
            return (Path(self.directory) / _LOSSES).read_bytes()
        except OSError:
            return b""

    @property
    def is_connected(self) -> bool:
        """Whether a keeper listens: what is created without one, a keeper of a lost connection may remove."""
        return is_there(Path(self.directory) / CONNECTED)

    @property
    def trips(self) -> int:
        """How many round trips all processes have made."""
        return _size(Path(self.directory) / "trips")

    @property
    def commands(self) -> int:
        """How many of them ran a command in a sandbox."""
        try:
            return (Path(self.directory) / "trips").read_bytes().count(COMMAND)
        except OSError:
            return 0

    def note_loss(self) -> None:
        """Tell all processes that the connection was lost, where that can be written."""
        with contextlib.suppress(OSError), (Path(self.directory) / _LOSSES).open("ab") as file:
            file.write(b".")

    def restore(self) -> None:
        """Make the directory with what the other processes read in it, as far as it is not there.

        Somebody may have removed it: a cleaner of temporary files, or the end of the user's login. Raises
        OSError and SetupError.
        """
        directory = Path(self.directory)
        with contextlib.suppress(FileExistsError):
            directory.mkdir(mode=0o700)
        found = directory.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
            raise SetupError(f"{directory} is not ours any more; remove it")
        if not (directory / _LOSSES).exists():
            _put(directory / _LOSSES, secrets.token_bytes(8))
        if not (directory / _FILE).exists():
            self.write()

    def write(self) -> None:
        """Write the session for the other processes, which never read a part of it. Raises SetupError."""
        file = Path(self.directory) / _FILE
        try:
            _put(file, json.dumps(asdict(self)).encode())
        except OSError as error:
            raise SetupError(f"{file} cannot be written ({error}); free some space") from error


class Restore:
    """Makes the directory of a session again where it has gone, and takes its lock; for several threads."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._guard = threading.Lock()
        self._lock: FileLock | None = None

    def __call__(self) -> None:
        """Make what is not there. Raises OSError and SetupError."""
        with self._guard:
            self._session.restore()
            directory = Path(self._session.directory)
            if not (directory / _LOCK).exists():
                self._lock = _take_lock(directory)

    def change(self, session: Session) -> None:
        """Write ``session``, which is what is made again from now on. Raises SetupError."""
        with self._guard:
            self._session = session
            session.write()

    def release(self) -> None:
        """Let go of the lock, where it was taken here."""
        with self._guard:
            if self._lock is not None:
                self._lock.release()


def read_session(directory: str) -> Session:
    """Return the session of a batch. Raises SetupError when there is none."""
    file = Path(directory) / _FILE
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
        return Session(**{
            **document,
            "options": tuple(document["options"]),
            "unenforced": tuple(document["unenforced"]),
        })
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise SetupError(
            f"{SESSION_VARIABLE}={directory!r} is no session of a native batch ({error}); unset it"
        ) from error


def find_user() -> str:
    """Return this user's name, or number where there is no account, as in containers."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def make_owner(state: Path, user: str, node: str) -> str:
    """Return what tells this user's sandboxes on a machine from those of others that share the account."""
    return hashlib.sha256(f"{node}\n{user}\n{state}".encode()).hexdigest()[:8]


@contextlib.contextmanager
def make_directory(environ: Mapping[str, str], common: str = "/tmp") -> Iterator[Path]:  # noqa: S108 - a new name each time
    """Yield a private directory, removed in the end; what killed batches left behind is removed first.

    It stands where TMPDIR says, in ``common`` or in the user's runtime directory, which ends with the login:
    the first that can be written and have a socket, for which its path is short enough. Raises SetupError
    for none.
    """
    problems = []
    places = (environ.get("TMPDIR") or tempfile.gettempdir(), common, environ.get("XDG_RUNTIME_DIR", ""))
    for base in (Path(one) for one in dict.fromkeys(places) if one.startswith("/")):
        try:
            directory, lock = _make_below(base)
        except OSError as error:
            problems.append(f"{base} ({error})")
        else:
            break
    else:
        raise SetupError(
            f"no directory for the connection can be made in {', '.join(problems)}; set TMPDIR to one that "
            f"can be written, of at most {_LONGEST_PARENT} bytes"
        )
    try:
        yield directory
    finally:
        lock.release()
        shutil.rmtree(directory, ignore_errors=True)


def _make_below(base: Path) -> tuple[Path, FileLock]:
    """Make a directory and take its lock. Raises OSError, also where no socket can be below it."""
    if len(os.fsencode(base)) > _LONGEST_PARENT:
        raise OSError(errno.ENAMETOOLONG, "too long for a socket below it")
    clear_stale(base)
    directory = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=base))
    try:
        _try_socket(directory / "control")
        return directory, _take_lock(directory)
    except OSError:
        shutil.rmtree(directory, ignore_errors=True)
        raise


def _try_socket(file: Path) -> None:
    """Make a socket there as ssh does, under a longer name first, and remove it. Raises OSError."""
    longer = file.with_name(f"{file.name}.{secrets.token_hex(8)}")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(longer))
    file.hardlink_to(longer)
    file.unlink()
    longer.unlink()


def _take_lock(directory: Path) -> FileLock:
    """Return the lock of a directory that has none; it is held before it has its name. Raises OSError."""
    file = directory / f"{_LOCK}.{secrets.token_hex(4)}"
    lock = FileLock(file, thread_local=False, is_singleton=False)
    lock.acquire()
    try:
        file.replace(directory / _LOCK)
    except OSError:
        lock.release()
        raise
    return lock


def clear_stale(base: Path) -> None:
    """Remove our directories in ``base`` whose batch is dead."""
    for left in base.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError, Timeout):
            if left.is_symlink() or left.stat().st_uid != os.geteuid() or not (left / _LOCK).exists():
                continue
            with FileLock(left / _LOCK, blocking=False, is_singleton=False):
                shutil.rmtree(left, ignore_errors=True)


def _put(file: Path, content: bytes) -> None:
    """Write ``file`` under another name first, so that nobody reads half of it. Raises OSError."""
    other = file.with_name(f"{file.name}.{secrets.token_hex(4)}")
    try:
        other.write_bytes(content)
        other.replace(file)
    except OSError:
        with contextlib.suppress(OSError):
            other.unlink(missing_ok=True)
        raise


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return 0
