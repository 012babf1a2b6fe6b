"""Real children, run in a temporary directory, and the promise that nothing of them is left behind."""

import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pytest_atesor.core.child_end import ChildEnd
from pytest_atesor.runners.descendants import child_pids
from pytest_atesor.runners.guard import guarding
from pytest_atesor.runners.process import ChildSpec, run_child
from pytest_atesor.runners.stop import StopFlag

RunScript = Callable[..., ChildEnd]


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    """Fail the test that leaves a process, a descriptor or a thread behind."""
    with guarding(1):
        pass  # the guard that waits for the next child stays
    before = _inventory()
    yield
    assert _inventory() == before


@pytest.fixture
def stop() -> Iterator[StopFlag]:
    with StopFlag() as flag:
        yield flag


@pytest.fixture
def run_script(tmp_path: Path, stop: StopFlag) -> RunScript:
    """Run a bash script as a child in ``tmp_path`` with its output in run.log; keywords are ChildSpec's."""

    def run(script: str, *, timeout_s: float = 60.0, **limits: object) -> ChildEnd:
        values: dict[str, object] = {
            "argv": ("bash", "-c", script),
            "env": {"PATH": os.environ["PATH"]},
            "cwd": tmp_path,
            "log_path": tmp_path / "run.log",
            "deadline": time.monotonic() + timeout_s,
            **limits,
        }
        return run_child(ChildSpec(**values), stop=stop)  # type: ignore[arg-type]  # keywords of the test's choice

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
        thread.join(30)
        assert not thread.is_alive(), "the child never said that it was ready"


def _inventory() -> tuple[frozenset[int], frozenset[str], frozenset[int | None]]:
    with os.scandir("/proc/self/fd") as entries:
        descriptors = frozenset(entry.name for entry in entries)
    return child_pids(), descriptors, frozenset(thread.ident for thread in threading.enumerate())
