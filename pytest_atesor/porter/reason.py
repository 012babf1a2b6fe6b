"""The one line of a failed step's output that says what went wrong; who passes it on comes last. Pure."""

import re

from pytest_atesor.core.log_lines import find_last_meaningful_line

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
        r"^CMake Error(?: at [^\n]*\))?:\s+(?P<said>[^\n]{3,})$",
        r"^[^\n]*ERROR: [^\n]{3,}$",
        r"^[^\n]*?: (?:fatal )?error: (?!ld returned|linker command failed)[^\n]{3,}$",
        r"^error(?:\[E\d+\])?: (?!could not compile|failed to run custom build|aborting due)[^\n]{3,}$",
        r"^[^\n]*undefined reference to [^\n]+$",
        r"^[^\n]*(?:cannot find -l|multiple definition of )[^\n]+$",
        r"^[^\n]*\.s:\d+: Error: [^\n]+$",
        r"^[^\n\s]+\.go:\d+:\d+: [^\n]+$",
        r"^go: [^\n]{8,}$",
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
            said = found.groupdict().get("said") or found.group()
            return find_last_meaningful_line(said.strip(), _LONGEST)
    return find_last_meaningful_line(log, _LONGEST)
