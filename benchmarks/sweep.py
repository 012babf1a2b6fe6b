"""What a case of a sweep costs beside one of a batch: CPU per no-op case, from one run.

    python benchmarks/sweep.py [--cases 1000] [--workers 2] [--json]

Both run ``/bin/true`` as RunSpecs of kind command; what a case costs is the difference between two sizes, so
that pytest's start is not in it. Ends with 1 when a sweep's case costs more than 1.1 times a batch's (the
machine's noise is in that tenth).
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Final

from overhead import NO_OP, Cost, prepare, run_pytest

SMALL: Final = 100
MOST_RATIO: Final = 1.1


def main() -> int:
    """Measure, print, judge."""
    parser = argparse.ArgumentParser(description="a sweep's case beside a batch's")
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        run(root / "warm-up", "sweep", 1, options.workers)  # compiles the modules
        rows = {
            kind: [
                run(root / f"{kind}-{size}", kind, size, options.workers) for size in (SMALL, options.cases)
            ]
            for kind in ("batch", "sweep")
        }
    case_ms = {kind: cost_of_case(*costs) for kind, costs in rows.items()}
    ratio = case_ms["sweep"] / case_ms["batch"]
    for kind, value in case_ms.items():
        wall_s = rows[kind][-1].wall_s
        print(f"{kind:6} {value:6.2f} ms of CPU per case, {wall_s:6.1f} s for {options.cases}")
    print(
        f"{'kept' if ratio <= MOST_RATIO else 'BROKEN':>8} a sweep's case costs {ratio:.2f} times a batch's"
    )
    if options.json:
        print(json.dumps({"case_ms": case_ms, "ratio": round(ratio, 3)}))
    return 0 if ratio <= MOST_RATIO else 1


def run(root: Path, kind: str, count: int, workers: int) -> Cost:
    """Run ``count`` cases of one kind of input."""
    prepare(root)
    if kind == "sweep":
        write_runspec(root / "case.yaml", 0)
        axes = [{"parameter": "command.env.NUMBER", "values": [str(number) for number in range(count)]}]
        document = {"schema_version": "sweep_v1", "sweep": {"base": "case.yaml", "axes": axes}}
    else:
        for number in range(count):
            write_runspec(root / f"{number}.yaml", number)
        cases = [{"label": f"NUMBER-{number}", "runspec": f"{number}.yaml"} for number in range(count)]
        document = {"schema_version": "batch_v1", "batch": {"cases": cases}}
    (root / "input.yaml").write_text(json.dumps(document))
    return run_pytest(root, count, "input.yaml", f"-n{workers}")


def write_runspec(path: Path, number: int) -> None:
    """Write a RunSpec that does nothing."""
    command = {"argv": [NO_OP], "env": {"NUMBER": str(number)}}
    path.write_text(json.dumps({"schema_version": "runspec_v1", "kind": "command", "command": command}))


def cost_of_case(small: Cost, large: Cost) -> float:
    """Return the CPU milliseconds that a case adds."""
    return round(1000 * (large.cpu_s - small.cpu_s) / (large.cases - small.cases), 3)


if __name__ == "__main__":
    sys.exit(main())
