"""Text that strangers wrote, made safe: for terminals, XML, JSON, CSV and HTML alike.

Everything that crosses the worker channel or lands in a report passes through :func:`sanitize` once. The
result has no escape sequence, no control character but newline and tab, no lone surrogate and nothing that
XML 1.0 forbids. Escaping for a format is that format's writer's job.
"""

import re
from typing import Final

__all__ = ["LONGEST_LINE", "clip_output", "count_of", "sanitize", "sanitize_line"]

LONGEST_LINE: Final = 8000
"""Characters of a line that this program says of its own: paths and values of users are long."""

# Bytes are decoded with surrogateescape, so a raw 8-bit control byte such as 0x9b arrives as U+DC9B.
_END: Final = "(?:\x07|\x1b\\\\|[\x9c\udc9c])"
_SEQUENCES: Final = re.compile(
    "(?:\x1b\\[|[\x9b\udc9b])[0-?]*+[ -/]*+[@-~]"  # CSI: colours, cursor movement
    f"|(?:\x1b\\]|[\x9d\udc9d])[^\x07\x1b\x80-\x9f\udc80-\udc9f\n]*+{_END}"  # OSC: titles, links
    f"|(?:\x1b[PX^_]|[\x90\x98\x9e\x9f\udc90\udc98\udc9e\udc9f])[^\x07\x1b\x80-\x9f\udc80-\udc9f]*+{_END}"
    "|\x1b[ -/]*+[0-~]"  # two-character and charset sequences, and what is left of a broken one
)
_OVERSTRUCK: Final = re.compile("[^\n\x08]\x08")
_CONTROLS: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\udc80-\udc9f]")
_ILLEGAL: Final = re.compile("[\ud800-\udfff\ufffe\uffff]")
_BIDI: Final = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_SUSPICIOUS: Final = re.compile("[^\t\n -~]")


def sanitize(data: bytes | str) -> str:
    """Return ``data`` as text that any format can carry; a second call changes nothing.

    Whole escape sequences go first, then overstruck characters, then control characters; of a line that
    carriage returns overwrote (a progress bar) the last segment with text stays. What is not UTF-8 becomes
    U+FFFD, and the characters that reorder text are spelled out, as in ``<U+202E>``.
    """
    text = data.decode("utf-8", "surrogateescape") if isinstance(data, bytes) else data
    if not _SUSPICIOUS.search(text):
        return text
    text = _SEQUENCES.sub("", text)
    text = _OVERSTRUCK.sub("", text)
    if "\r" in text:
        text = "\n".join(_last_segment(line) for line in text.split("\n"))
    text = _CONTROLS.sub(_drop_control, text)
    text = _ILLEGAL.sub("\ufffd", text)
    return _BIDI.sub(lambda found: f"<U+{ord(found.group()):04X}>", text)


def sanitize_line(data: bytes | str, limit: int = 200) -> str:
    """Return ``data`` sanitized as one line of at most ``limit`` characters.

    Runs of white space become one space.
    """
    line = " ".join(sanitize(data).split())
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def count_of(noun: str, count: int) -> str:
    """Return ``1 case``, ``2 cases``: for nouns that take an s."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def clip_output(text: str, limit_bytes: int = 65536, *, note: str = "see the log") -> str:
    """Return ``text``, or its head and tail around one line that counts what is left out.

    The result has at most ``limit_bytes`` bytes of UTF-8. The cuts fall on line ends where there are any
    nearby. ``note`` says where the whole text stands.
    """
    raw = text.encode("utf-8", "replace")
    if len(raw) <= limit_bytes:
        return text
    half = max(0, (limit_bytes - len(note.encode()) - 80) // 2)
    head = raw[:half].decode("utf-8", "ignore")
    tail = raw[len(raw) - half :].decode("utf-8", "ignore")
    if (cut := head.rfind("\n", len(head) // 2)) >= 0:
        head = head[:cut]
    if 0 <= (cut := tail.find("\n")) < len(tail) // 2:
        tail = tail[cut + 1 :]
    dropped = len(raw) - len(head.encode()) - len(tail.encode())
    return f"{head}\n[... {dropped} bytes left out; {note} ...]\n{tail}"


def _last_segment(line: str) -> str:
    segments = [segment for segment in line.split("\r") if segment.strip()]
    return segments[-1] if segments else ""


def _drop_control(found: re.Match[str]) -> str:
    # A stray byte that is no UTF-8 was text in some other encoding: show that something stood there.
    return "\ufffd" if found.group() >= "\ud800" else ""
