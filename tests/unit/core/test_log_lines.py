"""The one line of a log that goes into the table."""

import time

import pytest

from pytest_atesor.core.log_lines import find_last_meaningful_line

GCC = """\
cc -c -o main.o main.c
main.c:1:10: fatal error: zstd.h: No such file or directory
    1 | #include <zstd.h>
      |          ^~~~~~~~
compilation terminated.
make[1]: *** [Makefile:12: main.o] Error 1
make[1]: Leaving directory '/workspace/src/x'
make: *** [Makefile:3: all] Error 2
"""
LINK = """\
/usr/bin/ld: main.o: in function `main':
main.c:(.text+0x8): undefined reference to `deflate'
collect2: error: ld returned 1 exit status
ninja: build stopped: subcommand failed.
"""
PYTHON = """\
Traceback (most recent call last):
  File "/srv/agent/main.py", line 10, in <module>
    main()
    ~~~~^^
  File "/srv/agent/main.py", line 7, in main
    raise RuntimeError("no toolchain")
RuntimeError: no toolchain

"""
CMAKE = """\
CMake Error at CMakeLists.txt:7 (find_package):
  Could not find a package configuration file provided by "fmt"
-- Configuring incomplete, errors occurred!
See also "/workspace/src/x/build/CMakeFiles/CMakeOutput.log".
"""
CLONE = """\
Cloning into 'x'...
fatal: repository 'https://example.org/x/' not found
Receiving objects:  45% (9/20)
[ 45%] Building C object
 45% [=========>            ]
--------------------
"""

PARALLEL_MAKE = """\
make[1]: Entering directory '/workspace/build/frozen'
docker: Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?.
See 'docker run --help'.
rm -rf *.gc* *.dSYM unit_test *.exe *.obj _CL_*
make[1]: *** [Makefile:32: asan] Error 125
make[1]: *** Waiting for unfinished jobs....
make: *** [Makefile:17: minimal] Error 2
make[1]: Leaving directory '/workspace/build/frozen'
"""


@pytest.mark.parametrize(
    ("log", "line"),
    [
        (
            PARALLEL_MAKE,
            (
                "docker: Cannot connect to the Docker daemon at unix:///var/run/docker.sock. "
                "Is the docker daemon running?."
            ),
        ),
        (GCC, "main.c:1:10: fatal error: zstd.h: No such file or directory"),
        (LINK, "main.c:(.text+0x8): undefined reference to `deflate'"),
        (PYTHON, "RuntimeError: no toolchain"),
        (CMAKE, 'Could not find a package configuration file provided by "fmt"'),
        (CLONE, "fatal: repository 'https://example.org/x/' not found"),
        ("configure: error: no acceptable C compiler\n\n\n", "configure: error: no acceptable C compiler"),
        ("\x1b[31merror:\x1b[0m bad\x00 thing\r\n", "error: bad thing"),
        ("10%\r50%\rdone at last\r", "done at last"),
        ("make: *** [Makefile:3: all] Error 2\n", "make: *** [Makefile:3: all] Error 2"),
        ("[ 45%] Building C object\n", "[ 45%] Building C object"),
        ("", ""),
        (" \n\t\n\r\n", ""),
    ],
    ids=[
        "parallel make",
        "compiler",
        "linker",
        "traceback",
        "cmake",
        "progress",
        "blank lines",
        "escapes",
        "carriage returns",
        "only an echo",
        "only noise",
        "empty",
        "only white space",
    ],
)
def test_the_line_says_what_went_wrong(log: str, line: str) -> None:
    assert find_last_meaningful_line(log.encode()) == line


def test_a_long_line_is_cut() -> None:
    assert find_last_meaningful_line(b"x" * 5000) == "x" * 299 + "…"


def test_bytes_that_are_no_text_make_a_clean_line() -> None:
    line = find_last_meaningful_line(b"caf\xe9 \xed\xa0\x80 broke\xff\n")
    assert line.startswith("caf")
    assert line.isprintable()
    line.encode()


def test_a_line_of_spaces_costs_no_more_than_one_of_text() -> None:
    started = time.process_time()
    assert find_last_meaningful_line(b"said\n" + b" " * 65_536 + b"x") == "x"
    assert time.process_time() - started < 2
