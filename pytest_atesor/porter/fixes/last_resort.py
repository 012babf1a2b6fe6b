"""Signs that are weaker than the others; asked last."""

from pytest_atesor.core.outcome import Cause
from pytest_atesor.porter.builders.interface import Tweak
from pytest_atesor.porter.fixes.architecture import REFUSED_PLATFORM
from pytest_atesor.porter.fixes.interface import Change, Rule, Stop
from pytest_atesor.porter.fixes.missing import SUBMODULES

__all__ = ["RULES"]

RULES: tuple[Rule, ...] = (
    Rule(
        name="build-downloads",
        pattern=(
            r"(?:Failed to clone repository: '|unable to access '|error: downloading ')(?P<name>[^'\s]+)'"
            r"|[Cc]ould not resolve host: (?P<host>[\w.-]+)|unable to resolve host address [‘'](?P<wget>[\w.-]+)"
            r"|[Cc]ould(?:n't| not) resolve host ?name|[Tt]emporary failure in name resolution"
        ),
        fix=Stop(
            cause=Cause.DEPENDENCY,
            reason="the build downloads {name} while it runs, and builds have no network",
            reason_online="the build downloads {name} while it runs, and that failed",
        ),
        sample=(
            "fatal: unable to access 'https://example.org/x.git/': Could not resolve host: example.org\n"
            "make: *** [Makefile:20: third_party/x] Error 128\n"
        ),
        expected="https://example.org/x.git/",
        builders=("make", "cmake", "autotools", "configure", "meson"),
    ),
    Rule(
        name="cmake-directory-left-out",
        pattern=(
            r"The source directory\s+(?:/workspace/build/[^\s/]+/)?(?P<name>(?!/(?!workspace/)|[^\n]*/_deps/)\S[^\n]*?)\s+does not contain a CMakeLists\.txt file"
            r"|add_subdirectory\s+given\s+source\s+\"(?P<given>(?!/(?!workspace/)|[^\"\n]*/_deps/)[^\"\n]+)\"\s+which\s+is\s+not\s+an\s+existing\s+directory"
        ),
        fix=Stop(
            cause=Cause.SOURCE,
            reason="the source tree lacks {name}, which the build enters (a submodule, or left out of the archive)",
        ),
        sample=(
            "CMake Error at CMakeLists.txt:43 (add_subdirectory):\n  The source directory\n\n"
            "    /workspace/build/OpenixCard/lib/inicpp\n\n  does not contain a CMakeLists.txt file.\n"
        ),
        expected="lib/inicpp",
    ),
    Rule(
        name="submodules-or-packages-left-out",
        pattern=SUBMODULES,
        fix=Stop(cause=Cause.SOURCE, reason="the source tree lacks its submodules: {name}"),
        sample="Makefile:12: *** fmt is not there: install it or run git submodule update --init.  Stop.\n",
        expected="git submodule update --init",
    ),
    Rule(
        name="choose-linux",
        pattern=r"(?i)please do ['\"`]?make (?P<name>platform|target|system)|[Yy]ou must specify (?:a|the) (?:platform|target)",
        fix=Change(change=Tweak(make_args=("linux",))),
        sample="Please do 'make PLATFORM' where PLATFORM is one of these:\n   aix bsd c89 freebsd generic linux macosx mingw posix solaris\n",
        expected="PLATFORM",
        builders=("make",),
    ),
    Rule(
        name="refused-platform",
        pattern=REFUSED_PLATFORM,
        fix=Stop(cause=Cause.UNSUPPORTED, reason="the build refuses this platform: {name}"),
        sample="checking for gcc... gcc\nconfigure: error: This platform is not supported\n",
        expected="platform is not supported",
    ),
    Rule(
        name="directory-left-out",
        pattern=r"^make(?:\[\d+\])?: \*\*\* (?P<name>[\w./+-]+): No such file or directory\.  Stop\.$",
        fix=Stop(
            cause=Cause.SOURCE,
            reason="the source tree lacks {name}, which the build enters (a submodule, or left out of the archive)",
        ),
        sample="make -C htslib lib-static\nmake[1]: *** htslib: No such file or directory.  Stop.\nmake: *** [Makefile:149: htslib/libhts.a] Error 2\n",
        expected="htslib",
    ),
    Rule(
        name="without-extras",
        pattern=(
            r"^make(?:\[\d+\])?: \*\*\* \[[^\n]*\] (?:Error|Segmentation)[^\n]*\n(?:make(?:\[\d+\])?: \*\*\* Waiting[^\n]*\n)?"
            r"make(?:\[\d+\])?: Leaving directory '[^'\n]*/(?P<name>docs?|Docs?|man|manual|documentation|tests?|testsuite|examples?|samples?)'$"
        ),
        fix=Change(change=Tweak(prepare=("without-extras",))),
        sample="make[2]: *** [Makefile:512: foo.info] Error 1\nmake[2]: Leaving directory '/workspace/build/foo/doc'\nmake[1]: *** [Makefile:400: all-recursive] Error 1\n",
        expected="doc",
        builders=("make", "configure", "autotools"),
    ),
    Rule(
        name="parallel-make",
        pattern=(
            r"(?:No rule to make target|fatal error: [^\n]+\.h: No such file|No such file or directory|"
            r"cannot create|File exists|cannot find [\w./-]+\.(?:o|a|lo|la)|file not recognized|file truncated)"
        ),
        fix=Change(change=Tweak(jobs=1)),
        sample="make[2]: *** No rule to make target 'parse.h', needed by 'lex.o'.  Stop.\n",
        builders=("make", "configure", "autotools"),
    ),
)
