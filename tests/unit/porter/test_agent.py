import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from pytest_atesor.core.plan import Platform, Target
from pytest_atesor.errors import UsageError
from pytest_atesor.porter.settings import read_settings
from pytest_atesor.porter.stages import decide_jobs

_SEED = [
    "--repo",
    "https://github.com/o/r",
    "--max-attempts",
    "3",
    "--force",
    "--container",
    "c-w1",
    "--platform",
    "debian",
]


def test_the_batch_flags_are_understood() -> None:
    settings = read_settings([*_SEED, "--target", "native", "--package"], {})
    assert (settings.max_attempts, settings.package) == (3, True)
    assert (settings.container, settings.platform, settings.target) == (
        "c-w1",
        Platform.DEBIAN,
        Target.NATIVE,
    )


def test_environment_fills_what_flags_leave_open() -> None:
    environ = {
        "ATESOR_REF": "v1",
        "ATESOR_MIRRORS": '["deb:zlib"]',
        "ATESOR_ENGINE": "podman",
        "ATESOR_RUN_DEADLINE": "1700000000.5",
        "ATESOR_ATTEMPT_DIR": "/x",
    }
    settings = read_settings(_SEED, environ)
    assert (settings.ref, settings.mirrors, settings.engine) == ("v1", ("deb:zlib",), "podman")
    assert (settings.kill_at, settings.attempt_directory) == (1700000000.5, Path("/x"))
    flags = read_settings(
        [*_SEED, "--ref", "main", "--mirror", "https://a/b", "--mirror", "deb:gron", "--engine", "docker"],
        environ,
    )
    assert (flags.ref, flags.mirrors, flags.engine) == ("main", ("https://a/b", "deb:gron"), "docker")


@pytest.mark.parametrize(
    ("flags", "value", "is_on"),
    [((), "", False), ((), "0", False), ((), "1", True), (("--build-network",), "", True)],
    ids=["default", "off", "on", "flag"],
)
def test_the_network_stays_on_only_when_asked(flags: tuple[str, ...], value: str, *, is_on: bool) -> None:
    settings = read_settings([*_SEED, *flags], {"ATESOR_BUILD_NETWORK": value})
    assert settings.has_build_network is is_on


@pytest.mark.parametrize(
    ("flags", "value", "is_accelerated"),
    [
        ((), "", True),
        ((), "0", True),
        ((), "1", False),
        ((), "yes", False),
        (("--no-acceleration",), "", False),
    ],
    ids=["default", "off", "on", "yes", "flag"],
)
def test_a_plain_sandbox_is_asked_for_by_flag_or_variable(
    flags: tuple[str, ...], value: str, *, is_accelerated: bool
) -> None:
    settings = read_settings([*_SEED, *flags], {"ATESOR_NO_ACCELERATION": value})
    assert settings.is_accelerated is is_accelerated


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ATESOR_NO_ACCELERATION", "perhaps"),
        ("ATESOR_BUILD_NETWORK", "perhaps"),
        ("ATESOR_MIRRORS", "deb:gron"),
        ("ATESOR_MIRRORS", "[1]"),
        ("ATESOR_RUN_DEADLINE", "soon"),
        ("ATESOR_RUN_DEADLINE", "nan"),
        ("ATESOR_PLATFORM", "plan9"),
        ("ATESOR_ENGINE", "none"),
    ],
)
def test_a_bad_variable_is_named_with_its_value(name: str, value: str) -> None:
    with pytest.raises(UsageError, match=name) as caught:
        read_settings(["--repo", "https://a/b"], {name: value})
    assert value in str(caught.value)


@pytest.mark.parametrize(
    ("variable", "flag", "value"),
    [
        ("ATESOR_ENGINE", "--engine", "podman"),
        ("ATESOR_PLATFORM", "--platform", "alpine"),
        ("ATESOR_TARGET", "--target", "qemu"),
        ("ATESOR_TESTS", "--tests", "skip"),
    ],
)
def test_a_flag_wins_over_a_variable_that_only_a_batch_knows(variable: str, flag: str, value: str) -> None:
    settings = read_settings([*_SEED, flag, value], {variable: "none"})
    assert value in {settings.engine, settings.platform, settings.target, settings.tests}


def _run(arguments: Sequence[str]) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "pytest_atesor.porter", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ["--max-attempts", "0", "--repo", "x"],
        ["--max-attempts", "many", "--repo", "x"],
        ["--platform", "plan9", "--repo", "x"],
        ["--nonesuch"],
        [],
        ["--repo"],
    ],
    ids=["no-attempts", "attempts-in-words", "platform", "flag", "no-source", "no-value"],
)
def test_a_bad_flag_is_exit_code_2_without_a_traceback(arguments: list[str]) -> None:
    done = _run(arguments)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert done.stderr.strip()


def test_help_is_exit_code_0() -> None:
    done = _run(["--help"])
    assert done.returncode == 0
    assert "--max-attempts" in done.stdout


def test_the_start_imports_no_heavy_library() -> None:
    heavy = "('rich', 'jinja2', 'jsonschema', 'yaml', 'elftools', 'click', 'pytest', 'hypothesis')"
    code = (
        "import pytest_atesor.porter.agent, pytest_atesor.porter.run, sys; "
        f"print([n for n in {heavy} if n in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("lines", "jobs"),
    [
        (["4294967296", "64"], 5),
        (["max", "8"], 8),
        (["9223372036854771712", "2"], 2),
        (["1000", "4"], 1),
        (["3"], 3),
        ([], 7),
    ],
    ids=["memory", "no-limit", "v1-no-limit", "tiny", "no-answer", "nothing"],
)
def test_jobs_fit_processors_and_memory(lines: list[str], jobs: int) -> None:
    assert decide_jobs(lines, 7) == jobs


# Stands in the place of a port that hears of HUP and INT while it runs, and of TERM at its end.
_IGNORING = """
import os, signal
from pytest_atesor.porter import agent

for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
with agent._signals():
    os.kill(os.getpid(), signal.SIGHUP)
    os.kill(os.getpid(), signal.SIGINT)
    try:
        os.kill(os.getpid(), signal.SIGTERM)
    except BaseException as stop:
        print("stopped by", stop)
print(*(signal.getsignal(number).name for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)))
"""


def test_what_nohup_made_it_ignore_stays_ignored() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", _IGNORING], check=True, timeout=300, capture_output=True, text=True
    )
    assert ended.stdout.splitlines() == ["stopped by SIGTERM", "SIG_IGN SIG_IGN SIG_IGN"]
