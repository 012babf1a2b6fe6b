"""``atesor run`` is the predecessor's command line, translated to pytest's."""

from pathlib import Path
from typing import Any

import pytest

from pytest_atesor import __version__
from pytest_atesor.cli import main, plan_pytest_arguments
from pytest_atesor.errors import UsageError


def plan(**flags: Any) -> list[str]:
    settings: dict[str, Any] = {
        "package_list": None,
        "workers": None,
        "platform": None,
        "target": None,
        "package": False,
        "shard_index": None,
        "shard_total": None,
        "names": (),
        "extra": (),
        "cpus": 4,
        "environ": {},
    }
    return plan_pytest_arguments(**{**settings, **flags})


def test_without_flags_it_is_the_smoke_list_on_every_cpu() -> None:
    assert plan() == ["-n", "4", "--atesor-list=smoke"]


def test_every_flag_has_its_option() -> None:
    assert plan(
        package_list="full",
        workers="2",
        platform="alpine",
        target="native",
        package=True,
        shard_index="0",
        shard_total="2",
    ) == [
        "-n",
        "2",
        "--atesor-list=full",
        "--atesor-platform=alpine",
        "--atesor-target=native",
        "--atesor-shard-index=0",
        "--atesor-shard-total=2",
        "--atesor-package",
    ]


def test_names_are_exact_and_extra_arguments_go_through() -> None:
    assert plan(names=("anew", "gron"), extra=("-v", "-k", "x"))[3:] == [
        "--atesor-only=anew",
        "--atesor-only=gron",
        "-v",
        "-k",
        "x",
    ]


def test_the_environment_s_list_stands_in_for_smoke() -> None:
    assert plan(environ={"ATESOR_LIST": "full"}) == ["-n", "4", "--atesor-list=full"]
    assert plan(environ={"ATESOR_LIST": ""}) == ["-n", "4", "--atesor-list=smoke"]
    assert plan(package_list="mine", environ={"ATESOR_LIST": "full"}) == ["-n", "4", "--atesor-list=mine"]


@pytest.mark.parametrize("workers", ["0", "5", "-1", "x", "", "1.5", "9" * 5000])
def test_a_worker_count_outside_1_to_the_cpu_count_is_refused(workers: str) -> None:
    with pytest.raises(UsageError, match="it must be from 1 to 4, the CPU count"):
        plan(workers=workers)


@pytest.mark.parametrize(
    "flags", [{"target": "native"}, {"environ": {"ATESOR_TARGET": "native"}}], ids=["flag", "setting"]
)
def test_the_native_machine_counts_its_own_workers(flags: dict[str, Any]) -> None:
    assert plan(**flags)[:2] == ["-n", "auto"]
    assert plan(workers="64", **flags)[:2] == ["-n", "64"]
    with pytest.raises(UsageError, match="the core count of the machine"):
        plan(workers="0", **flags)


def test_a_target_flag_wins_over_the_setting() -> None:
    assert plan(target="qemu", environ={"ATESOR_TARGET": "native"})[:2] == ["-n", "4"]


def test_a_name_cannot_become_a_file_of_names() -> None:
    with pytest.raises(UsageError):
        plan(names=("@names",))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "--workers", "0"], "bad worker count '0'"),
        (["run", "--bogus"], "--bogus"),
        (["run", "--list"], "--list"),
        (["bogus"], "bogus"),
        (["setup", "--platform", "arch"], "unknown platform 'arch'"),
        (["setup", "--engine", "none"], "unknown engine 'none'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_bad_flag_is_2_and_one_line(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    captured = capsys.readouterr()
    (line,) = captured.err.splitlines()
    assert line.startswith("atesor: error: ")
    assert words in line
    assert captured.out == ""


@pytest.mark.parametrize(
    "arguments",
    [
        ["batch", "run", "x" * 300],
        ["batch", "plan", f"{'x' * 300}.yaml"],
        ["sweep", "run", f"{'x' * 300}.yaml"],
        ["history", "--output-root", "x" * 300],
        ["resources", "copy", "x" * 300],
    ],
    ids=lambda arguments: " ".join(arguments[:2]),
)
def test_a_path_longer_than_any_is_one_line(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("atesor: error: cannot look at xxx")
    assert line.endswith("xxx...: File name too long; check the path")


def test_an_error_stays_one_plain_line_whatever_the_path(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "no\nsuch\x1b[31m\u202e"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line == "atesor: error: no such<U+202E> is no bundle: it has no batch_plan.json; check the path"


@pytest.mark.parametrize("arguments", [[], ["batch"], ["sweep"], ["resources"]], ids=" ".join)
def test_a_command_that_wants_another_shows_its_help(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"Usage: {' '.join(['atesor', *arguments])} ")
    assert "error" not in err


def test_dotenv_says_which_list_is_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ATESOR_LIST", raising=False)
    Path(".env").write_text("ATESOR_LIST=no-such-list\n")
    assert main(["run", "--workers", "1"]) == 1
    assert "no package list named 'no-such-list'" in capsys.readouterr().err


def test_help_and_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert __version__ in capsys.readouterr().out
    assert main(["run", "--help"]) == 0
    out = capsys.readouterr().out
    assert all(
        flag in out for flag in ("--list", "--workers", "--platform", "--target", "--package", "[NAMES]...")
    )
