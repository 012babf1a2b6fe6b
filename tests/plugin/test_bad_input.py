"""What cannot run is refused before anything is created: one line, the right exit code."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from lab import run_inside

GOOD = """{"$schema_version": 1, "packages": [
    {"name": "zlib", "url": "https://example.org/madler/zlib"},
    {"name": "gron", "url": "https://example.org/tomnomnom/gron"}
]}"""


STRANGE = "li\nst\x1b[31m"


@pytest.fixture
def rootdir(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("ATESOR_LIST", "ATESOR_PLATFORM", "ATESOR_TARGET", "ATESOR_AGENT", "ATESOR_ENGINE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ATESOR_STATE_DIR", str(pytester.path / "state"))
    pytester.makeini("[pytest]\n")
    pytester.mkdir("packages").joinpath("good.json").write_text(GOOD)
    pytester.makepyfile(test_ordinary="def test_ordinary(): pass")
    return pytester.path


BAD = {
    "unknown list": (["--atesor-list", "none"], 1, "no package list named 'none'"),
    "missing path": (["--atesor-list", "packages/none.json"], 1, "no package list at 'packages/none.json'"),
    "missing argument": (["other/none.json"], 1, "no package list at 'other/none.json'"),
    "list name longer than any": (["--atesor-list", "x" * 300], 1, "File name too long; check the path"),
    "name longer than any": (["--atesor-list=good", "--atesor-only", "x" * 300], 2, "has no package"),
    "file of names longer than any": (
        ["--atesor-list=good", f"--atesor-only=@{'x' * 300}"],
        1,
        "File name too long; check the path",
    ),
    "empty list name": (["--atesor-list", ""], 1, "no package list named ''"),
    "unknown platform": (["--atesor-list=good", "--atesor-platform=arch"], 2, "unknown platform 'arch'"),
    "unknown target": (["--atesor-list=good", "--atesor-target=arm"], 2, "unknown target 'arm'"),
    "unknown engine": (["--atesor-list=good", "--atesor-engine=lxc"], 2, "unknown engine 'lxc'"),
    "no engine for the built-in agent": (
        ["--atesor-list=good", "--atesor-engine=none"],
        2,
        "choose one of auto, docker, podman, host, or give an agent",
    ),
    "fewer cases than none": (["--atesor-list=good", "--atesor-max-cases=-5"], 2, "number of cases '-5'"),
    "profiles of a list": (
        ["--atesor-list=good", "--atesor-profile-root=."],
        2,
        "--atesor-profile-root is for manifests, and packages/good.json is a package list",
    ),
    "no output root": (["--atesor-list=good", "--atesor-output-root="], 2, "empty output root"),
    "unknown name": (["--atesor-list=good", "--atesor-only=zlip"], 2, '"zlip"'),
    "unknown name in an argument": (["packages/good.json::zlip"], 2, '"zlip"'),
    "name and shard": (
        ["packages/good.json::zlib", "--atesor-shard-index=0", "--atesor-shard-total=2"],
        2,
        "exclude each other",
    ),
    "shard without total": (["--atesor-list=good", "--atesor-shard-index=0"], 2, "shard total"),
    "shard out of range": (
        ["--atesor-list=good", "--atesor-shard-index=2", "--atesor-shard-total=2"],
        2,
        "out of range",
    ),
    "shard that is no number": (
        ["--atesor-list=good", "--atesor-shard-index=x", "--atesor-shard-total=2"],
        2,
        "bad shard index 'x'",
    ),
    "list beside tests": (["--atesor-list=good", "test_ordinary.py"], 2, "'test_ordinary.py' is none"),
    "list argument beside tests": (["packages/good.json", "test_ordinary.py"], 2, "'test_ordinary.py'"),
    "two lists": (["--atesor-list=good", "packages/other.json"], 2, "one batch runs one package list"),
    "native target": (["--atesor-list=good", "--atesor-target=native"], 1, "set ATESOR_SSH_HOST"),
    "missing agent": (["--atesor-list=good", "--atesor-agent=./none"], 1, "the agent './none'"),
    "empty agent": (["--atesor-list=good", "--atesor-agent= "], 2, "empty agent command"),
    "bad batch id": (["--atesor-list=good", "--atesor-batch-id=../x"], 2, "bad batch id '../x'"),
    "more workers than slots": (
        ["--atesor-list=good", "-n1000"],
        2,
        "bad worker count 1000 from -n or --tx; it must be from 1 to 999",
    ),
    "every worker everything": (["--atesor-list=good", "-n2", "--dist=each"], 2, "--dist each"),
    "option without a list": (
        ["--atesor-only=zlib"],
        2,
        "--atesor-only is for a batch, and no package list is named; add --atesor-list NAME",
    ),
    "order without a list": (["--atesor-plan-only"], 2, "--atesor-plan-only is for a batch, and no package"),
    "option beside tests": (
        ["test_ordinary.py", "--atesor-plan-only"],
        2,
        "--atesor-plan-only is for a batch, and 'test_ordinary.py' is no package list; name one in its",
    ),
    "option beside what only looks like a list": (
        ["plain.json", "--atesor-platform=alpine"],
        2,
        "--atesor-platform is for a batch, and 'plain.json' is no package list",
    ),
    "set-up alone": (["--atesor-list=good", "--setup-plan"], 2, "use --collect-only"),
    "names that pytest cannot read": (
        ["--atesor-list=good", "-k", "zlib or"],
        2,
        "passed to '-k': zlib or: ",
    ),
    "marks that pytest cannot read": (["packages/good.json", "-m", "a b"], 2, "passed to '-m': a b: "),
    "a batch without end": (["--atesor-list=good", "--looponfail"], 2, "--looponfail never ends"),
    "JUnit where nothing can be made": (
        ["--atesor-list=good", "--atesor-engine=none", "--atesor-agent=true", "--junitxml=/proc/x/junit.xml"],
        1,
        "cannot use /proc/x as the directory of the JUnit file: ",
    ),
    "restarts in words": (["--atesor-list=good", "--max-worker-restart=few"], 2, "bad number 'few'"),
    "restarts by halves": (["--atesor-list=good", "--max-worker-restart=1.5"], 2, "bad number '1.5'"),
    "remote workers": (["--atesor-list=good", "--dist=load", "--tx=ssh=host"], 2, "--tx ssh=host"),
}


@pytest.mark.parametrize(("arguments", "code", "words"), BAD.values(), ids=BAD.keys())
def test_it_is_refused_in_one_line_and_nothing_is_created(
    rootdir: Path,
    pytester: pytest.Pytester,
    capfd: pytest.CaptureFixture[str],
    arguments: list[str],
    code: int,
    words: str,
) -> None:
    (rootdir / "packages" / "other.json").write_text(GOOD)
    (rootdir / "plain.json").write_text("{}")
    before = sorted(rootdir.rglob("*"))
    result = run_inside(pytester, capfd, *arguments)
    assert result.code == code
    assert result.lines == []
    (line,) = result.err.splitlines()
    assert line.startswith("atesor: error: ")
    assert words in line
    assert sorted(path for path in rootdir.rglob("*") if "__pycache__" not in path.parts) == before


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        pytest.param(["--atesor-list", STRANGE], "no report can show; rename the file", id="name"),
        pytest.param([f"packages/{STRANGE}.json"], "no report can show; rename the file", id="path"),
        pytest.param(["--atesor-manifest", f"{STRANGE}.yaml"], "no manifest at", id="missing"),
    ],
)
def test_a_path_with_control_characters_is_refused_in_one_plain_line(
    rootdir: Path,
    pytester: pytest.Pytester,
    capfd: pytest.CaptureFixture[str],
    arguments: list[str],
    words: str,
) -> None:
    (rootdir / "packages" / f"{STRANGE}.json").write_text(GOOD)
    run = run_inside(pytester, capfd, *arguments, "--atesor-engine=none", "--atesor-agent=true")
    assert run.code == 1
    (line,) = run.err.splitlines()
    assert words in line
    assert line.isprintable()


BROKEN = {
    "no JSON": ("{", "packages/bad.json"),
    "no list": ('{"$schema_version": 1}', '"packages"'),
    "newer schema": ('{"$schema_version": 2, "packages": []}', "$schema_version"),
    "duplicate key": ('{"$schema_version": 1, "packages": [], "packages": []}', "twice"),
    "name that climbs": (GOOD.replace('"zlib"', '"../zlib"'), "packages[0].name"),
    "name that is a flag": (GOOD.replace('"zlib"', '"-k"'), "packages[0].name"),
    "name with a slash": (GOOD.replace('"zlib"', '"a/b"'), "packages[0].name"),
    "empty name": (GOOD.replace('"zlib"', '""'), "packages[0].name"),
    "name twice": (GOOD.replace('"gron"', '"zlib"'), "packages[1].name"),
}


@pytest.mark.parametrize(("text", "words"), BROKEN.values(), ids=BROKEN.keys())
@pytest.mark.parametrize("way", ["option", "argument"])
def test_a_bad_list_ends_with_1_and_names_file_and_place(
    rootdir: Path,
    pytester: pytest.Pytester,
    capfd: pytest.CaptureFixture[str],
    text: str,
    words: str,
    way: str,
) -> None:
    (rootdir / "packages" / "bad.json").write_text(text)
    arguments = ["--atesor-list", "bad"] if way == "option" else ["packages/bad.json"]
    result = run_inside(pytester, capfd, *arguments)
    assert result.code == 1
    (line,) = result.err.splitlines()
    assert line.startswith("atesor: error: packages/bad.json")
    assert words in line
    assert not (rootdir / "runs").exists()


def test_the_place_of_a_bad_value_is_named(
    rootdir: Path,
    pytester: pytest.Pytester,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (rootdir / ".env").write_text("ATESOR_PLATFORM=fedora\n")
    result = run_inside(pytester, capfd, "--atesor-list=good")
    assert result.code == 2
    assert f"unknown platform 'fedora' from ATESOR_PLATFORM in {rootdir}/.env" in result.err.splitlines()[0]
    monkeypatch.setenv("ATESOR_PLATFORM", "arch")
    result = run_inside(pytester, capfd, "--atesor-list=good")
    assert "unknown platform 'arch' from ATESOR_PLATFORM in the environment" in result.err.splitlines()[0]


def test_a_mistyped_name_in_the_env_file_is_warned_of(
    rootdir: Path, pytester: pytest.Pytester, capfd: pytest.CaptureFixture[str]
) -> None:
    (rootdir / ".env").write_text("ATESOR_PLATFROM=ubuntu\n")
    run = run_inside(pytester, capfd, "--atesor-list=good", "--co", "-q")
    assert run.code == 0
    warning = "nothing reads ATESOR_PLATFROM in .env; did you mean ATESOR_PLATFORM?"
    assert run.err == f"atesor: warning: {warning}\n"


ORIGINS = {
    "profile root": (
        {"ATESOR_PROFILE_ROOT": "nope"},
        "the profile root nope, from ATESOR_PROFILE_ROOT in the environment, is no directory",
    ),
    "batch id": ({"ATESOR_BATCH_ID": "../x"}, "'../x' from ATESOR_BATCH_ID in the environment: "),
    "shard": ({"ATESOR_SHARD_INDEX": "3"}, "shard index 3 from ATESOR_SHARD_INDEX in the environment"),
}


@pytest.mark.parametrize(("environ", "words"), ORIGINS.values(), ids=ORIGINS.keys())
def test_the_place_of_a_bad_setting_is_named(
    rootdir: Path,
    pytester: pytest.Pytester,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    environ: dict[str, str],
    words: str,
) -> None:
    (rootdir / "c.yaml").write_text("{schema_version: runspec_v1, kind: command, command: {argv: [a]}}")
    (rootdir / "m.yaml").write_text(
        "{schema_version: batch_v1, batch: {cases: [{label: a, runspec: c.yaml}]}}"
    )
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    result = run_inside(pytester, capfd, "m.yaml")
    assert (result.code, len(result.err.splitlines())) == (2, 1)
    assert words in result.err


def test_what_the_built_in_agent_would_refuse_of_each_package_is_refused_at_the_start(
    rootdir: Path,
    pytester: pytest.Pytester,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (rootdir / ".env").write_text("ATESOR_TESTS=Require\n")
    run = run_inside(pytester, capfd, "--atesor-list=good")
    known = "use one of: run, require, skip"
    where = f"ATESOR_TESTS in {rootdir}/.env"
    assert run.err == f"atesor: error: unknown value 'Require' from {where}; {known}\n"
    assert run.code == 2
    monkeypatch.setenv("ATESOR_TESTS", "never")
    run = run_inside(pytester, capfd, "--atesor-list=good")
    assert run.err == f"atesor: error: unknown value 'never' from ATESOR_TESTS in the environment; {known}\n"
    assert not (rootdir / "runs").exists()


def test_a_proxy_that_is_no_url_is_refused_at_the_start(
    rootdir: Path, pytester: pytest.Pytester, capfd: pytest.CaptureFixture[str]
) -> None:
    (rootdir / ".env").write_text("ALL_PROXY=http://me:secret@proxy:80a\n")
    run = run_inside(pytester, capfd, "--atesor-list=good")
    assert run.code == 1
    (line,) = run.err.splitlines()
    assert line.startswith("atesor: error: ALL_PROXY='http://")
    assert line.endswith("@proxy:80a' is no URL of a proxy; correct or unset it")
    assert "secret" not in line


def test_a_place_where_no_zip_can_be_written_is_refused_at_the_start(
    rootdir: Path, pytester: pytest.Pytester, capfd: pytest.CaptureFixture[str]
) -> None:
    (rootdir / "workspace").write_text("a file")
    run = run_inside(pytester, capfd, "--atesor-list=good", "--atesor-package")
    assert run.code == 1
    (line,) = run.err.splitlines()
    assert f"cannot use {rootdir}/workspace/packages as the directory of the zips" in line
    assert not (rootdir / "runs").exists()


def test_an_agent_s_own_variables_are_its_own_matter(
    rootdir: Path,
    pytester: pytest.Pytester,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (rootdir / ".env").write_text("ATESOR_TESTS=Require\n")
    monkeypatch.setenv("PATH", str(rootdir))  # no engine: the next thing that is asked for
    (rootdir / "agent").write_text("")
    (rootdir / "agent").chmod(0o755)
    run = run_inside(
        pytester, capfd, "--atesor-list=good", "--atesor-agent=./agent", "--atesor-engine=podman"
    )
    assert "podman" in run.err
    assert "ATESOR_TESTS" not in run.err


def test_an_option_beside_tests_is_refused_whatever_the_settings_name(
    rootdir: Path,
    pytester: pytest.Pytester,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ATESOR_LIST", "good")
    run = run_inside(pytester, capfd, "test_ordinary.py", "--atesor-only=zlib")
    assert run.code == 2
    assert "--atesor-only is for a batch, and 'test_ordinary.py' is no package list" in run.err
    assert not (rootdir / "runs").exists()
    assert pytester.runpytest_inprocess("test_ordinary.py").ret == 0


def test_a_path_object_among_the_arguments_is_a_path(rootdir: Path, pytester: pytest.Pytester) -> None:
    assert (rootdir / "test_ordinary.py").exists()
    code = "import pathlib, pytest; raise SystemExit(pytest.main([pathlib.Path('test_ordinary.py')]))"
    result = pytester.runpython_c(code)
    assert result.ret == 0
    result.assert_outcomes(passed=1)


def test_the_place_of_a_missing_agent_is_named(
    rootdir: Path, pytester: pytest.Pytester, capfd: pytest.CaptureFixture[str]
) -> None:
    (rootdir / ".env").write_text("ATESOR_AGENT=./none\n")
    result = run_inside(pytester, capfd, "--atesor-list=good")
    assert result.code == 1
    assert f"the agent './none', from ATESOR_AGENT in {rootdir}/.env, is no program" in result.err


def test_a_taken_batch_id_is_refused(
    rootdir: Path, pytester: pytest.Pytester, capfd: pytest.CaptureFixture[str]
) -> None:
    (rootdir / "runs" / "batches" / "mine").mkdir(parents=True)
    arguments = [
        "--atesor-list=good",
        "--atesor-batch-id=mine",
        "--atesor-engine=none",
        "--atesor-agent=true",
    ]
    result = run_inside(pytester, capfd, *arguments)
    assert result.code == 2
    assert "batch id 'mine' is taken" in result.err.splitlines()[0]


def test_an_empty_shard_is_nothing_to_do(
    rootdir: Path, pytester: pytest.Pytester, capfd: pytest.CaptureFixture[str]
) -> None:
    result = run_inside(
        pytester,
        capfd,
        "--atesor-list=good",
        "--atesor-shard-index=3",
        "--atesor-shard-total=4",
        "--junitxml=j.xml",
    )
    assert result.code == 0
    assert 'tests="0"' in (rootdir / "j.xml").read_text()
    assert result.err.splitlines() == [
        "atesor: packages/good.json: this shard has no packages; nothing to do"
    ]
    assert not (rootdir / "runs").exists()


@pytest.mark.parametrize("engine", ["docker", "podman", "auto"])
def test_a_missing_engine_is_one_line_before_any_case(
    rootdir: Path,
    pytester: pytest.Pytester,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    engine: str,
) -> None:
    monkeypatch.setenv("PATH", str(rootdir))
    result = run_inside(pytester, capfd, "--atesor-list=good", f"--atesor-engine={engine}")
    assert result.code == 1
    (line,) = result.err.splitlines()
    assert line.startswith("atesor: error: ")
    assert engine.replace("auto", "docker") in line
    assert not (rootdir / "runs").exists()
    assert not (rootdir / "output").exists()


PIPES = {
    "list as an option": (["--atesor-list=packages/pipe.json"], 1),
    "list as an argument": (["packages/pipe.json"], 1),
    "directory as an option": (["--atesor-list=./packages/folder.json"], 1),
    "directory as an argument": (["packages/folder.json"], 1),
    "directory as a manifest": (["--atesor-manifest=packages/folder.json"], 1),
    "names": (["--atesor-list=good", "--atesor-only=@packages/pipe.json"], 2),
}


@pytest.mark.parametrize(("arguments", "code"), PIPES.values(), ids=PIPES.keys())
def test_what_is_no_regular_file_is_refused_and_not_waited_for(
    rootdir: Path,
    pytester: pytest.Pytester,
    capfd: pytest.CaptureFixture[str],
    arguments: list[str],
    code: int,
) -> None:
    os.mkfifo(rootdir / "packages" / "pipe.json")
    (rootdir / "packages" / "folder.json").mkdir()
    result = run_inside(pytester, capfd, *arguments)
    assert result.code == code
    (line,) = result.err.splitlines()
    assert line.startswith("atesor: error: ")
    assert ".json" in line
    assert "no regular file; name " in line


def test_a_command_s_output_names_packages(rootdir: Path) -> None:
    good = "--atesor-list=good --collect-only -q -p no:hypothesispytest"
    script = f"{sys.executable} -m pytest {good} --atesor-only=@<(echo '# from a command'; echo gron)"
    done = subprocess.run(["bash", "-c", script], cwd=rootdir, capture_output=True, text=True, check=False)  # noqa: S607 - PATH
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stdout.splitlines() if "::" in line] == ["packages/good.json::gron"]


@pytest.mark.parametrize("text", ["", "\n \n# nothing\n"], ids=["empty", "comments"])
def test_a_file_without_names_does_not_mean_all_of_them(
    rootdir: Path, pytester: pytest.Pytester, capfd: pytest.CaptureFixture[str], text: str
) -> None:
    (rootdir / "names").write_text(text)
    result = run_inside(pytester, capfd, "--atesor-list=good", "--atesor-only=@names")
    assert result.code == 2
    assert "has no names" in result.err


def test_a_huge_list_is_refused_before_it_is_parsed(
    rootdir: Path, pytester: pytest.Pytester, capfd: pytest.CaptureFixture[str]
) -> None:
    (rootdir / "packages" / "huge.json").write_text(GOOD + " " * (8 * 1024 * 1024))
    result = run_inside(pytester, capfd, "--atesor-list=huge")
    assert result.code == 1
    (line,) = result.err.splitlines()
    assert "an input has at most 8388608" in line


def test_a_dotenv_that_cannot_be_read_is_refused_by_a_batch_alone(
    rootdir: Path, pytester: pytest.Pytester, capfd: pytest.CaptureFixture[str]
) -> None:
    (rootdir / ".env").symlink_to("/proc/self/mem")  # its first byte is an I/O error, for root too
    assert pytester.runpytest_inprocess("test_ordinary.py").ret == 0
    run = run_inside(pytester, capfd, "--atesor-list=good", "--atesor-engine=none", "--atesor-agent=true")
    assert run.code == 2
    assert f"cannot read {rootdir}/.env" in run.err
    assert len(run.err.splitlines()) == 1
