"""The settings of the riscv64 machine: one mode, known keys, values that ssh cannot take for options."""

import pytest

from pytest_atesor.errors import SetupError
from pytest_atesor.sandbox.native.settings import (
    Fields,
    NativeSettings,
    format_ssh_config,
    parse_settings,
)


def test_an_alias_is_enough() -> None:
    assert parse_settings({"ATESOR_SSH_HOST": "board", "HOME": "/root"}) == (
        NativeSettings(alias="board", fields=None, workdir="pytest-atesor"),
    )


@pytest.mark.parametrize(
    "text", ["a,b.example", "a b.example", " a ,\tb.example,"], ids=["commas", "spaces", "both"]
)
def test_several_aliases_are_several_machines_with_the_same_settings(text: str) -> None:
    machines = parse_settings({"ATESOR_SSH_HOST": text, "ATESOR_REMOTE_WORKDIR": "~/x"})
    assert machines == tuple(
        NativeSettings(alias=alias, fields=None, workdir="x") for alias in ("a", "b.example")
    )
    assert [one.name for one in machines] == ["a", "b.example"]


def test_fields_describe_a_machine() -> None:
    environ = {
        "ATESOR_SSH_HOSTNAME": "192.0.2.7",
        "ATESOR_SSH_PORT": "2222",
        "ATESOR_SSH_USER": "me",
        "ATESOR_SSH_IDENTITY_FILE": "~/.ssh/board key",
    }
    (machine,) = parse_settings(environ)
    assert machine.name == "atesor-native"
    assert machine.fields == Fields(
        hostname="192.0.2.7", port=2222, user="me", identity_file="~/.ssh/board key"
    )


def test_an_empty_value_counts_as_unset() -> None:
    environ = {"ATESOR_SSH_HOST": "board", "ATESOR_SSH_PORT": ""}
    assert parse_settings(environ)[0].fields is None


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        pytest.param({}, "set ATESOR_SSH_HOST", id="nothing"),
        pytest.param(
            {"ATESOR_SSH_HOST": "a", "ATESOR_SSH_HOSTNAME": "b"}, "exclude each other", id="both modes"
        ),
        pytest.param({"ATESOR_SSH_USER": "me"}, "without ATESOR_SSH_HOSTNAME", id="no hostname"),
        pytest.param(
            {"ATESOR_SSH_HOST": "a", "ATESOR_SSH_PASSWORD": "x"},
            "unknown setting ATESOR_SSH_PASSWORD",
            id="unknown key",
        ),
        pytest.param(
            {"ATESOR_SSH_HOST": "a", "ATESOR_SSH_PASSWORD": ""},
            "unknown setting ATESOR_SSH_PASSWORD",
            id="unknown empty key",
        ),
        pytest.param({"ATESOR_SSH_HOST": "-oProxyCommand=x"}, "is no host", id="option as alias"),
        pytest.param({"ATESOR_SSH_HOST": "a,-b"}, "'-b' is no host", id="option among aliases"),
        pytest.param({"ATESOR_SSH_HOST": " , "}, "is no host", id="no alias"),
        pytest.param({"ATESOR_SSH_HOST": "a,b a"}, "names a twice", id="twice"),
        pytest.param({"ATESOR_SSH_HOSTNAME": "a,b"}, "is no host name", id="several fields"),
        pytest.param({"ATESOR_SSH_HOSTNAME": "a\nProxyCommand x"}, "is no host name", id="line in hostname"),
        pytest.param({"ATESOR_SSH_HOSTNAME": "-x"}, "is no host name", id="option as hostname"),
        pytest.param(
            {"ATESOR_SSH_HOSTNAME": "a", "ATESOR_SSH_USER": "-l root"}, "is no user name", id="option as user"
        ),
        pytest.param({"ATESOR_SSH_HOSTNAME": "a", "ATESOR_SSH_PORT": "65536"}, "is no port", id="port"),
        pytest.param(
            {"ATESOR_SSH_HOSTNAME": "a", "ATESOR_SSH_IDENTITY_FILE": 'x"\nProxyCommand y'},
            "is no absolute path",
            id="line in identity",
        ),
        pytest.param({"ATESOR_SSH_HOST": "a", "ATESOR_NATIVE_ALLOW": "all"}, "is unknown", id="allowance"),
        pytest.param(
            {"ATESOR_SSH_HOST": "a", "ATESOR_NATIVE_IMAGE": "--privileged"}, "is no image name", id="image"
        ),
    ],
)
def test_what_cannot_be_meant_stops_the_run(environ: dict[str, str], words: str) -> None:
    with pytest.raises(SetupError, match=words):
        parse_settings(environ)


@pytest.mark.parametrize(
    "value", ["~", "~/", "/", ".", "./", "~/.ssh", "/home/me/.ssh/x", "..", "a/../..", "~root", "-x", "a$b"]
)
def test_a_work_directory_that_could_do_harm_is_refused(value: str) -> None:
    with pytest.raises(SetupError, match="ATESOR_REMOTE_WORKDIR"):
        parse_settings({"ATESOR_SSH_HOST": "board", "ATESOR_REMOTE_WORKDIR": value})


def test_the_home_is_refused_as_such() -> None:
    with pytest.raises(SetupError, match="must not be the home itself"):
        parse_settings({"ATESOR_SSH_HOST": "board", "ATESOR_REMOTE_WORKDIR": "~"})


@pytest.mark.parametrize(
    ("value", "path"),
    [("~/builds/", "builds"), ("/data/atesor", "/data/atesor"), ("x/y", "x/y")],
    ids=["tilde", "absolute", "relative"],
)
def test_a_work_directory_counts_from_the_home_there(value: str, path: str) -> None:
    assert parse_settings({"ATESOR_SSH_HOST": "b", "ATESOR_REMOTE_WORKDIR": value})[0].workdir == path


def test_the_private_configuration_comes_before_the_users_own() -> None:
    fields = Fields(hostname="fe80::1%eth0", port=22022, user="me", identity_file="/k y/id")
    assert format_ssh_config(fields, "atesor-native") == (
        "Host atesor-native\n"
        "    HostName fe80::1%%eth0\n"
        "    Port 22022\n"
        "    User me\n"
        '    IdentityFile "/k y/id"\n'
        "    IdentitiesOnly yes\n"
        "Host *\n"
        "    Include ~/.ssh/config\n"
    )
