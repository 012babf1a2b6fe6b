"""When a sandbox counts as stalled, and where its processor time is read."""

import io
from pathlib import Path
from typing import BinaryIO

import pytest

from pytest_atesor.sandbox.pump import Pumped, pump_process
from pytest_atesor.sandbox.stall import StallWatch, read_cpu_s
from tests.unit.processes import LIMIT_S


def stalled_at(limit_s: float, *looks: tuple[float, float | None]) -> list[float]:
    """Return the moments at which the watch says that it stalls; each look is a moment and what was used."""
    used = iter([seconds for _, seconds in looks])
    watch = StallWatch(lambda: next(used), limit_s)
    return [moment for moment, _ in looks if watch.is_stalled(moment)]


@pytest.mark.parametrize(
    ("looks", "moments"),
    [
        ([(0, 5.0), (50, 5.0), (99, 5.0), (100, 5.0)], [100]),
        ([(0, 5.0), (100, 5.9)], [100]),
        ([(0, 5.0), (90, 6.1), (100, 6.1), (189, 6.1), (190, 6.1)], [190]),
        ([(0, 5.0), (50, None), (100, 5.0), (150, 5.0), (200, 5.0)], [200]),
        ([(0, None), (500, None)], []),
    ],
    ids=[
        "nothing used",
        "next to nothing used",
        "work begins the wait anew",
        "an unknown one too",
        "unknown",
    ],
)
def test_a_sandbox_stalls_when_it_used_no_processor_for_that_long(
    looks: list[tuple[float, float | None]], moments: list[float]
) -> None:
    assert stalled_at(100, *looks) == moments


def test_where_nothing_is_known_it_is_seldom_asked() -> None:
    watch = StallWatch(lambda: None, 600)
    assert watch.interval_s == 20
    watch.is_stalled(0)
    assert watch.interval_s == 600


@pytest.mark.parametrize(
    ("groups", "file", "text", "seconds"),
    [
        ("4:cpuacct,cpu:/box\n0::/\n", "cpuacct,cpu/box/cpuacct.usage", "2500000000\n", 2.5),
        ("0::/box\n", "box/cpu.stat", "usage_usec 1500000\nuser_usec 1\n", 1.5),
        ("0::/box\n", "box/other", "", None),
        ("4:cpuacct:/\n0::/\n", "cpuacct/cpuacct.usage", "99\n", None),
    ],
    ids=["version 1", "version 2", "no counter", "no group of its own"],
)
def test_processor_time_is_the_control_group_s(
    tmp_path: Path, groups: str, file: str, text: str, seconds: float | None
) -> None:
    (tmp_path / "proc/7").mkdir(parents=True)
    (tmp_path / "proc/7/cgroup").write_text(groups)
    place = tmp_path / "sys/fs/cgroup" / file
    place.parent.mkdir(parents=True)
    place.write_text(text)
    assert read_cpu_s(7, tmp_path) == seconds
    assert read_cpu_s(8, tmp_path) is None


def pump(script: str, watch: StallWatch, calls: list[str], sink: BinaryIO | None = None) -> Pumped:
    return pump_process(
        ["sh", "-c", script],
        timeout_s=2 * LIMIT_S,
        sink=sink,
        tail_bytes=100,
        on_timeout=lambda: calls.append("clear"),
        watch=watch,
    )


def test_a_command_that_stalls_is_ended_once() -> None:
    calls: list[str] = []
    begun = io.BytesIO()
    used_s = [0.0]

    def read() -> float:
        if not begun.getvalue():  # on a slow machine it has yet to begin
            used_s[0] += 1
        return used_s[0]

    done = pump("echo begun; exec sleep 600", StallWatch(read, 0.4), calls, begun)
    assert (done.is_stalled, done.timed_out, done.tail, calls) == (True, True, b"begun\n", ["clear"])
    assert done.duration_s < LIMIT_S


def test_a_command_that_works_is_left_alone() -> None:
    calls: list[str] = []
    seconds = iter(range(1_000_000))
    done = pump("sleep 1; echo done; exit 3", StallWatch(lambda: float(next(seconds)), 0.4), calls)
    assert (done.is_stalled, done.timed_out, done.exit_code, calls) == (False, False, 3, [])
