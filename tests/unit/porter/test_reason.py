import pytest

from pytest_atesor.porter.reason import find_reason


@pytest.mark.parametrize(
    ("log", "line"),
    [
        pytest.param(
            "x.c:1:25: error: 'nonesuch' undeclared\nx.c:1:25: note: each undeclared\n"
            "y.c:2: error: later\nmake: *** [Makefile:2: x] Error 1\n",
            "x.c:1:25: error: 'nonesuch' undeclared",
            id="compiler",
        ),
        pytest.param(
            "checking for foo... configure: error: foo is required\n      See elsewhere\n",
            "configure: error: foo is required",
            id="configure",
        ),
        pytest.param(
            "CMake Error at CMakeLists.txt:5 (message):\n  libfoo is required\n\n\n  Install it\n"
            "-- Configuring\n",
            "libfoo is required",
            id="cmake",
        ),
        pytest.param(
            "CMake Error at CMakeLists.txt:3 (add_subdirectory):\n  The source directory\n\n"
            "    /w/x/lib/nope\n\n"
            "  does not contain a CMakeLists.txt file.\n\n\nCMake Error at CMakeLists.txt:4 (x):\n  Other\n",
            "The source directory /w/x/lib/nope does not contain a CMakeLists.txt file.",
            id="cmake-name-set-apart",
        ),
        pytest.param(
            "CMake Error at CMakeLists.txt:5 (find_package):\n  Could not find a package configuration file "
            'provided by "Foo" (requested\n  version 3) with any of the following names:\n\n'
            "    FooConfig.cmake\n"
            "    foo-config.cmake\n\n"
            '  Add the installation prefix of "Foo" to CMAKE_PREFIX_PATH or set "Foo_DIR"\n',
            'Could not find a package configuration file provided by "Foo" (requested version 3) with any '
            "of the "
            "following names: FooConfig.cmake foo-config.cmake",
            id="cmake-list",
        ),
        pytest.param(
            "CMake Error at CMakeLists.txt:4 (find_package):\n  Found package configuration file:\n\n"
            "    /w/p/BarConfig.cmake\n\n"
            '  but it set Bar_FOUND to FALSE so package "Bar" is considered to be NOT\n'
            "  FOUND.  Reason given by package:\n\n  The component baz is missing\n\n\n\n"
            "-- Configuring incomplete\n",
            "Found package configuration file: /w/p/BarConfig.cmake but it set Bar_FOUND to FALSE so "
            'package "Bar" '
            "is considered to be NOT FOUND. Reason given by package: The component baz is missing",
            id="cmake-reason-of-a-package",
        ),
        pytest.param(
            "CMake Error at CMakeLists.txt:7 (project):\n  The CMAKE_CXX_COMPILER:\n\n    clang++\n\n"
            "  is not a "
            "full path and was not found in the PATH.\n\n  Tell CMake where to find the compiler\n",
            "The CMAKE_CXX_COMPILER: clang++ is not a full path and was not found in the PATH.",
            id="cmake-compiler",
        ),
        pytest.param(
            "CMake Error in CMakeLists.txt:\n  The source directory\n\n    /w/libfixmath\n\n"
            "  does not contain a "
            "CMakeLists.txt file.\n",
            "The source directory /w/libfixmath does not contain a CMakeLists.txt file.",
            id="cmake-without-a-line",
        ),
        pytest.param(
            "CMake Error at CMakeLists.txt:4 (message):\n  "
            + "very " * 15
            + "\n  "
            + "long\n  word " * 40
            + "\n",
            "very " * 15 + "long word " * 16 + "long…",
            id="cmake-bounded",
        ),
        pytest.param(
            'meson.build:3:0: ERROR: Dependency "x" not found\n\nA full log can be found at x\n',
            'meson.build:3:0: ERROR: Dependency "x" not found',
            id="meson",
        ),
        pytest.param(
            "/usr/bin/ld: a.o: in function `f':\na.c:(.text+0x8): undefined reference to `sqrt'\n"
            "collect2: error: ld returned 1 exit status\n",
            "a.c:(.text+0x8): undefined reference to `sqrt'",
            id="linker",
        ),
        pytest.param(
            "error[E0432]: unresolved import `x`\n --> main.rs:1:5\nerror: could not compile `y`\n",
            "error[E0432]: unresolved import `x`",
            id="rust",
        ),
        pytest.param(
            "error: failed to run custom build command for `x v1.0.0 (/w/x)`\n\nCaused by:\n  process didn't "
            "exit successfully: `/w/build-script-build` (exit status: 101)\n  --- stderr\n\n"
            "  thread 'main' (3762) panicked at build.rs:44:10:\n  Unable to generate manpage\n",
            "Unable to generate manpage",
            id="rust-build-script",
        ),
        pytest.param("# x/y\n./m.go:7:2: undefined: z\n", "./m.go:7:2: undefined: z", id="go"),
        pytest.param(
            "go: downloading github.com/c/d v1.0.0\nverifying github.com/a/b@v1.0.0: checksum mismatch\n"
            "\tdownloaded: h1:9CLF=\n\tgo.sum:     h1:AAAA=\n\nSECURITY ERROR\n",
            "verifying github.com/a/b@v1.0.0: checksum mismatch",
            id="go-checksum",
        ),
        pytest.param(
            "go: downloading github.com/c/d v1.0.0\ngo: cannot find main module; see 'go help modules'\n",
            "go: cannot find main module; see 'go help modules'",
            id="go-after-a-download",
        ),
        pytest.param("", "", id="silence"),
    ],
)
def test_the_line_that_names_the_root_is_found(log: str, line: str) -> None:
    assert find_reason(log) == line
