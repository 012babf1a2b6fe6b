"""How close to the lower bound a batch of unequal cases ends, beside stock pytest-xdist.

    python benchmarks/dispatch.py [--seeds 5] [--cases 60] [--workers 4] [--seconds 30] [--json]

Each trace has log-normal durations (sigma 1.2), scaled so that the lower bound max(sum / workers, longest)
is ``--seconds``. The agents only sleep, so several runs at once do not disturb each other, once they are up;
so they come up one after the other, and their first cases wait until all are there. They work in memory
where there is a place for that: a disk that is busy with other things would be measured instead. The makespan
is the time from there to the last end; what pytest needs to come up and to go down is not in it.

Ours runs each trace twice: with the durations of an earlier batch (longest expected first) and without (list
order). Ends with 1 when a promise is broken: with known durations the mean ratio is at most 1.03, without
at most 1.15. The second depends on where in the list the longest case happens to stand: nobody who does not
know the durations can promise it for every single list.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from pytest_atesor.control.history import History
from pytest_atesor.core.attempt import AttemptRecord
from pytest_atesor.core.outcome import Status
from pytest_atesor.core.package_list import parse_package_list
from pytest_atesor.core.plan import Platform, Target
from pytest_atesor.core.planning import PlanFacts, plan_package_list

SIGMA: Final = 1.2
COMING_UP: Final = threading.Lock()
PROMISED: Final = {"known": 1.03, "unknown": 1.15}
AGENT: Final = """#!/bin/sh
while [ "$1" != --repo ]; do shift; done
while [ ! -e go ]; do sleep 0.02; done
exec sleep "${2##*-}"
"""
STOCK: Final = """
import json, pathlib, time
import pytest
HERE = pathlib.Path(__file__).parent
@pytest.mark.parametrize("number", range(len(json.loads((HERE / "trace.json").read_text()))))
def test_case(number):
    seconds = json.loads((HERE / "trace.json").read_text())[number]
    (HERE / "starts" / str(number)).touch()
    while not (HERE / "go").exists():
        time.sleep(0.02)
    time.sleep(seconds)
    (HERE / "ends" / str(number)).write_text(json.dumps(time.time()))
"""


@dataclass(frozen=True)
class Trace:
    """The durations of one list, in its order, and what no schedule can beat."""

    seed: int
    seconds: tuple[float, ...]
    bound_s: float


@dataclass(frozen=True)
class Way:
    """One way of dispatching; ``run`` returns the makespan in seconds."""

    name: str
    run: Callable[["Run"], float]


@dataclass(frozen=True)
class Run:
    """One run: its directory, its trace, and the barrier at which the runs of its group meet."""

    root: Path
    trace: Trace
    workers: int
    barrier: threading.Barrier


def main() -> int:
    """Measure, print, judge."""
    parser = argparse.ArgumentParser(description="makespan over the lower bound")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--cases", type=int, default=60)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--parallel", type=int, default=9)
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # noqa: S108 - not a file, a file system
    parser.add_argument("--directory", default=memory, help="where to work")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    traces = [make_trace(seed, options.cases, options.workers, options.seconds) for seed in seeds]
    ways = [
        Way("known", run_known),
        Way("unknown", run_unknown),
        Way("load", lambda run: run_stock(run, "--dist=load")),
        Way("worksteal", lambda run: run_stock(run, "--dist=worksteal")),
        Way("load, chunk 1", lambda run: run_stock(run, "--dist=load", "--maxschedchunk=1")),
    ]
    report = measure(traces, ways, options.workers, options.parallel, options.directory)
    show(report)
    if options.json:
        print(json.dumps(report))
    return 0 if all(report["kept"].values()) else 1


def make_trace(seed: int, cases: int, workers: int, bound_s: float) -> Trace:
    """Return a long-tailed trace, scaled to that lower bound."""
    chance = random.Random(seed)  # noqa: S311 - a benchmark's trace
    raw = [chance.lognormvariate(0, SIGMA) for _ in range(cases)]
    scale = bound_s / max(sum(raw) / workers, *raw)
    seconds = tuple(round(scale * value, 3) for value in raw)
    return Trace(seed=seed, seconds=seconds, bound_s=max(sum(seconds) / workers, *seconds))


def measure(traces: list[Trace], ways: list[Way], workers: int, parallel: int, directory: str | None) -> dict:  # type: ignore[type-arg]  # JSON
    """Run every trace in every way; return the makespans over the bounds."""
    jobs = [(trace, way) for trace in traces for way in ways]
    ratios: list[float] = []
    with tempfile.TemporaryDirectory(dir=directory) as name, ThreadPoolExecutor(parallel) as pool:
        for start in range(0, len(jobs), parallel):
            group = jobs[start : start + parallel]
            barrier = threading.Barrier(len(group))

            def run(job: tuple[Trace, Way], barrier: threading.Barrier = barrier) -> float:
                trace, way = job
                root = Path(name) / f"{trace.seed}-{way.name.replace(', ', '-').replace(' ', '-')}"
                root.mkdir()
                return way.run(Run(root, trace, workers, barrier)) / trace.bound_s

            ratios += pool.map(run, group)
    table: dict[str, list[float]] = {way.name: [] for way in ways}
    for (_, way), ratio in zip(jobs, ratios, strict=True):
        table[way.name].append(round(ratio, 4))
    means = {name: round(statistics.fmean(found), 4) for name, found in table.items()}
    return {
        "seeds": [trace.seed for trace in traces],
        "ratios": table,
        "means": means,
        "kept": {
            f"{name} durations: mean at most {most}": means[name] <= most for name, most in PROMISED.items()
        },
    }


def run_known(run: Run) -> float:
    """Run a batch whose packages ran before."""
    root, trace = run.root, run.trace
    write_list(root, trace)
    text = (root / "packages" / "trace.json").read_bytes()
    plan = plan_package_list(
        parse_package_list(text, "trace"),
        PlanFacts(
            batch_id="earlier",
            name="trace",
            platform=Platform.DEBIAN,
            target=Target.QEMU,
            settings={"agent": ["./agent"]},
            created_at="",
        ),
        source="trace",
    )
    history = History(root / "state", plan)
    for case, seconds in zip(plan.cases, trace.seconds, strict=True):
        history.note(case, make_record(case.case_id, seconds))
    history.save()
    return run_batch(run)


def make_record(case_id: str, seconds: float) -> AttemptRecord:
    """Return the record of a case that passed in an earlier batch."""
    return AttemptRecord(
        case_id=case_id,
        attempt_id="001",
        status=Status.PASS,
        cause=None,
        reason="",
        exit_code=0,
        slot="",
        started_at="",
        ended_at="",
        duration_s=seconds,
        log="",
        log_bytes=0,
        log_dropped_bytes=0,
    )


def run_unknown(run: Run) -> float:
    """Run a batch whose packages nobody knows."""
    return run_batch(run)


def name_packages(trace: Trace) -> list[tuple[str, float]]:
    """Return the packages of a trace; the seconds in the name tell the agent."""
    return [(f"p{number}-{seconds}", seconds) for number, seconds in enumerate(trace.seconds)]


def write_list(root: Path, trace: Trace) -> None:
    """Write the trace as a package list."""
    (root / "packages").mkdir(exist_ok=True)
    packages = [{"name": name, "url": f"https://example.org/a/{name}"} for name, _ in name_packages(trace)]
    (root / "packages" / "trace.json").write_text(json.dumps({"$schema_version": 1, "packages": packages}))


def run_batch(run: Run) -> float:
    """Run the trace as a batch."""
    root, trace = run.root, run.trace
    write_list(root, trace)
    (root / "pytest.ini").write_text("[pytest]\n")
    agent = root / "agent"
    agent.write_text(AGENT)
    agent.chmod(0o755)
    cases = "runs/batches/*/cases/*/attempts"
    begun = run_pytest(run, "--atesor-list=trace", starts=f"{cases}/*")
    records = [json.loads(path.read_text()) for path in root.glob(f"{cases}/*/attempt.json")]
    if len(records) != len(trace.seconds) or any(record["status"] != "PASS" for record in records):
        raise RuntimeError(f"the batch in {root} did not pass")
    return max(datetime.fromisoformat(record["ended_at"]).timestamp() for record in records) - begun


def run_stock(run: Run, *arguments: str) -> float:
    """Run the trace as ordinary tests."""
    root, trace = run.root, run.trace
    for folder in ("starts", "ends"):
        (root / folder).mkdir()
    (root / "pytest.ini").write_text("[pytest]\n")
    (root / "trace.json").write_text(json.dumps(trace.seconds))
    (root / "test_trace.py").write_text(STOCK)
    begun = run_pytest(run, "test_trace.py", *arguments, starts="starts/*")
    ends = [json.loads(path.read_text()) for path in (root / "ends").iterdir()]
    if len(ends) != len(trace.seconds):
        raise RuntimeError(f"the tests in {root} did not pass")
    return float(max(ends)) - begun


def run_pytest(run: Run, *arguments: str, starts: str) -> float:
    """Run pytest; return when its first cases were let go.

    ``starts`` is the pattern of what a case leaves at its start. The first ones wait until every worker of
    every run of the group has one.
    """
    kept = {name: text for name, text in os.environ.items() if not name.startswith(("ATESOR_", "PYTEST_"))}
    environment = {
        **kept,
        "ATESOR_STATE_DIR": str(run.root / "state"),
        "ATESOR_ENGINE": "none",
        "ATESOR_AGENT": "./agent",
    }
    with COMING_UP:
        process = subprocess.Popen(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"-n{run.workers}", *arguments],
            cwd=run.root,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        while process.poll() is None and len(list(run.root.glob(starts))) < run.workers:
            time.sleep(0.1)
    run.barrier.wait()
    begun = time.time()
    (run.root / "go").touch()
    process.wait()
    return begun


def show(report: dict) -> None:  # type: ignore[type-arg]  # JSON
    """Print the table."""
    seeds = report["seeds"]
    print(f"{'makespan / bound':18}" + "".join(f"{f'seed {seed}':>9}" for seed in seeds) + f"{'mean':>9}")
    for name, ratios in report["ratios"].items():
        row = "".join(f"{ratio:9.3f}" for ratio in ratios)
        print(f"{name:18}{row}{report['means'][name]:9.3f}")
    for promise, is_kept in report["kept"].items():
        print(f"{'kept' if is_kept else 'BROKEN':>8} {promise}")


if __name__ == "__main__":
    sys.exit(main())
