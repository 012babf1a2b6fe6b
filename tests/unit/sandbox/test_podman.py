import json
import os
import platform
import resource
from pathlib import Path
from typing import Any

import pytest

from pytest_atesor.errors import SetupError, UsageError
from pytest_atesor.sandbox.engines.podman import (
    PodmanEngine,
    decide_runtime,
    decide_unenforced,
    find_delegated,
    has_hybrid_cgroups,
    plan_ulimits,
)
from pytest_atesor.sandbox.interface import SandboxSpec
from pytest_atesor.sandbox.select import find_engine

V1 = "30 25 0:26 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory"
V2 = "31 25 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw"
OTHER = "32 25 0:28 / /cgroup/cgroup2 rw - tmpfs cgroup rw"


@pytest.mark.parametrize(
    ("mountinfo", "hybrid"),
    [(V1, False), (V2, False), (f"{V1}\n{V2}\n", True), (f"{V1}\n{OTHER}\n", False)],
    ids=["v1", "v2", "both", "names-alike"],
)
def test_hybrid_means_both_versions_are_mounted(mountinfo: str, *, hybrid: bool) -> None:
    assert has_hybrid_cgroups(mountinfo) is hybrid


@pytest.mark.parametrize(
    ("default", "hybrid", "installed", "runtime"),
    [
        ("crun", False, ("runc",), None),
        ("crun", True, ("runc",), "runc"),
        ("runc", True, (), None),
        ("crun", False, (), None),
    ],
    ids=["crun-works", "crun-cannot-work", "runc-is-the-default", "only-crun-and-it-works"],
)
def test_another_runtime_is_asked_for_only_where_crun_cannot_work(
    default: str, installed: tuple[str, ...], runtime: str | None, *, hybrid: bool
) -> None:
    assert decide_runtime(default=default, hybrid=hybrid, installed=installed) == runtime


def test_no_runtime_that_works_is_an_error_with_its_fix() -> None:
    with pytest.raises(SetupError, match="apt-get install runc"):
        decide_runtime(default="crun", hybrid=True, installed=())


@pytest.mark.parametrize(
    ("nofile_hard", "nproc_hard", "expected"),
    [
        pytest.param(20_000, 96_365, ["nofile=1024:20000", "nproc=32768:32768"], id="some"),
        pytest.param(512, 100, ["nofile=512:512", "nproc=100:100"], id="tight"),
        pytest.param(
            resource.RLIM_INFINITY,
            resource.RLIM_INFINITY,
            ["nofile=1024:524288", "nproc=32768:32768"],
            id="unlimited",
        ),
    ],
)
def test_limits_stay_within_the_hard_ones(nofile_hard: int, nproc_hard: int, expected: list[str]) -> None:
    planned = plan_ulimits(nofile_hard=nofile_hard, nproc_hard=nproc_hard, pid_max=32_768)
    assert planned == ["--ulimit", expected[0], "--ulimit", expected[1]]


ALL = ("cpu", "memory", "pids")
ROOT = {"rootless": False, "cgroup_version": "v2", "cgroup_manager": "cgroupfs", "controllers": ALL}
USER = {"rootless": True, "cgroup_version": "v2", "cgroup_manager": "systemd", "controllers": ALL}


@pytest.mark.parametrize(
    ("host", "can_make_networks", "expected"),
    [
        pytest.param(ROOT | {"cgroup_version": "v1"}, False, (), id="root-on-v1"),
        pytest.param(ROOT, False, (), id="root-on-v2"),
        pytest.param(ROOT | {"controllers": ("cpu",)}, True, ("memory", "pids"), id="root-without-them"),
        pytest.param(USER | {"cgroup_version": "v1"}, True, ("memory", "pids", "cpu"), id="user-on-v1"),
        pytest.param(USER, True, (), id="user-on-v2"),
        pytest.param(USER | {"controllers": ("memory", "pids")}, True, ("cpu",), id="user-of-old-systemd"),
        pytest.param(
            USER | {"cgroup_manager": "cgroupfs"}, True, ("memory", "pids", "cpu"), id="user-without-session"
        ),
        pytest.param(USER, False, ("network",), id="user-without-networks"),
    ],
)
def test_what_cannot_be_enforced_is_said(
    host: dict[str, Any], expected: tuple[str, ...], *, can_make_networks: bool
) -> None:
    assert decide_unenforced(**host, can_make_networks=can_make_networks) == expected


def test_controllers_of_a_user_are_those_of_the_users_own_services(tmp_path: Path) -> None:
    assert find_delegated(1000, tmp_path) == ()
    services = tmp_path / "user.slice/user-1000.slice/user@1000.service"
    services.mkdir(parents=True)
    (services / "cgroup.controllers").write_text("memory pids\n")
    assert list(find_delegated(1000, tmp_path)) == ["memory", "pids"]


@pytest.fixture
def podman_asked(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put a podman first on PATH that answers as one does, and return the file of what it was asked.

    A test's parameter is what it says of its host besides.
    """
    more = getattr(request, "param", {})
    host = {"security": {"rootless": False}, "cgroupVersion": "v2", "ociRuntime": {"name": "runc"}, **more}
    answer = {"host": host, "version": {"Version": "4.3.1"}, "store": {"graphRoot": "/"}}
    asked = tmp_path / "asked"
    program = tmp_path / "podman"
    told = f"case $1 in system) cat {tmp_path}/connections ;; *) echo '{json.dumps(answer)}' ;; esac"
    body = f'echo "$*" >> {asked}\n[ ! -e {tmp_path}/gone ] || exit 125\n{told}\n'
    program.write_text(f"#!/bin/sh\n{body}")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return asked


def test_podman_tells_about_itself_once_and_later_only_that_it_answers(podman_asked: Path) -> None:
    engine = PodmanEngine()
    assert engine.probe() == engine.probe()
    assert podman_asked.read_text().splitlines() == ["info --format json", "volume ls --quiet"]
    (podman_asked.parent / "gone").touch()
    with pytest.raises(SetupError, match="podman does not work here"):
        engine.probe()


LIMITS = ["--pids-limit 7", "--cpu-shares 512", "--memory 4096"]


@pytest.mark.parametrize(
    ("podman_asked", "expected"),
    [
        pytest.param({"cgroupControllers": ["cpu", "memory", "pids"]}, LIMITS, id="all-given"),
        pytest.param({"cgroupControllers": ["memory", "pids"]}, [LIMITS[0], LIMITS[2]], id="no-cpu"),
        pytest.param({"cgroupControllers": []}, [], id="none-given"),
        pytest.param({"security": {"rootless": True}, "cgroupManager": "cgroupfs"}, [], id="no-session"),
        pytest.param({}, LIMITS, id="not-known"),
    ],
    indirect=["podman_asked"],
)
def test_a_sandbox_is_created_with_the_limits_that_podman_can_enforce(
    podman_asked: Path, expected: list[str]
) -> None:
    spec = SandboxSpec(name="s", image="i", workspace=Path("/w"), memory_bytes=4096, pids=7, cpu_weight=512)
    PodmanEngine().create(spec)
    info, run = podman_asked.read_text().splitlines()
    assert info == "info --format json"
    assert [limit for limit in LIMITS if limit in run] == expected
    assert sum(run.count(limit.split()[0]) for limit in LIMITS) == len(expected)


@pytest.mark.parametrize(
    ("podman_asked", "is_told"),
    [
        pytest.param({}, False, id="not-known"),
        pytest.param({"security": {"rootless": False, "selinuxEnabled": False}}, False, id="off"),
        pytest.param({"security": {"rootless": False, "selinuxEnabled": True}}, True, id="on"),
    ],
    indirect=["podman_asked"],
)
def test_selinux_is_told_to_let_sandboxes_touch_their_workspaces(
    podman_asked: Path, *, is_told: bool
) -> None:
    spec = SandboxSpec(name="s", image="i", workspace=Path("/w"), memory_bytes=4096, pids=7, cpu_weight=512)
    PodmanEngine().create(spec)
    _, run = podman_asked.read_text().splitlines()
    assert ("--security-opt label=disable" in run) is is_told


@pytest.mark.parametrize("podman_asked", [{"serviceIsRemote": True}], indirect=True, ids=["remote"])
@pytest.mark.parametrize(
    ("endpoint", "said"),
    [
        pytest.param("ssh://me@there/run/podman.sock", "at ssh://me@there/run/podman.sock, from", id="ssh"),
        pytest.param("tcp://127.0.0.1:1", "at tcp://127.0.0.1:1, from CONTAINER_HOST", id="a-tunnel"),
        pytest.param("unix:///run/podman/podman.sock", None, id="a-socket-of-this-machine"),
    ],
)
def test_a_service_that_may_be_elsewhere_is_refused(
    podman_asked: Path, monkeypatch: pytest.MonkeyPatch, endpoint: str, said: str | None
) -> None:
    monkeypatch.setenv("CONTAINER_HOST", endpoint)
    if said is None:
        assert PodmanEngine().probe().name == "podman"
    else:
        with pytest.raises(SetupError, match=rf"the podman service {said}.*; unset CONTAINER_HOST"):
            PodmanEngine().probe()
    assert podman_asked.read_text().splitlines() == ["info --format json"]


HERE = {"Name": "here", "URI": "unix:///run/podman/podman.sock"}
THERE = {"Name": "there", "URI": "ssh://me@there/run/podman.sock"}
ELSEWHERE = "at ssh://me@there/run/podman.sock may be on another machine"
NOT_TOLD = "of its connection may be on another machine"


@pytest.mark.parametrize("podman_asked", [{"serviceIsRemote": True}], indirect=True, ids=["remote"])
@pytest.mark.parametrize(
    ("connections", "chosen", "said"),
    [
        pytest.param([HERE | {"Default": True}, THERE | {"Default": False}], "", None, id="default-here"),
        pytest.param([HERE | {"Default": False}, THERE | {"Default": True}], "", ELSEWHERE, id="there"),
        pytest.param([HERE, THERE | {"Default": True}], "here", None, id="chosen-here"),
        pytest.param([HERE | {"Default": True}, THERE], "there", ELSEWHERE, id="chosen-there"),
        pytest.param([], "", None, id="none"),
        pytest.param([], "here", NOT_TOLD, id="chosen-unknown"),
        pytest.param([HERE, THERE], "", NOT_TOLD, id="no-default-known"),
        pytest.param(None, "", NOT_TOLD, id="no-answer"),
    ],
)
def test_a_connection_to_a_socket_of_this_machine_is_taken(
    podman_asked: Path,
    monkeypatch: pytest.MonkeyPatch,
    connections: list[Any] | None,
    chosen: str,
    said: str | None,
) -> None:
    told = "no json" if connections is None else json.dumps(connections)
    (podman_asked.parent / "connections").write_text(told)
    monkeypatch.delenv("CONTAINER_HOST", raising=False)
    monkeypatch.setenv("CONTAINER_CONNECTION", chosen)
    if said is None:
        assert PodmanEngine().probe().name == "podman"
    else:
        with pytest.raises(SetupError, match=f"the podman service {said}"):
            PodmanEngine().probe()


@pytest.mark.parametrize(
    "podman_asked", [{"serviceIsRemote": True, "hostname": platform.node()}], indirect=True, ids=["remote"]
)
def test_a_port_of_this_machine_is_taken_where_the_service_has_its_name_and_files(
    podman_asked: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONTAINER_HOST", "tcp://localhost:8080")
    assert PodmanEngine().probe().storage == Path("/")
    assert podman_asked.exists()


def test_an_engine_found_by_name_is_not_asked(podman_asked: Path) -> None:
    assert find_engine("podman").name == "podman"
    assert not podman_asked.exists()
    with pytest.raises(UsageError, match="unknown engine 'lxc'"):
        find_engine("lxc")


def test_an_archive_that_needs_a_missing_zstd_names_the_package(
    podman_asked: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(podman_asked.parent))
    archive = tmp_path / "debian.tar.zst"
    archive.touch()
    with pytest.raises(SetupError, match=r"zstd cannot be started \(.*\); apt-get install zstd"):
        PodmanEngine().load_image(archive)
    assert not podman_asked.exists()
