"""What running one child costs us: CPU and wall milliseconds per no-op child, ours and the child's own apart.

    python benchmarks/child.py [--count N] [PROGRAM]

Prints a table and one line of JSON.
"""

import argparse
import json
import resource
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from pytest_atesor.runners.process import ChildSpec, run_child
from pytest_atesor.runners.stop import StopFlag


def main() -> None:
    """Measure, print."""
    parser = argparse.ArgumentParser(description="CPU cost of run_child")
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("program", nargs="?", default="/bin/true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory, StopFlag() as stop:
        log = Path(directory) / "run.log"

        def run_ours() -> None:
            spec = ChildSpec(
                argv=(options.program,),
                env={"PATH": "/usr/bin:/bin"},
                cwd=Path("/"),
                log_path=log,
                deadline=time.monotonic() + 60,
            )
            run_child(spec, stop=stop)

        def run_bare() -> None:
            subprocess.run([options.program], env={}, cwd="/", stdin=subprocess.DEVNULL, check=False)

        rows = [_measure("bare subprocess.run", run_bare, options.count)]
        rows.append(_measure("run_child", run_ours, options.count))
    print(f"{'':20} {'own CPU':>10} {'children':>10} {'wall':>10}  ms per child")
    for row in rows:
        print(f"{row['name']:20} {row['self_ms']:10.3f} {row['children_ms']:10.3f} {row['wall_ms']:10.3f}")
    print(json.dumps(rows))


def _measure(name: str, action: Callable[[], None], count: int) -> dict[str, str | float]:
    for _ in range(20):
        action()
    own, children, wall = _cpu(resource.RUSAGE_SELF), _cpu(resource.RUSAGE_CHILDREN), time.perf_counter()
    for _ in range(count):
        action()
    scale = 1000 / count
    return {
        "name": name,
        "self_ms": round((_cpu(resource.RUSAGE_SELF) - own) * scale, 3),
        "children_ms": round((_cpu(resource.RUSAGE_CHILDREN) - children) * scale, 3),
        "wall_ms": round((time.perf_counter() - wall) * scale, 3),
    }


def _cpu(who: int) -> float:
    usage = resource.getrusage(who)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    main()
