"""What dies in mid build: a client, the connection, the controller; then what is left on both sides."""

import json
import signal
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from native_lab import await_that, clients

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


def test_a_batch_without_workers_says_that_the_connection_is_lost(native_lab: "NativeLab") -> None:
    native_lab.write_projects("alone", {"alone": SLOW_S})
    process = native_lab.start("--atesor-list=alone", "-n0")
    await_that(lambda: native_lab.is_building("alone") or process.poll() is not None)
    for one in clients(process, "ControlMaster=yes"):
        one.kill()
    out, err = process.communicate(timeout=PATIENCE_S)
    assert "is lost: its slots wait" in err, out + err
    assert attempts(native_lab) == [("FAIL", "environment"), ("PASS", None)]
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
