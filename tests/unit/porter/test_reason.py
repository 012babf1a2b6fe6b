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
            "CMake Error at CMakeLists.txt:5 (message):\n  libfoo is required\n\n\n-- Configuring\n",
            "libfoo is required",
            id="cmake",
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
        pytest.param("", "", id="silence"),
    ],
)
def test_the_line_that_names_the_root_is_found(log: str, line: str) -> None:
    assert find_reason(log) == line
