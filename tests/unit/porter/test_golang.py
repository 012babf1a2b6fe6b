"""Go's plans, run as builder's shell would run them, with a ``go`` that says which flags it was given."""

import itertools
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_atesor.core.outcome import Cause
from pytest_atesor.porter.builders.golang import GoBuilder, GoProject
from pytest_atesor.porter.builders.interface import BuildOptions
from pytest_atesor.porter.diagnose import diagnose
from pytest_atesor.porter.fixes import RULES
from pytest_atesor.porter.fixes.interface import Change, Stop
from pytest_atesor.porter.tree import Tree
from pytest_atesor.porter.workplace import attempt_environment

_GO = """#!/bin/sh
case $1 in
  build|test) echo "$1 $GOFLAGS" >> "$HOME/seen";;
  list) for last; do :; done; echo "${PWD#"$HOME"/} $last" >> "$HOME/lists";;
  mod|work) echo "${PWD##*/} $* ${GOWORK-}" | sed 's/ *$//' >> "$HOME/edits";;
esac
"""
_MODULE = GoProject(module="a.org/x", requires=True)
_VENDORED = GoProject(module="a.org/x", requires=True, is_vendored=True)
_WORKSPACE = GoProject(
    module="workspace", members=("a", "b"), paths=("a.org/x/a", "a.org/x"), is_workspace=True, requires=True
)
_ANY_LINKNAME = "-ldflags=-checklinkname=0"


def _after(fixes: tuple[str, ...]) -> BuildOptions:
    options = BuildOptions(jobs=1)
    for name in fixes:
        (fix,) = (rule.fix for rule in RULES if rule.name == name)
        assert isinstance(fix, Change)
        options = options.with_fix(name, fix.change)
    return options


def _flags(place: Path, project: GoProject, options: BuildOptions) -> dict[str, set[str]]:
    """Return the flags that ``go build`` and ``go test`` saw."""
    tree = place / "tree"
    for member in project.members or (".",):
        (tree / member).mkdir(parents=True, exist_ok=True)
    (tree / "x.go").touch()
    go = place / "bin" / "go"
    go.parent.mkdir()
    go.write_text(_GO)
    go.chmod(0o755)
    environment = attempt_environment(options.tweak) | {
        "HOME": str(place),
        "PATH": f"{go.parent}:{os.environ['PATH']}",
    }
    steps = [one.script for one in project.plan(options)]
    for script in (*steps, *(one.script for one in project.plan_suites(options))):
        subprocess.run(["/bin/sh", "-eu", "-c", script], cwd=tree, env=environment, check=True)
    seen = [line.split() for line in (place / "seen").read_text().splitlines()]
    return {command: set(flags) for command, *flags in seen}


@pytest.mark.parametrize(
    ("project", "fixes", "expected"),
    [
        pytest.param(_MODULE, (), set(), id="nothing"),
        pytest.param(_VENDORED, (), {"-mod=vendor"}, id="vendored"),
        pytest.param(_VENDORED, ("go-linkname",), {"-mod=vendor", _ANY_LINKNAME}, id="vendored-linkname"),
        pytest.param(
            _VENDORED,
            ("go-modules-update", "go-linkname"),
            {"-mod=mod", _ANY_LINKNAME},
            id="vendored-update-linkname",
        ),
        # Go refuses -mod=mod in a workspace.
        pytest.param(_WORKSPACE, (), set(), id="workspace"),
        pytest.param(_WORKSPACE, ("go-modules-update",), {"-mod=readonly"}, id="workspace-update"),
        pytest.param(GoProject(), ("go-linkname",), {_ANY_LINKNAME}, id="no-modules"),
        *(
            pytest.param(_MODULE, fixes, {"-mod=mod", _ANY_LINKNAME}, id="-then-".join(fixes))
            for fixes in itertools.permutations(("go-modules-update", "go-linkname"))
        ),
        # Go refuses -mod where there are no modules.
        *(
            pytest.param(_MODULE, fixes, {_ANY_LINKNAME}, id="-then-".join(fixes))
            for fixes in itertools.permutations((
                "go-modules-update",
                "go-linkname",
                "go-distribution-packages",
            ))
        ),
    ],
)
def test_the_flags_of_one_fix_outlive_the_next(
    tmp_path: Path, project: GoProject, fixes: tuple[str, ...], expected: set[str]
) -> None:
    flags = {"-buildvcs=false"} | expected
    assert _flags(tmp_path, project, _after(fixes)) == {"build": flags, "test": flags}


def _edits(place: Path) -> list[str]:
    return (place / "edits").read_text().splitlines()


def test_what_modules_lack_is_completed_with_the_network_on(tmp_path: Path) -> None:
    options = _after(("go-modules-update",))
    project = GoProject(module="a.org/x")
    assert [(one.name, one.network) for one in project.plan(options)] == [
        ("download", True),
        ("build", False),
    ]
    _flags(tmp_path, project, options)
    assert _edits(tmp_path) == ["tree mod tidy -e", "tree mod download"]


def test_modules_of_a_workspace_are_completed_one_by_one(tmp_path: Path) -> None:
    _flags(tmp_path, _WORKSPACE, _after(("go-modules-update",)))
    assert _edits(tmp_path) == [
        "a mod tidy -e off",
        "b mod tidy -e off",
        "tree work use",
        "tree mod download",
    ]


def test_modules_of_a_workspace_stand_where_packaged_sources_are_looked_for(tmp_path: Path) -> None:
    for member in ("a", "b"):
        (tmp_path / "tree" / member).mkdir(parents=True)
        (tmp_path / "tree" / member / f"{member}.go").touch()
    _flags(tmp_path, _WORKSPACE, _after(("go-distribution-packages",)))
    assert sorted(one.name for one in (tmp_path / "go/src/a.org/x").iterdir()) == ["a", "b.go"]
    assert [one.name for one in (tmp_path / "go/src/a.org/x/a").iterdir()] == ["a.go"]
    assert "go/src a.org/x/..." in (tmp_path / "lists").read_text().splitlines()


@pytest.mark.parametrize(
    ("used", "modules", "places"),
    [
        pytest.param(". ./v2", {".": "e.org/m", "v2": "e.org/m/v2"}, {"m": ".", "m/v2": "v2"}, id="root"),
        pytest.param(
            "./v2 .", {".": "e.org/m", "v2": "e.org/m/v2"}, {"m": ".", "m/v2": "v2"}, id="root-last"
        ),
        pytest.param("./v2 .", {".": "e.org/m/v2", "v2": "e.org/m/v2"}, {"m": "."}, id="same-name"),
        pytest.param("./v2 .", {".": "e.org/m/v2", "v2": "e.org/m"}, {"m": "."}, id="older-below"),
        pytest.param("./a ./b", {"a": "e.org/m", "b": "e.org/m/v3"}, {"m": "a", "m/v3": "b"}, id="no-root"),
    ],
)
def test_a_second_version_of_a_module_never_takes_the_place_of_the_first(
    tmp_path: Path,
    make_tree: Callable[..., Tree],
    used: str,
    modules: dict[str, str],
    places: dict[str, str],
) -> None:
    files = {f"{one}/go.mod".removeprefix("./"): f"module {path}\n" for one, path in modules.items()}
    (best, *_) = GoBuilder().find(make_tree({**files, "go.work": f"use ({used.replace(' ', chr(10))})\n"}))
    assert isinstance(best.project, GoProject)
    for one in modules:
        (tmp_path / "tree" / one).mkdir(parents=True, exist_ok=True)
        (tmp_path / "tree" / one / "where").write_text(one)
    _flags(tmp_path, best.project, _after(("go-distribution-packages",)))
    found = {place: (tmp_path / "go/src/e.org" / place / "where").read_text() for place in places}
    assert found == places


@pytest.mark.parametrize(
    ("files", "members", "is_whole"),
    [
        pytest.param({"go.work": "use ./a"}, ("a",), True, id="workspace"),
        pytest.param({"go.work": "use (\n\t.\n\t./a/\n)", "go.mod": "module r"}, (".", "a"), True, id="root"),
        pytest.param({"go.work": "use ./a", "go.mod": "module r"}, (), False, id="root-that-is-no-member"),
        pytest.param({"go.mod": "module r"}, (), False, id="no-workspace"),
    ],
)
def test_a_module_knows_its_workspace(
    make_tree: Callable[..., Tree], files: dict[str, str], members: tuple[str, ...], *, is_whole: bool
) -> None:
    best = next(iter(GoBuilder().find(make_tree({**files, "a/go.mod": "module a"}))))
    assert isinstance(best.project, GoProject)
    assert (best.directory, best.project.members, best.project.is_workspace) == ("", members, is_whole)
    assert best.project.paths == tuple({".": "r", "a": "a"}[one] for one in members)


_ETCD = {
    "go.work": "go 1.26\n\nuse (\n\t.\n\t./api\n\t./server\n\t./tests\n\t./tools/mod\n\t./ctl/v2\n)\n",
    "go.mod": "module a.org/x/v3\n",
    "x.go": "package x\n",
    "contrib/demo/main.go": "package main\n",
    "api/go.mod": "module a.org/x/api/v3\n",
    "server/go.mod": "module a.org/x/server/v3\n\nrequire a.org/y v1.0.0\n",
    "tests/go.mod": "module a.org/x/tests/v3\n",
    "tools/mod/go.mod": "module a.org/x/tools/v3\n",
    "ctl/v2/go.mod": "module a.org/ctl/v2\n",
}


def _packages(script: str) -> str:
    (line,) = (one for one in script.splitlines() if one.startswith("packages="))
    return line.removeprefix("packages=").strip("'")


def test_a_workspace_with_a_root_builds_and_tests_its_other_modules_too(
    make_tree: Callable[..., Tree],
) -> None:
    (best, *_) = GoBuilder().find(make_tree(_ETCD))
    plain, packaged = BuildOptions(jobs=1), _after(("go-distribution-packages",))
    download, build = best.project.plan(plain)
    (suite,) = best.project.plan_suites(plain)
    assert (download.network, build.network) == (True, False)
    assert _packages(build.script) == "./... ./api/... ./server/... ./ctl/v2/..."
    assert _packages(suite.script) == "./... ./api/... ./server/... ./ctl/v2/..."
    assert _packages(best.project.plan(packaged)[-1].script) == (
        "a.org/x/... a.org/x/api/... a.org/x/server/... a.org/ctl/..."
    )


def test_programs_that_others_contribute_are_no_products_beside_the_own(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "tree").mkdir()
    go = tmp_path / "bin" / "go"
    go.write_text(
        '#!/bin/sh\ncase $1 in\n  list) printf "a.org/x/contrib/demo\\na.org/x/server/v3\\n";;\n'
        '  build) echo "$4" >> "$HOME/seen";;\nesac\n'
    )
    go.chmod(0o755)
    script = GoProject(module="a.org/x").plan(BuildOptions(jobs=1))[-1].script
    environment = {"HOME": str(tmp_path), "PATH": f"{go.parent}:{os.environ['PATH']}"}
    subprocess.run(["/bin/sh", "-eu", "-c", script], cwd=tmp_path / "tree", env=environment, check=True)
    assert (tmp_path / "seen").read_text() == "a.org/x/server/v3\n"


def test_a_program_below_cmd_may_be_a_module_of_its_own(make_tree: Callable[..., Tree]) -> None:
    files = {
        "go.mod": "module a.org/x\n",
        "cmd/b/go.mod": "module a.org/x/b\n",
        "cmd/a/b/go.mod": "module c\n",
    }
    found = GoBuilder().find(make_tree(files))
    assert [(one.directory, one.evidence) for one in found] == [("", "go.mod"), ("cmd/b", "cmd/b/go.mod")]


@pytest.mark.parametrize(
    "text", ["\n" * 500_000, " " * 500_000, "use\n" * 100_000, "use (" * 100_000, "module " * 70_000]
)
def test_a_hostile_manifest_costs_next_to_nothing(make_tree: Callable[..., Tree], text: str) -> None:
    tree = make_tree({"go.mod": text, "go.work": text})
    started = time.process_time()
    assert [one.directory for one in GoBuilder().find(tree)] == [""]
    assert time.process_time() - started < 5


@pytest.mark.parametrize(
    ("said", "path"), [("a.org/x/v2", "a.org/x/v2"), ('"a.org/x"', "a.org/x"), ("../../x", "")]
)
def test_a_module_is_what_its_file_says_unless_that_leads_out(
    make_tree: Callable[..., Tree], said: str, path: str
) -> None:
    (found,) = GoBuilder().find(make_tree({"go.mod": f"module {said}\n"}))
    assert isinstance(found.project, GoProject)
    assert found.project.module == path


@pytest.mark.parametrize(
    ("log", "fixes"),
    [
        pytest.param(
            "go: golang.org/x/net@v0.48.0 requires go >= 1.25.0 (running go 1.24.4; GOTOOLCHAIN=local)\n",
            ["go-newer-module", "go-too-old-for-module"],
            id="required-module",
        ),
        pytest.param(
            "go: go.work requires go >= 1.25 (running go 1.24.4; GOTOOLCHAIN=local)\n",
            ["go-directive", "go-too-old"],
            id="workspace",
        ),
        pytest.param(
            "go: module a listed in go.work file requires go >= 1.25, but go.work lists go 1.24; to download "
            "and use go 1.25:\n\tgo work use\n",
            ["go-directive", "go-too-old"],
            id="module-of-a-workspace",
        ),
        pytest.param(
            "main.go:2:16: no required module provides package a.org/w; to add it:\n\tgo get a.org/w\n",
            ["go-modules-update", "go-modules-packaged"],
            id="package-that-no-module-has",
        ),
        pytest.param(
            "go: github.com/a/b@v1.2.3: invalid version: unknown revision v1.2.3\n",
            ["go-modules-gone", "go-module-gone"],
            id="version-that-is-gone",
        ),
        pytest.param(
            'go: a.org/b@v1.0.0: unrecognized import path "a.org/b": reading https://a.org/b?go-get=1: '
            "410 Gone\n",
            ["go-modules-gone", "go-module-gone", "go-distribution-packages"],
            id="host-that-is-gone",
        ),
        pytest.param(
            "go: a.org/b@v1.0.0: verifying go.mod: a.org/b@v1.0.0/go.mod: reading "
            "https://sums.example.org/lookup/a.org/b@v1.0.0: 404 Not Found\n",
            ["go-modules-gone", "go-module-gone"],
            id="module-that-no-checksum-is-known-of",
        ),
        pytest.param(
            'go: a.org/b@v1.0.0: unrecognized import path "a.org/b": https fetch: '
            'Get "https://a.org/b?go-get=1": dial tcp: lookup a.org: no such host\n',
            ["go-distribution-packages"],
            id="no-network",
        ),
        pytest.param(
            "verifying a.org/b@v1.0.0/go.mod: checksum mismatch\n\tdownloaded: h1:9CLF=\n"
            "\tgo.sum:     h1:AAAA=\n",
            ["go-checksum-mismatch"],
            id="another-content",
        ),
    ],
)
def test_what_go_says_of_versions_has_a_remedy_and_an_end(log: str, fixes: list[str]) -> None:
    assert [one.rule.name for one in diagnose(log, "go")] == fixes


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ("asm/a.go:3:6: missing function body", "asm/a.go:3:6: missing function body"),
        ("pt/a.go:7:17: undefined: syscall.SYS_OPEN", "syscall.SYS_OPEN"),
        ("./a.go:10:20: undefined: syscall.Dup2", "syscall.Dup2"),
        ("./a.go:10:20: undefined: unix.PtraceRegs", "unix.PtraceRegs"),
        (
            "pt/a.go:6:28: R.Rip undefined (type syscall.PtraceRegs has no field or method Rip)",
            "syscall.PtraceRegs",
        ),
    ],
)
def test_go_code_for_other_processors_is_unsupported_by_name(said: str, name: str) -> None:
    (match,) = diagnose(f"# a.org/x/asm\n{said}\n", "go")
    assert isinstance(match.rule.fix, Stop)
    assert (match.rule.fix.cause, match.names) == (Cause.UNSUPPORTED, (name,))


@pytest.mark.parametrize(
    "said",
    ["undefined: z", "undefined: syscall.SYS_MEMFD_SECRET", "undefined: unix.Openat2", "undefined: Has"],
)
def test_what_else_go_does_not_know_is_not_for_other_processors(said: str) -> None:
    assert list(diagnose(f"./m.go:7:2: {said}\n", "go")) == []


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ("web/embed.go:6:12: pattern dist/*: no matching files found", "dist/*"),
        (
            "em2/main.go:7:12: pattern all:dist: cannot embed directory dist: contains no embeddable files",
            "all:dist",
        ),
    ],
)
def test_what_go_embeds_and_nobody_made_is_not_in_the_source(said: str, name: str) -> None:
    (match,) = diagnose(f"{said}\n", "go")
    assert isinstance(match.rule.fix, Stop)
    assert (match.rule.fix.cause, match.names) == (Cause.SOURCE, (name,))
