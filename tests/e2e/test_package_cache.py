"""Downloaded packages are kept for the next case, and a forged one is not installed."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pytest_atesor.core.plan import Platform
from pytest_atesor.errors import AtesorError
from pytest_atesor.porter.debian import install_script
from pytest_atesor.sandbox.image import ensure_image
from pytest_atesor.sandbox.interface import ExecSpec
from pytest_atesor.sandbox.sandbox import open_sandbox
from pytest_atesor.sandbox.select import select_engine
from pytest_atesor.sandbox.slots import state_directory

pytestmark = [pytest.mark.engine, pytest.mark.network]

NextCase = Callable[[], Callable[[str], str]]


@pytest.fixture
def next_case(tmp_path: Path) -> Iterator[NextCase]:
    """Give the next case of one slot: a way to run root's scripts in its new sandbox."""
    try:
        engine = select_engine(os.environ.get("ATESOR_ENGINE", "auto"))
    except AtesorError as error:
        pytest.skip(str(error))
    image = ensure_image(engine, Platform.DEBIAN, state=state_directory(os.environ), progress=print)
    name = f"atesor-package-cache-{os.getpid()}"

    def begin() -> Callable[[str], str]:
        sandbox = open_sandbox(engine, name, image=image, state=tmp_path, reset=True)

        def run(script: str) -> str:
            done = sandbox.run(ExecSpec(argv=["sh", "-euc", script], user="root"), timeout_s=300)
            assert done.exit_code == 0, done.tail.decode(errors="replace")
            return done.tail.decode(errors="replace")

        return run

    try:
        yield begin
    finally:
        engine.remove(name)


def test_a_kept_package_is_used_and_a_forged_one_of_the_same_size_is_not(next_case: NextCase) -> None:
    run = next_case()
    assert "Get:1" in run(install_script(["hello"]))
    run = next_case()
    said = run(install_script(["hello"]))
    assert "Get:1" not in said
    assert "hello" in run("hello | tr H h")
    # apt itself would take it: the size is right
    run("cd /workspace/cache/apt/archives; f=$(echo hello_*); n=$(stat -c %s $f); rm $f; truncate -s $n $f")
    run = next_case()
    said = run(install_script(["hello"]))
    assert "is not what the package lists describe" in said
    assert "Get:1" in said
    assert "hello" in run("hello | tr H h")
