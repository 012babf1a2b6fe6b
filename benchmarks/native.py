"""What the native target costs beside the builds: ssh round trips per case, and when a dead line is noticed.

``python benchmarks/native.py [--cases N]`` prints a table and JSON. It runs real batches over a real ssh
server on this machine, with podman in the place of the board; ``ATESOR_TEST_NATIVE`` names another machine
(see tests/native/machines.py). The trips of a case are those of a batch of N + 1 cases less those of one of
one case, by N; a trip that runs a command of the agent in the sandbox is the build's.
"""

import argparse
import json
import os
import queue
import re
import signal
import sys
import tempfile
import time
from pathlib import Path

import psutil

os.environ.setdefault("ATESOR_TEST_NATIVE", "here")
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "native"))

from machines import find_machine
from native_lab import PATIENCE_S, NativeLab

from pytest_atesor.sandbox.native.connection import Connection
from pytest_atesor.sandbox.native.link import Link

MOST_TRIPS = 6
NOTICED_S = 30.0
PREPARES = 1
"""The one command in each sandbox that is not the agent's: it lays the workspace out."""

_COUNTED = re.compile(r"(\d+) round trips to the machine \S+, (\d+) of them sandboxes' commands")


def main() -> int:
    """Measure and print; exit code 1 when a promise is broken."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=4)
    cases = parser.parse_args().cases
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        machine = find_machine(place)
        lab = NativeLab(place / "root", machine)
        one, many = (count_trips(lab, number) for number in (1, cases + 1))
        commands = (many[1] - one[1]) / cases
        trips = (many[0] - one[0]) / cases - commands + PREPARES
        noticed_s = time_notice(place, machine)
    return show(
        {"trips per case": trips, "agent's commands per case": commands - PREPARES, "noticed_s": noticed_s},
        {
            f"at most {MOST_TRIPS} round trips per case beside the build": trips <= MOST_TRIPS,
            f"a dead line is noticed in {NOTICED_S:.0f} s": noticed_s < NOTICED_S,
        },
    )


def count_trips(lab: NativeLab, number: int) -> tuple[int, int]:
    """Return the round trips of a batch of so many cases, and how many of them ran commands."""
    name = f"batch{number}"
    lab.write_projects(name, {f"{name}-{one}": 0 for one in range(number)})
    run = lab.run(f"--atesor-list={name}", "-n1", timeout_s=PATIENCE_S)
    counted = _COUNTED.search(run.err)
    if run.code != 0 or counted is None:
        raise SystemExit(run.out + run.err)
    return int(counted[1]), int(counted[2])


def time_notice(place: Path, machine: dict[str, str]) -> float:
    """Return the seconds from the stop of the client, as on a dead line, to the word that it is lost."""
    said: queue.Queue[str] = queue.Queue()
    os.environ["PATH"] = machine.get("PATH", os.environ["PATH"])
    connection = Connection(host=machine["ATESOR_SSH_HOST"], control=place / "control")
    with Link(connection, "benchmark", say=said.put):
        client = next(one for one in psutil.Process().children() if "ControlMaster=yes" in one.cmdline())
        client.send_signal(signal.SIGSTOP)
        started = time.monotonic()
        while "is lost" not in said.get(timeout=10 * NOTICED_S):
            pass
        return time.monotonic() - started


def show(figures: dict[str, float], kept: dict[str, bool]) -> int:
    """Print the table, the promises and JSON; return the exit code."""
    for name, figure in figures.items():
        print(f"{figure:8.1f} {name}")
    for promise, is_kept in kept.items():
        print(f"{'kept' if is_kept else 'BROKEN':>8} {promise}")
    print(json.dumps({"figures": figures, "kept": kept}))
    return 0 if all(kept.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
