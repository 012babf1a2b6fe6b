"""Downloaded packages are kept for the next case and for other slots, and a forged one is not installed."""

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pytest_atesor.core.plan import Platform
from pytest_atesor.errors import AtesorError
from pytest_atesor.porter.debian import HANDED_IN, install_script
from pytest_atesor.porter.download_pool import DownloadPool
from pytest_atesor.porter.downloads import Downloads
from pytest_atesor.porter.platforms import profile_of
from pytest_atesor.porter.shell import Capture, Shell
from pytest_atesor.sandbox.image import ensure_image
from pytest_atesor.sandbox.interface import ExecSpec
from pytest_atesor.sandbox.sandbox import Sandbox, open_sandbox
from pytest_atesor.sandbox.select import select_engine
from pytest_atesor.sandbox.slots import slot_directory, state_directory

pytestmark = [pytest.mark.engine, pytest.mark.network]

GREETING = "hello | tr H h"
NextCase = Callable[[], Callable[[str], str]]


OpenSlot = Callable[[str], Sandbox]


@pytest.fixture
def open_slot(tmp_path: Path) -> Iterator[OpenSlot]:
    """Give the next case of a slot: its new sandbox."""
    try:
        engine = select_engine(os.environ.get("ATESOR_ENGINE", "auto"))
    except AtesorError as error:
        pytest.skip(str(error))
    image = ensure_image(engine, Platform.DEBIAN, state=state_directory(os.environ), progress=print)
    names: set[str] = set()

    def begin(word: str) -> Sandbox:
        name = f"atesor-package-cache-{os.getpid()}-{word}"
        names.add(name)
        return open_sandbox(engine, name, image=image, state=tmp_path, reset=True)

    try:
        yield begin
    finally:
        for name in names:
            engine.remove(name)


@pytest.fixture
def next_case(open_slot: OpenSlot) -> NextCase:
    """Give the next case of one slot: a way to run root's scripts in its new sandbox."""

    def begin() -> Callable[[str], str]:
        sandbox = open_slot("one")
        return lambda script: run_as_root(sandbox, script)

    return begin


def run_as_root(sandbox: Sandbox, script: str, **environment: str) -> str:
    command = ExecSpec(argv=["sh", "-euc", script], user="root", env=environment)
    done = sandbox.run(command, timeout_s=300)
    assert done.exit_code == 0, done.tail.decode(errors="replace")
    return done.tail.decode(errors="replace")


def test_a_kept_package_is_used_and_a_forged_one_of_the_same_size_is_not(next_case: NextCase) -> None:
    run = next_case()
    assert "Get:1" in run(install_script(["hello"]))
    run = next_case()
    said = run(install_script(["hello"]))
    assert "Get:1" not in said
    assert "hello" in run(GREETING)
    # apt itself would take it: the size is right
    run("cd /workspace/cache/apt/archives; f=$(echo hello_*); n=$(stat -c %s $f); rm $f; truncate -s $n $f")
    run = next_case()
    said = run(install_script(["hello"]))
    assert "is not what the package lists describe" in said
    assert "Get:1" in said
    assert "hello" in run("hello | tr H h")


@pytest.fixture
def install(open_slot: OpenSlot, tmp_path: Path) -> Callable[[str], str]:
    """Install hello in a slot's next case as the agent does; return what was printed and said."""

    def go(word: str) -> str:
        sandbox, heard, said = open_slot(word), Capture(None), list[str]()
        downloads = Downloads(
            Shell(sandbox, deadline=None, output=heard.as_sink()),
            profile_of("debian"),
            pool=DownloadPool(tmp_path / "downloads", spare_bytes=0),
            workspace=slot_directory(tmp_path, sandbox.name) / "workspace",
            say=said.append,
        )
        done = downloads.install(["hello"], timeout_s=300)
        assert done.exit_code == 0, heard.text()
        assert "hello" in run_as_root(sandbox, GREETING)
        return "\n".join([heard.text(), *said])

    return go


def entries(tmp_path: Path) -> list[Path]:
    return list((tmp_path / "downloads").glob("sha256/*/*"))


def test_a_second_slot_downloads_nothing_and_a_poisoned_entry_of_the_pool_is_not_used(
    install: Callable[[str], str], tmp_path: Path
) -> None:
    assert "Get:1" in install("one")
    (entry,) = entries(tmp_path)
    good = entry.read_bytes()
    said = install("two")
    assert "Get:1" not in said
    assert re.search(r"^1 of 1 downloads are here already", said, re.MULTILINE)
    entry.write_bytes(bytes(len(good)))
    assert "Get:1" in install("three")
    assert entry.read_bytes() == good
    assert "Get:1" not in install("four")
    assert entries(tmp_path) == [entry]


def test_a_forged_package_that_the_host_hands_in_is_not_installed(
    open_slot: OpenSlot, tmp_path: Path
) -> None:
    sandbox = open_slot("one")
    run_as_root(sandbox, install_script(["hello"]))
    archives = slot_directory(tmp_path, sandbox.name) / "workspace/cache/apt/archives"
    (good,) = archives.glob("hello_*.deb")
    name, size = good.name, good.stat().st_size
    sandbox = open_slot("two")
    handed = slot_directory(tmp_path, sandbox.name) / "workspace/handed"
    handed.mkdir()
    (handed / name).write_bytes(bytes(size))
    said = run_as_root(sandbox, install_script(["hello"]), **{HANDED_IN: "/workspace/handed"})
    assert f"{name} is not what the package lists describe; it is downloaded again" in said
    assert "Get:1" in said
    assert "hello" in run_as_root(sandbox, GREETING)
