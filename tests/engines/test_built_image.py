"""What builds find in the sandbox image: a riscv64 machine whose tools are fast."""

from collections.abc import Callable

import pytest

pytestmark = pytest.mark.engine

Run = Callable[..., str]

HELLO_C = """cat > hello.c << 'EOF'
#include <stdio.h>
int main(void) { puts("hello from C"); return 0; }
EOF
"""
HELLO_CXX = """cat > hello.cc << 'EOF'
#include <iostream>
#include <stdexcept>
int main() {
  try { throw std::runtime_error("C++"); }
  catch (const std::exception &e) { std::cout << "hello from " << e.what(); }
}
EOF
"""
IS_RISCV64 = "readelf -h hello | grep -q 'Machine:.*RISC-V'\n"


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        pytest.param("uname -m", "riscv64", id="uname"),
        pytest.param("arch", "riscv64", id="arch"),
        pytest.param("dpkg --print-architecture", "riscv64", id="dpkg"),
        pytest.param("gcc -dumpmachine", "riscv64-linux-gnu", id="gcc"),
        pytest.param("bash -c 'echo $HOSTTYPE $MACHTYPE'", "riscv64 riscv64-unknown-linux-gnu", id="bash"),
        pytest.param("perl -MPOSIX -e 'print((uname())[4])'", "riscv64", id="perl"),
        pytest.param("python3 -c 'import platform; print(platform.machine())'", "riscv64", id="python"),
        pytest.param("go env GOARCH CGO_ENABLED | paste -s -d' '", "riscv64 1", id="go"),
        pytest.param("getconf LONG_BIT", "64", id="getconf"),
        pytest.param("id -un; id -u; echo $HOME", "builder\n1000\n/home/builder", id="user"),
        pytest.param("locale charmap", "UTF-8", id="locale"),
    ],
)
def test_the_sandbox_calls_itself_riscv64(run: Run, question: str, answer: str) -> None:
    assert run(question) == answer


@pytest.mark.parametrize(
    "tool",
    [
        "gcc",
        "g++",
        "make",
        "cmake",
        "meson",
        "ninja",
        "autoconf",
        "automake",
        "autoreconf",
        "autopoint",
        "libtoolize",
        "pkg-config",
        "gettext",
        "msgfmt",
        "bison",
        "flex",
        "m4",
        "file",
        "patch",
        "git",
        "curl",
        "xz",
        "zstd",
        "unzip",
        "bzip2",
        "dpkg-source",
        "dpkg-buildpackage",
        "python3",
        "perl",
        "go",
        "gofmt",
        "cargo",
        "rustc",
        "rustdoc",
        "ps",
    ],
)
def test_the_usual_tools_are_there(run: Run, tool: str) -> None:
    assert run(f"command -v {tool}")


@pytest.mark.parametrize(
    "tool", ["sh", "bash", "sed", "grep", "gcc", "make", "cmake", "git", "tar", "apt-get", "perl"]
)
def test_what_a_build_starts_most_is_native(run: Run, tool: str) -> None:
    assert run(f"readlink -f $(command -v {tool})").startswith("/native/")


def test_a_c_program_is_built_and_runs(run: Run) -> None:
    assert run(HELLO_C + "gcc -O2 -flto -o hello hello.c\n" + IS_RISCV64 + "./hello") == "hello from C"


@pytest.mark.parametrize("flags", ["", "-static"], ids=["shared", "static"])
def test_a_cxx_program_with_exceptions_is_built_and_runs(run: Run, flags: str) -> None:
    assert run(HELLO_CXX + f"g++ {flags} -o hello hello.cc\n" + IS_RISCV64 + "./hello") == "hello from C++"


@pytest.mark.parametrize("cgo", [False, True], ids=["pure", "cgo"])
def test_a_go_program_is_built_and_runs(run: Run, *, cgo: bool) -> None:
    call = ('// #include <stdlib.h>\nimport "C"\n', "C.abs(-5)") if cgo else ("", "5")
    source = (
        f'package main\n{call[0]}\nimport "fmt"\nfunc main() {{ fmt.Print("hello from Go ", {call[1]}) }}\n'
    )
    script = f"cat > main.go << 'EOF'\n{source}EOF\ngo mod init hello 2> /dev/null\n"
    assert run(script + "go build -o hello .\n" + IS_RISCV64 + "./hello") == "hello from Go 5"


@pytest.mark.parametrize("bin_variable", ["", "export GOBIN=$PWD/bin"], ids=["GOPATH", "GOBIN"])
def test_go_install_puts_programs_where_a_riscv64_machine_would(run: Run, bin_variable: str) -> None:
    script = f"""
        export GOPATH=$PWD
        {bin_variable}
        mkdir hello && cd hello && go mod init hello 2> /dev/null
        printf 'package main\\nfunc main() {{ print("installed") }}\\n' > main.go
        go install . && ../bin/hello 2>&1
    """
    assert run(script) == "installed"


def test_a_rust_program_with_a_build_script_is_built_and_runs(run: Run) -> None:
    script = """
        mkdir src
        printf '[package]\\nname = "hello"\\nversion = "0.1.0"\\nedition = "2021"\\n' > Cargo.toml
        printf 'fn main() { println!("cargo::rustc-env=SAID=Rust"); }' > build.rs
        printf 'fn main() { print!("hello from {}", env!("SAID")); }' > src/main.rs
        cargo build --quiet --release --offline
        cp target/riscv64gc-unknown-linux-gnu/release/hello hello
    """
    assert run(script + IS_RISCV64 + "./hello") == "hello from Rust"


def test_rustc_alone_compiles_for_riscv64(run: Run) -> None:
    script = "echo 'fn main() { print!(\"alone\"); }' > hello.rs\nrustc hello.rs\n"
    assert run(script + IS_RISCV64 + "./hello") == "alone"


def test_autotools_believe_in_a_native_build(run: Run) -> None:
    script = """
        cat > configure.ac << 'EOF'
AC_INIT([hello],[1])
AM_INIT_AUTOMAKE([foreign])
AC_PROG_CC
LT_INIT
AC_CANONICAL_HOST
AC_CONFIG_FILES([Makefile])
AC_OUTPUT
AC_MSG_NOTICE([$build $host $cross_compiling])
EOF
        cat > Makefile.am << 'EOF'
bin_PROGRAMS = hello
lib_LTLIBRARIES = libx.la
libx_la_SOURCES = x.c
hello_LDADD = libx.la
EOF
        echo 'int x(void) { return 7; }' > x.c
        echo 'int x(void); int main(void) { return x(); }' > hello.c
        autoreconf -i > log 2>&1 || { cat log; exit 1; }
        ./configure > log && make > log 2>&1 || { cat log; exit 1; }
        ./hello || test $? = 7
        ./configure | grep -o 'riscv64.*no$'
    """
    lines = run(script).splitlines()
    assert lines[-1] == "riscv64-unknown-linux-gnu riscv64-unknown-linux-gnu no"


def test_cmake_believes_in_a_native_build(run: Run) -> None:
    script = (
        HELLO_C
        + """
        cat > CMakeLists.txt << 'EOF'
cmake_minimum_required(VERSION 3.16)
project(hello C)
add_executable(hello hello.c)
message(STATUS "is ${CMAKE_SYSTEM_PROCESSOR} ${CMAKE_HOST_SYSTEM_PROCESSOR}")
message(STATUS "crossing ${CMAKE_CROSSCOMPILING}")
message(STATUS "libraries ${CMAKE_LIBRARY_ARCHITECTURE}")
EOF
        cmake -B build -G Ninja | sed -n 's/^-- \\(is\\|crossing\\|libraries\\) //p'
        cmake --build build > /dev/null
        build/hello
    """
    )
    assert run(script) == "riscv64 riscv64\nFALSE\nriscv64-linux-gnu\nhello from C"


def test_meson_believes_in_a_native_build(run: Run) -> None:
    script = (
        HELLO_C
        + """
        cat > meson.build << 'EOF'
project('hello', 'c')
message('is', host_machine.cpu_family(), build_machine.cpu(), meson.is_cross_build().to_string())
executable('hello', 'hello.c')
EOF
        meson setup build | grep -o 'is riscv64.*'
        ninja -C build > /dev/null
        build/hello
    """
    )
    assert run(script) == "is riscv64 riscv64 false\nhello from C"


@pytest.mark.network
def test_a_library_that_is_installed_is_found_and_linked(run: Run) -> None:
    run("apt-get -qq install libcjson-dev 2>&1 | tail -n 5", user="root")
    script = """
        cat > hello.c << 'EOF'
#include <cjson/cJSON.h>
#include <stdio.h>
int main(void) { puts(cJSON_Version()); return 0; }
EOF
        gcc -o hello hello.c $(pkg-config --cflags --libs libcjson)
    """
    assert run(script + IS_RISCV64 + "./hello")[0].isdigit()


@pytest.mark.network
def test_packages_with_perl_and_service_scripts_are_configured(run: Run) -> None:
    run("apt-get -qq install openssh-server intltool 2>&1", user="root")
    assert run(
        "id -un sshd; dpkg-query -W -f '${Status}' openssh-server; perl -MXML::Parser -e 'print 1'"
    ) == ("sshd\ninstall ok installed1")


@pytest.mark.network
def test_source_packages_come_from_the_same_mirror(run: Run) -> None:
    fetch = "apt-get -qq source --download-only --tar-only hello > log 2>&1 || { cat log; exit 1; }\n"
    assert run(fetch + "ls *.orig.tar*").startswith("hello_")
