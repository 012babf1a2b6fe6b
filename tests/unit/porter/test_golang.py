"""Go's plans, run as builder's shell would run them, with a ``go`` that says which flags it was given."""

import itertools
import os
import subprocess
from pathlib import Path

import pytest

from pytest_atesor.porter.builders.golang import GoProject
from pytest_atesor.porter.builders.interface import BuildOptions
from pytest_atesor.porter.fixes import RULES
from pytest_atesor.porter.fixes.interface import Change
from pytest_atesor.porter.workplace import attempt_environment

_GO = """#!/bin/sh
case $1 in build|test) echo "$1 $GOFLAGS" >> "$HOME/seen";; esac
"""
_MODULE = GoProject(module="a.org/x", requires=True)
_VENDORED = GoProject(module="a.org/x", requires=True, is_vendored=True)
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
    tree.mkdir()
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
