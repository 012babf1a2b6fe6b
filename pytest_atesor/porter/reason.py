"""The one line of a failed step's output that says what went wrong; who passes it on comes last. Pure.

CMake breaks its sentences into lines and sets names apart: those are put together again.
"""

import re

from pytest_atesor.core.log_lines import find_last_meaningful_line
from pytest_atesor.core.text import sanitize_line

__all__ = ["find_reason"]

_LONGEST = 240
# The first match of the first pattern that matches at all: compilers name the root of the trouble first.
_PATTERNS = tuple(
    re.compile(one, re.MULTILINE)
    for one in (
        (
            r"(?:^|\bconfigure: )error: "
            r"(?!could not compile|failed to run custom build|linker |process didn't|ld returned)[^\n]{3,}$"
        ),
        r"panicked at (?:[^\n:]*/)?build[^\n:/]*\.rs:\d+:\d+:\n\s*(?P<said>[^\n]{3,})$",
        (
            r"^CMake Error(?: at [^\n]*\)| in [^\n]*)?:\s+"
            r"(?P<cmake>[^\n]{3,}(?:\n+[ \t]+\S[^\n]*|\n[ \t]+(?=\n)){0,30})"
        ),
        r"^[^\n]*ERROR: [^\n]{3,}$",
        r"^[^\n]*?: (?:fatal )?error: (?!ld returned|linker command failed)[^\n]{3,}$",
        r"^error(?:\[E\d+\])?: (?!could not compile|failed to run custom build|aborting due)[^\n]{3,}$",
        r"^[^\n]*undefined reference to [^\n]+$",
        r"^[^\n]*(?:cannot find -l|multiple definition of )[^\n]+$",
        r"^[^\n]*\.s:\d+: Error: [^\n]+$",
        r"^[^\n\s]+\.go:\d+:\d+: [^\n]+$",
        r"^verifying [^\n]+: checksum mismatch$",
        r"^go: (?!(?:downloading|finding|extracting|added|found|upgraded) )[^\n]{8,}$",
        r"^[^\n]*: (?:command )?not found$",
        r"^[^\n]*make(?:\[\d+\])?: \*\*\* No rule to make target [^\n]+$",
        r"^bmake(?:\[\d+\])?: (?!stopped |Fatal errors )[^\n]{3,}$",
    )
)


def find_reason(log: str) -> str:
    """Return that line, sanitized, of at most 240 characters; "" when the output has no text."""
    for pattern in _PATTERNS:
        found = pattern.search(log)
        if found:
            groups = found.groupdict()
            if "cmake" in groups:
                return sanitize_line(_join_sentence(groups["cmake"]), _LONGEST)
            said = groups.get("said") or found.group()
            return find_last_meaningful_line(said.strip(), _LONGEST)
    return find_last_meaningful_line(log, _LONGEST)


def _join_sentence(block: str) -> str:
    """Return the first sentence of CMake's indented paragraphs, with the names that stand apart in it."""
    first, *rest = re.split(r"\n[ \t]*\n", block)
    said = first.rstrip()
    for one in rest:
        if not one.strip():
            continue
        is_apart = one.startswith(" " * 4) and not said.endswith((".", "!", "?"))
        if not (said.endswith(":") or is_apart or one.strip()[0].islower()):
            break
        said = f"{said}\n{one.rstrip()}"
    return said
