"""The address of a machine that fields describe: it stands in no message and in no log."""

import shlex
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_atesor.sandbox.native.connection import cache_directory, hide_address, make_connection
from pytest_atesor.sandbox.native.preflight import examine_machines
from pytest_atesor.sandbox.native.settings import parse_settings

ADDRESS = "127.0.0.1"
LIMIT_S = 60


@pytest.fixture
def refusing(tmp_path: Path) -> Iterator[dict[str, str]]:
    """Fields of a machine on which nobody listens."""
    with socket.socket() as taken:
        taken.bind((ADDRESS, 0))
        yield {
            "ATESOR_SSH_HOSTNAME": ADDRESS,
            "ATESOR_SSH_PORT": str(taken.getsockname()[1]),
            "ATESOR_SSH_USER": "someone",
            "XDG_CACHE_HOME": str(tmp_path),
        }


def test_a_machine_that_does_not_answer_is_named_without_its_address(refusing: dict[str, str]) -> None:
    (problem,) = examine_machines(refusing).problems
    assert "ssh: connect to host atesor-native port" in problem.text
    assert ADDRESS not in problem.line + problem.fix


def test_the_command_that_mends_it_connects_by_hand(refusing: dict[str, str]) -> None:
    (problem,) = examine_machines(refusing).problems
    command = shlex.split(problem.fix.rpartition("(")[2].rstrip(")"))
    shown = subprocess.run(
        [*command, "-G"], capture_output=True, text=True, check=True, timeout=LIMIT_S
    ).stdout.splitlines()
    assert {f"hostname {ADDRESS}", f"port {refusing['ATESOR_SSH_PORT']}", "user someone"} <= set(shown)


def test_a_client_whose_words_go_to_a_log_is_silent_about_it(refusing: dict[str, str]) -> None:
    connection = make_connection(parse_settings(refusing)[0], cache_directory(refusing))
    ended = subprocess.run(
        connection.argv("true", is_logged=True), capture_output=True, check=False, timeout=LIMIT_S
    )
    assert (ended.returncode, ended.stdout + ended.stderr) == (255, b"")


@pytest.mark.parametrize(
    ("said", "hidden"),
    [
        ("ssh: connect to host board.lan port 22: x", "ssh: connect to host it port 22: x"),
        ("me@board.lan: Permission denied", "me@it: Permission denied"),
        ("Connection closed by 192.0.2.7 port 22", "Connection closed by it port 22"),
        ("Connection closed by 2001:db8::7 port 22", "Connection closed by it port 22"),
        ("connect to host fe80::1%eth0 port 22", "connect to host it port 22"),
        ("[192.0.2.7]:22: no", "[it]:22: no"),
        ("ssh: OpenSSH_9.2p1: aboard.lan, board.land", "ssh: OpenSSH_9.2p1: aboard.lan, board.land"),
    ],
    ids=["name", "login", "v4", "v6", "zone", "brackets", "others"],
)
def test_names_and_addresses_are_replaced(said: str, hidden: str) -> None:
    assert hide_address(said, "board.lan", "it") == hidden
