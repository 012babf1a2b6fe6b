"""What each engine of this machine costs: a command in a running sandbox, and a slot's reset.

``python benchmarks/engines.py [--rounds N]`` prints a table and JSON: medians in one run, engine after engine
in turn within each round, and their ratio to docker's where docker answers.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from pytest_atesor.core.plan import Platform
from pytest_atesor.errors import SetupError
from pytest_atesor.sandbox.image import ensure_image
from pytest_atesor.sandbox.interface import Engine, ExecSpec
from pytest_atesor.sandbox.sandbox import open_sandbox
from pytest_atesor.sandbox.select import select_engine
from pytest_atesor.sandbox.slots import state_directory

RESET_MS = 500
EXEC_MS = {"docker": 150, "podman": 250, "host": 40}


def main() -> int:
    """Measure and print; exit code 1 when a promise is broken."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    rounds = parser.parse_args().rounds
    found = find_engines()
    figures: dict[str, dict[str, list[float]]] = {name: {"exec": [], "reset": []} for name in found}
    name = f"atesor-benchmark-{os.getpid()}"
    with tempfile.TemporaryDirectory() as scratch:
        try:
            for _ in range(rounds):
                for engine, image in found.values():
                    measure(engine, image, name, Path(scratch), figures[engine.name])
        finally:
            for engine, _ in found.values():
                engine.remove(name)
    return show({
        key: {what: statistics.median(many) for what, many in of.items()} for key, of in figures.items()
    })


def find_engines() -> dict[str, tuple[Engine, str]]:
    """Return the engines that answer, each with its image."""
    found: dict[str, tuple[Engine, str]] = {}
    for name in EXEC_MS:
        try:
            engine = select_engine(name)
        except SetupError as error:
            print(f"no {name} here: {error}", file=sys.stderr)
        else:
            image = ensure_image(engine, Platform.DEBIAN, state=state_directory(os.environ), progress=print)
            found[name] = (engine, image)
    return found


def measure(engine: Engine, image: str, name: str, state: Path, into: dict[str, list[float]]) -> None:
    """Add a reset and a command, in milliseconds; the first reset of all finds no sandbox."""
    into["reset"].append(
        clock(lambda: open_sandbox(engine, name, image=image, state=state / engine.name, reset=True))
    )
    sandbox = open_sandbox(engine, name, image=image, state=state / engine.name)
    into["exec"].append(clock(lambda: sandbox.run(ExecSpec(argv=["true"]), timeout_s=60)))


def clock(act: Callable[[], object]) -> float:
    """Return how many milliseconds it takes."""
    started = time.monotonic()
    act()
    return (time.monotonic() - started) * 1000


def show(medians: dict[str, dict[str, float]]) -> int:
    """Print the table, the promises and JSON; return the exit code."""
    print(f"{'engine':>8} {'exec ms':>8} {'reset ms':>9}  to docker's")
    kept: dict[str, bool] = {}
    for name, of in medians.items():
        docker = medians.get("docker", of)
        ratios = ", ".join(f"{what} {of[what] / docker[what]:.2f}" for what in of)
        print(f"{name:>8} {of['exec']:8.0f} {of['reset']:9.0f}  {ratios}")
        kept[f"{name}: exec under {EXEC_MS[name]} ms"] = of["exec"] < EXEC_MS[name]
        kept[f"{name}: reset under {RESET_MS} ms"] = of["reset"] < RESET_MS
    for promise, is_kept in kept.items():
        print(f"{'kept' if is_kept else 'BROKEN':>8} {promise}")
    print(json.dumps({"medians_ms": medians, "kept": kept}))
    return 0 if kept and all(kept.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
