import pytest

from pytest_atesor.porter.absent import find_named_absence


@pytest.mark.parametrize(
    ("path", "reason", "log"),
    [
        pytest.param("third/url", "error: third/url/u.c: gone", "", id="whole-path"),
        pytest.param(
            "third/url",
            "build: CMake Error: Cannot find source file: /workspace/build/p/third/url/u.c",
            "",
            id="absolute",
        ),
        pytest.param("lib/ini", "x.cpp:1:10: fatal error: ini/ini.hpp: No such file", "", id="from-a-parent"),
        pytest.param(
            "lib/ini",
            "x.cpp:1:10: fatal error: ini.hpp: No such file or directory",
            "c++ -I../lib/ini/include -c x.cpp\n",
            id="include-path",
        ),
        pytest.param(
            "htslib",
            "make: *** [all] Error 2",
            "make: *** htslib: No such file or directory.  Stop.",
            id="make",
        ),
        pytest.param(
            "third/url",
            "make: *** [Makefile:3: all] Error 1",
            "cp: cannot stat '../third/url/u.h': No such file or directory\n",
            id="another-line",
        ),
        pytest.param(
            "third/zlib/src", "make: *** No rule to make target 'zlib/src/z.c'.  Stop.", "", id="two-names"
        ),
        pytest.param(
            "src", "make: *** No rule to make target 'src/z.c'.  Stop.", "", id="common-at-the-root"
        ),
        pytest.param("ini", "the source tree lacks ini, which the build enters 'ini'", "", id="quoted"),
    ],
)
def test_a_path_of_the_submodule_in_an_error_names_it(path: str, reason: str, log: str) -> None:
    assert find_named_absence((path,), (reason,), log, is_there=lambda _path: False) == path


@pytest.mark.parametrize(
    ("path", "reason", "log"),
    [
        pytest.param(
            "test",
            "x.c:3:1: error: expected ';'",
            "x.c: In function 'testable':\nunit test not found\n",
            id="word",
        ),
        pytest.param(
            "third/lib",
            "x.c:1:10: fatal error: foo/bar.h: No such file or directory",
            "cc -I/usr/lib/x -Lsrc/lib -Iother/lib -c x.c\nsearched in /usr/lib: not found\n",
            id="directory-of-the-system",
        ),
        pytest.param(
            "third/lib", "src/lib/x.c:1:1: error: expected ';'", "", id="directory-of-the-same-name"
        ),
        pytest.param("lib/ini", "x.cpp:1:10: fatal error: ini.hpp: No such file", "", id="file-name"),
        pytest.param(
            "lib/ini", "x.c:1:1: error: no", "cc -Ilib/ini/include -c x.c\n", id="no-header-is-missing"
        ),
        pytest.param(
            "third/zlib/src",
            "make: *** No rule to make target 'src/version.h', needed by 'all'.  Stop.",
            "",
            id="common-name",
        ),
        pytest.param("third/test", "test/x.c:1:1: error: expected ';'", "", id="file-that-is-there"),
    ],
)
def test_what_only_looks_like_it_names_nothing(path: str, reason: str, log: str) -> None:
    assert find_named_absence((path,), (reason,), log, is_there="test/x.c".__eq__) is None
