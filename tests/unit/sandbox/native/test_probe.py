"""What a machine says of itself, and each thing that keeps it from being a target, broken in turn."""

import pytest

from pytest_atesor.sandbox.native.probe import (
    Machine,
    find_problems,
    find_twins,
    format_machine,
    parse_machine,
    share_workers,
)
from pytest_atesor.sandbox.native.settings import NativeSettings

NOW = 1_800_000_000
GOOD = {
    "probe": "1",
    "architecture": "riscv64",
    "kernel": "6.12.1",
    "home": "/home/me",
    "user": "me",
    "uid": "1000",
    "clock": str(NOW),
    "cores": "8",
    "memory_kb": str(16 * 1024 * 1024 - 400_000),
    "model": "Milk-V Pioneer",
    "virtual": "none",
    "has_rsync": "1",
    "has_podman": "1",
    "has_flock": "1",
    "has_timeout": "1",
    "has_tar": "1",
    "has_newuidmap": "1",
    "has_newgidmap": "1",
    "subuid": "65536",
    "subgid": "65536",
    "podman": "podman version 5.4.2",
    "rootless": "true",
    "cgroups": "v2",
    "storage": "/home/me/.local/share/containers/storage",
    "work": "/home/me/pytest-atesor",
    "is_writable": "1",
    "work_free_kb": "30000000",
    "work_device": "7",
    "store_free_kb": "30000000",
    "store_device": "7",
}
SETTINGS = NativeSettings(alias="board", fields=None)


def machine(**changes: str) -> Machine:
    facts = {**GOOD, **changes}
    found = parse_machine("\n".join(f"{name}={value}" for name, value in facts.items() if value))
    assert found is not None
    return found


def problems(**changes: str) -> list[str]:
    return [f"{one.text}; {one.fix}" for one in find_problems(machine(**changes), SETTINGS, now_s=NOW)]


def test_a_good_machine_has_no_problem() -> None:
    assert problems() == []
    assert format_machine(machine()) == (
        "Milk-V Pioneer, riscv64, real hardware, 8 cores, 15.6 GiB, Linux 6.12.1, podman 5.4.2"
    )


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        pytest.param({"architecture": "x86_64"}, "is x86_64, not riscv64; name a riscv64 machine", id="arch"),
        pytest.param(
            {"virtual": "qemu"}, "is virtual (qemu): its results are no native results", id="virtual"
        ),
        pytest.param({"uid": "0"}, "the login is root's", id="root"),
        pytest.param({"clock": str(NOW - 900)}, "clock is 900 s behind; sudo timedatectl", id="slow clock"),
        pytest.param({"clock": str(NOW + 900)}, "clock is 900 s ahead", id="fast clock"),
        pytest.param(
            {"has_rsync": ""}, "rsync is not installed there; sudo apt-get install rsync", id="rsync"
        ),
        pytest.param({"has_podman": ""}, "podman is not installed there; sudo apt-get", id="podman"),
        pytest.param({"podman": "podman version 3.4.4"}, "podman 3.4.4 is older than 4", id="old podman"),
        pytest.param({"subuid": ""}, "me has no range of 65536 ids in /etc/subuid", id="subuid"),
        pytest.param({"subgid": "100"}, "me has no range of 65536 ids in /etc/subgid", id="subgid"),
        pytest.param({"has_newuidmap": ""}, "newuidmap is not installed there", id="newuidmap"),
        pytest.param({"podman_error": "no such"}, "podman does not work there (no such)", id="podman error"),
        pytest.param({"rootless": "false"}, "podman runs as root there", id="rootful"),
        pytest.param({"is_writable": ""}, "cannot be made or written", id="work directory"),
        pytest.param({"work": "/home/me"}, "is the home itself", id="home"),
        pytest.param({"work": "/home"}, "a parent of it", id="parent"),
        pytest.param({"work": "/"}, "a parent of it", id="root directory"),
        pytest.param({"work": "/home/me/.ssh"}, "inside ~/.ssh", id="keys"),
        pytest.param(
            {"work_free_kb": "19000000"}, "19.5 GB are free in /home/me/pytest-atesor, 20 GB", id="space"
        ),
        pytest.param(
            {"store_device": "8", "store_free_kb": "9000000"},
            "9.2 GB are free in /home/me/.local",
            id="store",
        ),
    ],
)
def test_each_broken_thing_is_named_with_what_mends_it(changes: dict[str, str], words: str) -> None:
    found = problems(**changes)
    assert len(found) == 1
    assert words in found[0]


def test_two_file_systems_need_ten_each() -> None:
    assert problems(work_free_kb="11000000", store_free_kb="11000000", store_device="8") == []


def test_all_problems_come_in_one_list() -> None:
    assert len(problems(architecture="x86_64", has_rsync="", subuid="", is_writable="")) == 4


def test_tests_may_allow_what_is_no_real_machine() -> None:
    allowing = NativeSettings(alias="x", fields=None, allowed=frozenset({"virtual", "architecture", "root"}))
    odd = machine(architecture="x86_64", virtual="kvm", uid="0", rootless="false", subuid="")
    assert find_problems(odd, allowing, now_s=NOW) == ()
    assert "virtual machine (kvm)" in format_machine(machine(virtual="kvm"))


@pytest.mark.parametrize(
    ("cores", "gib", "workers"),
    [(8, 16, 4), (4, 32, 4), (64, 128, 32), (4, 2, 1)],
    ids=["memory", "cores", "large", "small"],
)
def test_workers_are_bound_by_cores_and_memory(cores: int, gib: int, workers: int) -> None:
    seen = gib * 1024 * 1024 - 300_000  # what the firmware leaves
    assert machine(cores=str(cores), memory_kb=str(seen)).workers == workers


@pytest.mark.parametrize(
    "text", ["", "cores=4", "probe=1\ncores=x\nmemory_kb=5"], ids=["none", "half", "bad"]
)
def test_a_machine_that_cannot_be_read_is_none(text: str) -> None:
    assert parse_machine(text) is None


def test_a_quarter_of_a_gigabyte_does_not_cost_a_worker() -> None:
    assert machine(cores="4", memory_kb=str(8 * 1024 * 1024 - 250_000)).workers == 2


def test_what_the_machine_says_reaches_no_terminal_raw() -> None:
    assert "\x1b" not in format_machine(machine(model="\x1b[2Jevil"))


def test_machines_share_the_workers_by_what_they_hold_and_then_by_their_cores() -> None:
    large = machine(cores="8", memory_kb=str(16 * 1024**2))  # holds 4
    small = machine(cores="4", memory_kb=str(8 * 1024**2))  # holds 2
    shares = {count: share_workers(count, (large, small)) for count in (1, 2, 3, 6, 7, 9, 12)}
    assert shares == {1: (1, 0), 2: (2, 0), 3: (2, 1), 6: (4, 2), 7: (5, 2), 9: (6, 3), 12: (8, 4)}
    assert share_workers(4, (small, small)) == (2, 2)
    assert share_workers(1, (small,)) == (1,)


def test_one_machine_with_two_names_is_found_by_its_boot() -> None:
    one, other = machine(boot="1-1"), machine(boot="2-2")
    assert find_twins([("a", one), ("b", other), ("c", machine()), ("d", machine())]) == ()
    (problem,) = find_twins([("a", one), ("b", other), ("c", one)])
    assert problem.line == "c: it is the same machine as a"
