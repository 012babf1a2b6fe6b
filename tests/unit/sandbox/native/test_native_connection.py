"""The connection: a real ssh to a real sshd, no password, private files, every round trip counted."""

import stat
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_atesor.errors import SandboxError
from pytest_atesor.sandbox.native.connection import Connection, cache_directory, explain_ssh, make_connection
from pytest_atesor.sandbox.native.settings import parse_settings
from tests.unit.processes import LIMIT_S

if TYPE_CHECKING:
    from ssh_server import Server


@pytest.mark.usefixtures("server")
def test_a_script_runs_there_with_its_arguments_as_they_are(tmp_path: Path) -> None:
    connection = Connection(host="board", trips=tmp_path / "trips")
    ended = connection.script('printf "%s|" "$@"; exit 3', "a b", "$HOME", "it's", "-n", timeout_s=LIMIT_S)
    assert (ended.returncode, ended.stdout) == (3, b"a b|$HOME|it's|-n|")
    assert (tmp_path / "trips").read_bytes() == b"."


def test_a_key_that_is_not_accepted_fails_without_a_question(server: "Server") -> None:
    (server.directory / "key.pub").write_text("", encoding="utf-8")
    with pytest.raises(SandboxError, match=r"Permission denied.*ssh-add"):
        Connection(host="board").script("true", timeout_s=LIMIT_S)


def test_a_host_key_that_changed_is_refused(server: "Server") -> None:
    other = server.directory / "other"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(other)], check=True)  # noqa: S607 - PATH
    public = other.with_suffix(".pub").read_text(encoding="utf-8")
    (server.directory / "known_hosts").write_text(f"* {public}", encoding="utf-8")
    with pytest.raises(SandboxError, match="check the machine's key"):
        Connection(host="board").script("true", timeout_s=LIMIT_S)


@pytest.mark.usefixtures("server")
def test_a_command_that_does_not_end_is_given_up() -> None:
    with pytest.raises(SandboxError, match="did not answer within 1 s"):
        Connection(host="board").script("exec sleep 600", timeout_s=1)


def test_fields_reach_the_machine_through_a_private_file(tmp_path: Path) -> None:
    environ = {
        "ATESOR_SSH_HOSTNAME": "192.0.2.7",
        "ATESOR_SSH_USER": "someone",
        "XDG_CACHE_HOME": str(tmp_path),
    }
    connection = make_connection(parse_settings(environ)[0], cache_directory(environ))
    assert connection.config is not None
    assert stat.S_IMODE(connection.config.stat().st_mode) == 0o600
    assert stat.S_IMODE(connection.config.parent.stat().st_mode) == 0o700
    assert "192.0.2.7" not in " ".join(connection.argv("true"))
    shown = subprocess.run(
        [*connection.ssh(), "-G", connection.host], capture_output=True, text=True, check=True
    ).stdout
    assert {"hostname 192.0.2.7", "user someone", "batchmode yes"} <= set(shown.splitlines())


def test_two_machines_have_two_files(tmp_path: Path) -> None:
    files = {
        make_connection(parse_settings({"ATESOR_SSH_HOSTNAME": name})[0], tmp_path).config
        for name in ("a", "b")
    }
    assert len(files) == 2


@pytest.mark.parametrize(
    ("said", "advice"),
    [
        ("ssh: Could not resolve hostname nowhere: Name or service not known", "check the name"),
        ("ssh: connect to host x port 22: Connection refused", "check that the machine is up"),
        ("", "check that the machine is up"),
        ("\x1b[31mPermission denied (publickey).", "ssh-add"),
    ],
    ids=["name", "refused", "silent", "key"],
)
def test_a_failed_login_says_what_to_do(said: str, advice: str) -> None:
    line = explain_ssh("board", said)
    assert advice in line
    assert "\x1b" not in line
