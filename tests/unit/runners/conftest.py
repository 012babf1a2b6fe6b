"""Real children, run in a temporary directory, and the promise that nothing of them is left behind."""

import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from pytest_atesor.core.child_end import ChildEnd
from pytest_atesor.runners.descendants import child_pids
from pytest_atesor.runners.guard import guarding
from pytest_atesor.runners.process import ChildSpec, run_child
from pytest_atesor.runners.stop import StopFlag, StopSignal
from tests.unit.processes import LIMIT_S
from tests.unit.runners.ready_first import ReadyFirst

RunScript = Callable[..., ChildEnd]


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    """Fail the test that leaves a process, a descriptor or a thread behind."""
    with guarding(1):
        pass  # the guard that waits for the next child stays
    before = _take_inventory()
    yield
    # What an earlier test left may go at any time, and is none of this one's business.
    after = _take_inventory()
    new = Inventory(*(now - then for now, then in zip(after, before, strict=True)))
    assert new == Inventory(frozenset(), frozenset(), frozenset())


@pytest.fixture
def stop() -> Iterator[StopFlag]:
    with StopFlag() as flag:
        yield flag


@pytest.fixture
def run_script(tmp_path: Path, stop: StopFlag) -> RunScript:
    """Run a bash script as a child in ``tmp_path`` with its output in run.log; keywords are ChildSpec's."""

    def run(script: str, *, timeout_s: float = LIMIT_S, **limits: object) -> ChildEnd:
        return _run(tmp_path, script, stop, deadline=time.monotonic() + timeout_s, **limits)

    return run


@pytest.fixture
def run_late_script(tmp_path: Path, stop: StopFlag) -> RunScript:
    """Run a bash script that is out of time as soon as it writes into the FIFO ``ready`` of ``tmp_path``."""

    def run(script: str, **limits: object) -> ChildEnd:
        patient = ReadyFirst(stop, tmp_path / "ready")
        return _run(tmp_path, script, patient, deadline=time.monotonic(), **limits)

    return run


@pytest.fixture
def when_ready(tmp_path: Path) -> Iterator[Callable[[Callable[[], None]], Path]]:
    """Call a function once a child has written a line into the FIFO whose path is returned."""
    fifo = tmp_path / "ready"
    os.mkfifo(fifo)
    threads: list[threading.Thread] = []

    def arrange(action: Callable[[], None]) -> Path:
        def wait() -> None:
            fifo.read_bytes()
            action()

        threads.append(threading.Thread(target=wait, daemon=True))
        threads[-1].start()
        return fifo

    yield arrange
    for thread in threads:
        thread.join(LIMIT_S)
        assert not thread.is_alive(), "the child never said that it was ready"


def _run(place: Path, script: str, stop: StopSignal, **more: object) -> ChildEnd:
    values: dict[str, object] = {
        "argv": ("bash", "-c", script),
        "env": {"PATH": os.environ["PATH"]},
        "cwd": place,
        "log_path": place / "run.log",
        **more,
    }
    return run_child(ChildSpec(**values), stop=stop)  # type: ignore[arg-type]  # keywords of the test's choice


class Inventory(NamedTuple):
    """What this process has."""

    children: frozenset[int]
    descriptors: frozenset[str]
    threads: frozenset[int | None]


def _take_inventory() -> Inventory:
    with os.scandir("/proc/self/fd") as entries:
        descriptors = frozenset(entry.name for entry in entries)
    threads = frozenset(thread.ident for thread in threading.enumerate())
    return Inventory(child_pids(), descriptors, threads)
