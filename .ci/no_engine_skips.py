"""Fail when a test that needs an engine was skipped: ``no_engine_skips.py junit.xml``."""

import sys
import xml.etree.ElementTree as ET
from pathlib import Path

ENGINE_SUITES = ("tests.conformance", "tests.engines", "tests.e2e", "tests.cases")


def main(report: Path) -> int:
    """Return 1 and name the tests when engine tests are missing from the report or skipped in it."""
    cases = [
        case
        for case in ET.parse(report).iter("testcase")  # noqa: S314 - our own pytest wrote it a moment ago
        if case.get("classname", "").startswith(ENGINE_SUITES)
    ]
    skipped = [
        f"{case.get('classname')}::{case.get('name')}" for case in cases if case.find("skipped") is not None
    ]
    for name in skipped:
        print(f"engine test skipped: {name}")
    if not cases:
        print("no engine test ran")
    return 1 if skipped or not cases else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
