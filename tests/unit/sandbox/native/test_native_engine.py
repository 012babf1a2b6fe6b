"""Podman at the other end of a real ssh, here with this machine in the place of the board."""

import contextlib
import io
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from pytest_atesor.core.plan import Platform
from pytest_atesor.errors import SandboxError, SetupError
from pytest_atesor.intake.native import hold_machines
from pytest_atesor.options import read_options
from pytest_atesor.sandbox.engines.podman import PodmanEngine
from pytest_atesor.sandbox.image import ensure_image
from pytest_atesor.sandbox.image_use import removing_images
from pytest_atesor.sandbox.interface import Absent, ExecSpec, ImageBuild, Present
from pytest_atesor.sandbox.native.engine import NativeEngine
from pytest_atesor.sandbox.native.files import MirroredSandbox
from pytest_atesor.sandbox.native.hold import Held, NativeHold
from pytest_atesor.sandbox.native.link import KEEPER_LABEL
from pytest_atesor.sandbox.sandbox import Limits, open_sandbox
from pytest_atesor.sandbox.slots import state_directory
from pytest_atesor.work.bench import LEASE_LABEL
from tests.unit.processes import LIMIT_S, find_children

if TYPE_CHECKING:
    from ssh_server import Server

pytestmark = pytest.mark.engine

NAME = "atesor-native-test"
SMALL = Limits(memory_bytes=512 * 1024**2, pids=1024)
MOST_TRIPS = 6


@pytest.fixture
def holding(server: "Server", tmp_path: Path) -> Iterator[NativeHold]:
    try:
        PodmanEngine().probe()
    except SetupError as error:
        pytest.skip(f"no podman here: {error}")
    image = ensure_image(PodmanEngine(), Platform.DEBIAN, state=state_directory(os.environ), progress=print)
    environ = {**server.environ, "ATESOR_NATIVE_IMAGE": image}
    with NativeHold(environ, Platform.DEBIAN, state=tmp_path / "state", say=print) as holding:
        yield holding


@pytest.fixture
def hold(holding: NativeHold) -> Held:
    """The only machine of the hold."""
    (held,) = holding.held
    return held


def open_there(engine: NativeEngine, state: Path) -> MirroredSandbox:
    labels = {LEASE_LABEL: str(state)}
    open_sandbox(
        engine, NAME, image=engine.session.image, state=state, limits=SMALL, reset=True, labels=labels
    )
    mirror = state / "mirror"
    mirror.mkdir(parents=True, exist_ok=True)
    return MirroredSandbox(engine, NAME, mirror)


def run(sandbox: MirroredSandbox, script: str, timeout_s: float = LIMIT_S) -> tuple[int, str]:
    done = sandbox.run(ExecSpec(argv=["sh", "-c", script]), timeout_s=timeout_s)
    return done.exit_code, done.tail.decode()


def test_a_case_needs_few_round_trips_and_its_files_come_and_go(hold: Held, tmp_path: Path) -> None:
    engine = hold.engine
    engine.remove(NAME)
    open_there(engine, tmp_path)  # the first case of a slot makes its place there
    engine.remove(NAME)
    before = engine.session.trips
    sandbox = open_there(engine, tmp_path)
    incoming = tmp_path / "mirror" / "incoming-1"
    incoming.mkdir()
    (incoming / "word").write_text("handed in", encoding="utf-8")
    script = "cat incoming-1/word; id -un; cd src; mkdir a; echo x > a/f; ln -s /etc/passwd a/l; mkfifo p"
    assert run(sandbox, script) == (0, "handed inbuilder\n")
    sandbox.bring(("src", "stage"))
    mirror = tmp_path / "mirror" / "src"
    assert sorted(str(one.relative_to(mirror)) for one in mirror.rglob("*")) == ["a", "a/f", "a/l"]
    assert (mirror / "a/l").is_symlink()
    sandbox.bring(("stage",))
    engine.remove(NAME)
    build = 2  # the files handed in, and the command
    assert engine.session.trips - before - build <= MOST_TRIPS
    workspace = Path(engine.workspace(NAME))
    assert [one.name for one in workspace.iterdir()] == ["cache"]


def test_the_log_of_a_build_there_is_all_of_that_build(hold: Held, tmp_path: Path) -> None:
    (tmp_path / "Containerfile").write_text("FROM localhost/nonesuch:x\n", encoding="utf-8")
    log = tmp_path / "build.log"
    log.write_text("of another one", encoding="utf-8")
    lines: list[str] = []
    plan = ImageBuild(
        tag="localhost/nonesuch:y",
        containerfile=tmp_path / "Containerfile",
        context=tmp_path,
        host_platform=None,
        arguments={},
        labels={},
        log=log,
        timeout_s=LIMIT_S,
        on_line=lines.append,
    )
    with pytest.raises(SandboxError, match=rf"native: podman build ended with \d+; see {log}"):
        hold.engine.build_image(plan)
    assert any("nonesuch:x" in line for line in lines)
    assert log.read_text(encoding="utf-8") == "".join(lines)


def test_a_batch_keeps_the_image_that_it_began_with(
    server: "Server", tmp_path: Path, pytester: pytest.Pytester
) -> None:
    try:
        PodmanEngine().probe()
    except SetupError as error:
        pytest.skip(f"no podman here: {error}")
    engine = PodmanEngine()
    image = ensure_image(engine, Platform.DEBIAN, state=state_directory(os.environ), progress=print)
    name = f"localhost/atesor-native-{os.getpid()}:x"
    environ = {**server.environ, "ATESOR_NATIVE_IMAGE": name}
    state = tmp_path / "state"
    engine.label_image(image, {"native-test": "first"}, tag=name)
    try:
        with contextlib.ExitStack() as stack:
            (site,) = hold_machines(
                stack,
                {},
                platform=Platform.DEBIAN,
                options=read_options(pytester.parseconfig(), {}),
                workers=1,
                environ=environ,
                state=state,
                say=print,
            )
            assert isinstance(site.engine, NativeEngine)
            began_with = engine.image_id(name)
            engine.label_image(image, {"native-test": "second"}, tag=name)
            with removing_images("native", state) as is_free:
                assert not is_free
            made = []
            for is_reset in (True, False):
                open_sandbox(site.engine, NAME, image=site.image, state=state, limits=SMALL, reset=is_reset)
                found = site.engine.state(NAME)
                assert isinstance(found, Present)
                made.append((found.image_id, found.pid))
            assert made == [(began_with, made[0][1])] * 2
        with removing_images("native", state) as is_free:
            assert is_free
    finally:
        engine.untag_image(name)
        engine.prune_images("native-test")


def test_the_network_changes_with_the_next_command(hold: Held, tmp_path: Path) -> None:
    sandbox = open_there(hold.engine, tmp_path)
    if "network" in hold.engine.session.unenforced:
        pytest.skip("podman cannot cut the network here")
    routes = "tail -n +2 /proc/net/route | wc -l"
    assert run(sandbox, routes)[1] != "0\n"
    sandbox.set_network(enabled=False)
    before = hold.engine.session.trips
    assert run(sandbox, routes) == (0, "0\n")
    assert run(sandbox, routes) == (0, "0\n")
    assert hold.engine.session.trips - before == 2
    sandbox.set_network(enabled=True)
    assert run(sandbox, routes)[1] != "0\n"


def test_no_command_runs_where_the_network_could_not_be_cut(hold: Held, tmp_path: Path) -> None:
    sandbox = open_there(hold.engine, tmp_path)
    hold.engine.remove(NAME)
    for _ in range(2):
        sandbox.set_network(enabled=False)
        with pytest.raises(SandboxError, match=r"network of the sandbox cannot be set"):
            run(sandbox, "echo ran")


def test_sshs_own_exit_code_is_never_a_commands(hold: Held, tmp_path: Path) -> None:
    sandbox = open_there(hold.engine, tmp_path)
    assert run(sandbox, "exit 255") == (254, "")
    assert run(sandbox, "exit 7") == (7, "")


def test_a_lost_connection_is_the_sandboxs_failure_and_nothing_stays(hold: Held, tmp_path: Path) -> None:
    engine = hold.engine
    sandbox = open_there(engine, tmp_path)
    (client,) = find_children("ControlMaster=yes")

    class KillsAtTheFirstWord(io.BytesIO):
        def write(self, data: "bytes | bytearray | memoryview") -> int:  # type: ignore[override]  # the stub's buffer type needs Python 3.12
            with contextlib.suppress(psutil.NoSuchProcess):
                client.kill()
            return super().write(data)

    command = ExecSpec(argv=["sh", "-c", "echo running; exec sleep 600"])
    with pytest.raises(SandboxError, match="connection was lost"):
        sandbox.run(command, timeout_s=120, sink=KillsAtTheFirstWord())


def test_the_end_of_the_hold_removes_what_the_batch_left(
    server: "Server", holding: NativeHold, hold: Held, tmp_path: Path
) -> None:
    open_there(hold.engine, tmp_path)
    there = f"{NAME}.{hold.engine.session.owner}"
    assert isinstance(hold.engine.state(NAME), Present)
    assert NAME in hold.engine.list_sandboxes()
    holding.close()
    assert PodmanEngine().state(there) == Absent()
    assert shutil.which("ssh") == str(server.directory / "bin/ssh")


def test_a_sandbox_that_is_in_the_making_when_the_batch_ends_is_waited_for_and_removed(
    holding: NativeHold, hold: Held, tmp_path: Path
) -> None:
    """Podman there goes on with what a killed worker asked for; nobody but the keeper can know of it."""
    session = hold.engine.session
    open_there(hold.engine, tmp_path)
    late, go = f"{NAME}-late.{session.owner}", tmp_path / "go"
    command = [
        "podman",
        "create",
        "--name",
        late,
        "--label",
        f"{KEEPER_LABEL}={session.token}",
        session.image,
    ]
    script = 'until [ -e "$0" ]; do sleep 0.1; done; exec "$@"'
    with subprocess.Popen(["sh", "-c", script, str(go), *command], stdout=subprocess.DEVNULL) as maker:  # noqa: S607 - PATH
        closing = threading.Thread(target=holding.close)
        closing.start()
        give_up = time.monotonic() + LIMIT_S
        while isinstance(PodmanEngine().state(f"{NAME}.{session.owner}"), Present):
            assert time.monotonic() < give_up, "the keeper removed nothing"
            time.sleep(0.1)
        go.touch()  # the batch's end is on its way, and only now is the sandbox made
        assert maker.wait(LIMIT_S) == 0
        closing.join(LIMIT_S)
    left = PodmanEngine().state(late)
    subprocess.run(["podman", "rm", "--force", late], capture_output=True, check=False)  # noqa: S607 - PATH
    assert left == Absent()
