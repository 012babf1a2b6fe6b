"""Packs an image's layer while it is being made: what is written into a pipe is compressed at once.

A tar of a whole system takes a processor as long to compress as to write, and there is another one. The
archive is three compressed pieces, one after the other, which decompress as one (:func:`start_unpacking`).
"""

import contextlib
import fcntl
import hashlib
import os
import select
import shutil
import subprocess
import threading
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from pytest_atesor.errors import SetupError
from pytest_atesor.sandbox.archive import ImageSettings, Layer, format_head, format_tail

__all__ = ["LayerPacker", "start_unpacking"]

_CHUNK = 1 << 20
_PACK = ("zstd", "-q", "-1", "-T0", "-c")
_UNPACK = ("zstd", "-d", "-c", "-q")


def start_unpacking(archive: Path) -> subprocess.Popen[bytes]:
    """Start zstd, which decompresses an archive into its ``stdout``. Raises SetupError without one."""
    try:
        return subprocess.Popen([*_UNPACK, str(archive)], stdout=subprocess.PIPE)
    except OSError as error:
        raise SetupError(f"zstd cannot be started ({error}); apt-get install zstd") from error


class LayerPacker:
    """Holds a named pipe, which it makes, and packs what others write there into the file ``packed``.

    Used in a ``with`` block; :meth:`write_archive` comes when all writers have ended.
    """

    def __init__(self, pipe: Path, packed: Path) -> None:
        self._pipe = pipe
        self._packed = packed
        self._digest = hashlib.sha256()
        self._size_bytes = 0
        self._is_whole = False
        self._reader = threading.Thread(target=self._receive, daemon=True, name=f"packer of {pipe.name}")

    def __enter__(self) -> Self:
        os.mkfifo(self._pipe, 0o600)
        # for writing, too: writers come and go, and the last one's end is told by whoever waits for them
        self._source = os.open(self._pipe, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        self._over, self._end = os.pipe2(os.O_CLOEXEC)
        with contextlib.suppress(OSError):  # the system's limit may be lower
            fcntl.fcntl(self._source, fcntl.F_SETPIPE_SZ, _CHUNK)
        self._reader.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()
        os.close(self._source)
        os.close(self._over)
        self._pipe.unlink(missing_ok=True)

    def write_archive(self, target: Path, settings: ImageSettings) -> None:
        """Write the archive of the image whose layer was written. Raises SetupError where that cannot be."""
        self._stop()
        layer = Layer(sha256=self._digest.hexdigest(), size_bytes=self._size_bytes)
        if not self._is_whole:
            raise _complain(target, "its layer could not be compressed")
        try:
            with target.open("wb") as archive:
                archive.write(_compress(format_head(layer, settings)))
                with self._packed.open("rb") as packed:
                    shutil.copyfileobj(packed, archive, _CHUNK)
                archive.write(_compress(format_tail(layer)))
        except (OSError, subprocess.CalledProcessError) as error:
            raise _complain(target, str(error)) from error

    def _stop(self) -> None:
        """Have the reader end when the pipe is empty, and wait for it."""
        if self._end >= 0:
            os.close(self._end)
            self._end = -1
        self._reader.join()

    def _receive(self) -> None:
        try:
            with (
                self._packed.open("wb") as packed,
                subprocess.Popen(_PACK, stdin=subprocess.PIPE, stdout=packed) as packer,
            ):
                if packer.stdin is not None:
                    self._pass_on(packer.stdin)
            self._is_whole = packer.returncode == 0
        except OSError:
            self._pass_on(None)

    def _pass_on(self, target: IO[bytes] | None) -> None:
        """Read until the end: whoever writes must never wait for what is broken here."""
        while True:
            ready, _, _ = select.select((self._source, self._over), (), ())
            if self._source not in ready:
                return
            chunk = os.read(self._source, _CHUNK)
            self._digest.update(chunk)
            self._size_bytes += len(chunk)
            if target is not None:
                target.write(chunk)


def _complain(target: Path, reason: str) -> SetupError:
    return SetupError(f"the image archive {target} could not be written ({reason}); is {target.parent} full?")


def _compress(content: bytes) -> bytes:
    return subprocess.run(_PACK, input=content, stdout=subprocess.PIPE, check=True).stdout
