"""Fail when a test of an engine, an ssh server or a browser was skipped: ``no_engine_skips.py junit.xml``."""

import sys
import xml.etree.ElementTree as ET
from pathlib import Path

SUITES = (
    "tests.conformance",
    "tests.engines",
    "tests.e2e",
    "tests.cases",
    "tests.browser",
    "tests.unit.sandbox.native",
)


def main(report: Path) -> int:
    """Return 1 and name what is missing when a suite has no test in the report, or a skipped one."""
    cases = [
        case
        for case in ET.parse(report).iter("testcase")  # noqa: S314 - our own pytest wrote it a moment ago
        # A module that skips itself as a whole has no class, and its name alone.
        if f"{case.get('classname')}.{case.get('name')}".lstrip(".").startswith(SUITES)
    ]
    skipped = [
        f"{case.get('classname')}::{case.get('name')}" for case in cases if case.find("skipped") is not None
    ]
    names = [f"{case.get('classname')}.{case.get('name')}".lstrip(".") for case in cases]
    missing = [suite for suite in SUITES if not any(name.startswith(suite) for name in names)]
    for name in skipped:
        print(f"skipped: {name}")
    for suite in missing:
        print(f"no test of {suite} ran")
    return 1 if skipped or missing else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
