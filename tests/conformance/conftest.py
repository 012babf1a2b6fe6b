"""What the conformance suite runs on: each engine of this machine, its image, short-lived sandboxes."""

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pytest_atesor.core.plan import Platform
from pytest_atesor.errors import SetupError
from pytest_atesor.sandbox.image import ensure_image
from pytest_atesor.sandbox.interface import Completed, Engine, EngineInfo, ExecSpec
from pytest_atesor.sandbox.native.engine import NativeEngine, NativeSandbox
from pytest_atesor.sandbox.native.hold import NativeHold
from pytest_atesor.sandbox.sandbox import Limits, Sandbox, open_sandbox
from pytest_atesor.sandbox.select import select_engine
from pytest_atesor.sandbox.slots import state_directory

# A machine of its own is asked for by name; see tests/native/machines.py.
ENGINES = ["docker", "podman", "host", *(["native"] if os.environ.get("ATESOR_TEST_NATIVE") else [])]
PATIENCE_S = 300.0  # for a command that ends by itself, on a machine that may stand still for a while
SMALL = Limits(memory_bytes=512 * 1024**2, pids=1024)


class Workbench:
    """One engine with its image; makes sandboxes under names of this test process and removes them."""

    def __init__(self, engine: Engine, image: str, state: Path) -> None:
        self.engine = engine
        self.image = image
        self.state = state
        self.info: EngineInfo = engine.probe()
        self._prefix = f"atesor-conformance-{os.getpid()}"
        self._names: set[str] = set()

    def name(self, word: str) -> str:
        name = f"{self._prefix}-{word}"
        self._names.add(name)
        return name

    def open(self, word: str, *, limits: Limits = SMALL, reset: bool = False) -> Sandbox:
        return open_sandbox(
            self.engine, self.name(word), image=self.image, state=self.state, limits=limits, reset=reset
        )

    def remove_all(self) -> None:
        for name in self._names & set(self.engine.list_sandboxes()):
            self.engine.remove(name)


class NativeWorkbench(Workbench):
    """Sandboxes on another machine, as a batch uses them."""

    def open(self, word: str, *, limits: Limits = SMALL, reset: bool = False) -> Sandbox:
        assert isinstance(self.engine, NativeEngine)
        return NativeSandbox(self.engine, super().open(word, limits=limits, reset=reset).name)


@pytest.fixture(scope="session", params=ENGINES)
def workbench(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Workbench]:
    if request.param == "native":
        yield from open_native(tmp_path_factory.mktemp("native"))
        return
    try:
        engine = select_engine(request.param)
    except SetupError as error:
        pytest.skip(f"no {request.param} here: {error}")
    image = ensure_image(engine, Platform.DEBIAN, state=state_directory(os.environ), progress=print)
    bench = Workbench(engine, image, tmp_path_factory.mktemp(f"state-{request.param}"))
    yield bench
    bench.remove_all()


def open_native(place: Path) -> Iterator[Workbench]:
    sys.path.insert(0, str(Path(__file__).parents[1] / "native"))
    from machines import find_machine  # noqa: PLC0415 - only with such a machine

    environ = {**os.environ, **find_machine(place)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", environ["PATH"])  # it may have a client of its own
        with NativeHold(environ, Platform.DEBIAN, state=place / "state", say=print) as hold:
            engine = hold.held[0].engine
            bench = NativeWorkbench(engine, engine.session.image, place / "state")
            yield bench
            bench.remove_all()


@pytest.fixture(scope="session")
def shared(workbench: Workbench) -> Sandbox:
    """One sandbox for the tests that leave it as it was."""
    return workbench.open("shared")


Shell = Callable[..., Completed]


@pytest.fixture(scope="session")
def shell() -> Shell:
    """Run a shell script in a sandbox."""

    def run(
        sandbox: Sandbox, script: str, *, user: str = "builder", timeout_s: float = PATIENCE_S
    ) -> Completed:
        return sandbox.run(ExecSpec(argv=["sh", "-c", script], user=user), timeout_s=timeout_s)

    return run


@pytest.fixture(scope="session")
def processes(shell: Shell) -> Callable[[Sandbox], list[str]]:
    """List what runs in a sandbox, but for its init and the listing itself."""

    def list_them(sandbox: Sandbox) -> list[str]:
        # what ends meanwhile has no line
        listing = "for d in /proc/[0-9]*; do { tr '\\0' ' ' < $d/cmdline; } 2> /dev/null; echo; done"
        done = shell(sandbox, listing, user="root")
        lines = done.tail.decode().splitlines()
        return [
            line
            for line in lines
            if line and not line.startswith(("/sbin/atesor-init", "sh -c for d", "tr "))
        ]

    return list_them
