"""The journal on disk: one line per event, appended by the controller only, each durable before the next.

Reading forgives exactly one thing: a last line without its newline, torn by a kill. It is dropped and
reported. Lines of a newer schema are read as far as their types are known; such a journal is never written
to.
"""

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pytest_atesor.bundle.files import explain_os_error, guard
from pytest_atesor.core.events import Event, format_event, parse_event
from pytest_atesor.errors import BundleError

__all__ = ["Journal", "JournalContent", "read_journal"]


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalContent:
    """What a journal holds.

    ``size_bytes`` ends the last whole line; ``torn_bytes`` follow it and count for nothing. ``newer`` says
    that a newer version wrote some of it.
    """

    events: tuple[Event, ...]
    size_bytes: int
    torn_bytes: int
    lines: int
    newer: bool


def read_journal(path: Path) -> JournalContent:
    """Return a journal's events; a missing file is an empty journal.

    Raises BundleError naming file and line for a line that is no event or is out of sequence.
    """
    with guard("read", path):
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            data = b""
    whole, newline, torn = data.rpartition(b"\n")
    lines = whole.split(b"\n") if newline else []
    events: list[Event] = []
    newer = False
    for number, line in enumerate(lines, start=1):
        found = parse_event(line, number, f"{path}, line {number}")
        newer = newer or found.newer
        if found.event is not None:
            events.append(found.event)
    return JournalContent(
        events=tuple(events),
        size_bytes=len(whole) + len(newline),
        torn_bytes=len(torn),
        lines=len(lines),
        newer=newer,
    )


class Journal:
    """The open journal of the one controller.

    Every append is one write of whole lines, flushed to the device before it returns.
    """

    def __init__(self, path: Path, content: JournalContent) -> None:
        self._path = path
        self._size = content.size_bytes
        self._seq = content.lines
        self._is_torn = False
        if content.newer:
            raise BundleError(f"{path} was written by a newer version; it can be read, not continued; update")
        with guard("open", path):
            self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
            if content.torn_bytes:
                os.ftruncate(self._descriptor, self._size)

    def append(self, *events: Event) -> None:
        """Append events durably. Raises BundleError; the next append begins behind the line before them."""
        lines = (format_event(event, seq) for seq, event in enumerate(events, self._seq + 1))
        text = "".join(lines).encode("utf-8")
        if not text:
            return
        try:
            if self._is_torn:
                self._cut()
            self._is_torn = True  # until the device has it all
            written = os.write(self._descriptor, text)
            while written < len(text):
                # The disk took a part: it takes the rest too, or tells the reason.
                written += os.write(self._descriptor, text[written:])
            os.fdatasync(self._descriptor)  # the size too, but not the time of the change
        except OSError as error:
            with suppress(OSError):  # of a disk that refuses this too; before the next line it is tried again
                self._cut()
            raise explain_os_error(error, "append to", self._path) from error
        self._is_torn = False
        self._size += len(text)
        self._seq += len(events)

    def _cut(self) -> None:
        """Drop what may follow the last whole line."""
        os.ftruncate(self._descriptor, self._size)
        self._is_torn = False

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            with suppress(OSError):  # it is closed all the same, and each line was durable before the next
                os.close(descriptor)
