"""What dies in mid build: a client, the connection, the controller; then what is left on both sides."""

import json
import signal
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import psutil
import pytest

if TYPE_CHECKING:
    import subprocess

    from native_lab import NativeLab

PATIENCE_S = 2400.0
SLOW_S = 40


@pytest.fixture
def building(native_lab: "NativeLab", request: pytest.FixtureRequest) -> Iterator["subprocess.Popen[str]"]:
    """A batch whose only case is in mid build."""
    project = str(request.node.name).partition("[")[2].rstrip("]") or "controller"
    native_lab.write_projects(project, {project: SLOW_S})
    process = native_lab.start(f"--atesor-list={project}", "-n1")
    await_that(lambda: native_lab.is_building(project) or process.poll() is not None)
    assert process.poll() is None, process.communicate()
    yield process
    if process.poll() is None:
        process.kill()
        process.communicate()


def await_that(is_true: Callable[[], bool]) -> None:
    give_up = time.monotonic() + PATIENCE_S
    while not is_true():
        assert time.monotonic() < give_up, "the event never came"
        time.sleep(0.2)


def clients(batch: "subprocess.Popen[str]", word: str) -> list[psutil.Process]:
    """Return the batch's ssh clients with that word in their command line."""
    found = []
    for one in psutil.Process(batch.pid).children(recursive=True):
        try:
            if one.name() == "ssh" and any(word in part for part in one.cmdline()):
                found.append(one)
        except psutil.Error:
            continue
    return found


def attempts(lab: "NativeLab") -> list[tuple[Any, Any]]:
    files = sorted(lab.bundles[-1].glob("**/attempt.json"))
    return [(record["status"], record["cause"]) for record in (json.loads(one.read_text()) for one in files)]


@pytest.mark.parametrize("word", ["ControlMaster=yes", "is-building"], ids=["connection", "command"])
def test_a_killed_client_costs_an_attempt(
    building: "subprocess.Popen[str]", native_lab: "NativeLab", word: str
) -> None:
    killed = clients(building, "podman exec" if word == "is-building" else word)
    assert killed
    for one in killed:
        one.kill()
    out, err = building.communicate(timeout=PATIENCE_S)
    assert attempts(native_lab) == [("FAIL", "environment"), ("PASS", None)], out + err
    assert building.returncode == 0
    assert native_lab.left_there() == []


def test_a_killed_controller_leaves_nothing_and_its_batch_can_be_resumed_later(
    building: "subprocess.Popen[str]", native_lab: "NativeLab"
) -> None:
    building.send_signal(signal.SIGKILL)
    building.communicate(timeout=PATIENCE_S)
    await_that(lambda: not native_lab.left_here())
    await_that(lambda: not native_lab.left_there())
    resumed = native_lab.start("resume", str(native_lab.bundles[-1]), module=("pytest_atesor.cli", "batch"))
    out, err = resumed.communicate(timeout=PATIENCE_S)
    assert resumed.returncode == 0, out + err
    assert attempts(native_lab)[-1] == ("PASS", None)
    assert native_lab.left_there() == []
