"""Which rules answer a message, and which do not, whatever quotes the compiler's language has."""

import re

import pytest

from pytest_atesor.porter.diagnose import diagnose


def _curly(log: str) -> str:
    return re.sub(r"'([^'\n]*)'", "\u2018\\1\u2019", log)


@pytest.mark.parametrize(
    ("builder", "log", "answers"),
    [
        pytest.param(
            "make",
            "a.cc:2:34: error: 'sort' is not a member of 'std'\n",
            ["header-algorithm"],
            id="algorithm",
        ),
        pytest.param(
            "make",
            "a.cc:2:34: error: 'sort' is not a member of 'std'; did you mean 'qsort'?\n",
            ["header-algorithm"],
            id="algorithm-with-a-guess",
        ),
        pytest.param(
            "make",
            "a.cc:2:44: error: 'min_element' was not declared in this scope\n"
            "    2 | int *least(int *a, int *b) { return min_element(a, b); }\n",
            ["header-algorithm"],
            id="algorithm-with-using-namespace",
        ),
        pytest.param(
            "make",
            "a.cc:2:20: error: 'count' was not declared in this scope\n"
            "    2 | int f() { return count + 1; }\n",
            [],
            id="a-variable-called-as-an-algorithm",
        ),
        pytest.param(
            "make",
            "a.cc:3:44: error: 'numeric_limits' in namespace 'std' does not name a template type\n",
            ["header-limits"],
            id="limits-in-a-declaration",
        ),
        pytest.param(
            "make",
            "a.cc:3:6: error: 'uint8_t' in namespace 'std' does not name a type\n",
            ["fixed-width-integers"],
            id="integers-in-a-declaration",
        ),
        pytest.param(
            "make",
            "a.cc:7:6: error: 'function' is not a member of 'std'\n"
            "a.cc:7:6: note: 'std::function' is defined "
            "in header '<functional>'; this is probably fixable by adding '#include <functional>'\n",
            ["standard-cxx-header"],
            id="functional",
        ),
        pytest.param(
            "make",
            "a.cc:7:6: error: 'unheard_of' is not a member of 'std'; did you mean 'void_t'?\n",
            [],
            id="no-name-of-the-library",
        ),
        pytest.param(
            "make",
            "a.cc:2:161: error: 'remove_cv_t' is not a member of 'std'; did you mean 'remove_cv'?\n",
            ["newer-cxx"],
            id="newer-standard",
        ),
        pytest.param(
            "make",
            "a.cc:2:89: error: 'clamp' is not a member of 'std'\n",
            ["newer-cxx"],
            id="an-algorithm-of-a-newer-standard",
        ),
        pytest.param(
            "make",
            "<stdin>:3:50: error: reference to 'byte' is ambiguous\n",
            ["older-cxx"],
            id="own-byte",
        ),
        pytest.param("make", "cc1: error: '-mcpu=native': unknown CPU\n", ["foreign-flags"], id="cpu"),
        pytest.param(
            "make",
            "cc1: error: unknown cpu 'skylake-avx512' for '-mtune'\n",
            ["foreign-flags"],
            id="tuning",
        ),
        pytest.param(
            "make",
            "/usr/bin/ld: /usr/lib/gcc/riscv64-linux-gnu/14/../../../riscv64-linux-gnu/libstdc++.so.6: "
            "error adding symbols: DSO missing from command line\n",
            ["library-of-system-to-link", "library-of-system"],
            id="library-through-the-compilers-directory",
        ),
        pytest.param(
            "make",
            "/usr/bin/ld: /workspace/build/x/src/.libs/libx.so.1: error adding symbols: DSO missing from "
            "command line\n",
            [],
            id="library-of-the-build-itself",
        ),
        pytest.param(
            "make",
            "/bin/sh: 1: docker: not found\ncc -c a.c\n"
            "a.c:1:10: fatal error: foo/bar.h: No such file or directory\n"
            "compilation terminated.\nmake: *** [Makefile:5: a.o] Error 1\n",
            ["missing-header", "missing-command", "parallel-make"],
            id="docker-was-only-asked-for",
        ),
        pytest.param(
            "make",
            "docker build -t x .\nmake: docker: No such file or directory\n"
            "make: *** [Makefile:6: image] Error 127\n",
            ["container-engine", "missing-command", "parallel-make"],
            id="docker-is-run",
        ),
        pytest.param(
            "make",
            "/bin/sh: 1: podman: not found\ncc -c b.c\ngmake[2]: *** [Makefile:6: image] Error 127\n",
            ["container-engine", "missing-command"],
            id="podman-is-run-beside-other-jobs",
        ),
        pytest.param(
            "cmake",
            "CMake Error at CMakeLists.txt:3 (add_subdirectory):\n"
            '  add_subdirectory given source "/usr/src/googletest" which is not an existing\n  directory.\n',
            [],
            id="a-directory-of-the-system",
        ),
        pytest.param(
            "cmake",
            "CMake Error at CMakeLists.txt:3 (add_subdirectory):\n  The source directory\n\n"
            "    /usr/src/gtest\n\n  does not contain a CMakeLists.txt file.\n",
            [],
            id="a-source-directory-of-the-system",
        ),
        pytest.param(
            "make",
            "/usr/bin/ld: skipping incompatible /usr/lib/libclang.so when searching for -lclang\n"
            "a.c:1:1: error: expected ';' before 'int'\n",
            [],
            id="a-library-that-is-found-elsewhere",
        ),
        pytest.param(
            "cmake",
            "CMake Error at CMakeLists.txt:31 (project):\n  The CMAKE_CXX_COMPILER:\n\n"
            "    /usr/bin/clang++\n\n"
            "  is not a full path to an existing compiler tool.\n",
            ["cmake-compiler"],
            id="compiler-by-path",
        ),
        pytest.param(
            "make",
            "bash: ./envsetup: /usr/bin/python: bad interpreter: No such file or directory\n",
            ["command-by-path", "interpreters", "parallel-make"],
            id="interpreter-of-old-bash",
        ),
        pytest.param(
            "make",
            "/bin/bash: line 1: ./g.py: cannot execute: required file not found\n",
            ["interpreters"],
            id="interpreter-of-bash",
        ),
        pytest.param(
            "make",
            "make: ./g.py: No such file or directory\nmake: *** [Makefile:2: a] Error 127\n",
            ["interpreters", "parallel-make"],
            id="interpreter-of-make",
        ),
        pytest.param(
            "make",
            "/usr/bin/env: 'python3\\r': No such file or directory\n",
            ["interpreters", "parallel-make"],
            id="interpreter-with-a-carriage-return",
        ),
        pytest.param(
            "autotools",
            "sh: 1: build-aux/git-version-gen: not found\nautoreconf: error: automake failed\n",
            [],
            id="a-version-script-of-gnulib",
        ),
        pytest.param(
            "autotools",
            "configure.ac:49: error: required file 'build-aux/config.rpath' not found\n",
            ["automake-files"],
            id="config-rpath",
        ),
        pytest.param(
            "autotools",
            "configure.ac:3: error: required directory ./build-aux does not exist\n",
            ["automake-files"],
            id="auxiliary-directory",
        ),
        pytest.param(
            "cmake",
            'CMake Error at CMakeLists.txt:4 (add_subdirectory):\n  add_subdirectory given source "nope2" '
            "which is not an existing directory.\n",
            ["cmake-directory-left-out"],
            id="cmake-directory-left-out",
        ),
        pytest.param(
            "meson",
            "meson.build:5:0: ERROR: Nonexistent build file 'gnulib/meson.build'\n",
            ["subdirectory-left-out", "missing-for-meson"],
            id="meson-directory-left-out",
        ),
        pytest.param(
            "cargo",
            "error: the crates were not downloaded within 600 s\n",
            ["cargo-distribution-crates"],
            id="slow-registry",
        ),
        pytest.param(
            "make",
            "/usr/bin/ld: x.o: Relocations in generic ELF (EM: 62)\n/usr/bin/ld: x.o: error adding symbols: "
            "file in wrong format\n",
            ["foreign-objects-left-over", "foreign-objects"],
            id="object-for-another-processor",
        ),
        pytest.param(
            "cmake",
            "CMake Error at CMakeLists.txt:4 (message):\n"
            "  The submodules were not downloaded! GIT_SUBMODULE was turned off or failed.\n"
            "  Please update submodules and try again.\n\n\n-- Configuring incomplete, errors occurred!\n",
            ["submodules-left-out", "missing-for-cmake", "submodules-or-packages-left-out"],
            id="submodules-of-cmake",
        ),
        pytest.param(
            "cmake",
            "CMake Error at CMakeLists.txt:4 (message):\n"
            "  The directory extern/fmt of this project is empty.\n"
            "  Please run git submodule update --init --recursive\n",
            ["submodules-left-out", "missing-for-cmake", "submodules-or-packages-left-out"],
            id="submodules-on-the-next-line",
        ),
        pytest.param(
            "cmake",
            "CMake Error at CMakeLists.txt:4 (message):\n"
            "  fmt is not there, please install libfmt-dev or run git submodule\n  update --init fmt\n",
            ["missing-for-cmake", "submodules-or-packages-left-out"],
            id="a-package-would-do-as-well",
        ),
        pytest.param(
            "configure",
            "configure: error: fmt is missing: install it, or run git submodule update --init\n",
            ["missing-for-configure", "submodules-or-packages-left-out"],
            id="a-package-would-do-as-well-in-a-line",
        ),
        pytest.param(
            "make",
            "Makefile:12: *** Submodule libs/x is missing, see README.  Stop.\n",
            ["submodules-left-out", "submodules-or-packages-left-out"],
            id="submodule-of-make",
        ),
        pytest.param(
            "make",
            "git submodule update --init\ncc -c a.c\na.c:1:1: error: expected ';' before 'int'\n",
            [],
            id="submodules-that-were-fetched",
        ),
        pytest.param(
            "cmake",
            "CMake Error at CMakeLists.txt:5 (find_package):\n"
            '  Could not find a configuration file for package "wxWidgets_something" that\n'
            '  is compatible with requested version range "3.2...<4".\n',
            ["missing-cmake-version", "other-cmake-version"],
            id="cmake-version-wrapped-elsewhere",
        ),
        pytest.param(
            "cmake",
            "CMake Warning at CMakeLists.txt:5 (find_package):\n"
            '  Could not find a configuration file for package "LLVM" that is compatible\n'
            '  with requested version "21".\n',
            [],
            id="cmake-version-of-what-can-be-left-out",
        ),
        pytest.param(
            "cargo",
            "error: environment variable `CARGO_PKG_FOO` not defined at compile time\n"
            " --> src/main.rs:1:117\n",
            ["rust-environment"],
            id="variable-of-the-compiler",
        ),
    ],
)
def test_a_message_is_answered_by_these_rules_alone(builder: str, log: str, answers: list[str]) -> None:
    for text in (log, _curly(log)):
        assert [one.rule.name for one in diagnose(text, builder)] == answers
