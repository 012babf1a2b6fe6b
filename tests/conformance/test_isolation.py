"""What a stranger's build can see, reach and use up."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_atesor.sandbox.engines.oci import CAPABILITIES
from pytest_atesor.sandbox.interface import Completed
from pytest_atesor.sandbox.sandbox import Limits, Sandbox

if TYPE_CHECKING:
    from conftest import Workbench

pytestmark = pytest.mark.engine

Shell = Callable[..., Completed]
Processes = Callable[[Sandbox], list[str]]


def status_field(shell: Shell, sandbox: Sandbox, field: str, user: str = "builder") -> str:
    return str(
        shell(sandbox, f"sed -n 's/^{field}:\\s*//p' /proc/self/status", user=user).tail.decode().strip()
    )


@pytest.mark.parametrize("field", ["CapInh", "CapPrm", "CapEff", "CapAmb"])
def test_builder_has_no_capabilities(shared: Sandbox, shell: Shell, field: str) -> None:
    assert int(status_field(shell, shared, field), 16) == 0


def test_root_has_few_capabilities(shared: Sandbox, shell: Shell) -> None:
    bounding = int(status_field(shell, shared, "CapBnd", "root"), 16)
    assert bounding.bit_count() == len(CAPABILITIES)
    for number in (12, 13, 16, 19, 21, 27):  # net_admin, net_raw, sys_module, sys_ptrace, sys_admin, mknod
        assert not bounding >> number & 1


@pytest.mark.parametrize("user", ["builder", "root"])
def test_no_new_privileges_can_be_gained(shared: Sandbox, shell: Shell, user: str) -> None:
    assert status_field(shell, shared, "NoNewPrivs", user) == "1"


def test_the_workspace_is_the_only_host_directory(
    workbench: "Workbench", shared: Sandbox, shell: Shell
) -> None:
    mounts = shell(shared, "cat /proc/self/mountinfo").tail.decode().splitlines()
    fields = [line.split(" - ") for line in mounts]
    engine_files = {"/etc/resolv.conf", "/etc/hostname", "/etc/hosts", "/run/.containerenv", "/run/secrets"}
    points = {left.split()[4] for left, right in fields if right.split()[0] not in {"overlay", *_VIRTUAL}}
    points = {point for point in points if not point.startswith(("/dev/", "/proc/", "/sys/"))}
    assert points - engine_files == {"/workspace"}
    assert shell(shared, f"test ! -e {workbench.state}").exit_code == 0


_VIRTUAL = ("proc", "tmpfs", "devpts", "mqueue", "sysfs", "cgroup", "cgroup2")


def test_no_engine_socket_is_in_reach(shared: Sandbox, shell: Shell) -> None:
    done = shell(
        shared, "find / -xdev -type s 2>/dev/null; find /run /var/run -name '*.sock' 2>/dev/null; true"
    )
    assert done.tail == b""


def test_no_proxy_of_the_user_is_in_sight(
    workbench: "Workbench", shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy = "http://me:secret@proxy.invalid:3128"
    settings: dict[str, object] = {
        "proxies": {"default": dict.fromkeys(("httpProxy", "httpsProxy", "allProxy"), proxy)}
    }
    mine = Path(os.environ.get("DOCKER_CONFIG") or Path.home() / ".docker")
    if (mine / "config.json").exists():  # a context is the way to the engine
        context = json.loads((mine / "config.json").read_text()).get("currentContext", "")
        settings |= {"currentContext": context}
    if (mine / "contexts").is_dir():
        (tmp_path / "contexts").symlink_to((mine / "contexts").absolute())
    (tmp_path / "config.json").write_text(json.dumps(settings))
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    for name in ("http_proxy", "https_proxy", "HTTPS_PROXY"):
        monkeypatch.setenv(name, proxy)
    sandbox = workbench.open("proxies")
    done = shell(sandbox, "tr '\\0' '\\n' < /proc/1/environ; env", user="root")
    assert (done.exit_code, "_proxy" in done.tail.decode().lower()) == (0, False)


def test_no_host_process_is_in_sight(shared: Sandbox, shell: Shell, processes: Processes) -> None:
    assert processes(shared) == []
    assert shell(shared, "tr '\\0' ' ' < /proc/1/cmdline").tail == b"/sbin/atesor-init "


def test_memory_is_limited(
    workbench: "Workbench", shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if "memory" in workbench.info.unenforced:
        pytest.skip(f"{workbench.engine.name} says that it cannot limit memory here")
    sandbox = workbench.open("memory", limits=Limits(memory_bytes=200 * 1024**2, pids=512))
    done = shell(sandbox, "head -c 400000000 /dev/zero | tail -c 390000000 | wc -c")
    assert b"390000000" not in done.tail
    assert shell(sandbox, "echo alive").tail == b"alive\n"
    assert list(tmp_path.iterdir()) == [], "an engine left its notes in our working directory"


def test_swap_is_limited_to_as_much_as_memory(workbench: "Workbench", shell: Shell) -> None:
    if "memory" in workbench.info.unenforced:
        pytest.skip(f"{workbench.engine.name} says that it cannot limit memory here")
    limit = 200 * 1024**2
    sandbox = workbench.open("swap", limits=Limits(memory_bytes=limit, pids=512))
    # version 1 counts memory and swap together, version 2 swap alone; without its file nothing bounds it
    places = {"memory/memory.memsw.limit_in_bytes": 2 * limit, "memory.swap.max": limit}
    found = {
        place: int(said)
        for place in places
        if (said := shell(sandbox, f"cat /sys/fs/cgroup/{place} 2>/dev/null || :").tail.strip())
    }
    assert found == {place: places[place] for place in found}


def test_processes_are_limited_and_a_full_sandbox_can_be_cleared(
    workbench: "Workbench", shell: Shell, processes: Processes
) -> None:
    if "pids" in workbench.info.unenforced:
        pytest.skip(f"{workbench.engine.name} says that it cannot limit processes here")
    sandbox = workbench.open("pids", limits=Limits(memory_bytes=None, pids=64))
    done = shell(sandbox, "for i in $(seq 200); do sleep 607 & done; echo all", timeout_s=5)
    assert b"all" not in done.tail.splitlines()
    sandbox.clear()
    assert processes(sandbox) == []


def test_the_share_of_the_processor_is_the_weight_that_was_asked_for(
    workbench: "Workbench", shell: Shell
) -> None:
    if "cpu" in workbench.info.unenforced:
        pytest.skip(f"{workbench.engine.name} says that it cannot weigh processor time here")
    sandbox = workbench.open("weight", limits=Limits(memory_bytes=None, pids=512, cpu_weight=512))
    done = shell(sandbox, "cat /sys/fs/cgroup/cpu/cpu.shares /sys/fs/cgroup/cpu.weight 2>/dev/null; true")
    # of version 1, and of version 2 as runtimes counted until 2025 and since
    assert done.tail in {b"512\n", b"20\n", b"59\n"}


def test_the_network_can_be_cut_and_given_back(workbench: "Workbench", shell: Shell) -> None:
    if "network" in workbench.info.unenforced:
        pytest.skip(f"{workbench.engine.name} says that it cannot cut the network here")
    sandbox = workbench.open("network")
    routes = "tail -n +2 /proc/net/route | wc -l"
    assert int(shell(sandbox, routes).tail) > 0
    resolvers = shell(sandbox, "cat /etc/resolv.conf").tail
    sandbox.set_network(enabled=False)
    sandbox.set_network(enabled=False)
    assert shell(sandbox, routes).tail == b"0\n"
    assert shell(sandbox, "ls /sys/class/net").tail.split() == [b"lo"]
    sandbox.clear()
    assert shell(sandbox, routes).tail == b"0\n"
    sandbox.set_network(enabled=True)
    sandbox.set_network(enabled=True)
    assert int(shell(sandbox, routes).tail) > 0
    assert shell(sandbox, "cat /etc/resolv.conf").tail == resolvers


def test_the_network_is_cut_for_what_already_runs(workbench: "Workbench", shell: Shell) -> None:
    if "network" in workbench.info.unenforced:
        pytest.skip(f"{workbench.engine.name} says that it cannot cut the network here")
    sandbox = workbench.open("network")
    sandbox.set_network(enabled=True)
    wait = "while [ ! -e /tmp/look ]; do sleep 0.1; done"
    watcher = (
        f"setsid sh -c '{wait}; tail -n +2 /proc/net/route > /tmp/seen; touch /tmp/done' >/dev/null 2>&1 &"
    )
    shell(sandbox, watcher)
    sandbox.set_network(enabled=False)
    seen = shell(sandbox, "touch /tmp/look; while [ ! -e /tmp/done ]; do sleep 0.1; done; cat /tmp/seen")
    assert (seen.tail, seen.timed_out) == (b"", False)


@pytest.mark.network
def test_names_resolve_and_packages_come_after_the_network_is_back(
    workbench: "Workbench", shell: Shell
) -> None:
    if "network" in workbench.info.unenforced:
        pytest.skip(f"{workbench.engine.name} says that it cannot cut the network here")
    sandbox = workbench.open("network")
    fetch = "cd /tmp && apt-get download hello"
    sandbox.set_network(enabled=False)
    assert shell(sandbox, fetch, user="root").exit_code != 0
    sandbox.set_network(enabled=True)
    done = shell(sandbox, fetch, user="root")
    assert done.exit_code == 0, done.tail.decode(errors="replace")
