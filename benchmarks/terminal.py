"""What the region of a terminal costs: CPU of the controller with it, beside the same batch without it.

    python benchmarks/terminal.py [--slots 16] [--seconds 20] [--waiting 700] [--json]

Both batches run on a terminal of their own with ``--slots`` workers, one of them told by ``CI`` that nobody
looks. Every slot has a case that writes a log with phases all the time, and ``--waiting`` cases wait behind
them. The CPU time of pytest's process is taken over ``--seconds`` while all slots are busy and nothing starts
or ends, so what it costs to come up and to go down is not in it. Ends with 1 when the region costs 2 % of one
CPU or more, or when none was drawn.
"""

import argparse
import contextlib
import fcntl
import json
import os
import pty
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import psutil

PROMISED_PERCENT: Final = 2.0
COLUMNS: Final = 120
LINES: Final = 40
PATIENCE_S: Final = 300
AGENT: Final = """#!/bin/sh
echo x >> begun
n=0
while :; do
    n=$((n + 1))
    echo "==> [$(printf %6d $n).0 s] build: step $n"
    echo "gcc -O2 -c file$n.c -o file$n.o"
    sleep 0.5
done
"""


@dataclass(frozen=True)
class Cost:
    """What a batch cost its controller while all slots were busy, and what it wrote meanwhile."""

    cpu_s: float
    wall_s: float
    written_bytes: int

    @property
    def percent(self) -> float:
        """CPU time over time, of one CPU."""
        return 100 * self.cpu_s / self.wall_s


def main() -> int:
    """Measure, print, judge."""
    parser = argparse.ArgumentParser(description="CPU that the region costs")
    parser.add_argument("--slots", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--waiting", type=int, default=700)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    costs: dict[str, Cost] = {}
    for name, environment in {"without": {"CI": "true"}, "with": {}}.items():
        with tempfile.TemporaryDirectory() as scratch:
            root = Path(scratch)
            prepare(root, options.slots + options.waiting)
            costs[name] = run(root, options.slots, options.seconds, environment)
    percent = costs["with"].percent - costs["without"].percent
    kept = {
        f"the region costs less than {PROMISED_PERCENT} % of a CPU": percent < PROMISED_PERCENT,
        "a region was drawn": costs["with"].written_bytes > 1000 > costs["without"].written_bytes,  # noqa: PLR2004 - one drawing of many
    }
    print(f"{'region':>8} {'CPU s':>8} {'of s':>8} {'% CPU':>8} {'bytes':>8}")
    for name, cost in costs.items():
        print(f"{name:>8} {cost.cpu_s:8.2f} {cost.wall_s:8.1f} {cost.percent:8.2f} {cost.written_bytes:8}")
    print(f"the region at {options.slots} slots: {percent:.2f} % of a CPU")
    for promise, is_kept in kept.items():
        print(f"{'kept' if is_kept else 'BROKEN':>8} {promise}")
    if options.json:
        shown = {name: asdict(cost) for name, cost in costs.items()}
        print(json.dumps({"costs": shown, "percent": round(percent, 3), "kept": kept}))
    return 0 if all(kept.values()) else 1


def prepare(root: Path, count: int) -> None:
    """Write a package list and an agent that never ends."""
    (root / "pytest.ini").write_text("[pytest]\n")
    (root / "packages").mkdir()
    packages = [
        {"name": f"package-{number}", "url": f"https://example.org/package-{number}"}
        for number in range(count)
    ]
    content = {"$schema_version": 1, "packages": packages}
    (root / "packages" / "busy.json").write_text(json.dumps(content))
    agent = root / "agent"
    agent.write_text(AGENT)
    agent.chmod(0o755)


def run(root: Path, slots: int, seconds: float, environment: dict[str, str]) -> Cost:
    """Run the batch on a terminal until it was measured, then stop it."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    own = ("ATESOR_", "PYTEST_", "CI", "NO_COLOR", "COLUMNS")
    env = {name: value for name, value in os.environ.items() if not name.startswith(own)}
    env |= {"ATESOR_STATE_DIR": str(root / "state"), "TERM": "xterm-256color", **environment}
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "pytest", "-n", str(slots), "--atesor-list=busy"),
            *("--atesor-engine=none", "--atesor-agent=./agent"),
        ],
        cwd=root,
        env=env,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
    )
    os.close(slave)
    written = [0]
    reader = threading.Thread(target=drain, args=(master, written), daemon=True)
    reader.start()
    try:
        wait_until_busy(root / "begun", slots, process)
        controller = psutil.Process(process.pid)
        before, begin, seen = controller.cpu_times(), time.monotonic(), written[0]
        time.sleep(seconds)
        after, wall_s, bytes_ = controller.cpu_times(), time.monotonic() - begin, written[0] - seen
    finally:
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(PATIENCE_S)
        process.kill()
        process.wait()
        reader.join()
        os.close(master)
    cpu_s = after.user + after.system - before.user - before.system
    return Cost(cpu_s=round(cpu_s, 3), wall_s=round(wall_s, 3), written_bytes=bytes_)


def wait_until_busy(begun: Path, slots: int, process: "subprocess.Popen[bytes]") -> None:
    """Wait until an agent runs in every slot, and the controller has drawn that."""
    end = time.monotonic() + PATIENCE_S
    while not begun.exists() or len(begun.read_text().splitlines()) < slots:
        if process.poll() is not None or time.monotonic() > end:
            raise RuntimeError("the batch did not get going; run it by hand to see why")
        time.sleep(0.2)
    time.sleep(2)


def drain(master: int, written: list[int]) -> None:
    """Read what the terminal is sent, as a terminal does, and count it."""
    with contextlib.suppress(OSError):
        while data := os.read(master, 65536):
            written[0] += len(data)


if __name__ == "__main__":
    sys.exit(main())
