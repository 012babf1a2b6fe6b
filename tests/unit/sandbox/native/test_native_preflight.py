"""The preflight: against a real sshd, every problem in one list, and no word that only half is true."""

import os
import resource
from typing import TYPE_CHECKING

import pytest

from pytest_atesor.errors import SetupError
from pytest_atesor.sandbox.native.preflight import (
    examine_machines,
    format_problems,
    read_workers,
    require_machines,
)

if TYPE_CHECKING:
    from ssh_server import Server


def test_the_machine_is_read_in_one_call_after_the_login(server: "Server") -> None:
    (found,) = examine_machines(server.environ).machines
    assert found.machine.architecture == os.uname().machine
    assert found.machine.cores == len(os.sched_getaffinity(0))
    assert found.machine.work == server.environ["ATESOR_REMOTE_WORKDIR"]


def test_the_hard_limits_are_read_whatever_the_shell_knows(server: "Server") -> None:
    (found,) = examine_machines(server.environ).machines
    files, processes, _ = found.machine.facts["limits"].split()
    for shown, kind in ((files, resource.RLIMIT_NOFILE), (processes, resource.RLIMIT_NPROC)):
        hard = resource.getrlimit(kind)[1]
        assert shown == ("unlimited" if hard == resource.RLIM_INFINITY else str(hard))


def test_a_login_shell_that_is_none_is_named(server: "Server") -> None:
    with (server.directory / "sshd_config").open("a", encoding="utf-8") as file:
        file.write("ForceCommand echo hello\n")
    survey = examine_machines(server.environ)
    assert survey.machines == ()
    assert "POSIX shell; " not in format_problems(survey.problems)
    assert "chsh" in format_problems(survey.problems)


def test_a_machine_whose_cores_cannot_be_read_is_exit_code_one(server: "Server") -> None:
    with (server.directory / "sshd_config").open("a", encoding="utf-8") as file:
        file.write("ForceCommand echo 'atesor  42'\n")
    with pytest.raises(SetupError, match="cores and memory cannot be read") as caught:
        require_machines(server.environ)
    assert caught.value.exit_code == 1


def test_a_missing_program_and_a_bad_setting_are_in_one_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    survey = examine_machines({"ATESOR_SSH_HOST": "a", "ATESOR_SSH_KEY": "b"})
    assert [one.line for one in survey.problems] == [
        "ssh is not installed on this machine",
        "rsync is not installed on this machine",
        "unknown setting ATESOR_SSH_KEY",
    ]


def test_no_settings_say_what_to_set() -> None:
    with pytest.raises(SetupError, match="set ATESOR_SSH_HOST"):
        require_machines({})


def test_the_problems_of_all_machines_are_in_one_list_each_with_its_machine(server: "Server") -> None:
    server.refuse("left")
    survey = examine_machines({**server.environ, "ATESOR_SSH_HOST": "left,right", "ATESOR_NATIVE_ALLOW": ""})
    assert [one.settings.name for one in survey.machines] == ["right"]
    lines = [one.line for one in survey.problems]
    assert lines[0].startswith("left: no connection to left (")
    assert any(line.startswith(f"right: the machine is {os.uname().machine}, not riscv64") for line in lines)
    assert all(line.startswith("right: ") for line in lines[1:])


def test_one_machine_under_two_names_is_refused_unless_a_test_allows_it(server: "Server") -> None:
    environ = {**server.environ, "ATESOR_SSH_HOST": "left right"}
    allowed = f"{environ['ATESOR_NATIVE_ALLOW']},twice"
    assert len(require_machines({**environ, "ATESOR_NATIVE_ALLOW": allowed})) == 2
    with pytest.raises(
        SetupError, match=r"right: it is the same machine as left; name it once in ATESOR_SSH"
    ):
        require_machines(environ)


def test_the_workers_of_several_machines_are_added_up(server: "Server") -> None:
    one = read_workers(server.environ)
    assert one is not None
    assert read_workers({**server.environ, "ATESOR_SSH_HOST": "left,right"}) == 2 * one
    server.refuse("right")
    assert read_workers({**server.environ, "ATESOR_SSH_HOST": "left,right"}) is None
