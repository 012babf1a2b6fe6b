"""What the report page costs: building ``report.html`` for 8, 700 and 10,000 cases, and opening it.

    python benchmarks/report.py [--keep DIR]

Prints a table and JSON. ``--keep`` leaves the pages, to look at. "ready s" is the median of five visits in
headless Chromium, from the start of the navigation until the page's script has built everything and the page
takes input; it needs selenium, chromium and chromedriver, and is left out where they are missing. Ends with 1
when a promise is broken: 10,000 cases build in under 5 s, 700 take less than 1.5 MB and are ready in 1 s.
"""

import argparse
import json
import random
import shutil
import statistics
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pytest_atesor.bundle.layout import BundleLayout
from pytest_atesor.control.page import PageWriter
from pytest_atesor.core.attempt import AttemptRecord
from pytest_atesor.core.events import AttemptEnded, AttemptStarted, BatchEnded, BatchStarted, CasesSelected
from pytest_atesor.core.ledger import Ledger
from pytest_atesor.core.outcome import Cause, Status
from pytest_atesor.core.plan import BatchKind, Case, InputFile, Plan, Platform, Target

BEGIN = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
REASONS = (
    (Status.FAIL, Cause.BUILD, "src/{name}.c:{number}:5: error: unknown type name 'u_int'"),
    (Status.FAIL, Cause.BUILD, "{name}/arch.S:{number}: Error: unrecognized opcode `movq'"),
    (Status.FAIL, Cause.DEPENDENCY, "/usr/bin/ld: cannot find -lfoo"),
    (Status.FAIL, Cause.ENVIRONMENT, "no space is left on the device"),
    (Status.FAIL, Cause.SOURCE, "cannot clone https://example.org/{name}.git: not found"),
    (Status.UNVERIFIED, None, "no riscv64 output was found"),
    (Status.TIMEOUT, Cause.BUILD, "stopped after 1800 s"),
)
HOSTILE = (
    "</script><img src=x onerror=alert(1)>",
    "\u202egnp.exe\u2066",
    "\x1b[31mred\x1b]0;title\x07",
    "שלום",
)


def main() -> int:
    """Measure and print; exit code 1 when a promise is broken."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep", type=Path)
    keep = parser.parse_args().keep
    with tempfile.TemporaryDirectory() as scratch:
        sizes = [measure(Path(keep or scratch) / str(count), count) for count in (8, 700, 10_000)]
        visits = visit([Path(keep or scratch) / str(size["cases"]) / "report.html" for size in sizes])
    print(f"{'cases':>8} {'build s':>8} {'CPU s':>8} {'kB':>8} {'ready s':>8}")
    for size, ready_s in zip(sizes, visits, strict=True):
        shown = "-" if ready_s is None else f"{ready_s:.2f}"
        figures = f"{size['seconds']:8.2f} {size['cpu_s']:8.2f} {size['kilobytes']:8.0f}"
        print(f"{size['cases']:8} {figures} {shown:>8}")
    kept = {
        "10,000 cases under 5 s": sizes[-1]["seconds"] < 5,  # noqa: PLR2004 - the promise
        "700 cases under 1.5 MB": sizes[1]["kilobytes"] < 1500,  # noqa: PLR2004 - the promise
    }
    if visits[1] is not None:
        kept["700 cases ready in 1 s"] = visits[1] < 1
    for promise, is_kept in kept.items():
        print(f"{'kept' if is_kept else 'BROKEN':>8} {promise}")
    print(json.dumps({"sizes": sizes, "ready_s": visits, "kept": kept}))
    return 0 if all(kept.values()) else 1


def measure(root: Path, count: int) -> dict[str, float]:
    """Make a bundle's attempts and time its page."""
    layout = BundleLayout(root)
    ledger = fill(layout, count)
    started, cpu_s = time.perf_counter(), time.process_time()
    PageWriter(layout).write(ledger, "2026-01-02T09:00:00.000Z")
    seconds, cpu_s = time.perf_counter() - started, time.process_time() - cpu_s
    return {
        "cases": count,
        "seconds": round(seconds, 3),
        "cpu_s": round(cpu_s, 3),
        "kilobytes": round(layout.report.stat().st_size / 1000, 1),
    }


def visit(pages: list[Path]) -> list[float | None]:
    """Return the median seconds until each page is ready in a browser; None where there is no browser."""
    try:
        from selenium import webdriver  # noqa: PLC0415 - not everybody has it
    except ImportError:
        return [None] * len(pages)
    program = shutil.which("chromedriver")
    if program is None or shutil.which("chromium") is None:
        return [None] * len(pages)
    options = webdriver.ChromeOptions()
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1200,900"):
        options.add_argument(argument)
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(program))
    try:
        return [statistics.median(time_visit(driver, page.as_uri()) for _ in range(5)) for page in pages]
    finally:
        driver.quit()


def time_visit(driver: Any, address: str) -> float:  # noqa: ANN401 - selenium is not everywhere
    """Return the seconds of one visit."""
    driver.get(address)
    spent_ms: float = driver.execute_script(
        "return performance.getEntriesByType('navigation')[0].loadEventEnd"
    )
    return round(spent_ms / 1000, 3)


def fill(layout: BundleLayout, count: int) -> Ledger:
    """Return the ledger of a batch of ``count`` cases on 8 slots whose attempts lie below ``layout``."""
    dice = random.Random(7)  # noqa: S311 - figures for a benchmark
    names = [f"package-{number}" for number in range(count)]
    labels = [*HOSTILE, *names][:count] if count > len(HOSTILE) * 2 else names
    plan = make_plan(count, names, labels)
    ledger = Ledger(plan)
    ledger.apply(BatchStarted(at=show(0), host="build", pid=1, version="0.1.0", workers=8))
    ledger.apply(CasesSelected(at=show(0), case_ids=tuple(names)))
    free = [0.0] * min(8, count)
    for name in names[: count - count // 50]:
        slot = free.index(min(free))
        failed = dice.random() < 0.3  # noqa: PLR2004 - a plausible share
        status, cause, reason = dice.choice(REASONS) if failed else (Status.PASS, None, "")
        begin, seconds = free[slot] + dice.random() * 4, dice.lognormvariate(3.5, 1.1)
        free[slot] = begin + seconds
        ledger.apply(
            AttemptStarted(
                at=show(begin), case_id=name, attempt_id="001", slot=f"base-w{slot + 1}", worker="g"
            )
        )
        record = AttemptRecord(
            case_id=name,
            attempt_id="001",
            status=status,
            cause=cause,
            reason=reason.format(name=name, number=dice.randrange(2000)),
            exit_code=0 if status is Status.PASS else 1,
            slot=f"base-w{slot + 1}",
            started_at=show(begin),
            ended_at=show(begin + seconds),
            duration_s=seconds,
            log=f"cases/{name}/attempts/001/run.log",
            log_bytes=9000,
            log_dropped_bytes=0,
        )
        ledger.apply(AttemptEnded(at=show(begin + seconds), record=record))
        leave_files(layout, record)
    ledger.apply(BatchEnded(at=show(max(free)), exit_code=1, reason=""))
    return ledger


def make_plan(count: int, names: list[str], labels: list[str]) -> Plan:
    """Return a plan whose labels may be hostile and whose ids are not."""
    cases = tuple(
        Case(case_id=name, label=label, kind="port", spec={}, timeout_s=1800, derived_name=name)
        for name, label in zip(names, labels, strict=True)
    )
    return Plan(
        batch_id=f"batch-of-{count}",
        kind=BatchKind.PACKAGE_LIST,
        name="full",
        source="packages/full.json",
        platform=Platform.DEBIAN,
        target=Target.QEMU,
        cases=cases,
        inputs=(InputFile(path="packages/full.json", sha256="0" * 64),),
        settings={"engine": "podman"},
        created_at=show(0),
    )


def leave_files(layout: BundleLayout, record: AttemptRecord) -> None:
    """Write what an attempt leaves: a log with colours and markup, and a result."""
    attempt = layout.attempt(record.case_id, record.attempt_id)
    attempt.root.mkdir(parents=True)
    line = f"\x1b[32mgcc\x1b[0m -c </script><b>{record.case_id}</b>.c -o x.o\n"
    attempt.log.write_text(line * 120 + record.reason + "\n", encoding="utf-8")
    phases = [{"name": "build", "status": "ok", "duration_s": round(record.duration_s, 1)}]
    artifacts = [{"path": f"usr/bin/{record.case_id}", "size_bytes": 12345, "sha256": "0" * 64}]
    tests = {
        "status": "passed",
        "framework": "ctest",
        "duration_s": 3.1,
        "counts": {"passed": 12, "failed": 0, "skipped": 1},
    }
    document = {
        "schema_version": "result_v1",
        "phases": phases,
        "artifacts": artifacts,
        "package_tests": tests if record.status is Status.PASS else None,
    }
    attempt.result.write_text(json.dumps(document), encoding="utf-8")


def show(seconds: float) -> str:
    """Return the moment so many seconds after the beginning."""
    moment = BEGIN + timedelta(seconds=seconds)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


if __name__ == "__main__":
    sys.exit(main())
