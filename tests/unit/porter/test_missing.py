"""What real builds print when something is missing, and the package that the index has for it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_atesor.core.outcome import Cause
from pytest_atesor.porter.builders.cargo import CargoProject
from pytest_atesor.porter.builders.interface import BuildOptions, Candidate
from pytest_atesor.porter.contents import ContentsIndex
from pytest_atesor.porter.debian import parse_build_depends
from pytest_atesor.porter.dependencies import resolve_need
from pytest_atesor.porter.diagnose import diagnose
from pytest_atesor.porter.fixes import RULES
from pytest_atesor.porter.fixes.interface import Stop
from pytest_atesor.porter.installer import Installer
from pytest_atesor.porter.needs import Need, NeedKind
from pytest_atesor.porter.platforms.alpine import ALPINE
from pytest_atesor.porter.repair import Failure, Package, Progress, Repair
from pytest_atesor.porter.shell import Shell
from pytest_atesor.porter.verdict import Outcome
from tests.unit.porter.fake_sandbox import FakeSandbox

_CMAKE = "usr/lib/riscv64-linux-gnu/cmake"
_LINES = f"""\
{_CMAKE}/Qt5Svg/Qt5SvgConfig.cmake\tlibdevel/libqt5svg5-dev
{_CMAKE}/Qt6/Qt6Config.cmake\tlibdevel/qt6-base-dev
{_CMAKE}/Qt6Svg/Qt6SvgConfig.cmake\tlibdevel/qt6-svg-dev
{_CMAKE}/KF6DBusAddons/KF6DBusAddonsConfig.cmake\tlibdevel/libkf6dbusaddons-dev
{_CMAKE}/boost_program_options-1.83.0/boost_program_options-config.cmake\tlibdevel/libboost-program-options1.83-dev
usr/lib/riscv64-linux-gnu/libboost_filesystem.so\tlibdevel/libboost-filesystem1.83-dev
usr/include/boost/version.hpp\tlibdevel/libboost1.83-dev
usr/include/openssl/ssl.h\tlibdevel/libssl-dev
usr/include/gmock/gmock.h\tlibdevel/libgmock-dev
usr/include/gtest/gtest.h\tlibdevel/libgtest-dev
usr/include/eigen3/Eigen/Dense\tlibdevel/libeigen3-dev
usr/include/google/protobuf/timestamp.proto\tlibdevel/libprotobuf-dev
usr/lib/riscv64-linux-gnu/libsodium.so\tlibdevel/libsodium-dev
usr/lib/riscv64-linux-gnu/pkgconfig/alsa.pc\tlibdevel/libasound2-dev
usr/share/aclocal/glib-gettext.m4\tlibdevel/libgio-2.0-dev
usr/share/aclocal/gtk-doc.m4\tgnome/gtk-doc-tools
usr/share/aclocal/appdata-xml.m4\tadmin/appstream-util
usr/bin/protoc\tdevel/protobuf-compiler
usr/bin/gfortran\tdevel/gfortran
usr/bin/xxd\tutils/xxd
usr/lib/riscv64-linux-gnu/pkgconfig/libzstd.pc\tlibdevel/libzstd-dev
"""
_WRAPPED = """\
Could not find the wonderful compression library that this needs; install
  libzstd-dev or set ZSTD_ROOT to where it is."""


@pytest.fixture
def index(tmp_path: Path) -> Iterator[ContentsIndex]:
    path = tmp_path / "index"
    path.write_text(_LINES)
    with ContentsIndex(path) as opened:
        yield opened


def _caught(builder: str, log: str, rule: str) -> tuple[str, ...]:
    return next((one.names for one in diagnose(log, builder) if one.rule.name == rule), ())


@pytest.mark.parametrize(
    ("builder", "rule", "log", "names"),
    [
        pytest.param(
            "cargo",
            "missing-pkg-config",
            "  pkg-config exited with status code 1\n"
            "  > PKG_CONFIG_ALLOW_SYSTEM_LIBS=1 pkg-config --libs --cflags alsa\n\n"
            "  The system library `alsa` required by crate `alsa-sys` was not found.\n"
            "  The file `alsa.pc` needs to be installed and the PKG_CONFIG_PATH environment "
            "variable must contain its parent directory.\n",
            ("alsa",),
            id="crate-pkg-config",
        ),
        pytest.param(
            "cargo",
            "missing-pkg-config",
            "  error: could not find system library 'libudev' required by the 'libudev-sys' crate\n",
            ("libudev",),
            id="crate-pkg-config-before-0.3.28",
        ),
        pytest.param(
            "cargo",
            "missing-protoc",
            "thread 'main' panicked at prost-build-0.11.9/src/lib.rs:1457:10:\n"
            "Could not find `protoc` installation and this build crate cannot proceed without\n"
            "    this knowledge.\n",
            ("protoc",),
            id="prost-0.11",
        ),
        pytest.param(
            "cargo",
            "missing-protoc",
            "panicked at 'Failed to find the protoc binary. The PROTOC environment variable is "
            "not set, there is no bundled protoc'\n",
            ("protoc",),
            id="prost-0.7",
        ),
        pytest.param(
            "cmake",
            "missing-qt-module",
            '  Failed to find Qt component "Quick".\n\n'
            '  Expected Config file at "/usr/lib64/cmake/Qt6Quick/Qt6QuickConfig.cmake"\n'
            '  does NOT exist\n\n  Failed to find required Qt component "Gui".\n\n'
            '  Expected Config file at "/usr/lib64/cmake/Qt6Gui/Qt6GuiConfig.cmake" does\n  NOT exist\n',
            ("Qt6Quick", "Qt6Gui"),
            id="qt-modules-wrapped-anywhere",
        ),
        pytest.param(
            "cmake",
            "missing-cmake-package",
            "CMake Error at CMakeLists.txt:3 (find_package):\n"
            "  Could not find a package configuration file provided by\n"
            '  "boost_program_options" (requested version 1.83.0) with any of the\n  following names:\n',
            ("boost_program_options",),
            id="package-wrapped",
        ),
        pytest.param(
            "cmake",
            "missing-cmake-library",
            "CMake Error at CMakeLists.txt:3 (find_library):\n"
            "  Could not find A_RATHER_LONG_NAME_SODIUM_LIBRARY using the following\n"
            "  names: sodium, libsodium\n",
            ("A_RATHER_LONG_NAME_SODIUM", "sodium, libsodium"),
            id="library-wrapped",
        ),
        pytest.param(
            "cmake",
            "missing-cmake-library",
            "CMake Error at CMakeLists.txt:3 (find_path):\n"
            "  Could not find FOO_INCLUDE_DIR using the following files:\n  foo/foo.h\n",
            ("FOO", "foo/foo.h"),
            id="file-wrapped",
        ),
        pytest.param(
            "make",
            "missing-command",
            "Error:  rake is not installed or not in PATH.\nmake: *** [Makefile:51: check_rake] Error 1\n",
            ("rake",),
            id="not-in-path",
        ),
        pytest.param(
            "make", "missing-command", "'xsltproc' not found in your $PATH\n", ("xsltproc",), id="quoted"
        ),
        pytest.param("make", "missing-command", "it is not on the path of the file\n", (), id="no-command"),
        pytest.param(
            "make", "missing-command", 'exec: "zork": executable file not found in $PATH\n', (), id="of-go"
        ),
        pytest.param("make", "missing-command", "required program not found in PATH\n", (), id="no-name"),
        pytest.param(
            "cmake",
            "missing-cmake-component",
            "CMake Error at FindPackageHandleStandardArgs.cmake:230 (message):\n"
            "  Could NOT find Boost (missing: filesystem) "
            '(found version "1.83.0")\n',
            ("Boost::filesystem",),
            id="boost-with-headers",
        ),
        pytest.param(
            "cmake",
            "missing-cmake-component",
            "CMake Error at "
            "/usr/share/cmake-3.25/Modules/FindPackageHandleStandardArgs.cmake:230 (message):\n"
            "  Could NOT find Boost (missing: Boost_INCLUDE_DIR filesystem program_options\n"
            "  system iostreams)\n",
            ("Boost::filesystem", "Boost::program_options", "Boost::system", "Boost::iostreams"),
            id="boost-wrapped",
        ),
        pytest.param(
            "cmake",
            "missing-cmake-component",
            "CMake Error at FindPackageHandleStandardArgs.cmake:230 (message):\n"
            "  Could NOT find ZLIB (missing: ZLIB_LIBRARY ZLIB_INCLUDE_DIR)\n",
            (),
            id="variables-are-no-components",
        ),
        pytest.param(
            "cmake",
            "missing-cmake-target",
            "CMake Error at src/CMakeLists.txt:44 (add_executable):\n"
            '  Target "x" links to target "Qt6::Quick" but the\n'
            "  target was not found.\n",
            ("Qt6::Quick",),
            id="target-before-3.24",
        ),
        pytest.param(
            "cmake",
            "missing-cmake-target",
            '  Target "x" links to:\n\n    Threads::Threads\n\n  but the target was not found.\n',
            (),
            id="target-of-the-compiler",
        ),
        pytest.param(
            "cmake",
            "missing-cmake-modules",
            "CMake Error at /usr/share/cmake-3.31/Modules/FindPkgConfig.cmake:645 (message):\n"
            "  The following required packages were not found:\n\n   - libfoo>=1.0\n   - libbar\n"
            "   - gtk+-3.0 >= 3.2\n\n"
            "Call Stack (most recent call first):\n  FindPkgConfig.cmake:873 (_pkg_check_modules_internal)\n",
            ("libfoo", "libbar", "gtk+-3.0"),
            id="modules",
        ),
        pytest.param(
            "cmake",
            "missing-cmake-variable",
            "CMake Error: The following variables are used in this project, but they are set to NOTFOUND.\n"
            "Please set them or make sure they are set and tested correctly in the CMake files:\n"
            "/w/x/QUX_INCLUDE_DIR\n   used as include directory in directory /w/x\nBAR_LIBRARY\n"
            '    linked by target "b" in directory /w/x\n    linked by target "a" in directory /w/x\n'
            'FOO_LIBRARY (ADVANCED)\n    linked by target "a" in directory /w/x\n\n',
            ("QUX", "BAR", "FOO"),
            id="variables",
        ),
        pytest.param(
            "cmake",
            "missing-for-cmake",
            "CMake Error at CMakeLists.txt:3 (message):\n"
            "  Could not find the wonderful compression library that this needs; install\n"
            "  libzstd-dev or set ZSTD_ROOT to where it is.\n\n\n"
            "-- Configuring incomplete, errors occurred!\n",
            (_WRAPPED,),
            id="message-wrapped",
        ),
        pytest.param(
            "cmake",
            "missing-command",
            "/bin/sh: 1: XXD_EXECUTABLE-NOTFOUND: not found\n",
            (),
            id="a-variable-is-no-command",
        ),
        pytest.param(
            "meson",
            "missing-meson-dependency",
            "meson.build:5:10: ERROR: Dependency lookup for glib-2.0 with method 'pkgconfig' "
            "failed: Invalid version\n",
            ("glib-2.0",),
            id="meson-lookup",
        ),
        pytest.param(
            "meson",
            "missing-meson-component",
            "Run-time dependency Boost (missing: filesystem, system) found: NO (tried system)\n\n"
            'meson.build:2:0: ERROR: Dependency "boost" not found, tried system\n',
            ("Boost::filesystem", "Boost::system"),
            id="meson-boost",
        ),
        pytest.param(
            "meson",
            "missing-meson-component",
            "Run-time dependency qt6 (modules: Core, Charts) found: NO (tried pkgconfig and config-tool)\n"
            'Run-time dependency libfoo found: NO\n\nmeson.build:2:0: ERROR: Dependency "libfoo" not found\n',
            (),
            id="meson-qt-left-out",
        ),
        pytest.param(
            "meson",
            "missing-python-module-meson",
            "meson.build:9:0: ERROR: python3 is missing modules: jinja2, yaml\n",
            ("jinja2", "yaml"),
            id="python-modules",
        ),
        pytest.param(
            "make",
            "missing-header",
            "a.cpp:1:10: fatal error: Eigen/Dense: No such file or directory\n"
            "b.cpp:2:10: fatal error: 'QString' file not found\n",
            ("Eigen/Dense", "QString"),
            id="headers-without-a-suffix",
        ),
        pytest.param(
            "make",
            "missing-header",
            "cc1: fatal error: src/main.c: No such file or directory\n"
            "cc1plus: fatal error: gen/table: No such file or directory\n",
            (),
            id="a-source-is-no-header",
        ),
        pytest.param(
            "make",
            "missing-header",
            "a.cpp:1:10: fatal error: expected: No such file or directory\n",
            (),
            id="a-header-of-the-language",
        ),
        pytest.param(
            "autotools",
            "missing-macro",
            "aclocal-1.15: error: configure.ac:47: file 'gtk-doc.m4' does not exist\n",
            ("gtk-doc",),
            id="file-of-macros",
        ),
        pytest.param(
            "autotools",
            "missing-in-plain-words",
            "You must have gettext installed to compile GMAMEUI.\n"
            "autogen.sh: You must have GNU libtool installed.\n",
            ("gettext", "libtool"),
            id="autogen",
        ),
        pytest.param(
            "autotools",
            "missing-in-plain-words",
            "**Error**: You must have `gnulib-tool' in PATH to compile lftp.\n",
            ("gnulib-tool",),
            id="autogen-path",
        ),
        pytest.param(
            "autotools",
            "missing-macro",
            "configure.ac:307: warning: The macro 'AC_LANG_C' is obsolete.\n",
            (),
            id="an-obsolete-macro-is-there",
        ),
        pytest.param(
            "make",
            "missing-python-module",
            "/usr/bin/python3: No module named sphinx\nmake: *** [Makefile:3: doc] Error 1\n",
            ("sphinx",),
            id="python-m",
        ),
        pytest.param(
            "make",
            "missing-command-of-python",
            "FileNotFoundError: [Errno 2] No such file or directory: 'VERSION'\n",
            (),
            id="a-file-is-no-command",
        ),
        pytest.param(
            "cargo",
            "missing-libclang",
            "thread 'main' panicked at 'Unable to find libclang: \"couldn\\'t find any valid "
            "shared libraries matching: "
            "[\\'libclang.so\\', \\'libclang-*.so\\'], set the `LIBCLANG_PATH` environment "
            "variable\"', src/libcore/result.rs:1165:5\n",
            (),
            id="libclang-has-no-name",
        ),
    ],
)
def test_what_a_log_calls_missing_is_caught_whole(
    builder: str, rule: str, log: str, names: tuple[str, ...]
) -> None:
    assert _caught(builder, log, rule) == names


@pytest.mark.parametrize(
    ("kind", "name", "package"),
    [
        (NeedKind.CMAKE, "Qt6Svg", "qt6-svg-dev"),
        (NeedKind.CMAKE, "Qt6::Svg", "qt6-svg-dev"),
        (NeedKind.CMAKE, "qt5::Svg", "libqt5svg5-dev"),
        (NeedKind.CMAKE, "KF6::DBusAddons", "libkf6dbusaddons-dev"),
        (NeedKind.CMAKE, "Boost::filesystem", "libboost-filesystem1.83-dev"),
        (NeedKind.CMAKE, "Boost::headers", "libboost1.83-dev"),
        (NeedKind.CMAKE, "OpenSSL::SSL", "libssl-dev"),
        (NeedKind.CMAKE, "GTest", "libgmock-dev"),
        (NeedKind.CMAKE, "boost_program_options", "libboost-program-options1.83-dev"),
        (NeedKind.WORDS, "sodium, libsodium", "libsodium-dev"),
        (NeedKind.WORDS, "XXD", "xxd"),
        (NeedKind.WORDS, "Could not find what this needs; install\n  libzstd-dev or set", "libzstd-dev"),
        (NeedKind.HEADER, "Eigen/Dense", "libeigen3-dev"),
        (NeedKind.HEADER, "google/protobuf/timestamp.proto", "libprotobuf-dev"),
        (NeedKind.MACRO, "AM_GLIB_GNU_GETTEXT", "libgio-2.0-dev"),
        (NeedKind.MACRO, "gtk-doc", "gtk-doc-tools"),
        (NeedKind.MACRO, "APPDATA_XML", "appstream-util"),
        (NeedKind.COMMAND, "protoc", "protobuf-compiler"),
        (NeedKind.COMMAND, "gfortran", "gfortran"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_it_leads_to_the_package_that_has_it(
    index: ContentsIndex, kind: NeedKind, name: str, package: str
) -> None:
    found = resolve_need(Need(kind=kind, name=name), index)
    assert found is not None
    assert found.package == package


def test_a_component_that_no_package_has_is_not_guessed(index: ContentsIndex) -> None:
    assert resolve_need(Need(kind=NeedKind.CMAKE, name="Own::part"), index) is None


def test_libclang_is_a_package_by_name() -> None:
    missing = next(one for one in RULES if one.name == "missing-libclang")
    (match,) = [one for one in diagnose(missing.sample, "cargo") if one.rule is missing]
    (need,) = match.needs(missing.sample)
    assert need == Need(kind=NeedKind.PACKAGE, name="libclang-dev")
    assert ALPINE.name_of(need.name) == "clang-dev"


def test_a_libclang_for_another_machine_ends_it_and_one_that_lacks_something_does_not() -> None:
    log = (
        "  = note: /native/usr/bin/ld: skipping incompatible "
        "/usr/lib/llvm-19/lib/libclang.so when searching for -lclang\n"
        "          /native/usr/bin/ld: cannot find -lclang: No such file or directory\n"
    )
    first = next(diagnose(log, "cargo"))
    assert isinstance(first.rule.fix, Stop)
    assert first.rule.fix.cause is Cause.UNSUPPORTED
    lacking = 'Unable to find libclang: "the `libclang` shared library at /l/libclang.so.7 could '
    'not be opened: libclangAST.so.7: cannot open shared object file"\n'
    assert "libclang-of-another-machine" not in [one.rule.name for one in diagnose(lacking, "cargo")]


def test_qt_that_debian_builds_with_is_a_candidate() -> None:
    stanza = (
        "Package: qalc\nBuild-Depends: qt6-base-dev, qt6-svg-dev, qt6-documentation-tools, libclang-dev\n"
    )
    assert parse_build_depends(stanza, "qalc") == ("qt6-base-dev", "qt6-svg-dev")


def test_a_need_of_several_lines_is_read_as_one() -> None:
    assert str(Need(kind=NeedKind.WORDS, name="no zlib,\n  install it")) == "dependency no zlib, install it"


def test_a_crate_gets_the_libraries_and_tools_that_its_build_scripts_want(tmp_path: Path) -> None:
    (tmp_path / "index").write_text(_LINES)
    sandbox = FakeSandbox([])
    shell = Shell(sandbox, deadline=None, output=None)
    installer = Installer(shell, index=tmp_path / "index", workspace=tmp_path, say=lambda _text: None)
    package = Package(name="x", same_times=False, debian_source="x")
    repair = Repair(installer, package, say=lambda _text: None)
    crate = Candidate(builder="cargo", directory="", rank=90, evidence="Cargo.toml", project=CargoProject())
    progress = Progress(options=BuildOptions(jobs=1))

    def answer(log: str) -> Outcome | None:
        return repair.decide(Failure(step="build", log=log), crate, progress, last=False)

    wanting = "The system library `alsa` required by crate `alsa-sys` was not found.\n"
    samples = {one.name: one.sample for one in RULES}
    assert answer(wanting + samples["missing-protoc"] + samples["missing-libclang"]) is None
    assert sorted(installer.installed) == ["libasound2-dev", "libclang-dev", "protobuf-compiler"]
    assert sandbox.scripts("apt-cache showsrc --only-source x")
    outcome = answer(samples["libclang-of-another-machine"])
    assert outcome is not None
    assert (outcome.cause, "libclang" in outcome.reason) == (Cause.UNSUPPORTED, True)
