"""Edits of a tree, run as builder's shell would run them."""

import subprocess
from pathlib import Path

import pytest

from pytest_atesor.porter.edits import prepare_script


def _edit(tree: Path, name: str) -> None:
    subprocess.run(["/bin/sh", "-eu", "-c", prepare_script((name,))], cwd=tree, check=True)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("#!/usr/bin/python\nx\n", "#!/usr/bin/python3\nx\n", id="python"),
        pytest.param("#! /usr/bin/env python2.7\nx\n", "#!/usr/bin/python3\nx\n", id="python2-by-env"),
        pytest.param("#!/usr/bin/python -u\n", "#!/usr/bin/python3 -u\n", id="argument"),
        pytest.param("#!/usr/local/bin/perl -w\n", "#!/usr/bin/perl -w\n", id="installed-by-a-person"),
        pytest.param("#!/usr/local/bin/python\n", "#!/usr/bin/python3\n", id="python-installed-by-a-person"),
        pytest.param("#!/bin/sh\r\necho\r\n", "#!/bin/sh\necho\n", id="carriage-returns"),
        pytest.param("#!/usr/bin/env python3\nx\n", "#!/usr/bin/env python3\nx\n", id="python3-stays"),
        pytest.param("#!/bin/sh\necho '\r'\n", "#!/bin/sh\necho '\r'\n", id="carriage-return-inside-stays"),
        pytest.param("#! /bin/sh\nx\n", "#! /bin/sh\nx\n", id="shell-stays"),
        pytest.param("x\n#!/usr/bin/python\n", "x\n#!/usr/bin/python\n", id="no-script"),
    ],
)
def test_scripts_get_an_interpreter_that_is_there(tmp_path: Path, before: str, after: str) -> None:
    script = tmp_path / "with blank" / "gen"
    script.parent.mkdir()
    script.write_bytes(before.encode())
    script.chmod(0o755)
    _edit(tmp_path, "interpreters")
    assert script.read_bytes() == after.encode()
    assert script.stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize(
    ("line", "path"),
    [
        pytest.param("AC_CONFIG_AUX_DIR([build-aux])\n", "build-aux/config.rpath", id="named"),
        pytest.param("AC_CONFIG_AUX_DIR(config)\n", "config/config.rpath", id="without-brackets"),
        pytest.param("", "config.rpath", id="none"),
    ],
)
def test_automake_gets_its_files_where_it_looks_for_them(tmp_path: Path, line: str, path: str) -> None:
    (tmp_path / "configure.ac").write_text(f"AC_INIT(x, 1)\n{line}AC_OUTPUT\n")
    (tmp_path / "README").write_text("kept\n")
    _edit(tmp_path, "automake-files")
    assert (tmp_path / path).read_text() == ""
    assert (tmp_path / "NEWS").exists()
    assert (tmp_path / "README").read_text() == "kept\n"


def test_objects_that_came_with_the_tree_are_made_again(tmp_path: Path) -> None:
    (tmp_path / "a b").mkdir()
    for name in ("x.o", "a b/y.lo", "a b/z.c", "no"):
        (tmp_path / name).touch()
    _edit(tmp_path, "no-objects")
    assert sorted(one.name for one in tmp_path.rglob("*") if one.is_file()) == ["no", "z.c"]


def test_gettext_files_and_macros_come_from_one_version(tmp_path: Path) -> None:
    (tmp_path / "configure.ac").write_text("AM_GNU_GETTEXT([external])\nAM_GNU_GETTEXT_VERSION([0.19])\n")
    _edit(tmp_path, "gettext-version")
    assert (tmp_path / "configure.ac").read_text() == (
        "AM_GNU_GETTEXT([external])\nAM_GNU_GETTEXT_REQUIRE_VERSION([0.19])\n"
    )
