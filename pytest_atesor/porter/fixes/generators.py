"""What produces the build files: autotools, CMake, Meson, and documentation tools on the way."""

from pytest_atesor.core.outcome import Cause
from pytest_atesor.porter.builders.cmake import OFFLINE, PRESET
from pytest_atesor.porter.builders.interface import Tweak
from pytest_atesor.porter.fixes.interface import Change, Install, Rule, Stop
from pytest_atesor.porter.needs import NeedKind

__all__ = ["RULES"]

_MISSING = r"(?:command not found|not found|No such file or directory|is missing on your system|: not found)"
_DOCUMENTATION = (
    "makeinfo|help2man|xsltproc|asciidoc|asciidoctor|a2x|doxygen|rst2man|txt2man|ronn|pandoc|sphinx-build|xmlto|"
    "docbook2man|docbook-to-man|docbook2x-man|texi2html|texi2pdf|pdflatex|scdoc|go-md2man|gtkdoc-scan|c2man|mandoc|groff|yodl"
)

_NO_DOCUMENTATION_TOOL = (
    rf"(?:^|[ '\":/\[])(?P<name>{_DOCUMENTATION})[\"']?:? (?:\d+: )?(?:command )?{_MISSING}"
)

RULES: tuple[Rule, ...] = (
    Rule(
        name="docbook-stylesheets",
        pattern=(
            r"(?:cannot parse|failed to load (?:external entity|HTTP resource)) \"?https?://(?:docbook\.sourceforge\.net|cdn\.docbook\.org)/release/xsl"
            r"|I/O error : Attempt to load network entity https?://(?:docbook\.sourceforge\.net|cdn\.docbook\.org)/release/xsl"
        ),
        fix=Install(kind=NeedKind.PACKAGE, names=("docbook-xsl", "docbook-xml")),
        sample=(
            'warning: failed to load external entity "http://docbook.sourceforge.net/release/xsl/current/manpages/docbook.xsl"\n'
            "cannot parse http://docbook.sourceforge.net/release/xsl/current/manpages/docbook.xsl\n"
            "gmake[2]: *** [Makefile:839: ha_logd.8] Error 4\n"
        ),
        independent=True,
    ),
    Rule(
        name="gnulib",
        pattern=(
            r"gnulib-tool['’]? in PATH|does not contain gnulib-tool|gnulib-srcdir[^\n]*does not denote a directory|--no-git requires --gnulib-srcdir"
            r"|gnulib-tool: (?:(?:command )?not found|No such file)"
        ),
        fix=Install(kind=NeedKind.PACKAGE, names=("gnulib",)),
        sample=(
            "./bootstrap: Error: --gnulib-srcdir or $GNULIB_SRCDIR is specified,\n"
            "                   but does not contain gnulib-tool\n"
        ),
        builders=("autotools",),
    ),
    Rule(
        name="config-sub",
        pattern=(
            r"cannot guess build type|unable to guess system type|machine .riscv64[^\n]* not recognized"
            r"|config\.sub[^\n]*(?:failed|not recognized)|Invalid configuration .riscv64"
        ),
        fix=Change(change=Tweak(prepare=("config-sub",))),
        sample="checking build system type... ./config.guess: unable to guess system type\nconfigure: error: cannot guess build type; you must specify one\n",
        builders=("autotools", "configure"),
    ),
    Rule(
        name="regenerate",
        pattern=(
            r"(?:aclocal|automake|autoconf)-1\.\d+: (?:command )?not found|'(?:aclocal|automake)-1\.\d+' is missing"
            r"|libtool: Version mismatch error|X?--tag=(?:CC|CXX): command not found|ltmain\.sh: No such file"
            r"|config\.status: error: cannot find input file|cannot find (?:install-sh|required auxiliary files)"
        ),
        fix=Change(change=Tweak(prepare=("autoreconf",))),
        sample="/w/missing: line 81: aclocal-1.15: command not found\nWARNING: 'aclocal-1.15' is missing on your system.\nmake: *** [Makefile:340: aclocal.m4] Error 127\n",
        builders=("autotools",),
    ),
    Rule(
        name="gettext-version",
        pattern=r"gettext infrastructure mismatch: using a Makefile\.in\.in from gettext version (?P<name>[\d.]+)",
        fix=Change(change=Tweak(prepare=("gettext-version", "autoreconf"))),
        sample=(
            "*** error: gettext infrastructure mismatch: using a Makefile.in.in from gettext version 0.19 but the autoconf "
            "macros are from gettext version 0.22\nmake[2]: *** [Makefile:255: check-macro-version] Error 1\n"
        ),
        expected="0.19",
        builders=("autotools",),
    ),
    Rule(
        name="automake-files",
        pattern=(
            r"error: required file ['‘`]?(?:[\w.-]+/)*(?P<name>NEWS|README|AUTHORS|ChangeLog|config\.rpath)['’]? not found"
            r"|configure\.(?:ac|in):\d+: error: required directory (?P<directory>\S+) does not exist"
        ),
        fix=Change(change=Tweak(prepare=("automake-files",))),
        sample="Makefile.am: error: required file './NEWS' not found\nMakefile.am: error: required file './AUTHORS' not found\nautoreconf: error: automake failed with exit status: 1\n",
        expected="NEWS",
        builders=("autotools",),
    ),
    Rule(
        name="old-macros",
        pattern=(
            r"error: ['‘]?(?P<name>A[CM]_[A-Z_]+)['’]?: this macro is obsolete|automatic de-ANSI-fication support has been removed"
            r"|archiver requires 'AM_PROG_AR'|warnings are treated as errors"
        ),
        fix=Change(change=Tweak(prepare=("old-macros",))),
        sample="configure.ac:17: error: 'AM_CONFIG_HEADER': this macro is obsolete.\nconfigure.ac:17: You should use the 'AC_CONFIG_HEADERS' macro instead.\nautoreconf: error: aclocal failed with exit status: 1\n",
        expected="AM_CONFIG_HEADER",
        builders=("autotools",),
    ),
    Rule(
        name="executable-bits",
        pattern=r"(?<![\w./+-])(?P<name>(?:\.{1,2}/[\w./+-]+|[\w./+-]+\.(?:sh|pl|py|awk))): Permission denied$",
        fix=Change(change=Tweak(prepare=("executable-bits",))),
        sample="/bin/sh: 1: ./version.sh: Permission denied\nmake: *** [Makefile:30: version.h] Error 126\n",
        expected="./version.sh",
    ),
    Rule(
        name="command-by-path",
        pattern=(
            r"sh: \d+: /(?:usr/)?s?bin/(?P<name>[A-Za-z][\w.+-]*): not found$"
            r"|^make(?:\[\d+\])?: /(?:usr/)?s?bin/(?P<make>[A-Za-z][\w.+-]*): No such file or directory$"
            r"|: /(?:usr/)?bin/(?P<shell>[A-Za-z][\w.+-]*): bad interpreter"
        ),
        fix=Install(kind=NeedKind.COMMAND),
        sample="/bin/sh: 1: /usr/bin/xsltproc: not found\nmake: *** [Makefile:88: foo.1] Error 127\n",
        expected="xsltproc",
    ),
    Rule(
        name="interpreters",  # the script is there, but not what its first line names
        pattern=(
            r"(?:^|: )(?P<name>[\w.+-]+/[\w./+-]+): (?:[^\s:]+: bad interpreter|cannot execute: required file not found)"
            r"|sh: \d+: (?P<dash>(?!\S*/git-version-gen:)[\w.+-]+/[\w./+-]+): not found$"
            r"|^make(?:\[\d+\])?: (?P<make>[\w.+-]+/[\w./+-]+): No such file or directory$"
            r"|env: ['‘](?P<env>python2[.\d]*|[\w.+-]+\\r)['’]: No such file"
        ),
        fix=Change(change=Tweak(prepare=("interpreters",))),
        sample="/bin/sh: 1: ./scripts/gen-table.py: not found\nmake: *** [Makefile:175: table.h] Error 127\n",
        expected="./scripts/gen-table.py",
    ),
    Rule(
        name="documentation-off",
        pattern=_NO_DOCUMENTATION_TOOL,
        fix=Change(
            change=Tweak(
                configure_args=(
                    "--disable-doc",
                    "--disable-docs",
                    "--disable-man",
                    "--disable-gtk-doc",
                    "--disable-manpages",
                ),
                # configure takes these over; on make's command line they would reach libffi's own makes, which
                # cannot read them
                environment=(("MAKEINFO", "true"), ("HELP2MAN", "true")),
            )
        ),
        sample="/workspace/build/libffi/missing: line 85: makeinfo: command not found\nWARNING: 'makeinfo' is missing on your system.\n",
        expected="makeinfo",
        builders=("autotools",),
    ),
    Rule(
        name="documentation-tools-off",
        pattern=_NO_DOCUMENTATION_TOOL,
        fix=Change(
            change=Tweak(
                make_args=("MAKEINFO=true", "HELP2MAN=true"),
                environment=(("MAKEINFO", "true"), ("HELP2MAN", "true")),
            )
        ),
        sample="/bin/sh: 1: makeinfo: not found\nmake[2]: *** [Makefile:512: foo.info] Error 127\n",
        expected="makeinfo",
        builders=("configure", "make"),
    ),
    Rule(
        name="no-wrapped-build-directory",
        pattern=r"No rule to make target '[\w-]+-configured'",
        fix=Change(change=Tweak(configure_args=("--disable-builddir",))),
        sample="MAKE riscv64-unknown-linux-gnu : 0 * all-configured\nmake[1]: *** No rule to make target 'all-configured'.  Stop.\n",
        builders=("autotools",),
    ),
    Rule(
        name="cmake-policy",
        pattern=r"Compatibility with CMake < [\d.]+ has been removed|cmake_minimum_required.*or older",
        # The variable also reaches what the project itself configures.
        fix=Change(
            change=Tweak(
                cmake_args=("-DCMAKE_POLICY_VERSION_MINIMUM=3.5",),
                environment=(("CMAKE_POLICY_VERSION_MINIMUM", "3.5"),),
            )
        ),
        sample="CMake Error at CMakeLists.txt:1 (cmake_minimum_required):\n  Compatibility with CMake < 3.5 has been removed from CMake.\n",
    ),
    Rule(
        name="cmake-compiler",
        pattern=r"The CMAKE_\w+_COMPILER:\s+(?:/usr/bin/)?(?P<name>[A-Za-z][\w.+-]*)\s+is not a full path",
        fix=Install(kind=NeedKind.COMMAND),
        sample=(
            "CMake Error at CMakeLists.txt:7 (project):\n  The CMAKE_CXX_COMPILER:\n\n    clang++\n\n"
            "  is not a full path and was not found in the PATH.\n"
        ),
        expected="clang++",
        independent=True,
    ),
    Rule(
        name="cmake-too-old",
        pattern=r"CMake (?P<name>[\d.]+) or higher is required",
        fix=Stop(
            cause=Cause.DEPENDENCY,
            reason="the project needs CMake {name} or newer, which this platform does not have",
        ),
        sample="CMake Error at CMakeLists.txt:1 (cmake_minimum_required):\n  CMake 4.2 or higher is required.  You are running version 3.31.6\n",
        expected="4.2",
        builders=("cmake",),
    ),
    Rule(
        name="cmake-preset",
        pattern=r"CMake Error at [^\n]*\(message\):\s+[^\n]*(?:--preset|\b[Pp]resets?\b)",
        fix=Change(change=Tweak(prepare=(PRESET,))),
        sample="CMake Error at CMakeLists.txt:12 (message):\n  Please configure with a preset, see cmake --list-presets\n",
        builders=("cmake",),
    ),
    Rule(
        name="cmake-makefiles",
        pattern=r"ninja: error: .*(?:missing and no known rule to make it|multiple rules generate|dependency cycle)|Ninja.* is not supported|cyclic dependencies",
        fix=Change(change=Tweak(prepare=("cmake-makefiles",))),
        sample="ninja: error: 'libfoo.a', needed by 'prog', missing and no known rule to make it\n",
        builders=("cmake",),
    ),
    Rule(
        name="fetch-content",
        pattern=(
            r"(?:Failed to clone repository: '|Cloning into '[^']*'\.\.\.\s+fatal: unable to access '|error: downloading ')"
            r"(?P<name>[^'\s]+)'"
        ),
        fix=Install(
            kind=NeedKind.WORDS, change=Tweak(cmake_args=("-DFETCHCONTENT_TRY_FIND_PACKAGE_MODE=ALWAYS",))
        ),
        sample="CMake Error at fmt-subbuild/fmt-populate-prefix/tmp/fmt-populate-gitclone.cmake:39 (message):\n  Failed to clone repository: 'https://example.org/fmtlib/fmt.git'\n",
        expected="https://example.org/fmtlib/fmt.git",
        builders=("cmake",),
    ),
    Rule(
        name="cmake-offline",
        pattern=(
            r"Failed to clone repository: '|unable to access '|error: downloading '"
            r"|[Cc]ould(?:n't| not) resolve host|file DOWNLOAD cannot compute hash on failed download"
        ),
        fix=Change(change=Tweak(prepare=(OFFLINE,))),
        sample=(
            "CMake Error at cmake/CPM.cmake:19 (file):\n  file DOWNLOAD cannot compute hash on failed download\n\n"
            '    status: [6;"Could not resolve hostname"]\nCall Stack (most recent call first):\n'
            "  CMakeLists.txt:68 (include)\n"
        ),
        builders=("cmake",),
    ),
    Rule(
        name="subdirectory-left-out",
        pattern=(
            r"Makefile\.am:\d+: error: required directory (?:\./)?(?P<name>\S+) does not exist"
            r"|ERROR: Non-?existent build file ['‘](?P<meson>[^'\n]+)/meson\.build['’]"
        ),
        fix=Stop(
            cause=Cause.SOURCE,
            reason="the source tree lacks {name}, which the build enters (a submodule, or left out of the archive)",
        ),
        sample="Makefile.am:3: error: required directory ./libltdl does not exist\nautoreconf: error: automake failed with exit status: 1\n",
        expected="libltdl",
        builders=("autotools", "meson"),
    ),
    Rule(
        name="subproject-of-the-system",
        pattern=(
            r"Looking for a fallback subproject for the dependency (?P<name>[\w.+-]+)\n(?:[^\n]*\n){0,6}?"
            r"[^\n]*ERROR: Subproject exists but has no "
        ),
        fix=Install(kind=NeedKind.WORDS),
        sample=(
            "Run-time dependency inih found: NO (tried pkgconfig and cmake)\n"
            "Looking for a fallback subproject for the dependency inih\n\n"
            "meson.build:7:0: ERROR: Subproject exists but has no meson.build file.\n"
        ),
        expected="inih",
        builders=("meson",),
    ),
    Rule(
        name="subproject-left-out",
        pattern=r"ERROR: Subproject exists but has no (?P<name>\S+) file",
        fix=Stop(
            cause=Cause.SOURCE,
            reason="a Meson subproject has no {name} in the source tree (a submodule, or left out of the archive)",
        ),
        sample="meson.build:107:0: ERROR: Subproject exists but has no meson.build file.\n",
        expected="meson.build",
        builders=("meson",),
    ),
    Rule(
        name="container-engine",
        # Where a command only asks for it, the build goes on: what ended it is make's business.
        pattern=(
            r"(?:^|: )(?P<name>docker|podman|docker-compose): (?:[Cc]ommand not found|not found|No such file or directory)\n"
            r"(?:[^\n]*\n){0,5}?g?make(?:\[\d+\])?: \*\*\* \[[^\n]*\] Error 127$|Cannot connect to the Docker daemon"
        ),
        fix=Stop(
            cause=Cause.UNSUPPORTED, reason="the build runs {name}, and a sandbox has no container engine"
        ),
        sample="docker run --rm -v /w:/w -w /w docker.io/mgos/clang clang unit_test.c\n/bin/sh: 1: docker: not found\nmake: *** [Makefile:32: asan] Error 127\nmake: *** Waiting for unfinished jobs....\n",
        expected="docker",
    ),
    Rule(
        name="meson-too-old",
        pattern=r"Meson version is [\d.]+ but project requires (?P<name>[^\n]+)",
        fix=Stop(
            cause=Cause.DEPENDENCY, reason="the project needs Meson {name}, which this platform does not have"
        ),
        sample="meson.build:1:0: ERROR: Meson version is 1.7.0 but project requires >=1.9.0\n",
        expected=">=1.9.0",
        builders=("meson",),
    ),
)
