"""Each builder on a small real tree, in a real sandbox: what it makes runs, and its tests are found."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from pytest_atesor.errors import AtesorError
from pytest_atesor.sandbox.select import select_engine

pytestmark = pytest.mark.engine

_CONTAINER = "atesor-builders-e2e"
_GIT = shutil.which("git") or "git"
_WHO = ("-c", "user.name=t", "-c", "user.email=t@t")
_HELLO = '#include <stdio.h>\nint main(void) { puts("tool 1.0"); return 0; }\n'


@pytest.fixture(scope="module")
def engine() -> Iterator[str]:
    try:
        chosen = select_engine(os.environ.get("ATESOR_ENGINE", "auto"))
    except AtesorError as error:
        pytest.skip(str(error))
    chosen.remove(_CONTAINER)
    yield chosen.name
    chosen.remove(_CONTAINER)


Port = Callable[[Mapping[str, str]], "tuple[int, dict[str, Any]]"]


@pytest.fixture
def port(tmp_path: Path, engine: str) -> Port:
    def go(files: Mapping[str, str]) -> tuple[int, dict[str, Any]]:
        tree, attempt = tmp_path / "upstream", tmp_path / "attempt"
        attempt.mkdir()
        for name, text in files.items():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            (tree / name).write_text(text)
            (tree / name).chmod(0o755 if text.startswith("#!") else 0o644)
        for arguments in (["init", "-q"], ["add", "."], [*_WHO, "commit", "-qm", "x"]):
            subprocess.run([_GIT, *arguments], cwd=tree, check=True)
        done = subprocess.run(
            [sys.executable, "-m", "pytest_atesor.porter", "--repo", tree.as_uri(), "--force",
             "--container", _CONTAINER],
            env={**os.environ, "ATESOR_ATTEMPT_DIR": str(attempt), "ATESOR_ENGINE": engine},
            cwd=tmp_path,
            stdout=subprocess.DEVNULL,
            check=False,
            timeout=900,
        )  # fmt: skip
        return done.returncode, json.loads((attempt / "result.json").read_text())

    return go


_CMAKE = (
    "cmake_minimum_required(VERSION 3.5...3.30)\nproject(x C)\nadd_executable(tool tool.c)\n"
    "install(TARGETS tool)\ninclude(CTest)\nif(BUILD_TESTING)\n  add_test(NAME runs COMMAND tool)\nendif()\n"
)
_TREES: Mapping[str, tuple[str, str, dict[str, str]]] = {
    "make": (
        "make",
        "passed",
        {"Makefile": "tool: tool.c\n\t$(CC) -o $@ tool.c\ntest: tool\n\t./tool\n", "tool.c": _HELLO},
    ),
    "configure-by-hand": (
        "configure",
        "none",
        {
            "configure": "#!/bin/sh\nprintf 'tool: tool.c\\n\\tcc -o tool tool.c\\n' > Makefile\n",
            "tool.c": _HELLO,
        },
    ),
    "autotools": (
        "autotools",
        "passed",
        {
            "configure.ac": "AC_INIT([x],[1])\nAM_INIT_AUTOMAKE([foreign])\nAC_PROG_CC\n"
            "AC_CONFIG_FILES([Makefile])\nAC_OUTPUT\n",
            "Makefile.am": "bin_PROGRAMS = tool\ntool_SOURCES = tool.c\nTESTS = tool\n",
            "tool.c": _HELLO,
        },
    ),
    "cmake": ("cmake", "passed", {"CMakeLists.txt": _CMAKE, "tool.c": _HELLO}),
    "cmake-in-a-subdirectory": (
        "cmake",
        "passed",
        {"README": "x\n", "src/CMakeLists.txt": _CMAKE, "src/tool.c": _HELLO},
    ),
    "meson": (
        "meson",
        "passed",
        {
            "meson.build": "project('x', 'c')\nt = executable('tool', 'tool.c')\ntest('runs', t)\n",
            "tool.c": _HELLO,
        },
    ),
    "go-with-cgo-and-several-mains": (
        "go",
        "passed",
        {
            "go.mod": "module example.org/x\n\ngo 1.21\n",
            "cmd/tool/main.go": 'package main\n\nimport "fmt"\n\nfunc main() { fmt.Println("tool 1.0") }\n',
            "cmd/other/main.go": 'package main\n\n// int one(void) { return 1; }\nimport "C"\n\n'
            "func main() { println(C.one()) }\n",
            "lib/lib.go": "package lib\n\nfunc One() int { return 1 }\n",
            "lib/lib_test.go": 'package lib\n\nimport "testing"\n\nfunc TestOne(t *testing.T) {\n'
            "\tif One() != 1 {\n\t\tt.Fatal()\n\t}\n}\n",
        },
    ),
    "go-workspace": (
        "go",
        "none",
        {
            "go.work": "go 1.21\n\nuse (\n\t./lib // a comment\n\t./tool\n)\n",
            "lib/go.mod": "module example.org/lib\n\ngo 1.21\n",
            "lib/lib.go": 'package lib\n\nconst Version = "tool 1.0"\n',
            "tool/go.mod": "module example.org/tool\n\ngo 1.21\n",
            "tool/main.go": 'package main\n\nimport (\n\t"fmt"\n\n\t"example.org/lib"\n)\n\n'
            "func main() { fmt.Println(lib.Version) }\n",
        },
    ),
    "cargo-workspace-with-build-script": (
        "cargo",
        "passed",
        {
            "Cargo.toml": '[workspace]\nmembers = ["tool", "lib"]\nresolver = "3"\n',
            "lib/Cargo.toml": '[package]\nname = "lib"\nversion = "1.0.0"\nedition = "2024"\n',
            "lib/src/lib.rs": "pub fn one() -> u8 { 1 }\n#[test]\nfn is_one() { assert_eq!(one(), 1); }\n",
            "tool/Cargo.toml": '[package]\nname = "tool"\nversion = "1.0.0"\nedition = "2024"\n'
            'build = "build.rs"\n[dependencies]\nlib = { path = "../lib" }\n',
            "tool/build.rs": 'fn main() { println!("cargo::rustc-env=SAID=tool {}.0", 1); }\n',
            "tool/src/main.rs": 'fn main() { println!("{}", env!("SAID")); assert!(lib::one() == 1) }\n',
        },
    ),
    "plain-c": ("plain-c", "none", {"tool.c": _HELLO}),
}


@pytest.mark.parametrize("name", list(_TREES))
def test_a_small_tree_is_built_started_and_tested(port: Port, name: str) -> None:
    builder, tests, files = _TREES[name]
    code, result = port(files)
    assert (code, result["reason"], result["build_system"]) == (0, "", builder)
    starts = [one["start"] for one in result["artifacts"] if one["start"]]
    assert "tool 1.0" in {one["said"] for one in starts}
    assert {one["status"] for one in starts} == {"started"}
    assert result["metrics"]["attempts"] == 1
    assert result["package_tests"]["status"] == tests
