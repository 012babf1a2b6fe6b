"""Moves files between a sandbox's workspace there and its mirror here.

What comes back was made by strangers: links stay links, devices and sockets stay there, nothing is owned by
anybody but us and nothing is set-user-id. It is read afterwards as any workspace is, without following links.
"""

import shlex
import shutil
import stat
import subprocess
import tarfile
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from pytest_atesor.errors import SandboxError
from pytest_atesor.sandbox.engines.cli import last_line
from pytest_atesor.sandbox.interface import Completed, ExecSpec
from pytest_atesor.sandbox.native.connection import Connection
from pytest_atesor.sandbox.native.engine import NativeEngine, NativeSandbox

__all__ = ["MirroredSandbox", "pull"]

_MOVE_S: Final = 1800.0
_INCOMING: Final = "incoming-*"
_VANISHED: Final = 24  # rsync: some files went away while it looked


class _Sent(NamedTuple):
    path: str
    size: int
    modified_ns: int


class MirroredSandbox(NativeSandbox):
    """A sandbox there whose workspace has a mirror here.

    What the agent hands in through directories ``incoming-…`` of the mirror is there before the next command;
    :meth:`bring` fetches what the agent is about to read.
    """

    def __init__(self, engine: NativeEngine, name: str, mirror: Path) -> None:
        super().__init__(engine, name)
        self._native = engine
        self._mirror = mirror
        self._sent: frozenset[_Sent] = frozenset()
        self._network = self._wanted = True  # of a sandbox that its worker has just made

    def run(
        self, command: ExecSpec, *, timeout_s: float, sink: BinaryIO | None = None, tail_bytes: int = 65_536
    ) -> Completed:
        """Hand in what is new, then run the command. Raises SandboxError."""
        self._hand_in()
        wanted = self._wanted
        if wanted is not self._network:
            self._native.set_network_first(self.name, enabled=wanted)
        done = super().run(command, timeout_s=timeout_s, sink=sink, tail_bytes=tail_bytes)
        if not done.timed_out:  # else nobody knows how far it came, and it is set again
            self._network = wanted
        return done

    def set_network(self, *, enabled: bool) -> None:
        """Have the network on or off from the next command on; nothing of ours runs before that."""
        self._wanted = enabled

    def bring(self, paths: Iterable[str]) -> None:
        """Make these paths of the mirror what they are in the workspace. Raises SandboxError."""
        pull(self._native, self.name, self._mirror, tuple(paths))

    def _hand_in(self) -> None:
        files = {
            _Sent(str(file.relative_to(self._mirror)), status.st_size, status.st_mtime_ns): file
            for directory in self._mirror.glob(_INCOMING)
            if not directory.is_symlink()
            for file in directory.iterdir()
            if stat.S_ISREG((status := file.lstat()).st_mode)
        }
        fresh = [file for mark, file in files.items() if mark not in self._sent]
        if not fresh:
            return
        with tempfile.TemporaryFile() as archive:
            with tarfile.open(fileobj=archive, mode="w", format=tarfile.PAX_FORMAT) as tar:
                for directory in sorted({file.parent for file in fresh}):
                    member = tarfile.TarInfo(directory.name)
                    member.type, member.mode = tarfile.DIRTYPE, 0o711
                    tar.addfile(member)
                for file in fresh:
                    tar.add(file, arcname=str(file.relative_to(self._mirror)), recursive=False, filter=_plain)
            archive.seek(0)
            done = self._native.session.connection.script(
                'exec tar -x -p -f - -C "$1"',
                self._native.workspace(self.name),
                timeout_s=_MOVE_S,
                stdin=archive,
            )
        if done.returncode != 0:
            raise SandboxError(
                f"native: files cannot be handed in: {last_line(done.stderr.decode(errors='replace'))}"
            )
        self._sent = frozenset(files)


def pull(engine: NativeEngine, name: str, mirror: Path, paths: tuple[str, ...]) -> None:
    """Make ``paths`` below ``mirror`` what they are in the workspace there; absent ones are removed.

    Raises SandboxError.
    """
    session = engine.session
    connection = session.connection
    connection.count()
    mirror.mkdir(parents=True, exist_ok=True)
    for path in paths:
        _remove(mirror / path)
    with tempfile.TemporaryFile() as errors:
        try:
            ended = subprocess.run(
                [
                    *("rsync", "--recursive", "--links", "--times", "--perms", "--relative"),
                    *("--chmod=Du+rwx,Fu+rw,go-w,u-s,g-s,-t", "--ignore-missing-args"),
                    *("--protect-args", "--timeout=60", "--compress", "--rsh", _shell(connection)),
                    *(() if not session.is_rootless else ("--rsync-path", "podman unshare rsync")),
                    *(f"{connection.host}:{engine.workspace(name)}/./{path}" for path in paths),
                    f"{mirror}/",
                ],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                timeout=_MOVE_S,
                check=False,
            )
        except OSError as error:
            raise SandboxError(f"rsync cannot be started ({error}); apt-get install rsync") from error
        except subprocess.TimeoutExpired as error:
            raise SandboxError(f"native: the workspace was not copied back within {_MOVE_S:.0f} s") from error
        errors.seek(0)
        said = errors.read(65_536).decode(errors="replace")
    if ended.returncode not in {0, _VANISHED}:
        raise SandboxError(f"native: the workspace cannot be copied back: {last_line(said)}")


def _remove(path: Path) -> None:
    """Remove what an earlier copy left there, without following links."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _shell(connection: Connection) -> str:
    """Return ssh's command line as rsync splits it: at spaces, with quotes."""
    return shlex.join(connection.ssh())


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member
