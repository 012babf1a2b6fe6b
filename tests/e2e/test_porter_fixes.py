"""The usual breakages, made here and repaired in a real sandbox, from the tools' own words."""

import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from pytest_atesor.errors import AtesorError
from pytest_atesor.sandbox.select import select_engine

pytestmark = pytest.mark.engine

_CONTAINER = "atesor-fixes-e2e"
_GIT = shutil.which("git") or "git"
_WHO = ("-c", "user.name=t", "-c", "user.email=t@t")
_HELLO = '#include <stdio.h>\nint main(void) { puts("hello"); return 0; }\n'


@pytest.fixture(scope="module")
def engine() -> Iterator[str]:
    try:
        chosen = select_engine(os.environ.get("ATESOR_ENGINE", "auto"))
    except AtesorError as error:
        pytest.skip(str(error))
    yield chosen.name
    chosen.remove(_CONTAINER)


Port = Callable[[Mapping[str, str]], "tuple[int, dict[str, Any]]"]


@pytest.fixture
def port(tmp_path: Path, engine: str) -> Port:
    def go(files: Mapping[str, str]) -> tuple[int, dict[str, Any]]:
        select_engine(engine).remove(_CONTAINER)  # what another test had installed must not be found
        tree, attempt = tmp_path / "upstream", tmp_path / "attempt"
        attempt.mkdir()
        for name, text in files.items():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            (tree / name).write_text(text)
        for arguments in (["init", "-q"], ["add", "."], [*_WHO, "commit", "-qm", "x"]):
            subprocess.run([_GIT, *arguments], cwd=tree, check=True)
        done = subprocess.run(
            [sys.executable, "-m", "pytest_atesor.porter", "--repo", tree.as_uri(), "--force",
             "--tests", "skip", "--container", _CONTAINER],
            env={**os.environ, "ATESOR_ATTEMPT_DIR": str(attempt), "ATESOR_ENGINE": engine},
            cwd=tmp_path,
            stdout=subprocess.DEVNULL,
            check=False,
            timeout=900,
        )  # fmt: skip
        return done.returncode, json.loads((attempt / "result.json").read_text())

    return go


def _archive(files: Mapping[str, str]) -> str:
    """Return a tar archive, which of ASCII files is ASCII."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode("ascii")))
    return packed.getvalue().decode("ascii")


_SUBPROJECT = _archive({
    "sub-1/meson.build": "project('sub', 'c')\nsub = declare_dependency(sources: files('sub.c'))\n",
    "sub-1/sub.c": "int sub(void) { return 0; }\n",
})


def _make(flags: str = "", source: str = "x.c", compiler: str = "CC") -> str:
    return f"x: {source}\n\t$({compiler}) {flags} -o x {source}\n"


_REPAIRED = [
    pytest.param(
        ["standard-cxx-header"],
        {"Makefile": _make(source="x.cc", compiler="CXX"), "x.cc": "uint32_t f;\nint main() { return f; }\n"},
        id="cstdint",
    ),
    pytest.param(
        ["newer-cxx"],
        {
            "Makefile": _make("-std=gnu++14", "x.cc", "CXX"),
            "x.cc": "#include <optional>\nint main() { std::optional<int> v = 0; return *v; }\n",
        },
        id="c++17",
    ),
    pytest.param(
        ["newest-cxx"],
        {
            "Makefile": _make("-std=gnu++17", "x.cc", "CXX"),
            "x.cc": "#include <span>\nint main() { int v[1] = {0}; std::span<int> s(v); return s[0]; }\n",
        },
        id="c++20",
    ),
    pytest.param(
        ["standard-c-header"],
        {
            "Makefile": "x: x.c y.S\n\t$(CC) -c x.c\n\t$(CC) -c y.S\n\t$(CC) -o x x.o y.o\n",
            "x.c": "#define _GNU_SOURCE 1\n#include <stdio.h>\nint one(void);\n"
            'int main(void) { return strlen("x") - one() + (strcasestr("ab", "B") == 0); }\n',
            "y.S": ".globl one\none: li a0, 1\n\tret\n",
        },
        id="c-header-beside-assembler",
    ),
    pytest.param(
        ["permissive-c"],
        {"Makefile": _make(), "x.c": "f(x) { return x; }\nmain() { return f(0); }\n"},
        id="k-and-r",
    ),
    pytest.param(
        ["removed-header"],
        {
            "Makefile": _make(),
            "x.c": "#include <attr/xattr.h>\nint main(void) { return ENOATTR == 0; }\n",
        },
        id="attr-xattr",
    ),
    pytest.param(
        ["missing-header"],
        {
            "Makefile": "x: x.c\n\t$(CC) -o x x.c -lacl\n",
            "x.c": "#include <sys/acl.h>\nint main(void) { return acl_init(1) == 0; }\n",
        },
        id="sys-acl",
    ),
    pytest.param(
        ["warnings-as-errors"],
        {"Makefile": _make("-Wall -Werror"), "x.c": "int main(void) { int y; return 0; }\n"},
        id="werror",
    ),
    pytest.param(
        ["foreign-flags"],
        {"Makefile": _make("-march=native -msse4.2 -mfpmath=sse"), "x.c": _HELLO},
        id="march-msse",
    ),
    pytest.param(
        ["x86-simd-headers"],
        {
            "Makefile": _make(),
            "x.c": "#include <emmintrin.h>\n"
            "int main(void) { return _mm_cvtsi128_si32(_mm_set1_epi32(0)); }\n",
        },
        id="emmintrin",
    ),
    pytest.param(
        ["common-symbols"],
        {
            "Makefile": _make(source="x.c y.c"),
            "x.c": "int v;\nint main(void) { return v; }\n",
            "y.c": "int v;\n",
        },
        id="common",
    ),
    pytest.param(
        ["atomics"],
        {
            "Makefile": _make(),
            "x.c": "_Atomic __int128 v;\nint main(void) { return (int)v; }\n",
        },
        id="latomic",
    ),
    pytest.param(
        ["position-independent"],
        {
            "Makefile": "libx.so: x.c\n\t$(CC) -fno-pic -c x.c\n\t$(CC) -shared -o libx.so x.o\n",
            "x.c": "extern int v;\nint *f(void) { return &v; }\n",
        },
        id="fpic",
    ),
    pytest.param(
        ["code-model"],
        {
            "Makefile": _make("-nostdlib -no-pie -fno-pie -Wl,-Ttext-segment=0x100000000"),
            "x.c": "int v[2] = {1};\nvoid _start(void) { v[1] = v[0]; for (;;) ; }\n",
        },
        id="code-model",
    ),
    pytest.param(
        ["executable-bits"],
        {
            "Makefile": "x: x.c\n\t./version.sh\n\t$(CC) -o x x.c\n",
            "version.sh": "#!/bin/sh\ntrue\n",
            "x.c": _HELLO,
        },
        id="executable-bits",
    ),
    pytest.param(
        ["parallel-make"],
        {
            # the header comes after the program was tried without it; alone, after some seconds in vain
            "Makefile": "all: gen.h x\ngen.h:\n"
            "\tfor n in $$(seq 150); do [ -e tried ] && break; sleep 0.1; done; touch gen.h\n"
            "x:\n\tcat gen.h; code=$$?; touch tried; exit $$code\n\t$(CC) -o x x.c\n",
            "x.c": _HELLO,
        },
        id="parallel-make",
    ),
    pytest.param(
        ["bsd-make"],
        {
            "Makefile": 'x: x.c\n\t$(CC) $(CFLAGS) -o x x.c\n.include "Makefile.inc"\n',
            "Makefile.inc": ".if !defined(DEBUG)\nCFLAGS+= -O2\n.endif\n",
            "x.c": _HELLO,
        },
        id="bsd-make",
    ),
    pytest.param(
        ["without-extras"],
        {
            "Makefile": "all:\n\t$(MAKE) -C src\n\t$(MAKE) -C doc\n",
            "src/Makefile": "x: x.c\n\t$(CC) -o x x.c\n",
            "src/x.c": _HELLO,
            "doc/Makefile": "x.html:\n\t@echo no such style sheet; exit 3\n",
        },
        id="documentation-breaks",
    ),
    pytest.param(
        ["old-macros", "automake-files"],
        {
            "configure.ac": "AC_INIT([x],[1])\nAM_INIT_AUTOMAKE([gnu -Wall -Werror])\n"
            "AM_CONFIG_HEADER([config.h])\nAC_PROG_CC\nAC_PROG_RANLIB\nAC_CONFIG_FILES([Makefile])\nAC_OUTPUT\n",
            "Makefile.am": "bin_PROGRAMS = x\nx_SOURCES = x.c\nx_LDADD = liby.a\nnoinst_LIBRARIES = liby.a\n"
            "liby_a_SOURCES = y.c\n",
            "x.c": _HELLO,
            "y.c": "int y;\n",
        },
        id="autotools-of-old",
    ),
    pytest.param(
        ["gnulib"],
        {
            "bootstrap": "#!/bin/sh -e\n"
            "for one; do case $one in --gnulib-srcdir=*) gnulib=${one#*=} ;; esac; done\n"
            '[ -d "$gnulib" ] || { echo "$0: Error: --no-git requires --gnulib-srcdir"; exit 1; }\n'
            '"$gnulib/gnulib-tool" --import --no-vc-files --source-base=lib c-ctype\nautoreconf -fi\n',
            "bootstrap.conf": "gnulib_modules=c-ctype\n",
            "configure.ac": "AC_INIT([x],[1])\nAC_CONFIG_AUX_DIR([build-aux])\n"
            "AC_CONFIG_HEADERS([config.h])\nAM_INIT_AUTOMAKE([foreign])\nAC_PROG_CC\ngl_EARLY\ngl_INIT\n"
            "AC_CONFIG_FILES([Makefile lib/Makefile])\nAC_OUTPUT\n",
            "Makefile.am": "ACLOCAL_AMFLAGS = -I m4\nSUBDIRS = lib\nbin_PROGRAMS = x\nx_SOURCES = x.c\n"
            "x_CPPFLAGS = -Ilib -I$(srcdir)/lib\nx_LDADD = lib/libgnu.a\n",
            "x.c": '#include <config.h>\n#include "c-ctype.h"\n'
            "int main(int n, char **v) { return !c_isalpha(v[0][n]); }\n",
        },
        id="gnulib",
    ),
    pytest.param(
        ["go-directive"],
        {
            "go.mod": "module example.org/x\n\ngo 1.99\n\ntoolchain go1.99.1\n",
            "main.go": "package main\n\nfunc main() { println(1) }\n",
        },
        id="go-toolchain",
    ),
    pytest.param(
        ["cargo-msrv"],
        {
            "Cargo.toml": '[package]\nname = "x"\nversion = "0.1.0"\nedition = "2021"\n'
            'rust-version = "1.999"\n',
            "src/main.rs": 'fn main() { println!("x"); }\n',
        },
        id="cargo-msrv",
    ),
    pytest.param(
        ["missing-command-of-build-script"],
        {
            "Cargo.toml": '[package]\nname = "x"\nversion = "0.1.0"\nedition = "2021"\n',
            "build.rs": 'fn main() { std::process::Command::new("rst2man").arg("--version").status()'
            ".expect(\"Unable to generate manpage. Is 'rst2man' installed?\"); }\n",
            "src/main.rs": 'fn main() { println!("x"); }\n',
        },
        id="command-of-build-script",
    ),
    pytest.param(
        ["cargo-lock"],
        {
            "Cargo.toml": '[package]\nname = "x"\nversion = "0.1.0"\nedition = "2021"\n',
            "Cargo.lock": 'version = 99\n[[package]]\nname = "x"\nversion = "0.1.0"\n',
            "src/main.rs": 'fn main() { println!("x"); }\n',
        },
        id="cargo-lock",
    ),
    pytest.param(
        ["cmake-preset"],
        {
            "CMakeLists.txt": "cmake_minimum_required(VERSION 3.23)\nproject(x C)\nif(NOT X_CHOSEN)\n"
            '  message(FATAL_ERROR "configure with cmake --preset NAME")\nendif()\nadd_executable(x x.c)\n',
            "CMakePresets.json": '{"version": 6, "configurePresets": [{"name": "release", "binaryDir": '
            '"${sourceDir}/out", "cacheVariables": {"X_CHOSEN": "ON"}}]}\n',
            "x.c": _HELLO,
        },
        id="cmake-preset",
    ),
    pytest.param(
        [],  # seen before the first attempt
        {
            "configure": "#!/bin/sh\n# Generated by GNU Autoconf\n"
            "sh ./config.sub riscv64-linux-gnu || exit 1\nprintf 'x: x.c\\n\\tcc -o x x.c\\n' > Makefile\n",
            "config.sub": "#!/bin/sh\necho \"Invalid configuration '$1': machine not recognized\"; exit 1\n",
            "x.c": _HELLO,
        },
        id="config-sub",
    ),
    pytest.param(
        ["missing-header-named"],
        {
            "configure": "#!/bin/sh\n[ -f /usr/include/attr/error_context.h ] ||\n"
            '{ echo "FATAL ERROR: attr/error_context.h does not exist."; exit 1; }\n'
            "printf 'x: x.c\\n\\tcc -o x x.c -lattr\\n' > Makefile\n",
            "x.c": "#include <attr/error_context.h>\n" + _HELLO,
        },
        id="header-named-by-configure",
    ),
    pytest.param(
        ["older-c"],
        {
            "Makefile": _make("-std=gnu23"),
            "x.c": "typedef int bool;\nint main(void) { bool x = 0; return x; }\n",
        },
        id="c23-keywords",
    ),
    pytest.param(
        ["go-vendor-as-it-is"],
        {
            "go.mod": "module example.org/x\n\ngo 1.21\n\nrequire example.org/dep v1.0.1\n",
            "vendor/modules.txt": "# example.org/dep v1.0.0\n## explicit\nexample.org/dep\n",
            "vendor/example.org/dep/dep.go": "package dep\n\nconst One = 1\n",
            "main.go": 'package main\n\nimport "example.org/dep"\n\nfunc main() { println(dep.One) }\n',
        },
        id="go-vendor",
    ),
    pytest.param(
        ["window-systems"],
        {
            "CMakeLists.txt": "cmake_minimum_required(VERSION 3.5...3.30)\nproject(x C)\n"
            "find_package(X11 REQUIRED)\nif (NOT X11_Xrandr_INCLUDE_PATH)\n  message(FATAL_ERROR "
            '"RandR headers not found; install libxrandr development package")\nendif()\n'
            "add_executable(x x.c)\ntarget_link_libraries(x X11::X11)\n",
            "x.c": "#include <X11/Xlib.h>\n#include <X11/extensions/Xrandr.h>\n"
            "int main(void) { return XOpenDisplay(0) != 0; }\n",
        },
        id="x11-development-set",
    ),
    pytest.param(
        ["cmake-offline"],
        {
            "CMakeLists.txt": "cmake_minimum_required(VERSION 3.5...3.30)\nproject(x C)\n"
            'option(X_USE_CPM "Fetch the libraries" ON)\nif (X_USE_CPM)\n'
            "  file(DOWNLOAD https://example.invalid/CPM.cmake ${CMAKE_BINARY_DIR}/CPM.cmake EXPECTED_HASH "
            f"SHA256={'0' * 64})\nendif()\nadd_executable(x x.c)\n",
            "x.c": _HELLO,
        },
        id="download-option",
    ),
    pytest.param(
        ["meson-subprojects"],
        {
            "meson.build": "project('x', 'c')\nsub = subproject('sub').get_variable('sub')\n"
            "executable('x', 'x.c', dependencies: sub)\n",
            "x.c": "int sub(void);\nint main(void) { return sub(); }\n",
            # in the place of an address on the network
            "subprojects/sub.wrap": "[wrap-file]\ndirectory = sub-1\nsource_filename = sub-1.tar\n"
            "source_url = file:///proc/self/cwd/elsewhere/sub-1.tar\n"
            f"source_hash = {hashlib.sha256(_SUBPROJECT.encode()).hexdigest()}\n",
            "elsewhere/sub-1.tar": _SUBPROJECT,
        },
        id="meson-wrap",
    ),
]


@pytest.mark.parametrize(("rules", "files"), _REPAIRED)
def test_a_usual_breakage_is_repaired(port: Port, rules: list[str], files: Mapping[str, str]) -> None:
    code, result = port(files)
    assert (code, result["reason"]) == (0, "")
    assert {f"fix: {one}" for one in rules} <= set(result["notes"])


_EXTERNAL = (
    "cmake_minimum_required(VERSION 3.5...3.30)\nproject(x C)\ninclude(ExternalProject)\n"
    "ExternalProject_Add(psimd GIT_REPOSITORY https://example.invalid/o/psimd.git GIT_TAG master\n"
    '  CONFIGURE_COMMAND "" BUILD_COMMAND "" INSTALL_COMMAND "")\n'
    "add_executable(x x.c)\nadd_dependencies(x psimd)\n"
)
_AT_CONFIGURE = (
    "cmake_minimum_required(VERSION 3.5...3.30)\nproject(x C)\n"
    "execute_process(COMMAND git clone https://example.invalid/o/nnpack-part.git RESULT_VARIABLE r)\n"
    "add_subdirectory(nnpack-part)\nadd_executable(x x.c)\n"
)


@pytest.mark.parametrize(
    "files",
    [
        pytest.param({"CMakeLists.txt": _EXTERNAL, "x.c": _HELLO}, id="external-project"),
        pytest.param({"CMakeLists.txt": _AT_CONFIGURE, "x.c": _HELLO}, id="clone-at-configure"),
        pytest.param(
            {
                "Makefile": "x:\n\tgit clone https://example.invalid/o/d.git\n\t$(CC) -o x x.c\n",
                "x.c": _HELLO,
            },
            id="clone-in-make",
        ),
        pytest.param(
            {
                "Makefile": "x:\n\tpython3 -c 'import urllib.request as u; u.urlopen(\"http://example.invalid/\")'\n",
                "x.c": _HELLO,
            },
            id="python-in-make",
        ),
    ],
)
def test_a_build_that_needs_the_network_fails_for_its_dependency(
    port: Port, files: Mapping[str, str]
) -> None:
    code, result = port(files)
    assert (code, result["cause"]) == (1, "dependency")
    assert "the build downloads" in result["reason"]
    assert "builds have no network" in result["reason"]


def test_a_go_module_that_cannot_be_fetched_is_a_missing_dependency(port: Port) -> None:
    code, result = port({
        "go.mod": "module example.org/x\n\ngo 1.21\n\nrequire example.invalid/no/such v1.0.0\n",
        "main.go": 'package main\n\nimport "example.invalid/no/such"\n\nfunc main() { such.Go() }\n',
    })
    assert (code, result["cause"]) == (1, "dependency")
    assert "example.invalid/no/such" in result["reason"]


def test_a_crate_that_cannot_be_fetched_is_a_missing_dependency(port: Port) -> None:
    code, result = port({
        "Cargo.toml": '[package]\nname = "x"\nversion = "0.1.0"\nedition = "2021"\n[dependencies]\n'
        'no-such-crate-of-atesor = "1"\n',
        "src/main.rs": "fn main() { no_such_crate_of_atesor::go(); }\n",
    })
    assert (code, result["cause"]) == (1, "dependency")
    assert "no-such-crate-of-atesor" in result["reason"]
