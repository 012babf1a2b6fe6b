"""``atesor run`` is the predecessor's command line, translated to pytest's."""

import os
from pathlib import Path
from typing import Any

import click
import pytest

from pytest_atesor import __version__
from pytest_atesor.cli import main, plan_pytest_arguments
from pytest_atesor.commands.batch import ExtraCommand, batch, list_spellings
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
        "cpus": 4,
    }
    return plan_pytest_arguments(**{**settings, **flags})


def test_what_no_flag_says_is_left_to_the_settings_that_pytest_finds() -> None:
    assert plan() == ["-n", "auto", "--atesor-run="]


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
        "--atesor-run=2",
        "--atesor-list=full",
        "--atesor-platform=alpine",
        "--atesor-target=native",
        "--atesor-shard-index=0",
        "--atesor-shard-total=2",
        "--atesor-package",
    ]


def test_names_are_exact() -> None:
    assert plan(names=("anew", "gron"))[3:] == ["--atesor-only=anew", "--atesor-only=gron"]


@pytest.mark.parametrize("workers", ["0", "1000", "-1", "x", "", "1.5", "9" * 5000])
def test_a_worker_count_that_no_target_can_have_is_refused(workers: str) -> None:
    with pytest.raises(UsageError, match="it must be from 1 to 4, the CPU count, or on native"):
        plan(workers=workers)


def test_only_the_native_target_may_have_more_workers_than_there_are_cpus() -> None:
    assert plan(workers="64", target="native")[:2] == ["-n", "64"]
    with pytest.raises(UsageError, match="bad worker count '5' from --workers"):
        plan(workers="5", target="qemu")


def test_a_name_cannot_become_a_file_of_names() -> None:
    with pytest.raises(UsageError):
        plan(names=("@names",))


@pytest.mark.parametrize("extra", [["-k", "-nothing"], ["-m", "-n-1"]])
def test_a_value_of_pytest_that_begins_like_a_count_of_workers_is_none(extra: list[str]) -> None:
    command = ExtraCommand("x", params=[click.Option(["--workers"])])
    context = click.Context(command)
    command.parse_args(context, ["--workers", "1", "--", *extra])
    assert context.obj == extra


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "--workers", "0"], "bad worker count '0'"),
        (["run", "--workers", "1", "--", "-n", "2"], "--workers and -n both count workers; drop one"),
        (["batch", "run", "m.yaml", "--workers=2", "--", "-nauto"], "--workers and -nauto both count"),
        (["batch", "resume", "b", "--workers=2", "--", "--numprocesses=3"], "--numprocesses=3 both count"),
        (["sweep", "plan", "s.yaml", "--workers=2", "--", "-n0"], "--workers and -n0 both count workers"),
        (["run", "--bogus"], "No such option '--bogus'; see atesor run --help"),
        (["run", "--list"], "Option '--list' requires an argument; see atesor run --help"),
        (["bogus"], "No such command 'bogus'; see atesor --help"),
        (["batch", "rerun"], "Missing argument 'BUNDLE'; see atesor batch rerun --help"),
        (
            ["batch", "run", "smoke", "--output-root="],
            "empty output root from --output-root; name a directory",
        ),
        (["history", "--output-root="], "empty output root from --output-root; name a directory"),
        (["resources", "copy", ""], "an empty directory was named; name one, or none for"),
        (["setup", "--platform", "arch"], "unknown platform 'arch'"),
        (["setup", "--engine", "none"], "unknown engine 'none' from --engine"),
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


PLACES = {"env": (".env", "ATESOR_%s=%s\n"), "ini": ("pytest.ini", "[pytest]\natesor_%s = %s\n")}


@pytest.fixture
def below(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory below a rootdir, in which the command is started, without settings of the environment."""
    for name in ("LIST", "TARGET", "PLATFORM", "ENGINE", "AGENT"):
        monkeypatch.delenv(f"ATESOR_{name}", raising=False)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    directory = tmp_path / "sub"
    directory.mkdir()
    monkeypatch.chdir(directory)
    return directory


def run_listing(capfd: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, list[str], str]:
    """Return exit code, node ids and errors of ``atesor run`` that only lists."""
    capfd.readouterr()
    code = main(["run", *arguments, "--", "--collect-only", "-q", "-p", "no:cacheprovider"])
    captured = capfd.readouterr()
    return code, [line for line in captured.out.splitlines() if "::" in line], captured.err


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("value", ["mine", "lists/mine.json"], ids=["name", "path"])
def test_a_list_that_is_configured_is_run_from_wherever_one_stands(
    below: Path, capfd: pytest.CaptureFixture[str], place: str, value: str
) -> None:
    root = below.parent
    name, line = PLACES[place]
    (root / name).write_text(line % (("LIST" if place == "env" else "list"), value))
    body = '{"$schema_version": 1, "packages": [{"name": "a", "url": "https://example.org/a"}]}'
    for folder in ("packages", "lists"):
        (root / folder).mkdir()
        (root / folder / "mine.json").write_text(body)
    source = "packages/mine.json" if value == "mine" else value
    assert run_listing(capfd) == (0, [f"{source}::a"], "")
    code, found, _ = run_listing(capfd, "--list", "smoke", "zlib")
    assert (code, found) == (0, ["packages/smoke.json::zlib"])


def test_without_any_setting_the_smoke_list_is_run(below: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert below.is_dir()
    code, found, _ = run_listing(capfd, "zlib")
    assert (code, found) == (0, ["packages/smoke.json::zlib"])


TYPED = {
    "flag": (["--platform", "fedora"], "unknown platform 'fedora' from --platform; use one of: "),
    "flag of pytest": (
        ["--platform=debian", "--", "--atesor-platform=fedora"],
        "unknown platform 'fedora' from --atesor-platform; use one of: ",
    ),
    "name": ([""], "no name behind NAMES; give a package's name"),
    "name that is not there": (
        ["--list", "smoke", "good"],
        "the plugin's list smoke has no package \"good\"; see the names in the plugin's list smoke",
    ),
}


@pytest.mark.parametrize(("arguments", "words"), TYPED.values(), ids=TYPED.keys())
def test_an_error_names_what_was_typed(
    below: Path, capfd: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    assert below.is_dir()
    listing = ["--collect-only", "-q", "-p", "no:cacheprovider"]
    assert main(["run", *arguments, *([] if "--" in arguments else ["--"]), *listing]) == 2
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith(f"atesor: error: {words}")


def test_each_command_spells_the_options_of_pytest_its_own_way() -> None:
    assert isinstance(batch, click.Group)
    spelled = list_spellings(batch.commands["rerun"], ["-q"])
    assert spelled["--atesor-rerun-case"] == "--case"
    assert list_spellings(batch.commands["run"], [])["--atesor-profile-root"] == "--profile-root"
    assert list_spellings(batch.commands["resume"], [])["--atesor-retry-failed"] == "--retry-failed"


@pytest.mark.parametrize("place", PLACES)
def test_the_configured_target_says_how_many_workers_there_may_be(
    below: Path, capfd: pytest.CaptureFixture[str], place: str
) -> None:
    cpus = os.cpu_count() or 1
    code, _, err = run_listing(capfd, f"--workers={cpus + 1}")
    assert (code, err.count("\n")) == (2, 1)
    assert f"bad worker count '{cpus + 1}' from --workers; it must be from 1 to {cpus}, the CPU count" in err
    name, line = PLACES[place]
    (below.parent / name).write_text(line % (("TARGET" if place == "env" else "target"), "native"))
    assert run_listing(capfd, f"--workers={cpus + 1}", "zlib")[:2] == (0, ["packages/smoke.json::zlib"])


def test_the_cpus_are_counted_by_default(
    below: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert below.is_dir()
    monkeypatch.setattr(os, "cpu_count", lambda: 3)
    monkeypatch.setenv("ATESOR_AGENT", "true")
    monkeypatch.setenv("ATESOR_ENGINE", "none")
    assert main(["run", "zlib", "--", "-p", "no:cacheprovider"]) == 0
    assert "created: 3/3 workers" in capfd.readouterr().out


def test_tests_beside_the_smoke_list_are_refused(below: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (below / "test_x.py").touch()
    assert main(["run", "--", "test_x.py"]) == 2
    assert "'test_x.py' is none" in capfd.readouterr().err


def test_help_and_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert __version__ in capsys.readouterr().out
    assert main(["run", "--help"]) == 0
    out = capsys.readouterr().out
    assert all(
        flag in out for flag in ("--list", "--workers", "--platform", "--target", "--package", "[NAMES]...")
    )


@pytest.mark.parametrize(
    ("name", "words"),
    [("none", "No such file or directory"), (".", "no regular file; name one"), ("binary", "can't decode")],
)
def test_a_separate_file_of_names_that_cannot_be_read_is_one_line(
    name: str, words: str, below: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (below / "binary").write_bytes(b"\xff\n")
    assert main(["run", "--list", "smoke", "--", "--atesor-only", f"@{name}"]) == 2
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith("atesor: error: cannot read the names in ")
    assert words in line


@pytest.mark.parametrize(
    ("text", "words"),
    [(b"a: [\n", "is not valid YAML: line 2, column 1: "), (b"\xff", "is not UTF-8"), (b"", "is empty")],
    ids=["broken", "binary", "empty"],
)
def test_what_nobody_can_read_is_told_so_where_a_sweep_is_wanted(
    text: bytes, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "s.yaml").write_bytes(text)
    assert main(["sweep", "run", str(tmp_path / "s.yaml")]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"atesor: error: {tmp_path}/s.yaml {words}")
