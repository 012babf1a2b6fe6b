"""What this process may not read, in trees that belong to the sandbox's users.

An ordinary user stands for whoever runs the agent, and a root that may do as much as one inside for root.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import pytest

from pytest_atesor.core.outcome import Verdict
from pytest_atesor.errors import SandboxError
from pytest_atesor.porter.context import Place
from pytest_atesor.porter.kept import keep_artifacts
from pytest_atesor.porter.readable import forget_products, read_products, read_source
from pytest_atesor.porter.scan import digest_natives, scan_tree
from pytest_atesor.porter.shell import Shell
from pytest_atesor.porter.verdict import decide_verdict
from pytest_atesor.sandbox.interface import Completed, ExecSpec

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be root inside and nobody outside")

_HOST_USER, _BUILDER = 65_534, 1000
_NO_ROOM = ["sh", "-c", "echo cp: no space left >&2; exit 1"]
_NO_CONTENT = ["sh", "-c", 'ulimit -f 0; exec "$@"', "sh"]


class _Inside:
    """Runs what it is given in the workspace as root, whoever this process is at that time."""

    def __init__(self, workspace: Path) -> None:
        self.workspace = workspace
        self.is_full = False
        self.takes_names_only = False
        self.users: list[str] = []

    def run(
        self, command: ExecSpec, *, timeout_s: float, sink: BinaryIO | None = None, tail_bytes: int = 65_536
    ) -> Completed:
        del timeout_s, sink, tail_bytes
        self.users.append(command.user)
        with _as_user(0):
            argv = _NO_ROOM if self.is_full else command.argv
            argv = [*_NO_CONTENT, *argv] if self.takes_names_only else argv
            ended = subprocess.run(
                argv,
                cwd=self.workspace,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                check=False,
            )
        return Completed(exit_code=ended.returncode, tail=ended.stdout, duration_s=0.0)

    def clear(self) -> None:
        raise AssertionError("nothing is left running here")

    def set_network(self, *, enabled: bool) -> None:
        raise AssertionError(f"nothing asks for that here: {enabled}")


@contextmanager
def _as_user(uid: int) -> Iterator[None]:
    before = os.geteuid()
    os.seteuid(0)
    os.seteuid(uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.seteuid(before)


@pytest.fixture
def inside() -> Iterator[_Inside]:
    """Return a sandbox with an empty workspace; the test itself is an ordinary user."""
    base = Path(tempfile.mkdtemp(dir="/tmp"))  # TMPDIR may be closed to the other user
    try:
        base.chmod(0o755)
        (base / "workspace").mkdir(mode=0o755)
        (base / "own").mkdir()
        os.chown(base / "own", _HOST_USER, _HOST_USER)
        with _as_user(_HOST_USER):
            yield _Inside(base / "workspace")
    finally:
        shutil.rmtree(base)


Write = Callable[..., None]


@pytest.fixture
def write(inside: _Inside) -> Write:
    """Return what writes the builder's files: path to content, and path to mode for what has another."""

    def make(files: dict[str, bytes], modes: dict[str, int]) -> None:
        with _as_user(0):
            for name, content in files.items():
                path = inside.workspace / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
            for path in inside.workspace.rglob("*"):
                os.chown(path, _BUILDER, _BUILDER)
            for name, mode in modes.items():
                (inside.workspace / name).chmod(mode)

    return make


def _place(inside: _Inside) -> tuple[Place, Shell]:
    place = Place(sandbox=inside, workspace=inside.workspace, index=inside.workspace)
    return place, Shell(inside, deadline=None, output=None)


def _modes(inside: _Inside, *names: str) -> list[tuple[int, int]]:
    with _as_user(0):
        found = [(inside.workspace / name).stat() for name in names]
    return [(one.st_mode & 0o7777, one.st_nlink) for one in found]


@pytest.mark.parametrize(
    ("name", "mode"),
    [
        pytest.param("build/p/server", 0o4711, id="set-user-id"),
        pytest.param("build/p/server", 0o700, id="own"),
        pytest.param("build/p/server", 0o640, id="group"),
        pytest.param("stage/usr/sbin", 0o700, id="directory"),
        pytest.param("stage/usr/sbin", 0o754, id="directory-not-to-be-entered"),
        pytest.param("stage", 0o700, id="stage"),
        pytest.param("build/p", 0o700, id="build"),
    ],
)
def test_a_product_that_is_closed_to_others_is_found_and_kept_and_stays_closed(
    inside: _Inside, write: Write, elf: Callable[..., bytes], name: str, mode: int
) -> None:
    write(
        {"build/p/server": elf(flags=4), "stage/usr/sbin/server": elf(), "src/p/server.c": b""}, {name: mode}
    )
    before = _modes(inside, name, "build/p/server", "stage/usr/sbin/server")
    place, shell = _place(inside)
    tree = read_source(place, shell, "p")
    assert (tree.root, inside.users) == (inside.workspace / "src/p", [])
    scan = scan_tree(read_products(place, shell, "p"), digest_natives(tree))
    paths = [one.path for one in scan.products]
    assert (sorted(paths), scan.gaps) == (["build/p/server", "stage/usr/sbin/server"], 0)
    kept = inside.workspace.parent / "own" / "kept"
    assert keep_artifacts(scan.products, scan.root, kept) == sum(one.size_bytes for one in scan.products)
    forget_products(place, shell, scan.root)
    assert _modes(inside, name, "build/p/server", "stage/usr/sbin/server") == before
    assert set(inside.users) == {"root"}


@pytest.mark.parametrize("name", ["src/p", "src/p/data", "src/p/data/old"], ids=["all", "directory", "file"])
def test_a_source_that_is_closed_to_others_is_looked_at_and_stays_closed(
    inside: _Inside, write: Write, elf: Callable[..., bytes], name: str
) -> None:
    source = {"src/p/CMakeLists.txt": b"project(p)", "src/p/data/old": elf(), "build/p/data/old": elf()}
    write({**source, "build/p/new": elf(interpreter=b"/lib/ld.so")}, {name: 0o700})
    place, shell = _place(inside)
    tree = read_source(place, shell, "p")
    assert (tree.cut, tree.root.name, tree.text("CMakeLists.txt")) == (0, "p", "project(p)")
    scan = scan_tree(read_products(place, shell, "p"), digest_natives(tree))
    assert [one.path for one in scan.products] == ["build/p/new"]
    assert (scan.prebuilt, decide_verdict(scan).verdict) == (("build/p/data/old",), Verdict.VERIFIED)
    assert _modes(inside, name)[0][0] == 0o700


def test_a_copy_follows_no_link_and_leaves_nothing_of_the_one_before(
    inside: _Inside, write: Write, elf: Callable[..., bytes]
) -> None:
    write({"build/p/closed": elf(), "build/p/gone": elf(flags=4), "secret": elf(flags=1)}, {"secret": 0o600})
    with _as_user(0):
        (inside.workspace / "build/p/closed").chmod(0o600)
        (inside.workspace / "build/p/link").symlink_to("../../secret")
        (inside.workspace / "stage").symlink_to("/etc")
    place, shell = _place(inside)
    tree = read_products(place, shell, "p")
    assert set(tree.files) == {"build/p/closed", "build/p/gone"}
    with _as_user(0):
        (inside.workspace / "build/p/gone").unlink()
    assert set(read_products(place, shell, "p").files) == {"build/p/closed"}
    assert _modes(inside, "secret") == [(0o600, 1)]


def test_few_processes_copy_many_closed_files_whatever_they_are_called(
    inside: _Inside, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = inside.workspace.parent / "started"
    monkeypatch.setenv("PATH", f"{started.parent}/bin:{os.environ['PATH']}")
    with _as_user(0):
        (started.parent / "bin").mkdir(mode=0o755)
        for program in ("cp", "chmod", "mv"):
            script = f'#!/bin/sh\necho {program} >> {started}\nexec {shutil.which(program)} "$@"\n'
            (started.parent / "bin" / program).write_text(script)
            (started.parent / "bin" / program).chmod(0o755)
    names = ("-rf", "two\nlines", "$(id) 'a\"", "-d/-t", "\udcff", *(f"{number}" for number in range(50)))
    closed = {f"build/p/{name}": 0o4700 + number % 2 for number, name in enumerate(names)}
    write({**{name: name.encode(errors="surrogateescape") for name in closed}, "build/p/open": b""}, closed)
    with _as_user(0):
        (inside.workspace / "build/p/second").hardlink_to(inside.workspace / "build/p/-rf")
    before = _modes(inside, *closed, "build/p/second")
    place, shell = _place(inside)
    tree = read_products(place, shell, "p")
    assert set(tree.files) == {*closed, "build/p/second", "build/p/open"}
    assert {name: tree.text(name) for name in closed} == {
        name: name.encode(errors="surrogateescape").decode(errors="replace") for name in closed
    }
    assert tree.text("build/p/second") == "build/p/-rf"
    assert _modes(inside, *closed, "build/p/second") == before
    assert sorted(started.read_text().split()) == ["chmod", "cp", "cp"]


def test_of_a_copy_that_is_not_finished_nothing_stays(
    inside: _Inside, write: Write, elf: Callable[..., bytes]
) -> None:
    closed = {"src/p/old": 0o600, "build/p/new": 0o600, "stage/usr/bin/new": 0o700}
    write({**{name: elf() for name in closed}, "build/p/open": elf()}, closed)
    inside.takes_names_only = True
    place, shell = _place(inside)
    assert read_source(place, shell, "p").denied == 1
    tree = read_products(place, shell, "p")
    assert (tree.root, tree.denied) == (inside.workspace, 2)
    assert _modes(inside, *closed, "build/p/open") == [*((mode, 1) for mode in closed.values()), (0o644, 1)]
    left = [path for path in (inside.workspace / "readable").rglob("*") if not path.is_dir()]
    assert left == []


def test_without_a_copy_what_was_not_read_is_counted_or_said(
    inside: _Inside, write: Write, elf: Callable[..., bytes]
) -> None:
    write({"src/p/closed/old": elf(), "build/p/new": elf()}, {"src/p/closed": 0o700, "build/p/new": 0o600})
    inside.is_full = True
    place, shell = _place(inside)
    assert read_source(place, shell, "p").cut == 1
    scan = scan_tree(read_products(place, shell, "p"), digest_natives(read_source(place, shell, "p")))
    assert (scan.products, scan.gaps) == ((), 1)
    with _as_user(0):
        (inside.workspace / "src/p").chmod(0o700)
    with pytest.raises(SandboxError) as caught:
        read_source(place, shell, "p")
    assert str(caught.value) == "src/p may not be read by this user, nor copied for it (cp: no space left)"
