"""Docker, by a client on PATH that answers as its own does, or does not."""

import json
import os
import platform
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from pytest_atesor.errors import SandboxError, SetupError
from pytest_atesor.sandbox.engines.docker import DockerEngine
from pytest_atesor.sandbox.interface import EngineInfo
from pytest_atesor.sandbox.select import select_engine

INFO = {"ServerVersion": "20.10.24", "MemoryLimit": True, "PidsLimit": True, "CPUShares": True}
NEVER = "exec sleep 600"
PROXIES = {
    cased
    for name in ("http_proxy", "https_proxy", "ftp_proxy", "all_proxy", "no_proxy")
    for cased in (name, name.upper())
}

Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Return what puts a client first on PATH: what it prints of itself, what it does before it answers."""
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.delenv("DOCKER_HOST", raising=False)

    def write(*, info: object = INFO, before_info: str = ":", before_more: str = ":") -> None:
        (tmp_path / "info").write_text(json.dumps(info))
        program = tmp_path / "docker"
        answer = f"case $1 in info) {before_info}; cat {tmp_path}/info ;; *) {before_more} ;; esac\n"
        program.write_text(f"#!/bin/sh\n{answer}")
        program.chmod(0o755)

    return write


@pytest.mark.parametrize(
    ("changes", "unenforced"),
    [
        pytest.param({}, (), id="none"),
        pytest.param({"CPUShares": False}, ("cpu",), id="weight"),
        pytest.param(
            dict.fromkeys(("CPUShares", "MemoryLimit", "PidsLimit"), False),
            ("memory", "pids", "cpu"),
            id="all",
        ),
    ],
)
def test_docker_says_what_it_cannot_enforce(
    install: Install, changes: dict[str, bool], unenforced: tuple[str, ...]
) -> None:
    install(info=INFO | changes)
    assert DockerEngine().probe() == EngineInfo(
        name="docker", version="20.10.24", rootless=False, storage=Path("/"), unenforced=unenforced
    )


@pytest.mark.parametrize(
    ("endpoint", "shown"),
    [
        pytest.param("tcp://10.0.0.7:2376", "tcp://10.0.0.7:2376", id="tcp"),
        pytest.param("ssh://me:secret@build.example.org", "ssh://me:***@build.example.org", id="ssh"),
        pytest.param("build.example.org:2375", "build.example.org:2375", id="no-scheme"),
    ],
)
def test_a_daemon_that_may_be_elsewhere_is_refused_without_being_asked(
    install: Install, monkeypatch: pytest.MonkeyPatch, endpoint: str, shown: str
) -> None:
    install(before_info=NEVER)
    monkeypatch.setenv("DOCKER_HOST", endpoint)
    with pytest.raises(SetupError) as caught:
        DockerEngine().probe()
    assert str(caught.value) == (
        f"the docker daemon at {shown}, from DOCKER_HOST, may be on another machine, where sandboxes would "
        "not see their workspaces; unset DOCKER_HOST or choose --atesor-engine podman or host"
    )


def test_a_context_may_lead_elsewhere_too(install: Install) -> None:
    there = INFO | {"ClientInfo": {"Context": "there"}}
    install(info=there, before_more='[ "$1 $5" = "context there" ] && echo ssh://me@build.example.org')
    said = r"at ssh://me@build\.example\.org, from the context there,.*; docker context use default or choose"
    with pytest.raises(SetupError, match=said):
        DockerEngine().probe()
    install(info=there, before_more="echo unix:///run/user/1000/docker.sock")
    assert DockerEngine().probe().name == "docker"


@pytest.mark.parametrize(
    "endpoint", ["unix:///run/user/1000/docker.sock", ""], ids=["another-socket", "empty"]
)
def test_a_socket_of_this_machine_is_taken(
    install: Install, monkeypatch: pytest.MonkeyPatch, endpoint: str
) -> None:
    install()
    monkeypatch.setenv("DOCKER_HOST", endpoint)
    assert DockerEngine().probe().name == "docker"


@pytest.mark.parametrize(
    "endpoint", ["tcp://127.0.0.1:2375", "tcp://localhost:2375", "tcp://[::1]:2375"], ids=["v4", "name", "v6"]
)
@pytest.mark.parametrize("how", ["variable", "context"])
@pytest.mark.parametrize(
    ("changes", "is_taken"),
    [
        pytest.param({}, True, id="here"),
        pytest.param({"Name": "another"}, False, id="a-tunnel"),
        pytest.param({"DockerRootDir": "/nonesuch"}, False, id="a-container-beside"),
        pytest.param({"DockerRootDir": None}, False, id="no-directory"),
    ],
)
def test_a_port_of_this_machine_is_taken_where_the_daemon_has_its_name_and_files(
    install: Install,
    monkeypatch: pytest.MonkeyPatch,
    *,
    endpoint: str,
    how: str,
    changes: dict[str, object],
    is_taken: bool,
) -> None:
    client = {"ClientInfo": {"Context": "local"}} if how == "context" else {}
    here = {"Name": platform.node(), "DockerRootDir": "/"}
    install(info={**INFO, **client, **here, **changes}, before_more=f"echo '{endpoint}'")
    if how == "variable":
        monkeypatch.setenv("DOCKER_HOST", endpoint)
    if is_taken:
        assert DockerEngine().probe().storage == Path("/")
    else:
        with pytest.raises(SetupError, match="may be on another machine"):
            DockerEngine().probe()


def test_a_daemon_that_remaps_users_is_refused(install: Install) -> None:
    install(info=INFO | {"SecurityOptions": ["name=seccomp,profile=default", "name=userns"]})
    with pytest.raises(SetupError, match=r"remaps users \(userns-remap\).*; remove userns-remap from"):
        DockerEngine().probe()


@pytest.mark.parametrize(
    ("security", "options"),
    [
        pytest.param(None, [], id="none"),
        pytest.param(["name=apparmor", "name=rootless"], [], id="others"),
        pytest.param(["name=selinux"], ["--security-opt", "label=disable"], id="selinux"),
    ],
)
def test_selinux_is_told_to_let_sandboxes_touch_their_workspaces(
    install: Install, security: list[str] | None, options: list[str]
) -> None:
    install(info=INFO | {"SecurityOptions": security})
    made = DockerEngine().create_options()
    assert (
        made[:2],
        [word for word in made[2:] if word != "--env" and not word.lower().endswith("_proxy")],
    ) == (
        ["--platform", "linux/riscv64"],
        options,
    )


def test_a_sandbox_is_made_without_the_proxies_of_the_client_and_of_its_settings(
    install: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in PROXIES:
        monkeypatch.setenv(name, "http://me:secret@proxy.invalid:3128")
    install(before_more=f'printf "%s\\n" "$@" > {tmp_path}/asked; env > {tmp_path}/environ')
    assert DockerEngine().read_file("image", "/etc/atesor") == ""
    words = (tmp_path / "asked").read_text().splitlines()
    named = {value for word, value in pairwise(words) if word == "--env"}
    assert (words[0], named) == ("run", PROXIES)
    assert "secret" not in (tmp_path / "environ").read_text()


@pytest.mark.parametrize(
    "pointer",
    [
        pytest.param("See 'docker run --help'.", id="20.10"),
        pytest.param("\nRun 'docker run --help' for more information", id="28"),
    ],
)
def test_why_a_container_cannot_be_made_is_said(install: Install, tmp_path: Path, pointer: str) -> None:
    (tmp_path / "said").write_text(f"docker: Error response from daemon: no space left.\n{pointer}\n")
    install(before_more=f"cat {tmp_path}/said >&2; exit 125")
    with pytest.raises(SandboxError) as caught:
        DockerEngine().read_file("image", "/etc/atesor")
    assert str(caught.value) == "docker run failed: docker: Error response from daemon: no space left."


def test_what_docker_fetches_itself_goes_through_the_proxy(
    install: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("https_proxy", "http://proxy.invalid:3128")
    install(before_more=f"env > {tmp_path}/environ")
    assert DockerEngine().is_offered("registry.invalid/image", timeout_s=600)
    assert "https_proxy=http://proxy.invalid:3128" in (tmp_path / "environ").read_text().splitlines()


def test_a_daemon_that_does_not_answer_is_an_error_with_its_fix(install: Install) -> None:
    install(before_info=NEVER)
    with pytest.raises(SetupError, match=r"did not answer within 0\.1 s; start the daemon"):
        DockerEngine(first_s=0.1).probe()


def test_a_daemon_that_answered_may_take_its_time(install: Install) -> None:
    install(before_more="sleep 6")
    engine = DockerEngine()
    info = engine.probe()
    install(before_info=NEVER, before_more="sleep 6")
    assert engine.probe() == info


def test_a_daemon_that_has_gone_is_noticed(install: Install) -> None:
    install()
    engine = DockerEngine()
    engine.probe()
    install(before_more="echo 'Cannot connect to the Docker daemon' >&2; exit 1")
    with pytest.raises(SetupError, match=r"Cannot connect to the Docker daemon\); start the daemon"):
        engine.probe()


def test_a_daemon_asked_for_by_name_may_take_its_time_from_the_first(install: Install) -> None:
    install(before_info="sleep 6")
    assert select_engine("docker").name == "docker"


def test_a_choice_does_not_wait_long_for_a_daemon(install: Install, tmp_path: Path) -> None:
    install(before_info=NEVER)
    host = {"security": {"rootless": False}, "ociRuntime": {"name": "runc"}}
    answer = {"host": host, "version": {"Version": "4.3.1"}, "store": {"graphRoot": "/"}}
    podman = tmp_path / "podman"
    podman.write_text(f"#!/bin/sh\necho '{json.dumps(answer)}'\n")
    podman.chmod(0o755)
    assert select_engine("auto").name == "podman"
