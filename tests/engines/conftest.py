"""The sandbox image in a real engine: one sandbox, with the network, for all tests of this directory."""

import os
from collections.abc import Callable, Iterator

import pytest

from pytest_atesor.core.plan import Platform
from pytest_atesor.errors import SetupError
from pytest_atesor.sandbox.image import ensure_image
from pytest_atesor.sandbox.interface import Completed, ExecSpec
from pytest_atesor.sandbox.sandbox import Limits, Sandbox, open_sandbox
from pytest_atesor.sandbox.select import select_engine
from pytest_atesor.sandbox.slots import state_directory


@pytest.fixture(scope="session")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """A fresh sandbox in the first engine that answers; what the image holds is the same in every engine."""
    try:
        engine = select_engine("auto")
    except SetupError as error:
        pytest.skip(str(error))
    image = ensure_image(engine, Platform.DEBIAN, state=state_directory(os.environ), progress=print)
    name = f"atesor-image-test-{os.getpid()}"
    state = tmp_path_factory.mktemp("state")
    limits = Limits(memory_bytes=None, pids=4096)
    yield open_sandbox(engine, name, image=image, state=state, limits=limits, reset=True)
    engine.remove(name)


Run = Callable[..., str]


@pytest.fixture(scope="session")
def run(sandbox: Sandbox) -> Run:
    """Run a script as builder (or root) in a directory of its own; return its output, fail when it fails."""

    def in_sandbox(script: str, *, user: str = "builder", timeout_s: float = 600.0) -> str:
        begin = 'set -e; cd "$(mktemp -d)"\n'
        done: Completed = sandbox.run(
            ExecSpec(argv=["sh", "-c", begin + script], user=user), timeout_s=timeout_s
        )
        text = done.tail.decode(errors="replace")
        assert not done.timed_out, text
        assert done.exit_code == 0, text
        return text.strip()

    return in_sandbox
