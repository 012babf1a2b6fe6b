"""What a user writes for one port: flags, variables, mistakes; all are answered before anything starts."""

from pathlib import Path

import pytest

from pytest_atesor.core.outcome import Cause
from pytest_atesor.core.port_outcome import parse_agent_result
from pytest_atesor.errors import UsageError
from pytest_atesor.porter.agent import main, replay_main
from pytest_atesor.porter.recipe import Recipe, format_recipe
from pytest_atesor.porter.settings import Settings, read_settings

URL = "https://example.org/o/r"


def read(*flags: str, **environ: str) -> Settings:
    return read_settings(["--repo", URL, *flags], environ)


@pytest.mark.parametrize(
    ("text", "is_on"),
    [("True", True), (" ON ", True), ("1", True), ("False", False), ("OFF", False), ("", False)],
)
def test_flags_in_variables_are_words_as_for_a_batch(text: str, *, is_on: bool) -> None:
    assert read(ATESOR_NO_ACCELERATION=text).is_accelerated is not is_on
    assert read(ATESOR_BUILD_NETWORK=text).has_build_network is is_on


@pytest.mark.parametrize("name", ["ATESOR_NO_ACCELERATION", "ATESOR_BUILD_NETWORK"])
def test_a_variable_is_read_only_where_no_flag_decides(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UsageError, match=f"bad value 'perhaps' of {name}; use 1 or 0"):
        read(**{name: "perhaps"})
    settings = read("--no-acceleration", "--build-network", **{name: "perhaps"})
    assert (settings.is_accelerated, settings.has_build_network) == (False, True)
    assert main(["--help"], {name: "perhaps"}) == 0
    assert "--no-acceleration" in capsys.readouterr().out


BAD = {
    "flag": (["--bogus"], "unrecognized arguments: --bogus; see atesor port --help"),
    "flag of two lines": (["--a\nb"], "unrecognized arguments: --a b; see atesor port --help"),
    "no value": (["--ref"], "argument --ref: expected one argument; see"),
    "platform": (["--platform", "plan9"], "argument --platform: invalid choice: 'plan9'"),
    "attempts": (["--max-attempts", "many"], "'many' is no number of at least 1"),
    "container": (["--container", "a b"], "bad container name 'a b'; use letters, digits,"),
    "empty container": (["--container="], "bad container name ''"),
    "two sources": (["one", "two"], "unrecognized arguments: two; see"),
    "no URL": (["foo"], 'the source "foo" is refused: it is no URL; write https://host/owner/repo'),
    "remote helper": (["--repo", "ext::sh"], 'the source "ext::sh" is refused: remote helpers such as ext::'),
    "mirror": ([URL, "--mirror", "fd::7"], 'the mirror "fd::7" is refused: remote helpers such as ext::'),
    "Debian mirror": ([URL, "--mirror", "deb:A b"], 'the mirror "deb:A b" is refused: what follows deb:'),
    "ref": ([URL, "--ref", "a..b"], 'the ref "a..b" is refused: git allows no such ref name'),
    "no source": ([], "no source given; name it: atesor port URL"),
}


@pytest.mark.parametrize(("flags", "words"), BAD.values(), ids=BAD.keys())
def test_a_bad_flag_is_one_line(flags: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(flags, {}) == 2
    captured = capsys.readouterr()
    (line,) = captured.err.splitlines()
    assert line.startswith("atesor: error: ")
    assert words in line
    assert captured.out == ""


def test_a_bad_place_in_a_variable_is_named_with_it_unless_a_flag_decides() -> None:
    environ = {"ATESOR_REF": "-x", "ATESOR_MIRRORS": '["deb:"]'}
    with pytest.raises(UsageError, match='the ref "-x" from ATESOR_REF is refused: it starts with'):
        read(**environ)
    with pytest.raises(UsageError, match='the mirror "deb:" from ATESOR_MIRRORS is refused: what follows'):
        read("--ref", "v1", **environ)
    settings = read("--ref", "v1", "--mirror", "deb:zlib", **environ)
    assert (settings.ref, settings.mirrors) == ("v1", ("deb:zlib",))


def test_a_secret_may_be_typed_and_is_not_shown() -> None:
    assert read("--repo", "https://me:hunter2@example.org/o/r").url.startswith("https://me:hunter2@")
    with pytest.raises(UsageError) as caught:
        read("--repo", "https://me:hunter2@example.org:99999/o/r")
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("flag", "default"),
    [
        ("--ref REF", "ATESOR_REF, else the default branch"),
        ("--mirror URL", "those of ATESOR_MIRRORS, a JSON array"),
        ("--container NAME", "atesor-port-PLATFORM"),
        ("--platform", "ATESOR_PLATFORM, else debian"),
        ("--target", "ATESOR_TARGET, else qemu"),
        ("--engine", "ATESOR_ENGINE, else auto"),
        ("--no-acceleration", "ATESOR_NO_ACCELERATION"),
        ("--build-network", "ATESOR_BUILD_NETWORK"),
        ("--tests", "ATESOR_TESTS, else run"),
    ],
)
def test_the_help_tells_where_a_default_comes_from(
    flag: str, default: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "300")  # no default is broken at a hyphen
    assert main(["--help"], {}) == 0
    details = capsys.readouterr().out.partition("options:")[2]
    told = " ".join(details.split(f"\n  {flag}")[1].split("\n  --")[0].split())
    assert told.split("(default: ")[1].startswith(default)


@pytest.mark.parametrize("argv", [["--repo", URL], ["--bogus"]], ids=["variable", "flag"])
def test_a_batch_is_told_that_no_package_is_to_blame(argv: list[str], tmp_path: Path) -> None:
    assert main(argv, {"ATESOR_TESTS": "Require", "ATESOR_ATTEMPT_DIR": str(tmp_path)}) == 2
    said = parse_agent_result((tmp_path / "result.json").read_bytes(), "result.json")
    assert (said.cause, said.verdict) == (Cause.AGENT, None)
    assert "Require" in said.reason or "--bogus" in said.reason


def test_a_state_directory_that_cannot_be_made_is_no_defect_of_ours(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    assert main([URL], {"ATESOR_STATE_DIR": str(tmp_path / "file")}) == 1
    directory = tmp_path / "file/slots/atesor-port-debian"
    reason = f"the slot directory {directory} cannot be used (Not a directory); set ATESOR_STATE_DIR"
    assert f"FAILED (environment): {reason}\n" in capfd.readouterr().out


@pytest.mark.parametrize("argv", [["--help"], ["-h"], ["recipe.json", "--help"]], ids=" ".join)
def test_a_replay_has_help_of_its_own(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert replay_main(argv, {}) == 0
    captured = capsys.readouterr()
    assert captured.out.startswith("usage: atesor replay ")
    assert "[recipe.json]" in captured.out
    assert "(default: the recipe's)" in captured.out
    assert captured.err == ""


@pytest.mark.parametrize("argv", [["r.json", "--tests", "skip"], ["--tests", "skip", "r.json"]], ids=" ".join)
def test_a_recipe_is_taken_before_flags_and_behind_them(
    argv: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))  # no engine is the next thing that is missed
    recipe = Recipe(
        url=URL,
        url_used="deb:zlib",
        platform="ubuntu",
        build_system="make",
        commands=(),
        name="p",
        sha256="0" * 64,
    )
    (tmp_path / "r.json").write_text(format_recipe(recipe))
    environ = {"ATESOR_STATE_DIR": str(tmp_path), "ATESOR_ENGINE": "podman"}
    assert replay_main(argv, environ) == 1
    out = capfd.readouterr().out
    assert "sandbox: atesor-port-ubuntu\n" in out
    assert "FAILED (environment): podman is not installed" in out


BAD_REPLAYS = {
    "nothing": ([], "no recipe given; name the recipe.json of a run: atesor replay recipe.json"),
    "flags alone": (["--force"], "no recipe given; "),
    "bad flag": (["recipe.json", "--bogus"], "unrecognized arguments: --bogus; see atesor replay --help"),
    "no file": (["recipe.json"], "recipe.json cannot be read: No such file or directory; give"),
    "directory": (["."], ". is no regular file; give the recipe.json of a run"),
    "no text": (["binary"], "binary cannot be read: 'utf-8' codec can't decode"),
    "no recipe": (["--force", "text"], "text is no recipe ("),
}


@pytest.mark.parametrize(("argv", "words"), BAD_REPLAYS.values(), ids=BAD_REPLAYS.keys())
def test_what_cannot_be_replayed_is_one_line(
    argv: list[str],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "binary").write_bytes(b"\xff")
    (tmp_path / "text").write_text("{")
    assert replay_main(argv, {}) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"atesor: error: {words}")
