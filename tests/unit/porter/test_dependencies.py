from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_atesor.porter.contents import ContentsIndex, adopt_index, index_age_s
from pytest_atesor.porter.debian import install_script, parse_build_depends
from pytest_atesor.porter.dependencies import resolve_need
from pytest_atesor.porter.needs import Need, NeedKind

_LINES = """\
usr/include/event2/event.h\tlibdevel/libevent-dev
usr/include/glib-2.0/glib.h\tlibdevel/libglib2.0-dev
usr/include/zlib.h\tlibdevel/zlib1g-dev
usr/include/riscv64-linux-gnu/curl/curl.h\tlibdevel/libcurl4-gnutls-dev,libdevel/libcurl4-openssl-dev
usr/aarch64-linux-gnu/include/zlib.h\tlibdevel/zlib1g-arm64-cross
usr/include/dovecot/compat.h\tmail/dovecot-dev
usr/include/a/compat.h\tx/a-dev,x/b-dev
usr/include/c/compat.h\tx/c-dev,x/d-dev
usr/lib/riscv64-linux-gnu/libevent.so\tlibdevel/libevent-dev
usr/lib/riscv64-linux-gnu/libreadline.so\tlibdevel/libreadline-dev
usr/lib/riscv64-linux-gnu/plugins/libreadline.so\tmisc/other
usr/lib/riscv64-linux-gnu/pkgconfig/libevent.pc\tlibdevel/libevent-dev
usr/lib/riscv64-linux-gnu/pkgconfig/zlib.pc\tlibdevel/zlib1g-dev
usr/share/pkgconfig/xproto.pc\tx11/x11proto-dev
usr/lib/riscv64-linux-gnu/cmake/fmt/fmt-config.cmake\tlibdevel/libfmt-dev
usr/lib/llvm-18/lib/cmake/llvm/LLVMConfig.cmake\tdevel/llvm-18-dev
usr/lib/llvm-19/lib/cmake/llvm/LLVMConfig.cmake\tdevel/llvm-19-dev
usr/lib/riscv64-linux-gnu/cmake/Boost-1.83.0/BoostConfig.cmake\tlibdevel/libboost1.83-dev
usr/bin/bison\tdevel/bison
usr/bin/python\tpython/python-is-python3
usr/bin/python3\tpython/python3-minimal
usr/bin/clang++\tdevel/clang
usr/bin/gfortran\tdevel/gfortran
usr/bin/gperf\tdevel/gperf
usr/share/aclocal/ax_check_compile_flag.m4\tdevel/autoconf-archive
usr/share/aclocal/gettext.m4\tdevel/gettext
usr/lib/python3/dist-packages/yaml/__init__.py\tpython/python3-yaml
usr/share/perl5/XML/Parser.pm\tperl/libxml-parser-perl
usr/share/gocode/src/github.com/fatih/color/\tgolang/golang-github-fatih-color-dev
usr/share/gocode/src/gopkg.in/yaml.v3/\tgolang/golang-gopkg-yaml.v3-dev
usr/include/xcb/randr.h\tlibdevel/libxcb-randr0-dev
usr/include/X11/extensions/Xrandr.h\tlibdevel/libxrandr-dev
usr/include/kannel/gwlib/pcre.h\tlibdevel/kannel-dev
usr/include/enchant-2/enchant.h\tlibdevel/libenchant-2-dev
usr/include/pypy3.11/Python.h\tpython/pypy3-dev
usr/include/python3.13/Python.h\tlibdevel/libpython3.13-dev
crate/0.8.5/rand.crate\trust/librust-rand-dev
crate/0.7.3/rand.crate\trust/librust-rand-0.7-dev
"""


@pytest.fixture
def index(tmp_path: Path) -> Iterator[ContentsIndex]:
    path = tmp_path / "index"
    path.write_text(_LINES)
    with ContentsIndex(path) as opened:
        yield opened


@pytest.mark.parametrize(
    ("kind", "name", "package"),
    [
        (NeedKind.HEADER, "event2/event.h", "libevent-dev"),
        (NeedKind.HEADER, "glib.h", "libglib2.0-dev"),
        (NeedKind.HEADER, "zlib.h", "zlib1g-dev"),
        (NeedKind.HEADER, "event.h", "libevent-dev"),
        (NeedKind.GO, "go.yaml.in/yaml/v3", "golang-gopkg-yaml.v3-dev"),
        (NeedKind.HEADER, "curl/curl.h", "libcurl4-gnutls-dev"),
        (NeedKind.LIBRARY, "readline", "libreadline-dev"),
        (NeedKind.PKG_CONFIG, "libevent", "libevent-dev"),
        (NeedKind.PKG_CONFIG, "xproto", "x11proto-dev"),
        (NeedKind.CMAKE, "fmt", "libfmt-dev"),
        (NeedKind.CMAKE, "ZLIB", "zlib1g-dev"),
        (NeedKind.CMAKE, "LLVM@19", "llvm-19-dev"),
        (NeedKind.CMAKE, "LLVM@18.1.3", "llvm-18-dev"),
        (NeedKind.CMAKE, "Boost@1.83", "libboost1.83-dev"),
        (NeedKind.COMMAND, "gperf", "gperf"),
        (NeedKind.COMMAND, "yacc", "bison"),
        (NeedKind.COMMAND, "python", "python-is-python3"),
        (NeedKind.COMMAND, "python3", "python3-minimal"),
        (NeedKind.COMMAND, "clang++", "clang"),
        (NeedKind.WORDS, "no acceptable Fortran compiler found in $PATH", "gfortran"),
        (NeedKind.MACRO, "AX_CHECK_COMPILE_FLAG", "autoconf-archive"),
        (NeedKind.MACRO, "AM_GNU_GETTEXT", "gettext"),
        (NeedKind.PYTHON, "yaml", "python3-yaml"),
        (NeedKind.PERL, "XML/Parser.pm", "libxml-parser-perl"),
        (NeedKind.GO, "github.com/fatih/color", "golang-github-fatih-color-dev"),
        (NeedKind.CRATE, "rand@0.8", "librust-rand-dev"),
        (NeedKind.CRATE, "rand@0.7.1", "librust-rand-0.7-dev"),
        (NeedKind.CRATE, "rand@*", "librust-rand-dev"),
        (NeedKind.WORDS, '"libevent not found"', "libevent-dev"),
        (NeedKind.WORDS, "Please install readline development files", "libreadline-dev"),
        (NeedKind.WORDS, "https://github.com/fmtlib/fmt.git", "libfmt-dev"),
        (NeedKind.WORDS, "The RandR headers were not found", "libxrandr-dev"),
        (NeedKind.WORDS, "enchant", "libenchant-2-dev"),
        (NeedKind.HEADER, "Python.h", "libpython3.13-dev"),
        (NeedKind.PACKAGE, "libsimde-dev", "libsimde-dev"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_need_leads_to_the_package_that_has_the_file(
    index: ContentsIndex, kind: NeedKind, name: str, package: str
) -> None:
    found = resolve_need(Need(kind=kind, name=name), index)
    assert found is not None
    assert found.package == package
    assert found.evidence


@pytest.mark.parametrize("name", ["LLVM@21", "LLVM@1", "Boost@1.90", "Boost@1.8", "fmt@12"])
def test_a_version_that_no_package_has_is_no_other_version(index: ContentsIndex, name: str) -> None:
    assert resolve_need(Need(kind=NeedKind.CMAKE, name=name), index) is None


def test_build_files_settle_between_many_packages_with_one_header(index: ContentsIndex) -> None:
    need = Need(kind=NeedKind.HEADER, name="compat.h")
    found = resolve_need(need, index, frozenset({"dovecot", "libc"}))
    assert found is not None
    assert found.package == "dovecot-dev"


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (NeedKind.HEADER, "config.h"),
        (NeedKind.HEADER, "compat.h"),
        (NeedKind.COMMAND, "python2"),
        (NeedKind.LIBRARY, "event2"),
        (NeedKind.PKG_CONFIG, "event"),
        (NeedKind.CMAKE, "Nonesuch"),
        (NeedKind.GO, "github.com/other/thing"),
        (NeedKind.CRATE, "ran@1"),
        (NeedKind.WORDS, "C compiler cannot create executables"),
        (NeedKind.WORDS, "pcre not found"),
        (NeedKind.HEADER, "../../etc/passwd"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_no_package_has_is_not_guessed(index: ContentsIndex, kind: NeedKind, name: str) -> None:
    assert resolve_need(Need(kind=kind, name=name), index) is None


def test_an_index_is_adopted_whole_and_has_an_age(tmp_path: Path) -> None:
    made = tmp_path / "workspace/cache/contents/index"
    made.parent.mkdir(parents=True)
    made.write_text(_LINES)
    target = tmp_path / "state/contents/debian"
    assert index_age_s(target) is None
    adopt_index(tmp_path / "workspace", target)
    assert target.read_text() == _LINES
    assert index_age_s(target) is not None
    assert [one.name for one in target.parent.iterdir()] == ["debian"]


def test_an_index_behind_a_symlink_is_refused(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x")
    made = tmp_path / "workspace/cache/contents"
    made.mkdir(parents=True)
    (made / "index").symlink_to(tmp_path / "secret")
    with pytest.raises(OSError, match="index"):
        adopt_index(tmp_path / "workspace", tmp_path / "target")
    assert not (tmp_path / "target").exists()


_SHOWSRC = """\
Package: tmux
Version: 3.5a-3
Build-Depends: bison, debhelper-compat (= 13), libevent-dev, libncurses-dev | libncurses5-dev, pkgconf,
Build-Depends-Arch: libutempter-dev [linux-any], libfoo-dev [amd64 i386], libbar-dev [!riscv64], \
libgtest-dev <!nocheck>, doxygen, libtest-dev <!nocheck>
Package: tmux
Version: 3.3
Build-Depends: libold-dev
"""


def test_build_dependencies_keep_what_a_plain_build_on_riscv64_may_need() -> None:
    assert parse_build_depends(_SHOWSRC, "tmux") == (
        "bison",
        "libevent-dev",
        "libncurses-dev",
        "pkgconf",
        "libutempter-dev",
    )


def test_a_source_of_another_name_is_no_candidate() -> None:
    assert parse_build_depends(_SHOWSRC, "screen") == ()
    assert parse_build_depends("", "tmux") == ()


def test_packages_are_words_to_the_shell() -> None:
    assert "'a;b'" in install_script(["a;b"])
