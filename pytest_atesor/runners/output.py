"""A child's output on disk: bytes in, head and tail kept, memory and disk bounded whatever the child writes.

Everything up to the cap goes straight to the file, so it can be followed live. Beyond the cap the file
keeps its head, and the most recent bytes (half the cap, at most 4 MiB) live in a ring in memory: a child
that prints for hours then costs no disk traffic. The ring is put into the file, behind a line that counts
the dropped bytes, at each :meth:`CappedLog.checkpoint` and at the end, so a killed harness leaves a
readable log that is seconds old.
"""

import contextlib
import os
from pathlib import Path
from types import TracebackType
from typing import Final, Self, final

__all__ = ["TAIL_BYTES", "CappedLog"]

TAIL_BYTES: Final = 65536
"""How much of the end is at hand in memory, however small the cap."""

_RING_BYTES: Final = 4 * 1024 * 1024


class _Ring:
    """The last ``capacity`` bytes of a stream; memory grows with the stream up to that."""

    __slots__ = ("_capacity", "_data", "_next")

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._data = bytearray()
        self._next = 0

    def add(self, chunk: bytes) -> None:
        if len(chunk) >= self._capacity:
            self._data[:] = chunk[-self._capacity :]
            self._next = 0
            return
        room = self._capacity - len(self._data)
        if room:
            self._data += chunk[:room]
            chunk = chunk[room:]
        end = self._next + len(chunk)
        fitting = len(chunk) - max(0, end - self._capacity)
        self._data[self._next : self._next + fitting] = chunk[:fitting]
        self._data[: len(chunk) - fitting] = chunk[fitting:]
        self._next = end % self._capacity

    def last(self, count: int) -> bytes:
        whole = bytes(self._data[self._next :]) + bytes(self._data[: self._next])
        return whole[max(0, len(whole) - count) :]


@final
class CappedLog:
    """One log file of at most ``cap_bytes`` of output (and one marker line). Used as a context manager.

    No method raises OSError: the first failure of the disk is kept in ``error``, later output still counts
    and still reaches :meth:`tail`, and closing tries once more to write what the ring holds.
    """

    __slots__ = (
        "_cap",
        "_descriptor",
        "_dirty",
        "_head",
        "_keep",
        "_kept",
        "_path",
        "_ring",
        "error",
        "total",
    )

    def __init__(self, path: Path, cap_bytes: int) -> None:
        self._path = path
        self._cap = cap_bytes
        self._keep = min(cap_bytes // 2, _RING_BYTES)
        self._ring = _Ring(max(self._keep, TAIL_BYTES))
        self._descriptor = -1
        self._head = 0  # bytes at the start of the file that are the start of the output
        self._kept = 0  # bytes of output in the file
        self._dirty = False  # the ring knows more than the file
        self.total = 0
        self.error: str | None = None

    @property
    def kept_bytes(self) -> int:
        """Bytes of output that stand in the file."""
        return self._kept

    @property
    def dropped_bytes(self) -> int:
        """Bytes of output that do not stand in the file; final after closing."""
        return self.total - self._kept

    @property
    def is_over_cap(self) -> bool:
        """Whether more than the cap was written."""
        return self.total > self._cap

    def tail(self) -> bytes:
        """Return the last bytes of output, at most TAIL_BYTES."""
        return self._ring.last(TAIL_BYTES)

    def write(self, chunk: bytes) -> None:
        """Take the next bytes of output."""
        room = self._cap - self.total
        self.total += len(chunk)
        self._ring.add(chunk)
        if self.error is None and room > 0:
            self._append(chunk[:room])
        self._dirty = self._dirty or self._kept < self.total

    def checkpoint(self) -> None:
        """Bring the file up to date when the cap keeps it behind; costs nothing otherwise."""
        if self._dirty and self.error is None:
            self._write_tail()

    def close(self) -> None:
        """Write the tail, as far as the disk takes it, and close the file."""
        if self._descriptor < 0:
            return
        if self._dirty:
            self._write_tail()
        try:
            os.close(self._descriptor)
        except OSError as error:  # a network disk reports its last failure here
            self._fail(error)
        self._descriptor = -1

    def __enter__(self) -> Self:
        try:
            self._descriptor = os.open(
                self._path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644
            )
        except OSError as error:
            self._fail(error)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _append(self, data: bytes) -> None:
        view = memoryview(data)
        try:
            while view:
                count = os.write(self._descriptor, view)
                self._head += count
                self._kept += count
                view = view[count:]
        except OSError as error:
            self._fail(error)

    def _write_tail(self) -> None:
        """Replace what follows the head by the dropped count and the ring's content."""
        head = min(self._head, self._cap - self._keep)
        rest = self.total - head
        tail = self._ring.last(min(rest, self._keep))
        missing = rest - len(tail)
        marker = b"\n[atesor: %d bytes of output dropped here]\n" % missing if missing else b""
        data = memoryview(marker + tail)
        offset = head
        self._dirty = False
        try:
            while data:
                count = os.pwrite(self._descriptor, data, offset)
                offset += count
                data = data[count:]
            os.ftruncate(self._descriptor, offset)
        except OSError as error:
            self._fail(error)
            self._dirty = True
            self._kept = head
            with contextlib.suppress(OSError):  # the head alone is still a readable log
                os.ftruncate(self._descriptor, head)
        else:
            self._kept = head + len(tail)
        self._head = head

    def _fail(self, error: OSError) -> None:
        if self.error is None:
            self.error = error.strerror or str(error)
