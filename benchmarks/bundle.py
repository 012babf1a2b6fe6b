"""What a bundle costs: planning, each case, resuming, at 1,000 and at 10,000 cases.

    python benchmarks/bundle.py [--cases 1000,10000] [--directory DIR] [--rounds N]

Prints a table and one line of JSON, and ends with 1 when a promise is broken: a plan of 10,000 cases in
under 3 s and 300 MB, a case at 10,000 for at most 1.2 times its time at 1,000, a resume of 10,000 in under
3 s. "plan" reads a manifest of that many RunSpecs and writes the bundle; "bare" is what the file system
itself takes for as many directories and files. "case" is everything that controller and worker put on disk
for one no-op case, and what each part of it takes; "resume" opens a bundle whose controller died half-way.

The sizes take turns in small portions, so that a machine that is busy with other things slows all of them
alike. ext4 avoids the numbers of files that were removed in the last five minutes and searches for others:
after a large removal "bare" and "plan" are several times slower, so the trees are removed at the very end.
"""

import argparse
import json
import multiprocessing
import os
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final

from pytest_atesor.bundle.attempts import create_attempt, write_attempt
from pytest_atesor.bundle.clock import system_clock
from pytest_atesor.bundle.inputs import TreeReader, read_input
from pytest_atesor.bundle.layout import LogLinks
from pytest_atesor.bundle.lock import Holder
from pytest_atesor.bundle.writer import Bundle
from pytest_atesor.core.attempt import AttemptRecord
from pytest_atesor.core.attempt_json import format_attempt
from pytest_atesor.core.events import AttemptEnded, AttemptStarted, CasesSelected, Event
from pytest_atesor.core.manifest import plan_manifest
from pytest_atesor.core.outcome import Status
from pytest_atesor.core.plan import Case, Platform, Target
from pytest_atesor.core.planning import PlanFacts
from pytest_atesor.core.recovery import decide_resume
from pytest_atesor.core.runspec_kinds import BUILT_IN_KINDS

PORTION: Final = 50
UNSEEN: Final = 100
HOLDER: Final = Holder(host="benchmark", pid=os.getpid(), started_at="now")
RUNSPEC: Final = """schema_version: runspec_v1
kind: command
command:
  argv: [/bin/true, '{number}']
  env: {{NUMBER: '{number}'}}
"""
MOST_S: Final = 3
MOST_MEGABYTES: Final = 300
MOST_RATIO: Final = 1.2


@dataclass
class Size:
    """One bundle and what was measured of it, in seconds per case."""

    cases: int
    bundle: Bundle
    links: LogLinks
    portions: list[float] = field(default_factory=list)
    parts: dict[str, float] = field(default_factory=dict)


def main() -> int:
    """Measure, print, judge."""
    parser = argparse.ArgumentParser(description="time and memory of bundles")
    parser.add_argument("--cases", default="1000,10000")
    parser.add_argument("--measured", type=int, default=1000, help="cases that are run in each bundle")
    parser.add_argument("--directory", help="where to work; another file system, perhaps")
    options = parser.parse_args()
    counts = [int(text) for text in options.cases.split(",")]
    with tempfile.TemporaryDirectory(dir=options.directory) as name:
        report = _measure(Path(name), counts, options.measured)
    _print(report)
    return 0 if all(report["kept"].values()) else 1


def _measure(root: Path, counts: list[int], measured: int) -> dict:  # type: ignore[type-arg]  # JSON
    report: dict = {"plans": [], "cases": [], "resumes": []}  # type: ignore[type-arg]  # JSON
    manifests = {count: _write_inputs(root / f"inputs-{count}", count) for count in counts}
    for count, manifest in manifests.items():
        bare = _in_child(_create_bare, count, root / f"bare-{count}")["seconds"]
        measured_plan = _in_child(_plan, manifest, root / f"planned-{count}")
        report["plans"].append({"cases": count, "bare_seconds": bare, **measured_plan})
    sizes = [_make_size(count, _create(manifests[count], root / f"runs-{count}")) for count in counts]
    for size in sizes:
        ids = tuple(case.case_id for case in size.bundle.plan.cases)
        size.bundle.record(CasesSelected(at="now", case_ids=ids))
    for start in range(0, measured, PORTION):
        for size in sizes:
            _run_cases(size, size.bundle.plan.cases[start : start + PORTION])
    for size in sizes:
        _fill_and_leave(size)
        report["cases"].append(_describe(size))
        report["resumes"].append({"cases": size.cases, **_in_child(_resume, size.bundle.layout.root)})
    largest, least = report["cases"][-1], report["cases"][0]
    report["kept"] = {
        "plan under 3 s": report["plans"][-1]["seconds"] < MOST_S,
        "plan under 300 MB": report["plans"][-1]["megabytes"] < MOST_MEGABYTES,
        "case at most 1.2 times": largest["median_ms"] <= MOST_RATIO * least["median_ms"],
        "resume under 3 s": report["resumes"][-1]["seconds"] < MOST_S,
    }
    return report


def _write_inputs(root: Path, count: int) -> Path:
    (root / "cases").mkdir(parents=True)
    cases = []
    for number in range(count):
        (root / "cases" / f"{number}.yaml").write_text(RUNSPEC.format(number=number))
        cases.append({"label": f"case-{number}", "runspec": f"cases/{number}.yaml"})
    path = root / "manifest.json"
    path.write_text(json.dumps({"schema_version": "batch_v1", "batch": {"cases": cases}}))
    return path


def _in_child(action: Callable[..., None], *arguments: object) -> dict[str, float]:
    """Run an action in a new process: its seconds, and its largest memory in MB."""
    receiver, sender = multiprocessing.get_context("spawn").Pipe(duplex=False)
    process = multiprocessing.get_context("spawn").Process(target=_timed, args=(sender, action, *arguments))
    process.start()
    result: dict[str, float] = receiver.recv()
    process.join()
    return result


def _timed(sender: Connection, action: Callable[..., None], *arguments: object) -> None:
    started, before = time.perf_counter(), os.times().user
    action(*arguments)
    seconds, user_seconds = time.perf_counter() - started, os.times().user - before
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    figures = {"seconds": seconds, "user_seconds": user_seconds, "megabytes": megabytes}
    sender.send({name: round(figure, 3) for name, figure in figures.items()})


def _create_bare(count: int, root: Path) -> None:
    root.mkdir()
    for number in range(count):
        directory = root / f"case-{number}"
        directory.mkdir()
        (directory / "runspec.json").write_text(RUNSPEC)


def _plan(manifest: Path, output_root: Path) -> None:
    _create(manifest, output_root).close()


def _create(manifest: Path, output_root: Path) -> Bundle:
    facts = PlanFacts(
        batch_id="batch",
        name="manifest",
        platform=Platform.DEBIAN,
        target=Target.QEMU,
        settings={},
        created_at="now",
    )
    reader = TreeReader(manifest, manifest.parent)
    plan = plan_manifest(read_input(manifest), reader, BUILT_IN_KINDS, facts)
    return Bundle.create(output_root, plan, holder=HOLDER, clock=system_clock())


def _make_size(count: int, bundle: Bundle) -> Size:
    return Size(count, bundle, LogLinks(bundle.layout.root.parent / "logs", bundle.layout))


def _run_cases(size: Size, cases: tuple[Case, ...]) -> None:
    started = time.perf_counter()
    for case in cases:
        _run_case(size, case)
    size.portions.append((time.perf_counter() - started) / len(cases))


def _run_case(size: Size, case: Case) -> None:
    bundle, parts = size.bundle, size.parts

    def lap(name: str, since: float) -> float:
        now = time.perf_counter()
        parts[name] = parts.get(name, 0.0) + now - since
        return now

    at = time.perf_counter()
    attempt = create_attempt(bundle.layout, case.case_id)
    at = lap("attempt directory", at)
    size.links.make(case.case_id, attempt.log)
    at = lap("log link", at)
    bundle.record(_make_start(case, attempt.attempt_id))
    at = lap("journal and views", at)
    record = _make_record(case, attempt.attempt_id)
    write_attempt(attempt, record)
    at = lap("attempt.json", at)
    bundle.record(AttemptEnded(at="now", record=record))
    lap("journal and views", at)


def _make_start(case: Case, attempt_id: str) -> AttemptStarted:
    return AttemptStarted(at="now", case_id=case.case_id, attempt_id=attempt_id, slot="w1", worker="gw0")


def _make_record(case: Case, attempt_id: str) -> AttemptRecord:
    return AttemptRecord(
        case_id=case.case_id,
        attempt_id=attempt_id,
        status=Status.PASS,
        cause=None,
        reason="",
        exit_code=0,
        slot="w1",
        started_at="now",
        ended_at="now",
        duration_s=0.001,
        log=f"cases/{case.case_id}/attempts/{attempt_id}/run.log",
        log_bytes=0,
        log_dropped_bytes=0,
    )


def _fill_and_leave(size: Size) -> None:
    """End with half of the cases done and a controller that died; a hundred of its attempts ended unseen."""
    bundle = size.bundle
    events: list[Event] = []
    rest = bundle.plan.cases[len(size.portions) * PORTION : size.cases // 2]
    for number, case in enumerate(rest):
        attempt = create_attempt(bundle.layout, case.case_id)
        record = _make_record(case, attempt.attempt_id)
        attempt.record.write_text(format_attempt(record), encoding="utf-8")
        if number >= UNSEEN:
            events.append(_make_start(case, attempt.attempt_id))
            events.append(AttemptEnded(at="now", record=record))
    bundle._journal.append(*events)  # noqa: SLF001 - one by one would take minutes and measure nothing new
    bundle._journal.close()  # noqa: SLF001 - what a kill does
    bundle._lock.release()  # noqa: SLF001 - the same


def _resume(root: Path) -> None:
    bundle = Bundle.open(root, holder=HOLDER, clock=system_clock())
    decide_resume(bundle.ledger)


def _describe(size: Size) -> dict:  # type: ignore[type-arg]  # JSON
    done = len(size.portions) * PORTION
    return {
        "cases": size.cases,
        "median_ms": round(1000 * statistics.median(size.portions), 3),
        "mean_ms": round(1000 * statistics.fmean(size.portions), 3),
        "parts_ms": {name: round(1000 * seconds / done, 3) for name, seconds in size.parts.items()},
    }


def _print(report: dict) -> None:  # type: ignore[type-arg]  # JSON
    heads = f"{'cases':>8} {'plan s':>8} {'bare s':>8} {'user s':>8} {'MB':>6} {'case ms':>8}"
    print(f"{heads} {'resume s':>9} {'user s':>8} {'MB':>6}")
    for plan, case, resume in zip(report["plans"], report["cases"], report["resumes"], strict=True):
        print(
            f"{plan['cases']:8} {plan['seconds']:8.2f} {plan['bare_seconds']:8.2f}"
            f" {plan['user_seconds']:8.2f} {plan['megabytes']:6.0f} {case['median_ms']:8.2f}"
            f" {resume['seconds']:9.2f} {resume['user_seconds']:8.2f} {resume['megabytes']:6.0f}"
        )
        print(" " * 8, ", ".join(f"{name} {ms:.2f} ms" for name, ms in case["parts_ms"].items()))
    for promise, is_kept in report["kept"].items():
        print(f"{'kept' if is_kept else 'BROKEN':>8} {promise}")
    print(json.dumps(report))


if __name__ == "__main__":
    sys.exit(main())
