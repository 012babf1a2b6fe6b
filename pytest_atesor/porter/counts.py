"""How many of a project's tests passed, read from its framework's own summary lines.

The output is a stranger's: lines and numbers are bounded, and nothing here decides on a verdict. Pure.
"""

import re
from dataclasses import dataclass

__all__ = ["FRAMEWORKS", "Counts", "Tally"]

_LONGEST_LINE = 1000
_MOST_BYTES = 65_536
_MAKE_ITSELF = re.compile(r"(?:g?make(?:\[\d+\])?: .*|Making \w+ in .*)?$")
_FILE_RESULT = re.compile(r"(PASS|XFAIL|SKIP|FAIL|XPASS|ERROR): ")
_FILE_GROUP = {"PASS": "passed", "XFAIL": "passed", "SKIP": "skipped"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Tests by how they ended; an expected failure has passed, an unexpected success has failed."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0

    @property
    def total(self) -> int:
        """All of them."""
        return self.passed + self.failed + self.skipped


@dataclass(frozen=True, slots=True, kw_only=True)
class _Framework:
    """Summary lines: a pattern's groups are numbers, or the line itself stands for one test of ``each``."""

    totals: tuple[str, ...] = ()
    each: tuple[tuple[str, str], ...] = ()
    nothing: str = ""


_AUTOMAKE = (
    r"# (?:PASS|XFAIL): +(?P<passed>\d{1,9})$",
    r"# SKIP: +(?P<skipped>\d{1,9})$",
    r"# (?:FAIL|XPASS|ERROR): +(?P<failed>\d{1,9})$",
    r"All (?P<passed>\d{1,9}) tests (?:passed|behaved as expected)",
    r"(?P<failed>\d{1,9}) of \d{1,9} tests failed",
)
_CTEST = r"\d{1,3}% tests passed,? (?P<failed>\d{1,9}) tests? failed out of (?P<all>\d{1,9})"
FRAMEWORKS = {
    "make": _Framework(totals=(*_AUTOMAKE, _CTEST)),
    "ctest": _Framework(
        totals=(_CTEST, r"100% tests passed out of (?P<all>\d{1,9})"), nothing=r"No tests were found"
    ),
    "meson": _Framework(
        totals=(
            r"(?:Ok|Expected Fail): +(?P<passed>\d{1,9})$",
            r"(?:Fail|Unexpected Pass|Timeout): +(?P<failed>\d{1,9})$",
            r"Skipped: +(?P<skipped>\d{1,9})$",
        ),
        nothing=r"No tests defined",
    ),
    "go": _Framework(
        each=(
            (r"--- PASS: ", "passed"),
            (r"--- FAIL: ", "failed"),
            (r"--- SKIP: ", "skipped"),
            (r"FAIL\t\S+ \[(?:build|setup) failed\]", "failed"),
        )
    ),
    "cargo": _Framework(
        totals=(
            (
                r"test result: \w+\. (?P<passed>\d{1,9}) passed; (?P<failed>\d{1,9}) failed; "
                r"(?P<skipped>\d{1,9}) ignored"
            ),
        )
    ),
}
"""What a suite's ``framework`` may be."""


class Tally:
    """Reads output as it comes, in bounded memory, and adds up what its summary lines say."""

    def __init__(self, framework: str) -> None:
        known = FRAMEWORKS[framework]
        self._totals = [re.compile(one) for one in known.totals]
        self._each = [(re.compile(pattern), name) for pattern, name in known.each]
        self._nothing = re.compile(known.nothing) if known.nothing else None
        self._reads_files = framework == "make"
        self._sums = {"passed": 0, "failed": 0, "skipped": 0}
        self._files = dict(self._sums)
        self._rest = b""
        self._has_summary = False
        self.said_nothing = False
        self.ran_nothing = framework == "make"

    def feed(self, data: bytes) -> None:
        """Take the next bytes of the output."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._read(line)
        if len(self._rest) > _MOST_BYTES:  # no line of a summary is that long
            self._rest = self._rest[:_LONGEST_LINE]

    def counts(self) -> Counts | None:
        """Return what was counted so far; None when no line said anything."""
        if self._rest:
            self._read(self._rest)
            self._rest = b""
        if self._has_summary:
            return Counts(**self._sums)
        return Counts(**self._files) if any(self._files.values()) else None

    def _read(self, line: bytes) -> None:
        text = line[:_LONGEST_LINE].decode("utf-8", "replace").rstrip("\r ")
        if self.ran_nothing and not _MAKE_ITSELF.match(text):
            self.ran_nothing = False
        if self._nothing is not None and self._nothing.match(text):
            self.said_nothing = True
        for pattern in self._totals:
            if found := pattern.match(text):
                self._add(found.groupdict())
        for pattern, name in self._each:
            if pattern.match(text):
                self._add({name: "1"})
        if self._reads_files and (found := _FILE_RESULT.match(text)):
            self._files[_FILE_GROUP.get(found.group(1), "failed")] += 1

    def _add(self, numbers: dict[str, str | None]) -> None:
        self._has_summary = True
        given = {name: int(value) for name, value in numbers.items() if value}
        if "all" in given:
            given["passed"] = max(0, given.pop("all") - given.get("failed", 0))
        for name, value in given.items():
            self._sums[name] += value
