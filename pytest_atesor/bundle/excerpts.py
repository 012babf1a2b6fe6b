"""What a report shows of the files that attempts left: end of the log, phases, artifacts, tests and tools.

These are strangers' files: no link is followed, no pipe is opened, sizes are bounded, and text is sanitized.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pytest_atesor.bundle.layout import BundleLayout
from pytest_atesor.bundle.strangers import open_strangers_file
from pytest_atesor.bundle.views import read_evidence
from pytest_atesor.core.attempt import AttemptRecord
from pytest_atesor.core.excerpt import Excerpt, plan_tails
from pytest_atesor.core.ledger import Ledger
from pytest_atesor.core.plan import Json
from pytest_atesor.core.summary import describe_outcome
from pytest_atesor.core.text import sanitize, sanitize_line
from pytest_atesor.errors import BadInputError

__all__ = ["Excerpts"]

_MOST_ENTRIES: Final = 12
_LONGEST_TOOLS: Final = 4000
_READ_FACTOR: Final = 4  # escape sequences and progress bars shrink when sanitized


class Excerpts:
    """Reads the excerpts of one bundle.

    Each attempt's files are read once, unless its share of the room changes.
    """

    def __init__(self, layout: BundleLayout) -> None:
        self._layout = layout
        self._read: dict[str, tuple[str, int, Excerpt]] = {}

    def read(self, ledger: Ledger) -> Mapping[str, Excerpt]:
        """Return the excerpts of the latest attempts that ended, by case id."""
        records = {
            case_id: record
            for case_id, state in ledger.states().items()
            if (record := describe_outcome(state).record) is not None
        }
        tails = plan_tails({case_id: record.status for case_id, record in records.items()})
        return {case_id: self._get(record, tails[case_id]) for case_id, record in records.items()}

    def _get(self, record: AttemptRecord, tail_characters: int) -> Excerpt:
        known = self._read.get(record.case_id)
        if known is not None and known[:2] == (record.attempt_id, tail_characters):
            return known[2]
        attempt = self._layout.attempt(record.case_id, record.attempt_id)
        result = read_evidence(attempt, record)["result"]
        document = result if isinstance(result, dict) else {}
        excerpt = Excerpt(
            tail=_read_tail(attempt.log, tail_characters),
            phases=_describe(document.get("phases"), "name", "duration_s", " s"),
            artifacts=_describe(document.get("artifacts"), "path", "size_bytes", " bytes"),
            tests=_describe_tests(document.get("package_tests")),
            native_tools=_describe_tools(document.get("native_tools")),
        )
        self._read[record.case_id] = (record.attempt_id, tail_characters, excerpt)
        return excerpt


def _read_tail(path: Path, characters: int) -> str:
    if not characters:
        return ""
    size = characters * _READ_FACTOR
    try:
        with open_strangers_file(path) as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - size))
            text = sanitize(file.read(size)).strip("\n")
    except (BadInputError, OSError):
        return ""
    if len(text) <= characters:
        return text
    tail = text[-characters:]
    cut = tail.find("\n")
    return tail[cut + 1 :] if 0 <= cut < characters // 2 else tail


def _describe(entries: Json, name: str, figure: str, unit: str) -> tuple[str, ...]:
    if not isinstance(entries, list):
        return ()
    lines = [
        sanitize_line(f"{entry.get(name)}: {entry.get('status') or ''} {entry.get(figure)}{unit}")
        for entry in entries[:_MOST_ENTRIES]
        if isinstance(entry, dict)
    ]
    left = len(entries) - _MOST_ENTRIES
    return (*lines, f"and {left} more") if left > 0 else tuple(lines)


def _describe_tests(entry: Json) -> str:
    """Return ``passed: ctest, 12 passed, 0 failed, 1 skipped, 3.2 s``, those of it that there are."""
    if not isinstance(entry, dict) or not isinstance(entry.get("status"), str):
        return ""
    counts, seconds = entry.get("counts"), entry.get("duration_s")
    words = [entry.get("framework")]
    if isinstance(counts, dict):
        words += [f"{counts[name]} {name}" for name in ("passed", "failed", "skipped") if name in counts]
    words += [f"{seconds} s" if seconds else "", entry.get("reason")]
    details = ", ".join(str(word) for word in words if word)
    return sanitize_line(f"{entry['status']}: {details}" if details else str(entry["status"]))


def _describe_tools(entry: Json) -> str:
    """Return ``gcc 14.2.0-19, make 4.4.1-2``, the same text for the same tools."""
    tools = entry.items() if isinstance(entry, dict) else ()
    return sanitize_line(", ".join(f"{name} {version}" for name, version in sorted(tools)), _LONGEST_TOOLS)
