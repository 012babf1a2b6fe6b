"""Sandboxes come, are reset and go; what was not made by us is left alone."""

import contextlib
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_atesor.errors import SandboxError
from pytest_atesor.sandbox.engines.clients import end_leftovers
from pytest_atesor.sandbox.interface import LABEL, Absent, Completed, ExecSpec, Foreign, Present, SandboxSpec
from pytest_atesor.sandbox.recipe import LABEL_RECIPE
from pytest_atesor.sandbox.sandbox import Sandbox, open_sandbox
from pytest_atesor.sandbox.slots import slot_directory

if TYPE_CHECKING:
    from conftest import Workbench

pytestmark = pytest.mark.engine

Shell = Callable[..., Completed]
Processes = Callable[[Sandbox], list[str]]


def test_the_engine_says_who_it_is(workbench: "Workbench") -> None:
    info = workbench.engine.probe()
    assert info.name == workbench.engine.name
    assert info.version[0].isdigit()
    assert set(info.unenforced) <= {"memory", "pids", "cpu", "network"}


def test_the_image_is_labelled_and_has_an_id(workbench: "Workbench") -> None:
    labels = workbench.engine.image_labels(workbench.image)
    assert labels is not None
    assert labels["org.pytest-atesor.version.go"] >= "1.26.5"
    assert workbench.engine.image_id(workbench.image)


def test_an_image_that_is_not_there_is_none(workbench: "Workbench") -> None:
    assert workbench.engine.image_labels("localhost/atesor-no-such:image") is None
    assert workbench.engine.image_id("localhost/atesor-no-such:image") is None


def test_pruning_keeps_the_image_in_use(workbench: "Workbench") -> None:
    workbench.engine.prune_images(LABEL_RECIPE)
    assert workbench.engine.image_id(workbench.image)


def test_a_sandbox_is_listed_while_it_lives(workbench: "Workbench") -> None:
    sandbox = workbench.open("listed")
    state = workbench.engine.state(sandbox.name)
    assert isinstance(state, Present)
    assert state.running
    assert state.image_id == workbench.engine.image_id(workbench.image)
    assert state.labels[LABEL] == sandbox.name
    assert sandbox.name in workbench.engine.list_sandboxes()
    workbench.engine.remove(sandbox.name)
    assert workbench.engine.state(sandbox.name) == Absent()
    assert sandbox.name not in workbench.engine.list_sandboxes()
    workbench.engine.remove(sandbox.name)


def test_opening_again_is_the_same_sandbox(workbench: "Workbench", shell: Shell) -> None:
    shell(workbench.open("again"), "echo kept > /tmp/mark")
    assert shell(workbench.open("again"), "cat /tmp/mark").tail == b"kept\n"


def test_an_image_is_known_by_its_id_too(workbench: "Workbench", shell: Shell) -> None:
    identifier = workbench.engine.image_id(workbench.image)
    assert identifier is not None
    assert workbench.engine.image_labels(identifier) == workbench.engine.image_labels(workbench.image)
    name = workbench.name("by-id")
    sandbox = open_sandbox(workbench.engine, name, image=identifier, state=workbench.state, reset=True)
    state = workbench.engine.state(name)
    assert isinstance(state, Present)
    assert state.image_id == identifier
    assert shell(workbench.open("by-id"), "echo up").tail == b"up\n"
    assert sandbox.name == name


def test_a_stopped_sandbox_is_replaced(workbench: "Workbench", shell: Shell) -> None:
    sandbox = workbench.open("stopped")
    with pytest.raises(SandboxError):
        shell(sandbox, "kill -TERM 1; exec sleep 60", user="root")
    assert shell(workbench.open("stopped"), "echo up").tail == b"up\n"


def test_a_reset_leaves_no_process_and_no_file_but_packages(
    workbench: "Workbench", shell: Shell, processes: Processes
) -> None:
    sandbox = workbench.open("reset")
    script = """
        setsid sleep 605 > /dev/null 2>&1 &
        echo root > /etc/mark; echo root > /workspace/cache/mark
        echo root > /workspace/cache/apt/archives/mark_1_all.deb
        mkdir -p /workspace/src/deep/er && echo x > /workspace/src/deep/er/file
        chown -R 12345:54321 /workspace/src/deep && chmod 0 /workspace/src/deep
        echo stray > /workspace/stray; ln -s / /workspace/src/link
        until grep -qsxz '60[5]' /proc/[0-9]*/cmdline; do sleep 0.1; done
    """
    assert shell(sandbox, script, user="root").exit_code == 0
    assert [line for line in processes(sandbox) if "sleep 605" in line]
    again = workbench.open("reset", reset=True)
    assert processes(again) == []
    assert shell(again, "ls -A /workspace /workspace/src; test ! -e /etc/mark").tail.split() == [
        b"/workspace:",
        b"cache",
        b"src",
        b"/workspace/src:",
    ]
    kept = shell(again, "find /workspace/cache -type f").tail
    assert kept == b"/workspace/cache/apt/archives/mark_1_all.deb\n"


@pytest.mark.parametrize("workbench", ["docker", "podman"], indirect=True)  # host has nobody who forgets
def test_what_an_engine_forgot_of_a_container_is_found_and_ended(
    workbench: "Workbench", shell: Shell
) -> None:
    sandbox = workbench.open("forgotten")
    shell(sandbox, "setsid sleep 615 > /dev/null 2>&1 &")
    inspect = [workbench.engine.name, "container", "inspect", "--format", "{{.Id}}", sandbox.name]
    container = subprocess.run(inspect, check=True, capture_output=True, text=True).stdout.strip()
    state = workbench.engine.state(sandbox.name)
    assert isinstance(state, Present)
    groups = Path(f"/proc/{state.pid}/cgroup").read_text(encoding="ascii")
    assert container in groups
    end_leftovers(container)
    living = [
        entry
        for entry in Path("/proc").glob("[0-9]*/cgroup")
        if container in read_quietly(entry) and read_quietly(entry.with_name("cmdline"))
    ]
    assert living == []
    workbench.engine.remove(sandbox.name)
    assert workbench.engine.state(sandbox.name) == Absent()


def read_quietly(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError:  # it has ended meanwhile
        return ""


def test_builder_owns_its_directory_and_no_other(shared: Sandbox, shell: Shell) -> None:
    assert shell(shared, "touch /workspace/src/mine && rm /workspace/src/mine").exit_code == 0
    for place in ("/workspace/x", "/workspace/cache/x", "/etc/x", "/native/x", "/usr/bin/x"):
        assert shell(shared, f"touch {place}").exit_code == 1, place


def test_clearing_keeps_the_files(workbench: "Workbench", shell: Shell, processes: Processes) -> None:
    sandbox = workbench.open("clear")
    shell(sandbox, "echo kept > /home/builder/mark; setsid sleep 606 > /dev/null 2>&1 &")
    sandbox.clear()
    assert processes(sandbox) == []
    assert shell(sandbox, "cat /home/builder/mark").tail == b"kept\n"


@contextlib.contextmanager
def somebody_elses(workbench: "Workbench", *options: str) -> Iterator[str]:
    """A container of somebody else, under a name that we would use."""
    name = workbench.name("foreign")
    run = [
        "run",
        "--detach",
        "--name",
        name,
        "--pull",
        "never",
        "--network",
        "none",
        *options,
        *workbench.engine.create_options(),
    ]  # type: ignore[attr-defined]  # the client's own options, to make what the user would
    subprocess.run(
        [workbench.engine.name, *run, workbench.image, "/sbin/atesor-init"], check=True, capture_output=True
    )
    try:
        yield name
    finally:
        subprocess.run([workbench.engine.name, "rm", "--force", name], check=True, capture_output=True)


@pytest.fixture
def foreign(workbench: "Workbench") -> Iterator[str]:
    with somebody_elses(workbench) as name:
        yield name


@pytest.mark.parametrize("workbench", ["docker", "podman"], indirect=True)  # host's directory is its own
@pytest.mark.parametrize("slot", ["another", "{name}-2", ""], ids=["other", "longer", "empty"])
def test_a_label_of_another_name_does_not_make_a_container_ours(workbench: "Workbench", slot: str) -> None:
    label = f"{LABEL}={slot.format(name=workbench.name('foreign'))}"
    with somebody_elses(workbench, "--label", label) as name:
        with pytest.raises(SandboxError, match="left alone"):
            workbench.engine.remove(name)
        assert workbench.engine.state(name) == Foreign()


@pytest.mark.parametrize("workbench", ["docker", "podman"], indirect=True)  # host's directory is its own
def test_our_label_on_a_container_of_another_name_is_no_reason_to_remove_it(workbench: "Workbench") -> None:
    label = f"{LABEL}={workbench.name('listed')}"
    with somebody_elses(workbench, "--label", label) as name:
        workbench.engine.remove(workbench.name("listed"))
        assert workbench.engine.state(name) == Foreign()


@pytest.mark.parametrize("workbench", ["docker", "podman"], indirect=True)  # host's directory is its own
def test_somebody_elses_container_is_never_touched(workbench: "Workbench", foreign: str) -> None:
    assert workbench.engine.state(foreign) == Foreign()
    assert foreign not in workbench.engine.list_sandboxes()
    with pytest.raises(SandboxError, match="left alone"):
        workbench.engine.remove(foreign)
    with pytest.raises(SandboxError, match="left alone"):
        workbench.engine.restart(foreign)
    with pytest.raises(SandboxError, match="left alone"):
        workbench.open("foreign", reset=True)
    shown = subprocess.run(
        [workbench.engine.name, "inspect", "--format", "{{.State.Running}}", foreign],
        check=True,
        capture_output=True,
    )
    assert shown.stdout == b"true\n"


def test_a_sandbox_that_cannot_start_leaves_nothing(workbench: "Workbench") -> None:
    name = workbench.name("unmade")
    spec = SandboxSpec(
        name=name,
        image="localhost/atesor-no-such:image",
        workspace=workbench.state,
        memory_bytes=None,
        pids=64,
    )
    with pytest.raises(SandboxError, match=workbench.engine.name):
        workbench.engine.create(spec)
    assert workbench.engine.state(name) == Absent()


@pytest.mark.parametrize("workbench", ["docker", "podman", "host"], indirect=True)  # native's is elsewhere
def test_any_path_can_be_a_workspace(workbench: "Workbench", tmp_path: Path) -> None:
    state = tmp_path / 'a b,c:d "é"'
    name = workbench.name("paths")
    sandbox = open_sandbox(workbench.engine, name, image=workbench.image, state=state)
    done = sandbox.run(ExecSpec(argv=["sh", "-c", "echo here > src/found"]), timeout_s=300)
    assert done.exit_code == 0
    assert (slot_directory(state, name) / "workspace/src/found").read_text(encoding="utf-8") == "here\n"
