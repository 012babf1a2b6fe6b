"""Port the regression list and print, package by package, what was expected against what was seen.

    python tools/regression.py [--workers 2] [--tag ci] [--summary FILE]

Expectations stand in ``tools/regression_expected.json`` and are what a run has really shown. ``--summary``
compares a finished batch's ``batch_summary.json`` instead of running one. Ends with 1 where any package
differs, was not run or is expected nowhere.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
LIST = ROOT / "packages" / "regression.json"
EXPECTED = ROOT / "tools" / "regression_expected.json"


def compare(expected: Mapping[str, str], seen: Mapping[str, str], names: Sequence[str]) -> list[str]:
    """Return one line for each of ``names``; a line that starts with ``!`` is a difference."""
    lines = []
    for name in names:
        wanted, got = expected.get(name, "(nothing)"), seen.get(name, "(not run)")
        lines.append(f"{' ' if wanted == got else '!'} {name:24} expected {wanted:18} actual {got}")
    return lines


def read_summary(path: Path) -> dict[str, str]:
    """Return label to ``STATUS`` or ``STATUS cause`` of the cases that ended."""
    rows: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["rows"]
    return {
        one["label"]: " ".join(filter(None, (one["status"], one["cause"])))
        for one in rows
        if one["state"] == "ended"
    }


def run(workers: str, tag: str | None, root: Path) -> Path:
    """Run the batch below ``root`` and return its summary."""
    marked = ["-m", tag] if tag else []
    command = ["--atesor-list", str(LIST), "-n", workers, "--atesor-output-root", str(root)]
    argv = [sys.executable, "-m", "pytest", *command, "--atesor-batch-id", "regression", *marked]
    subprocess.run(argv, cwd=ROOT, check=False)
    return root / "regression" / "batch_summary.json"


def main() -> int:
    """Run or read a batch, print the comparison, return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--workers", default="2")
    parser.add_argument("--tag", help="only packages with this tag, such as ci")
    parser.add_argument("--summary", type=Path, metavar="FILE")
    given = parser.parse_args()
    entries = json.loads(LIST.read_text(encoding="utf-8"))["packages"]
    names = [one["name"] for one in entries if not given.tag or given.tag in one["tags"]]
    with tempfile.TemporaryDirectory() as root:
        summary = given.summary or run(given.workers, given.tag, Path(root))
        seen = read_summary(summary) if summary.is_file() else {}
    lines = compare(json.loads(EXPECTED.read_text(encoding="utf-8")), seen, names)
    differ = sum(one.startswith("!") for one in lines)
    print("\n".join(lines))
    print(f"{len(lines)} packages, {differ} differ")
    return 1 if differ or not lines else 0


if __name__ == "__main__":
    sys.exit(main())
