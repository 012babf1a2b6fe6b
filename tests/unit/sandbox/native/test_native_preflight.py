"""The preflight: against a real sshd, every problem in one list, and no word that only half is true."""

import os
import resource
from typing import TYPE_CHECKING

import pytest

from pytest_atesor.errors import SetupError
from pytest_atesor.sandbox.native.preflight import examine_machine, format_problems, require_machine

if TYPE_CHECKING:
    from ssh_server import Server


def test_the_machine_is_read_in_one_call_after_the_login(server: "Server") -> None:
    found = examine_machine(server.environ)
    assert found.machine is not None
    assert found.machine.architecture == os.uname().machine
    assert found.machine.cores == len(os.sched_getaffinity(0))
    assert found.machine.work == server.environ["ATESOR_REMOTE_WORKDIR"]


def test_the_hard_limits_are_read_whatever_the_shell_knows(server: "Server") -> None:
    found = examine_machine(server.environ)
    assert found.machine is not None
    files, processes, _ = found.machine.facts["limits"].split()
    for shown, kind in ((files, resource.RLIMIT_NOFILE), (processes, resource.RLIMIT_NPROC)):
        hard = resource.getrlimit(kind)[1]
        assert shown == ("unlimited" if hard == resource.RLIM_INFINITY else str(hard))


def test_a_login_shell_that_is_none_is_named(server: "Server") -> None:
    with (server.directory / "sshd_config").open("a", encoding="utf-8") as file:
        file.write("ForceCommand echo hello\n")
    found = examine_machine(server.environ)
    assert found.machine is None
    assert "POSIX shell; " not in format_problems(found.problems)
    assert "chsh" in format_problems(found.problems)


def test_a_machine_whose_cores_cannot_be_read_is_exit_code_one(server: "Server") -> None:
    with (server.directory / "sshd_config").open("a", encoding="utf-8") as file:
        file.write("ForceCommand echo 'atesor  42'\n")
    with pytest.raises(SetupError, match="cores and memory cannot be read") as caught:
        require_machine(server.environ)
    assert caught.value.exit_code == 1


def test_a_missing_program_and_a_bad_setting_are_in_one_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    found = examine_machine({"ATESOR_SSH_HOST": "a", "ATESOR_SSH_KEY": "b"})
    assert [one.text for one in found.problems] == [
        "ssh is not installed on this machine",
        "rsync is not installed on this machine",
        "unknown setting ATESOR_SSH_KEY",
    ]


def test_no_settings_say_what_to_set() -> None:
    with pytest.raises(SetupError, match="set ATESOR_SSH_HOST"):
        require_machine({})
