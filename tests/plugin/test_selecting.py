"""Which cases a run takes, and when pytest stays as it is."""

import json
from pathlib import Path

import pytest
from lab import Lab, run_inside

LIST = {
    "$schema_version": 1,
    "packages": [
        {"name": "zlib", "url": "https://example.org/madler/zlib", "lang": "c", "group": "base"},
        {"name": "gron", "url": "https://example.org/tomnomnom/gron", "lang": "go"},
        {"name": "hugo", "url": "https://example.org/gohugoio/hugo", "lang": "go", "tags": ["slow"]},
    ],
}


@pytest.fixture
def rootdir(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("ATESOR_LIST", raising=False)
    pytester.makeini("[pytest]\naddopts = --strict-markers\nfilterwarnings = error\n")
    pytester.mkdir("packages").joinpath("three.json").write_text(json.dumps(LIST))
    pytester.makepyfile(test_ordinary="def test_ordinary(): pass")
    return pytester.path


SELECTIONS = {
    "all": (["--atesor-list=three"], "zlib gron hugo"),
    "path": (["--atesor-list=packages/three.json"], "zlib gron hugo"),
    "argument": (["packages/three.json"], "zlib gron hugo"),
    "argument with a name": (["packages/three.json::hugo"], "hugo"),
    "arguments with names": (["packages/three.json::hugo", "packages/three.json::zlib"], "zlib hugo"),
    "option and the same list": (["--atesor-list=three", "packages/three.json::gron"], "gron"),
    "only": (["--atesor-list=three", "--atesor-only=gron", "--atesor-only=zlib"], "zlib gron"),
    "only from a file": (["--atesor-list=three", "--atesor-only=@names"], "hugo"),
    "shard": (["--atesor-list=three", "--atesor-shard-index=1", "--atesor-shard-total=2"], "hugo"),
    "no sharding": (["--atesor-list=three", "--atesor-shard-total=1"], "zlib gron hugo"),
    "keyword": (["--atesor-list=three", "-k", "zlib or hugo"], "zlib hugo"),
    "no keyword": (["--atesor-list=three", "-k", "not time and not json and not packages"], "zlib gron hugo"),
    "marks": (["--atesor-list=three", "-m", "go and not slow"], "gron"),
    "group": (["--atesor-list=three", "-m", "base"], "zlib"),
    "deselect": (["--atesor-list=three", "--deselect=packages/three.json::gron"], "zlib hugo"),
    "with workers": (["--atesor-list=three", "-n2"], "zlib gron hugo"),
    "restarts without bound": (["--atesor-list=three", "-n2", "--max-worker-restart=-1"], "zlib gron hugo"),
    "without xdist": (["--atesor-list=three", "-p", "no:xdist"], "zlib gron hugo"),
    "without timeout": (["--atesor-list=three", "-p", "no:timeout"], "zlib gron hugo"),
}


@pytest.mark.parametrize(("arguments", "names"), SELECTIONS.values(), ids=SELECTIONS.keys())
def test_collect_only_lists_the_selection_and_creates_nothing(
    rootdir: Path,
    pytester: pytest.Pytester,
    capfd: pytest.CaptureFixture[str],
    arguments: list[str],
    names: str,
) -> None:
    (rootdir / "names").write_text("# a comment\nhugo  # another\n\n")
    result = run_inside(pytester, capfd, "--collect-only", "-q", *arguments)
    assert result.code == 0, result.lines + result.err.splitlines()
    found = [line for line in result.lines if "::" in line]
    assert found == [f"packages/three.json::{name}" for name in names.split()]
    assert not (rootdir / "runs").exists()
    assert not (rootdir / "output").exists()


def test_a_list_elsewhere_has_short_node_ids(
    rootdir: Path, pytester: pytest.Pytester, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "elsewhere.json"
    path.write_text(json.dumps(LIST))
    result = run_inside(
        pytester, capfd, "--collect-only", "-q", f"--rootdir={rootdir}", "--atesor-list", str(path)
    )
    assert result.code == 0
    assert "elsewhere.json::zlib" in result.lines


def test_an_agent_elsewhere_does_not_move_the_rootdir(
    rootdir: Path, pytester: pytest.Pytester, capfd: pytest.CaptureFixture[str]
) -> None:
    arguments = ("--collect-only", "--atesor-agent", "/bin/true", "--atesor-list", "three")
    result = run_inside(pytester, capfd, *arguments)
    assert result.code == 0, result.err
    assert f"rootdir: {rootdir}" in result.lines


def test_an_empty_selection_is_a_bad_flag(
    rootdir: Path, pytester: pytest.Pytester, capfd: pytest.CaptureFixture[str]
) -> None:
    assert rootdir.is_dir()
    assert run_inside(pytester, capfd, "--collect-only", "--atesor-list=three", "-k", "none").code == 2


# What pytest, its plugins and we make of a case; none of it is the user's word for a package.
NO_WORDS = {
    "timeout": ["-k", "time"],
    "list": ["-k", "three"],
    "suffix": ["-k", "json"],
    "directory": ["-k", "packages"],
    "mark": ["-m", "timeout"],
}


@pytest.mark.parametrize("selection", NO_WORDS.values(), ids=NO_WORDS.keys())
def test_only_what_the_list_says_of_a_package_selects_it(
    rootdir: Path, pytester: pytest.Pytester, capfd: pytest.CaptureFixture[str], selection: list[str]
) -> None:
    assert rootdir.is_dir()
    result = run_inside(pytester, capfd, "--collect-only", "-q", "--atesor-list=three", *selection)
    assert result.code == 2
    assert not [line for line in result.lines if "::" in line]


def test_the_tree_shows_where_the_cases_stand(
    rootdir: Path, pytester: pytest.Pytester, capfd: pytest.CaptureFixture[str]
) -> None:
    result = run_inside(pytester, capfd, "--collect-only", "--atesor-list=three")
    tree = [line.strip() for line in result.lines if line.lstrip().startswith("<")]
    assert tree == [
        f"<BatchDirectory {rootdir.name}>",
        "<BatchDirectory packages>",
        "<BatchFile three.json>",
        "<CaseItem zlib>",
        "<CaseItem gron>",
        "<CaseItem hugo>",
    ]


def test_plain_pytest_never_starts_a_port(
    rootdir: Path, pytester: pytest.Pytester, capfd: pytest.CaptureFixture[str]
) -> None:
    result = run_inside(pytester, capfd, "-v")
    assert result.code == 0
    assert any(line.startswith("test_ordinary.py::test_ordinary PASSED") for line in result.lines)
    assert "atesor:" not in result.out + result.err
    assert not (rootdir / "runs").exists()


def test_json_files_of_other_plugins_are_left_alone(rootdir: Path, pytester: pytest.Pytester) -> None:
    (rootdir / "data.json").write_text('{"mine": 1}')
    pytester.makeconftest("""
        import pytest

        class File(pytest.File):
            def collect(self):
                yield Item.from_parent(self, name="mine")

        class Item(pytest.Item):
            def runtest(self): pass

        def pytest_collect_file(file_path, parent):
            if file_path.name == "data.json":
                return File.from_parent(parent, path=file_path)
    """)
    result = pytester.runpytest_inprocess("data.json")
    assert result.ret == 0
    result.assert_outcomes(passed=1)


STRANGERS = {
    "words of ours": ("mine.yaml", "test: x\nvalue: batch_value\n"),
    "a key that ends alike": ("mine.yaml", "my_schema_version: batch_v1\n"),
    "an object of packages": ("mine.json", '{"lockfileVersion": 3, "packages": {"a": {}}}'),
    "a note of packages": ("mine.json", '{"kind": "packages", "of": ["$schema_version"]}'),
}


@pytest.mark.parametrize(("name", "text"), STRANGERS.values(), ids=STRANGERS.keys())
def test_a_file_of_another_plugin_is_taken_for_none_of_ours(
    rootdir: Path, pytester: pytest.Pytester, name: str, text: str
) -> None:
    (rootdir / name).write_text(text)
    result = pytester.runpytest_inprocess(name)
    assert result.ret == pytest.ExitCode.USAGE_ERROR  # pytest's own: nobody here collects it
    result.stderr.fnmatch_lines(["ERROR: not found: *"])
    result.stderr.no_fnmatch_line("atesor:*")


CASES = '"batch": {"cases": [{"label": "packages", "runspec": "c.yaml"}]}'
SIGNED = {
    "JSON": f'{{"schema_version": "batch_v1", {CASES}}}',
    "its version last": f'{{{CASES}, "schema_version":\n"batch_v1"}}',
    "YAML": "schema_version : 'batch_v1'\nbatch:\n  cases: [{label: packages, runspec: c.yaml}]\n",
    "flow": "{'schema_version': batch_v1, batch: {cases: [{label: packages, runspec: c.yaml}]}}\n",
}


@pytest.mark.parametrize("text", SIGNED.values(), ids=SIGNED.keys())
def test_a_manifest_is_known_by_its_schema_version(
    rootdir: Path, pytester: pytest.Pytester, capfd: pytest.CaptureFixture[str], text: str
) -> None:
    (rootdir / "c.yaml").write_text("{schema_version: runspec_v1, kind: command, command: {argv: [a]}}")
    name = "m.json" if text.startswith('{"') else "m.yaml"
    (rootdir / name).write_text(text)
    run = run_inside(pytester, capfd, "--collect-only", "-q", name)
    assert (run.code, run.lines[0]) == (0, f"{name}::packages")
    run = run_inside(pytester, capfd, "--collect-only", "-q", f"{name}::nope")
    assert run.code == 2
    assert f'{name} has no case "nope"' in run.err


def test_a_list_is_no_manifest_for_the_name_of_a_package(
    rootdir: Path, pytester: pytest.Pytester, capfd: pytest.CaptureFixture[str]
) -> None:
    entry = {"name": "batch_viewer", "url": "https://example.org/x/batch_viewer"}
    (rootdir / "mine.json").write_text(json.dumps({"$schema_version": 1, "packages": [entry]}))
    run = run_inside(pytester, capfd, "--collect-only", "-q", "mine.json")
    assert (run.code, run.lines[0]) == (0, "mine.json::batch_viewer")


def test_the_workflows_lists_have_names_too(
    rootdir: Path, pytester: pytest.Pytester, capfd: pytest.CaptureFixture[str]
) -> None:
    (rootdir / ".github").mkdir()
    (rootdir / "packages").rename(rootdir / ".github" / "packages")
    (rootdir / ".github" / "packages" / "three.json").rename(rootdir / ".github" / "packages" / "smoke.json")
    run = run_inside(pytester, capfd, "--collect-only", "-q", "--atesor-list=smoke")
    ids = [line for line in run.lines if "::" in line]
    assert ids == [f".github/packages/smoke.json::{name}" for name in ("zlib", "gron", "hugo")]
    assert run_inside(pytester, capfd, "--collect-only", "-q", ids[1]).lines[0] == ids[1]
    shipped = run_inside(pytester, capfd, "--collect-only", "-q", "packages/smoke.json::cjson")
    assert shipped.lines[0] == "packages/smoke.json::cjson"


def test_a_list_by_setting_gives_way_to_paths(
    rootdir: Path,
    pytester: pytest.Pytester,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert rootdir.is_dir()
    monkeypatch.setenv("ATESOR_LIST", "three")
    whole = run_inside(pytester, capfd, "--collect-only", "-q")
    assert whole.lines[0] == "packages/three.json::zlib"
    tests = run_inside(pytester, capfd, "test_ordinary.py")
    assert "1 passed" in tests.out


def test_help_and_markers_work_beside_a_list(
    rootdir: Path, pytester: pytest.Pytester, capfd: pytest.CaptureFixture[str]
) -> None:
    assert rootdir.is_dir()
    result = run_inside(pytester, capfd, "--atesor-list=none", "--help")
    assert result.code == 0
    assert "--atesor-list=NAME|PATH" in result.out
    assert "--atesor-shard-total=N" in result.out


def test_a_plain_run_imports_only_the_door(lab: Lab) -> None:
    (lab.root / "test_modules.py").write_text(
        "import sys\n"
        "def test_modules():\n"
        "    print(*sorted(name for name in sys.modules if name.startswith('pytest_atesor.')))\n"
    )
    run = lab.run("-q", "-s", ATESOR_ENGINE="")
    assert run.code == 0, run.out
    modules = {name.removeprefix("pytest_atesor.") for name in run.lines[0].split()}
    assert modules <= {
        "core",
        "core.limits",
        "core.plan",
        "core.shards",
        "core.yes_no",
        "errors",
        "hooks",
        "option_table",
        "options",
        "plugin",
        "intake",
        "intake.request",
    }


def test_what_a_run_left_out_is_not_resumed_and_says_what_runs_it(lab: Lab) -> None:
    lab.write_list("two", {"zlib": "pass", "gron": "pass"})
    run = lab.run("--atesor-list=two", "--atesor-batch-id=b", "-n0", "-k", "zlib")
    assert run.code == 0, run.out + run.err
    run = lab.batch("resume", "runs/batches/b")
    assert (run.code, run.err) == (0, "")
    assert run.lines[:2] == [
        "atesor: planned 2 = done 1 + interrupted 0 + not started 1 (1 never selected)",
        "atesor: resuming runs/batches/b: 0 cases to run; 1 never selected, which rerun --case runs",
    ]
    run = lab.batch("rerun", "runs/batches/b", "--case", "gron")
    assert run.code == 0, run.out + run.err
    assert "2 packages: 2 PASS, 0 UNVERIFIED, 0 FAIL, 0 TIMEOUT, 0 SKIPPED" in run.lines


def test_a_run_that_selected_nothing_names_no_command_that_would_run_everything(lab: Lab) -> None:
    lab.write_list("two", {"zlib": "pass", "gron": "pass"})
    run = lab.run("--atesor-list=two", "-n0", "-k", "nosuch")
    assert run.code == 2
    assert "atesor: error: no case of packages/two.json was selected" in run.out
    assert "to go on" not in run.out
