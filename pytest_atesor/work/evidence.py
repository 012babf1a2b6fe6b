"""The short text of a case that did not pass, and the properties that travel with its report.

JUnit gets the text whole (at most 64 KiB); a terminal gets its first lines, because the table and the log
say the rest. There is never a Python traceback in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from pytest_atesor.core.child_outcome import REASON_CHARACTERS
from pytest_atesor.core.text import clip_output, sanitize, sanitize_line

if TYPE_CHECKING:
    import pytest

    from pytest_atesor.core.attempt import AttemptRecord
    from pytest_atesor.core.plan import Case

__all__ = ["CaseText", "describe_failure", "describe_hook", "list_earlier", "list_properties"]

_LIMIT_BYTES: Final = 64 * 1024
_HEAD_BYTES: Final = 2048
_TERMINAL_LINES: Final = 12
_OUTPUT_HEADING: Final = "last lines of the log:"


class _Writer(Protocol):
    """The part of pytest's TerminalWriter that is used here."""

    def line(self, s: str = "") -> None:
        """Write one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Crash:
    """What pytest's short summary, JUnit's message and annotations take from a failure."""

    message: str
    path: str
    lineno: int = 0


class CaseText:
    """A failing case as pytest's ``longrepr``: ``str()`` is the whole text, ``toterminal`` the short one."""

    def __init__(self, record: AttemptRecord, text: str) -> None:
        self.reprcrash = _Crash(message=format_verdict(record), path=record.log)
        self._text = text

    def __str__(self) -> str:
        return self._text

    def toterminal(self, tw: _Writer) -> None:
        """Write the verdict, the place of the log and its last few lines."""
        head, heading, output = self._text.partition(f"\n{_OUTPUT_HEADING}\n")
        for line in head.splitlines():
            tw.line(line)
        if heading:
            tw.line(_OUTPUT_HEADING)
            for line in output.splitlines()[-_TERMINAL_LINES:]:
                tw.line(f"    {line}")


def format_verdict(record: AttemptRecord) -> str:
    """Return one line: status, cause and reason."""
    cause = f" ({record.cause.value})" if record.cause is not None else ""
    return (
        f"{record.status.value}{cause}: {record.reason}" if record.reason else f"{record.status.value}{cause}"
    )


def describe_failure(record: AttemptRecord, log: str, tail: bytes | str = b"") -> str:
    """Return the text of a case that did not pass: verdict, facts, where its log is, the log's last lines."""
    facts = [f"{record.duration_s:.1f} s"]
    if record.slot:
        facts.append(f"slot {record.slot} on {record.machine}" if record.machine else f"slot {record.slot}")
    if record.exit_code is not None:
        facts.append(f"exit code {record.exit_code}")
    if record.log_dropped_bytes:
        facts.append(f"{record.log_dropped_bytes} bytes of output dropped")
    lines = [format_verdict(record), ", ".join(facts)]
    lines += [f"left behind and killed: {', '.join(record.leaks)}"] if record.leaks else []
    lines += [f"log: {log}"] if log else []
    output = sanitize(tail).strip("\n")
    if output:
        lines += [_OUTPUT_HEADING, clip_output(output, _LIMIT_BYTES - _HEAD_BYTES, note=f"see {log}")]
    return clip_output("\n".join(lines), _LIMIT_BYTES, note=f"see {log}")


def describe_hook(report: pytest.TestReport, rootdir: Path) -> str:
    """Return in one line why a report is not passed when no case but a hook made it so.

    That is the reason of a skip, or of an exception the file, line and message.
    """
    found = report.longrepr
    crash = getattr(found, "reprcrash", None)
    if expected := getattr(report, "wasxfail", ""):
        line = expected.removeprefix("reason: ")
    elif isinstance(found, tuple):
        line = found[2].removeprefix("Skipped: ")
    elif crash is not None:
        path = Path(crash.path)
        place = path.relative_to(rootdir) if path.is_relative_to(rootdir) else path.name
        message = crash.message.partition("\n")[0]
        line = f"{place}:{crash.lineno}: {message}"
    else:
        line = str(found).strip().rpartition("\n")[2]
    return sanitize_line(line, REASON_CHARACTERS)


def list_earlier(record: AttemptRecord, log: str) -> tuple[str, object]:
    """Return the JUnit property of an attempt that was not the last: its verdict and where its log is."""
    return f"attempt {record.attempt_id}", f"{format_verdict(record)}; log: {log}"


def list_properties(case: Case, record: AttemptRecord | None, log: str) -> list[tuple[str, object]]:
    """Return the JUnit properties of a case, those that it has: from status and cause to log and machine."""
    url = case.spec.get("url")
    pairs = [("status", record.status.value if record is not None else "SKIPPED")]
    if record is not None and record.cause is not None:
        pairs.append(("cause", record.cause.value))
    if isinstance(url, str):
        pairs.append(("url", url))
    if record is not None:
        pairs += [("slot", record.slot), ("attempt", record.attempt_id), ("log", log)]
        pairs += [("target", record.target), ("machine", record.machine)]
    return [(name, value) for name, value in pairs if value]
