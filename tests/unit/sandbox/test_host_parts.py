"""The parts of the engine-less sandbox that need neither root nor a sandbox."""

import io
import json
import os
import shutil
import signal
import subprocess
import tarfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_atesor.errors import SandboxError, SetupError
from pytest_atesor.sandbox.archive import ImageSettings, write_archive
from pytest_atesor.sandbox.engines.clients import ending_stopped_clients
from pytest_atesor.sandbox.engines.control_group import (
    ControlGroup,
    can_bound_swap,
    end_process,
    find_controllers,
    read_birth,
)
from pytest_atesor.sandbox.engines.host import HostEngine
from pytest_atesor.sandbox.engines.oci import CAPABILITIES, Confinement, format_config
from pytest_atesor.sandbox.engines.store import ImageStore
from pytest_atesor.sandbox.interface import Absent
from tests.unit.processes import LIMIT_S

TAG = "localhost/pytest-atesor-sandbox:debian"


def configure(**limits: int | None) -> dict[str, Any]:
    none = {"memory_bytes": None, "bounds_swap": False, "pids": None, "cpu_weight": None}
    wanted: dict[str, Any] = {**none, **limits}
    return format_config(
        Confinement(
            group="/pytest-atesor/x",
            root="/images/root",
            workspace="/a b,c",
            environment={"PATH": "/bin"},
            nofile=4096,
            machine="x86_64",
            **wanted,
        )
    )


def test_the_workspace_is_the_only_directory_from_the_host() -> None:
    mounts = configure()["mounts"]
    assert [mount["source"] for mount in mounts if mount["source"].startswith("/")] == ["/a b,c"]


def test_a_sandbox_has_namespaces_of_every_kind_but_users() -> None:
    kinds = {entry["type"] for entry in configure()["linux"]["namespaces"]}
    assert kinds == {"pid", "ipc", "uts", "mount", "network", "cgroup"}


def test_commands_begin_without_capabilities_and_gain_none() -> None:
    process = configure()["process"]
    assert process["noNewPrivileges"] is True
    assert process["capabilities"]["bounding"] == [f"CAP_{name}" for name in CAPABILITIES]
    assert not any(
        process["capabilities"][kind] for kind in ("permitted", "effective", "inheritable", "ambient")
    )


def test_limits_that_cannot_be_set_are_left_out() -> None:
    assert configure(memory_bytes=7, pids=5, cpu_weight=3)["linux"]["resources"] == {
        "devices": [{"allow": False, "access": "rwm"}],
        "memory": {"limit": 7},
        "pids": {"limit": 5},
        "cpu": {"shares": 3},
    }
    assert set(configure(bounds_swap=True)["linux"]["resources"]) == {"devices"}


def test_memory_and_swap_together_are_twice_the_memory() -> None:
    limits = configure(memory_bytes=7, bounds_swap=True)["linux"]["resources"]["memory"]
    assert limits == {"limit": 7, "swap": 14}


def pack(directory: Path, *, label: str) -> Path:
    """Write an image archive with one file and a device; its id depends on the label."""
    root = directory / "root.tar"
    with tarfile.open(root, "w") as layer:
        for name, kind in (
            ("./dev", tarfile.DIRTYPE),
            ("./dev/vda", tarfile.BLKTYPE),
            ("./hello", tarfile.REGTYPE),
        ):
            member = tarfile.TarInfo(name)
            member.type, member.mode = kind, 0o755
            member.uid, member.gid = os.getuid(), os.getgid()
            member.size = 2 if kind == tarfile.REGTYPE else 0
            layer.addfile(member, io.BytesIO(b"hi"[: member.size]))
    archive = directory / f"{label}.tar"
    settings = ImageSettings(
        tag=TAG, environment={"A": "b=c"}, labels={label: "1"}, created="2026-01-01T00:00:00Z"
    )
    with archive.open("wb") as target:
        write_archive(root, target, settings)
    return archive


def test_an_image_is_unpacked_with_its_labels_and_without_devices(tmp_path: Path) -> None:
    store = ImageStore(tmp_path / "host")
    assert store.find(TAG) is None
    store.load(pack(tmp_path, label="ours"))
    image = store.find(TAG)
    assert image is not None
    assert (image.labels, image.environment) == ({"ours": "1"}, {"A": "b=c"})
    assert store.find(image.id) == image
    assert store.find("0" * 64) is None
    assert (image.root / "hello").read_text() == "hi"
    assert list((image.root / "dev").iterdir()) == []


def test_pruning_removes_what_no_tag_means_and_nobody_uses(tmp_path: Path) -> None:
    store = ImageStore(tmp_path / "host")
    ids = []
    for label in ("one", "two"):
        store.load(pack(tmp_path, label=label))
        found = store.find(TAG)
        assert found is not None
        ids.append(found.id)
    store.prune("one", used=ids)
    assert store.get(ids[0]) is not None
    store.prune("somebody-elses", used=())
    assert store.get(ids[0]) is not None
    store.prune("one", used=())
    assert store.get(ids[0]) is None
    store.prune("two", used=())
    assert store.get(ids[1]) is not None


def test_what_is_no_image_archive_leaves_nothing(tmp_path: Path) -> None:
    store = ImageStore(tmp_path / "host")
    bad = tmp_path / "bad.tar"
    for content in (b"", b"no archive at all", json.dumps([{}]).encode()):
        bad.write_bytes(content)
        with pytest.raises(SandboxError, match=r"bad\.tar"):
            store.load(bad)
    assert list((tmp_path / "host/images").iterdir()) == []


def test_an_archive_that_needs_a_missing_zstd_names_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "rm").symlink_to(str(shutil.which("rm")))
    monkeypatch.setenv("PATH", str(programs))
    archive = tmp_path / "debian.tar.zst"
    archive.touch()
    with pytest.raises(SetupError, match=r"zstd cannot be started \(.*\); apt-get install zstd"):
        ImageStore(tmp_path / "host").load(archive)
    assert not list((tmp_path / "host" / "images").iterdir())


SLEEPS = f"600.{os.getpid()}"
"""How long these processes sleep: no other's words, for the whole machine is searched for stopped ones."""


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["/bin/sleep", SLEEPS], stdin=subprocess.DEVNULL) as process:
        yield process
        process.kill()


def test_a_process_is_ended_only_when_it_is_the_one_meant(sleeper: subprocess.Popen[bytes]) -> None:
    birth = read_birth(sleeper.pid)
    assert birth is not None
    end_process(sleeper.pid, birth + 1)
    assert sleeper.poll() is None
    end_process(sleeper.pid, birth)
    assert read_birth(sleeper.pid) is None
    end_process(sleeper.pid, birth)
    assert sleeper.wait() == -9


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes a namespace of processes")
def test_a_first_process_that_waits_for_an_unreaped_child_is_dead() -> None:
    with subprocess.Popen(["/usr/bin/unshare", "--pid", "--fork", "sleep", "600"]) as outside:
        init = wait_for(lambda: find_child(outside.pid))
        with subprocess.Popen(["/usr/bin/nsenter", "--target", str(init), "--pid", "sleep", "600"]) as client:
            wait_for(lambda: find_child(client.pid))
            assert read_birth(init) is not None
            client.send_signal(signal.SIGSTOP)
            wait_for(lambda: read_state(client.pid) == "T")
            os.kill(init, signal.SIGKILL)
            wait_for(lambda: read_birth(init) is None)
            assert read_state(init) not in "ZX"
            client.kill()


def test_a_client_that_is_stopped_late_is_ended(sleeper: subprocess.Popen[bytes]) -> None:
    with ending_stopped_clients(("sleep",), SLEEPS):
        wait_for(lambda: f"stopped clients of {SLEEPS}" in {thread.name for thread in threading.enumerate()})
        sleeper.send_signal(signal.SIGSTOP)
        assert sleeper.wait(timeout=LIMIT_S) == -signal.SIGKILL


def test_only_stopped_clients_of_that_sandbox_are_ended(sleeper: subprocess.Popen[bytes]) -> None:
    with ending_stopped_clients(("sleep",), SLEEPS):
        pass
    sleeper.send_signal(signal.SIGSTOP)
    for programs, name in ((("sleep",), SLEEPS[:-1]), (("podman",), SLEEPS)):
        with ending_stopped_clients(programs, name):
            pass
    assert sleeper.poll() is None


def wait_for(look: Callable[[], Any]) -> Any:
    give_up = time.monotonic() + LIMIT_S
    while not (found := look()):
        assert time.monotonic() < give_up
        time.sleep(0.02)
    return found


def find_child(pid: int) -> int | None:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    return int(children[0]) if children else None


def read_state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0]


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("pytest-atesor/x/memory.events", "low 0\noom 4\noom_kill 3\noom_group_kill 0\n"),
        ("memory/pytest-atesor/x/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n"),
    ],
    ids=["v2", "v1"],
)
def test_the_kernels_count_of_kills_is_read_in_both_versions(tmp_path: Path, file: str, text: str) -> None:
    group = ControlGroup("/pytest-atesor/x", tmp_path)
    assert group.count_oom_kills() == 0
    if not file.startswith("memory/"):
        (tmp_path / "cgroup.controllers").write_text("cpu memory pids\n")
    (tmp_path / file).parent.mkdir(parents=True)
    (tmp_path / file).write_text(text)
    assert ControlGroup("/pytest-atesor/x", tmp_path).count_oom_kills() == 3


def test_controllers_are_found_in_both_versions(tmp_path: Path) -> None:
    assert find_controllers(tmp_path) == frozenset()
    (tmp_path / "pids").mkdir()
    (tmp_path / "pids/cgroup.procs").touch()
    assert find_controllers(tmp_path) == {"pids"}
    (tmp_path / "cgroup.controllers").write_text("cpuset cpu memory\n")
    assert find_controllers(tmp_path) == {"cpuset", "cpu", "memory"}


@pytest.mark.parametrize(
    ("file", "is_found"),
    [
        pytest.param("memory/memory.memsw.limit_in_bytes", True, id="v1"),
        pytest.param("system.slice/memory.swap.max", True, id="v2"),
        pytest.param("memory.swap.max", True, id="v2-in-a-container"),
        pytest.param("memory/memory.limit_in_bytes", False, id="v1-without"),
        pytest.param("system.slice/memory.max", False, id="v2-without"),
    ],
)
def test_swap_is_bounded_only_where_the_kernel_counts_it(
    tmp_path: Path, file: str, *, is_found: bool
) -> None:
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).touch()
    assert can_bound_swap(tmp_path) is is_found


@pytest.mark.parametrize(
    ("processes", "passed_on", "found"),
    [("1\n7\n", "", set()), ("0\n", "pids\n", {"pids"}), ("", "", {"cpu", "memory", "pids"})],
    ids=["ours", "somebodys", "nobodys"],
)
def test_a_containers_own_group_passes_nothing_more_on_while_processes_are_in_it(
    tmp_path: Path, processes: str, passed_on: str, found: set[str]
) -> None:
    for name, text in {
        "controllers": "cpu memory pids\n",
        "subtree_control": passed_on,
        "type": "domain\n",
        "procs": processes,
    }.items():
        (tmp_path / f"cgroup.{name}").write_text(text)
    assert find_controllers(tmp_path) == found


@pytest.mark.parametrize("name", ["../x", "a/b", "", "-x"], ids=["up", "slash", "empty", "option"])
def test_a_name_that_is_none_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(SetupError, match="bad container name"):
        HostEngine(tmp_path).state(name)
    assert HostEngine(tmp_path).state("fine") == Absent()
