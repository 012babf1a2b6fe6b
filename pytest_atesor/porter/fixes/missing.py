"""Something that the sandbox does not have: headers, libraries, modules, commands."""

from pytest_atesor.core.outcome import Cause
from pytest_atesor.porter.builders.interface import Tweak
from pytest_atesor.porter.builders.meson import SUBPROJECTS
from pytest_atesor.porter.builders.shared import BSD_MAKE
from pytest_atesor.porter.fixes.architecture import SAID
from pytest_atesor.porter.fixes.interface import Change, Install, Rule, Stop
from pytest_atesor.porter.needs import NeedKind

__all__ = ["OVERLOOKED", "RULES", "SUBMODULES"]

_X_WINDOWS = (
    "x11",
    "xext",
    "xrandr",
    "xinerama",
    "xcursor",
    "xi",
    "xkbcommon",
    "wayland-client",
    "egl",
    "gl",
)
"""What programs with a window ask for one after the other, each with an attempt of its own."""

_NO_SYSDEPS = r"error: (?P<name>/usr/lib/skalibs/sysdeps) is not a valid sysdeps directory"

_CMAKE_VARIABLE = (
    r"(?:_[A-Za-z0-9_]+)?_(?:LIBRARY|LIBRARIES|LIB|INCLUDE_DIRS?|INCLUDE_PATH|EXECUTABLE|PROGRAM)"
)

_NO_PKG_CONFIG_MODULE = (
    r"(?:No package '|Package '|Package )(?P<name>[A-Za-z0-9][\w.+-]*)'?"
    r"(?:' found|, required by '[^'\n]*', not found| was not found in the pkg-config search path)"
)
_OTHER_VERSION = (
    r"CMake Error[^\n]*\n\s+Could\s+not\s+find\s+a\s+configuration\s+file\s+for\s+package\s+\"(?P<name>[\w.+-]+)\"\s+that\s+is\s+compatible\s+with\s+requested\s+version\s+"
    r"(?:range\s+)?\"(?P<version>\d+(?:\.\d+)*)"
)
SUBMODULES = (
    rf"(?:{SAID}|CMake Error[^\n]{{0,200}}\(message\):\s+(?:[^\n]{{1,200}}\n[ \t]+){{1,2}}[^\n]{{0,120}}?)"
    r"(?P<name>(?:git\s+submodule(?:\s+--?\S+)*\s+(?:update|init)\b|\b(?:[Mm]issing|[Uu]ninitiali[sz]ed) (?:git )?submodules?\b"
    r"|\b[Ss]ubmodules?\b[^\n.!]{0,40}?(?:\b(?:is|are) missing|(?:\bnot|n't)\b[^\n.!]{0,20}?"
    r"\b(?:initiali[sz]ed|downloaded|fetched|cloned|checked out|updated|found|there))\b)[^\n]*?)(?:\.?[ ]{2}Stop)?\.?$"
)
"""The pattern of a build that asks for the submodules of its source."""

RULES: tuple[Rule, ...] = (
    Rule(
        name="window-systems",
        pattern=(
            r"Could NOT find (?P<name>X11) |(?:The )?(?P<part>RandR|XRandR|Xinerama|X[kK][bB]|Xcursor|XInput|X Shape|X11)(?: library and)? headers (?:were )?not found"
            r"|required packages were not found:\s+- (?P<module>(?:wayland|xkbcommon|xcb|x11|xrandr|xcursor|xinerama)[\w-]*)"
        ),
        fix=Install(kind=NeedKind.PKG_CONFIG, names=_X_WINDOWS),
        sample="CMake Error at extern/glfw/src/CMakeLists.txt:211 (message):\n  RandR headers not found; install libxrandr development package\n",
        expected="RandR",
        builders=("cmake",),
    ),
    Rule(
        name="libclang-of-another-machine",
        pattern=(
            r"the `libclang` shared library at (?P<name>\S+) could not be opened: (?P=name): cannot open shared object file"
            r"|skipping incompatible \S*/libclang\S* when searching for -lclang\n(?:[^\n]*\n){0,6}?[^\n]*cannot find -lclang"
        ),
        fix=Stop(
            cause=Cause.UNSUPPORTED,
            reason=(
                "a build script loads libclang, and an accelerated sandbox has it for riscv64 only, where build scripts "
                "are native programs (--atesor-no-acceleration)"
            ),
        ),
        sample=(
            '  Unable to find libclang: "the `libclang` shared library at /usr/lib/llvm-19/lib/libclang-19.so.1 could not be opened: '
            '/usr/lib/llvm-19/lib/libclang-19.so.1: cannot open shared object file: No such file or directory"\n'
        ),
        expected="/usr/lib/llvm-19/lib/libclang-19.so.1",
    ),
    Rule(
        name="removed-header",
        pattern=r"fatal error: (?P<name>(?:attr/xattr|xlocale|sys/sysctl|stropts|malloc/malloc)\.h): No such file",
        fix=Change(
            change=Tweak(
                prepare=("removed-headers",), compiler_add=("-idirafter", "/workspace/home/removed-headers")
            )
        ),
        sample="lsetxattr.c:4:10: fatal error: attr/xattr.h: No such file or directory\n    4 | #include <attr/xattr.h>\ncompilation terminated.\n",
        expected="attr/xattr.h",
    ),
    Rule(
        name="missing-header",
        pattern=(
            r"(?:fatal )?error: ['\"]?(?P<name>[\w./+-]+\.(?:h|hh|hpp|hxx|H|h\+\+|inc|ipp))['\"]?(?:: No such file or directory| file not found)"
            r"|:\d+(?::\d+)?: fatal error: '?(?P<bare>(?:[\w+.-]+/)+[A-Za-z_][\w+-]*|[A-Z][A-Za-z0-9]+)'?(?:: No such file or directory| file not found)"
        ),
        fix=Install(kind=NeedKind.HEADER),
        sample="client.c:5:10: fatal error: event2/event.h: No such file or directory\n    5 | #include <event2/event.h>\ncompilation terminated.\n",
        expected="event2/event.h",
        independent=True,
    ),
    Rule(
        name="missing-header-named",
        pattern=(
            r"(?:ERROR|[Ee]rror): +(?P<name>[A-Za-z][\w./+-]*\.h(?:pp|xx)?) (?:does not exist|(?:was |is )?not found|(?:is )?missing|(?:is )?required)"
            r"|(?:ERROR|[Ee]rror): [^\n]{0,60}(?:[Cc]annot|[Cc]an't|[Cc]ould not|[Cc]ouldn't|[Uu]nable to) find (?:the )?(?:header (?:file )?)?[<\"'‘]?(?P<other>[A-Za-z][\w./+-]*\.h(?:pp|xx)?)\b"
        ),
        fix=Install(kind=NeedKind.HEADER),
        sample=(
            "checking for attr/error_context.h... no\n\nFATAL ERROR: attr/error_context.h does not exist.\n"
            "Install the extended attributes (attr) development package.\n"
        ),
        expected="attr/error_context.h",
        builders=("autotools", "configure", "cmake", "make"),
        independent=True,
    ),
    Rule(
        name="missing-library",
        pattern=r"cannot find -l:?(?:lib)?(?P<name>[\w.+-]+?)(?:\.(?:a|so))?(?:: No such file[^\n]*)?$",
        fix=Install(kind=NeedKind.LIBRARY),
        sample="/usr/bin/ld: cannot find -lreadline: No such file or directory\ncollect2: error: ld returned 1 exit status\n",
        expected="readline",
        independent=True,
    ),
    Rule(
        name="missing-pkg-config",
        pattern=(
            rf"{_NO_PKG_CONFIG_MODULE}"
            r"|The system library `(?P<sys>[A-Za-z0-9][\w.+-]*)` required by crate"
            r"|could not find system library '(?P<older>[A-Za-z0-9][\w.+-]*)' required by"
        ),
        fix=Install(kind=NeedKind.PKG_CONFIG),
        sample="configure: error: Package requirements (libevent >= 2.1) were not met:\n\nNo package 'libevent' found\n",
        expected="libevent",
        independent=True,
    ),
    Rule(
        name="missing-package-requirements",
        pattern=r"error: Package requirements \((?P<name>[A-Za-z0-9][\w.+-]*)[^\n)]*\) were not met",
        fix=Install(kind=NeedKind.PKG_CONFIG),
        sample="configure: error: Package requirements (glib-2.0 >= 2.40) were not met:\n\nPackage dependency requirement unmet\n",
        expected="glib-2.0",
    ),
    Rule(
        name="missing-meson-component",
        pattern=(
            r"Run-time dependency (?P<of>[Bb]oost|qt[56]) \((?:modules|missing): (?P<each>[\w, ]+)\) found: NO[^\n]*\n"
            r"(?:[^\n]*\n){0,4}?[^\n]*ERROR: Dependency [\"'](?:boost|qt[56])[\"']"
        ),
        fix=Install(kind=NeedKind.CMAKE),
        sample=(
            "qmake6 found: YES (/usr/bin/qmake6) 6.9.0\nCould not find: Charts Qt6Charts in /usr/lib\n"
            "Run-time dependency qt6 (modules: Charts, Core, Gui, Widgets) found: NO (tried pkgconfig and config-tool)\n\n"
            '../meson.build:3:10: ERROR: Dependency "qt6" not found, tried pkgconfig and config-tool\n'
        ),
        expected="qt6::Charts",
        builders=("meson",),
        independent=True,
    ),
    Rule(
        name="missing-meson-dependency",
        pattern=r"ERROR: (?:Dependency lookup for|Dependency|Subproject) [\"']?(?P<name>[\w.+-]+)[\"']?[^\n]*(?:not found|failed|required)",
        fix=Install(kind=NeedKind.WORDS),
        sample='meson.build:20:7: ERROR: Dependency "libcurl" not found, tried pkgconfig and cmake\n',
        expected="libcurl",
        builders=("meson",),
    ),
    Rule(
        name="missing-meson-library",
        pattern=r"ERROR: C(?:\+\+)? (?:shared or static |static |shared )?library '(?P<name>[\w.+-]+)' not found",
        fix=Install(kind=NeedKind.LIBRARY),
        sample="meson.build:44:14: ERROR: C shared or static library 'bz2' not found\n",
        expected="bz2",
        builders=("meson",),
    ),
    Rule(
        name="missing-meson-header",
        pattern=r"ERROR: C(?:\+\+)? header '(?P<name>[\w./+-]+)' not found",
        fix=Install(kind=NeedKind.HEADER),
        sample="meson.build:30:0: ERROR: C header 'magic.h' not found\n",
        expected="magic.h",
        builders=("meson",),
    ),
    Rule(
        name="missing-meson-program",
        pattern=r"ERROR: Program(?:\(s\)|s)? '?\[?'?(?P<name>[\w.+-]+)[^\n]*not found",
        fix=Install(kind=NeedKind.COMMAND),
        sample="doc/meson.build:3:0: ERROR: Program 'scdoc' not found or not executable\n",
        expected="scdoc",
        builders=("meson",),
    ),
    Rule(
        name="missing-python-module-meson",
        pattern=r"missing modules: (?P<each>[\w., ]+)",
        fix=Install(kind=NeedKind.PYTHON),
        sample="meson.build:9:0: ERROR: python3 is missing modules: jinja2\n",
        expected="jinja2",
    ),
    Rule(
        name="missing-qt-module",
        pattern=r"/(?P<name>Qt\d\w+)Config\.cmake\"?\s+does\s+NOT\s+exist",
        fix=Install(kind=NeedKind.CMAKE),
        sample=(
            "CMake Error at CMakeLists.txt:28 (find_package):\n  Found package configuration file:\n\n"
            "    /usr/lib/riscv64-linux-gnu/cmake/Qt6/Qt6Config.cmake\n\n"
            '  but it set Qt6_FOUND to FALSE so package "Qt6" is considered to be NOT\n  FOUND.  Reason given by package:\n\n'
            '  Failed to find required Qt component "Svg".\n\n'
            '  Expected Config file at\n  "/usr/lib/riscv64-linux-gnu/cmake/Qt6Svg/Qt6SvgConfig.cmake" does NOT\n  exist\n'
        ),
        expected="Qt6Svg",
        builders=("cmake",),
        independent=True,
    ),
    Rule(
        name="missing-cmake-component",
        pattern=(
            r"CMake Error[^\n]*\n(?:\s+|-- )?Could NOT find (?P<of>\w+)\s+\(missing:\s+(?:\w*_[A-Z_]+\s+)*"
            r"(?P<each>(?!\w*_[A-Z_]+\b)[A-Za-z]\w*(?:\s+(?!\w*_[A-Z_]+\b)[A-Za-z]\w*)*)\)"
        ),
        fix=Install(kind=NeedKind.CMAKE),
        sample=(
            "CMake Error at /usr/share/cmake-3.25/Modules/FindPackageHandleStandardArgs.cmake:230 (message):\n"
            "  Could NOT find Boost (missing: Boost_INCLUDE_DIR filesystem program_options\n  system)\n"
            "Call Stack (most recent call first):\n"
        ),
        expected="Boost::filesystem",
        builders=("cmake",),
        independent=True,
    ),
    Rule(
        name="missing-cmake-target",
        pattern=(
            r"links\s+to:?\s+(?:target\s+\")?(?P<name>(?!PkgConfig::|Threads::)[A-Za-z]\w*::\w+)\"?\s+"
            r"but\s+the\s+target\s+was\s+not\s+found"
        ),
        fix=Install(kind=NeedKind.CMAKE),
        sample=(
            'CMake Error at CMakeLists.txt:5 (target_link_libraries):\n  Target "a" links to:\n\n    Qt6::Svg\n\n'
            "  but the target was not found.  Possible reasons include:\n"
        ),
        expected="Qt6::Svg",
        builders=("cmake",),
    ),
    Rule(
        name="missing-fortran",
        pattern=r"No CMAKE_Fortran_COMPILER could be found",
        fix=Install(kind=NeedKind.COMMAND, names=("gfortran",)),
        sample="-- The Fortran compiler identification is unknown\nCMake Error at CMakeLists.txt:2 (project):\n  No CMAKE_Fortran_COMPILER could be found.\n",
        builders=("cmake",),
    ),
    Rule(
        name="missing-nasm",
        pattern=r"No CMAKE_ASM_NASM_COMPILER could be found",
        fix=Install(kind=NeedKind.COMMAND, names=("nasm",)),
        sample="-- Didn't find assembler\nCMake Error at CMakeLists.txt:3 (enable_language):\n  No CMAKE_ASM_NASM_COMPILER could be found.\n",
        builders=("cmake",),
    ),
    Rule(
        name="missing-cmake-version",
        pattern=_OTHER_VERSION,
        fix=Install(kind=NeedKind.CMAKE),
        sample=(
            "CMake Error at CMakeLists.txt:5 (find_package):\n"
            '  Could not find a configuration file for package "LLVM" that is compatible\n  with requested version "21".\n\n'
            "  The following configuration files were considered but not accepted:\n\n"
            "    /usr/lib/llvm-19/lib/cmake/llvm/LLVMConfig.cmake, version: 19.1.7\n"
        ),
        expected="LLVM@21",
        builders=("cmake",),
    ),
    Rule(
        name="other-cmake-version",
        pattern=_OTHER_VERSION,
        fix=Stop(
            cause=Cause.DEPENDENCY,
            reason="the project needs the CMake package {name}, which this platform has in other versions only",
        ),
        sample=(
            "CMake Error at CMakeLists.txt:9 (find_package):\n"
            '  Could not find a configuration file for package "Boost" that is compatible\n  with requested version "1.90".\n'
        ),
        expected="Boost@1.90",
        builders=("cmake",),
    ),
    Rule(
        name="missing-cmake-package",
        pattern=(
            r"(?:Could not find a package configuration file provided by\s+\"|By not providing \"Find|"
            r"CMake Error[^\n]*\n(?:\s+|-- )?Could NOT find )(?P<name>[A-Za-z0-9_+.-]+?)(?:\.cmake)?[\"\s]"
        ),
        fix=Install(kind=NeedKind.CMAKE),
        sample="CMake Error at /usr/share/cmake-3.31/Modules/FindPackageHandleStandardArgs.cmake:233 (message):\n  Could NOT find ZLIB (missing: ZLIB_LIBRARY ZLIB_INCLUDE_DIR)\n",
        expected="ZLIB",
        builders=("cmake",),
    ),
    Rule(
        name="missing-cmake-variable",
        pattern=(
            rf"set to NOTFOUND\.\n(?:[^\n]*\n)?\s*(?:/[^\n]*/)?(?P<name>[A-Za-z0-9]+){_CMAKE_VARIABLE}\b"
            rf"|^(?:/[^\n]*/)?(?P<more>[A-Za-z0-9]+){_CMAKE_VARIABLE}(?: \(ADVANCED\))?\n +(?:linked by target|used as include)"
        ),
        fix=Install(kind=NeedKind.CMAKE),
        sample=(
            "CMake Error: The following variables are used in this project, but they are set to NOTFOUND.\n"
            "Please set them or make sure they are set and tested correctly in the CMake files:\n"
            "CURSES_CURSES_LIBRARY (ADVANCED)\n"
        ),
        expected="CURSES",
        builders=("cmake",),
    ),
    Rule(
        name="missing-cmake-modules",
        pattern=(
            r"The following required packages were not found:\s+(?P<each>(?:[ \t]*- [^\n]*(?:\n|$)){1,60})"
            r"|None of the required '(?P<other>[A-Za-z0-9][\w.+-]*)"
        ),
        fix=Install(kind=NeedKind.PKG_CONFIG),
        sample="CMake Error at /usr/share/cmake-3.31/Modules/FindPkgConfig.cmake:645 (message):\n  The following required packages were not found:\n\n   - libsodium>=1.0.4\n",
        expected="libsodium",
        builders=("cmake",),
        independent=True,
    ),
    Rule(
        name="missing-cmake-library",
        pattern=(
            r"Could\s+not\s+find\s+(?P<name>[A-Za-z0-9_]+?)(?:_LIBRAR(?:Y|IES)|_LIB|_INCLUDE_DIRS?|_PROGRAM|_EXECUTABLE)?(?=\s+using\s+the\s+following\s)"
            r"|using\s+the\s+following\s+(?:names|files):\s+(?P<listed>[\w./+-]+(?:,\s+[\w./+-]+)*)"
        ),
        fix=Install(kind=NeedKind.WORDS),
        sample="CMake Error at CMakeLists.txt:31 (find_library):\n  Could not find SODIUM_LIBRARY using the following names: sodium, libsodium\n",
        expected="SODIUM",
        builders=("cmake",),
    ),
    Rule(
        name="missing-python-module",
        pattern=r"(?:ModuleNotFoundError|ImportError|\bpython[\d.]*): No module named '?(?P<name>[\w.]+)",
        fix=Install(kind=NeedKind.PYTHON),
        sample="Traceback (most recent call last):\n  File \"gen.py\", line 3, in <module>\nModuleNotFoundError: No module named 'yaml'\n",
        expected="yaml",
        independent=True,
    ),
    Rule(
        name="missing-perl-module",
        pattern=r"Can't locate (?P<name>[\w/]+\.pm) in @INC",
        fix=Install(kind=NeedKind.PERL),
        sample="Can't locate XML/Parser.pm in @INC (you may need to install the XML::Parser module)\n",
        expected="XML/Parser.pm",
        independent=True,
    ),
    Rule(
        name="missing-macro",
        pattern=(
            r"(?:possibly undefined macro: |error: macro |undefined or overquoted macro: |unknown macro: |(?<!The )macro ')"
            r"(?P<name>[A-Z][A-Z0-9_]{3,})"
            r"|configure: line \d+: (?:syntax error near unexpected token [`'](?:[^\n]*)\n[^\n]*: line \d+: [`']\s*)?"
            r"(?P<other>(?:AX|AC|AM|PKG|LT|GTK|GLIB|GOBJECT|IT|XORG)_[A-Z0-9_]+)"
            r"|^aclocal[^\n]*: error: [^\n]*: file '(?P<file>[\w+-]+)\.m4' does not exist"
        ),
        fix=Install(kind=NeedKind.MACRO),
        sample="configure.ac:41: error: possibly undefined macro: AX_CHECK_COMPILE_FLAG\n      If this token and others are legitimate, please use m4_pattern_allow.\n",
        expected="AX_CHECK_COMPILE_FLAG",
        builders=("autotools",),
    ),
    Rule(
        name="missing-gtk-doc",
        pattern=r"error: (?:ENABLE_GTK_DOC|GTK_DOC_\w+) does not appear in AM_CONDITIONAL",
        fix=Install(kind=NeedKind.MACRO, names=("GTK_DOC_CHECK",)),
        sample="docs/Makefile.am:1: error: ENABLE_GTK_DOC does not appear in AM_CONDITIONAL\ngtk-doc.make:7: error: GTK_DOC_USE_LIBTOOL does not appear in AM_CONDITIONAL\n",
        builders=("autotools",),
        independent=True,
    ),
    Rule(
        name="missing-introspection",
        pattern=r"error: HAVE_INTROSPECTION does not appear in AM_CONDITIONAL",
        fix=Install(kind=NeedKind.MACRO, names=("GOBJECT_INTROSPECTION_CHECK",)),
        sample="gfreenect/Makefile.am:76: error: HAVE_INTROSPECTION does not appear in AM_CONDITIONAL\n",
        builders=("autotools",),
        independent=True,
    ),
    Rule(
        name="missing-command-perl",
        pattern=r"Can't exec \"(?P<name>[\w.+-]+)\": No such file|exec: \"(?P<other>[\w.+-]+)\": executable file not found",
        fix=Install(kind=NeedKind.COMMAND),
        sample='Can\'t exec "autopoint": No such file or directory at /usr/share/autoconf/Autom4te/FileUtils.pm line 318.\nautoreconf: error: autopoint failed with exit status: 2\n',
        expected="autopoint",
    ),
    Rule(
        name="missing-command",
        pattern=(
            r"(?:^|: )(?:[\w./-]*sh: )?(?:line )?(?:\d+: )?(?P<name>[A-Za-z][\w.+-]*)(?<!-NOTFOUND): (?:command not found|not found$)"
            r"|^make(?:\[\d+\])?: (?P<make>[A-Za-z][\w.+-]*): No such file or directory"
            r"|env: ['‘](?P<env>[\w.+-]+)['’]: No such file"
            r"|WARNING: '(?P<missing>[\w.+-]+)' is missing on your system"
            r"|(?:^|[ :'\"`‘])(?!(?:file|executable|program|command|binary|tool)\b)(?P<path>[A-Za-z][\w.+-]*)['\"`’]? (?:is |was )?not (?:installed|found|available)(?:,? or (?:is )?not)?"
            r" (?:in|on) (?:the |your )?(?:\$PATH\b|PATH\b)"
        ),
        fix=Install(kind=NeedKind.COMMAND),
        sample="/bin/sh: 1: gperf: not found\nmake: *** [Makefile:77: keywords.c] Error 127\n",
        expected="gperf",
    ),
    Rule(
        name="missing-command-of-cmake",
        pattern=r"(?:^|[ /])(?P<name>[A-Za-z]\w*?)(?:_(?:EXECUTABLE|PROGRAM|COMMAND|CMD|BIN|PATH|EXE|TOOL))?-NOTFOUND: (?:command )?not found",
        fix=Install(kind=NeedKind.WORDS),
        sample="/bin/sh: 1: XXD_EXECUTABLE-NOTFOUND: not found\ngmake[2]: *** [CMakeFiles/t.dir/build.make:73: a.h] Error 127\n",
        expected="XXD",
        builders=("cmake",),
    ),
    Rule(
        name="missing-command-of-python",
        pattern=(
            r"child_exception_type\([^\n]*\n(?:[ \t~^]+\n)?"
            r"FileNotFoundError: \[Errno 2\] No such file or directory: '(?P<name>[\w.+-]+)'"
        ),
        fix=Install(kind=NeedKind.COMMAND),
        sample=(
            '  File "/usr/lib/python3.13/subprocess.py", line 1950, in _execute_child\n'
            "    raise child_exception_type(errno_num, err_msg, err_filename)\n"
            "FileNotFoundError: [Errno 2] No such file or directory: 'gperf'\n"
        ),
        expected="gperf",
        independent=True,
    ),
    Rule(
        name="missing-protoc",
        pattern=(
            r"Could not find `(?P<name>[a-z][\w.+-]*)`(?:\. If `(?P=name)` is installed| installation and this build crate)"
            r"|Failed to find the (?P<older>protoc) binary"
        ),
        fix=Install(kind=NeedKind.COMMAND),
        sample=(
            '  --- stderr\n  Error: Custom { kind: NotFound, error: "Could not find `protoc`. If `protoc` is installed, try setting '
            'the `PROTOC` environment variable to the path of the `protoc` binary. To install it on Debian, run `apt-get install protobuf-compiler`." }\n'
        ),
        expected="protoc",
        independent=True,
    ),
    Rule(
        name="missing-protocol-file",
        pattern=r"(?<![\w+/.-])(?P<name>[\w+-]+(?:/[\w+-]+)+\.proto): File not found\.",
        fix=Install(kind=NeedKind.HEADER),
        sample='google/protobuf/timestamp.proto: File not found.\nfoo.proto:3:1: Import "google/protobuf/timestamp.proto" was not found or had errors.\n',
        expected="google/protobuf/timestamp.proto",
        independent=True,
    ),
    Rule(
        name="missing-libclang",
        pattern=r"couldn\\*'t find any valid shared libraries matching: \[\\*'libclang",
        fix=Install(kind=NeedKind.PACKAGE, names=("libclang-dev",)),
        sample=(
            "  --- stderr\n  thread 'main' panicked at /w/vendor/bindgen-0.69.4/lib.rs:622:31:\n"
            "  Unable to find libclang: \"couldn't find any valid shared libraries matching: ['libclang.so', 'libclang-*.so', 'libclang.so.*', 'libclang-*.so.*'], "
            'set the `LIBCLANG_PATH` environment variable to a path where one of these files can be found (invalid: [])"\n'
        ),
        independent=True,
    ),
    Rule(
        name="missing-command-of-build-script",
        pattern=r"\b[Ii]s [`'‘](?P<name>[A-Za-z][\w.+-]*)[`'’] (?:not )?installed\?",
        fix=Install(kind=NeedKind.COMMAND),
        sample=(
            "  thread 'main' (3762) panicked at build.rs:44:10:\n"
            "  Unable to generate manpage. Is 'rst2man' installed? You can specify a custom 'rst2man' executable by setting the RST2MAN environment variable.: Os { code: 2, kind: NotFound, message: \"No such file or directory\" }\n"
        ),
        expected="rst2man",
        independent=True,
    ),
    Rule(
        name="bsd-make",
        pattern=r"^[^\n:]+:\d+: \*\*\* missing separator\.  Stop\.$",
        fix=Install(kind=NeedKind.COMMAND, names=("bmake",), change=Tweak(prepare=(BSD_MAKE,))),
        sample="config.h: written\nMakefile.configure: written\nMakefile:131: *** missing separator.  Stop.\n",
        builders=("make", "configure"),
    ),
    Rule(
        name="bundled-library-left-out",
        pattern=(
            r"^Making all in (?:[\w.+-]+/)*(?P<name>[\w.+-]{3,})\n(?:make\[\d+\]: Entering directory [^\n]*\n)?"
            r"make\[\d+\]: \*\*\* No rule to make target 'all'\.  Stop\."
        ),
        fix=Install(kind=NeedKind.WORDS),
        sample=(
            "Making all in modules/oniguruma\nmake[2]: Entering directory '/workspace/build/jq/modules/oniguruma'\n"
            "make[2]: *** No rule to make target 'all'.  Stop.\n"
        ),
        expected="oniguruma",
        builders=("autotools",),
    ),
    Rule(
        name="submodules-left-out",
        # where an installed package would do as well, it is looked for first
        pattern=rf"^(?![^\n]{{0,300}}(?:\n[ \t]{{1,40}}(?=\S)[^\n]{{0,200}}){{0,3}}\b[Ii]nstall){SUBMODULES}",
        fix=Stop(cause=Cause.SOURCE, reason="the source tree lacks its submodules: {name}"),
        sample="configure: error: Submodules not initialized, please run git submodule update --init\n",
        expected="Submodules not initialized, please run git submodule update --init",
    ),
    Rule(
        name="missing-skalibs",
        pattern=_NO_SYSDEPS,
        fix=Install(kind=NeedKind.HEADER, names=("skalibs/skalibs.h",)),
        sample="./configure: error: /usr/lib/skalibs/sysdeps is not a valid sysdeps directory\n",
        expected="/usr/lib/skalibs/sysdeps",
        builders=("configure",),
    ),
    Rule(
        name="skalibs-sysdeps",
        pattern=_NO_SYSDEPS,
        # Where skalibs is there and they are not: Debian has them in the directory of the architecture.
        fix=Change(
            change=Tweak(configure_args=("--with-sysdeps=/usr/lib/riscv64-linux-gnu/skalibs/sysdeps",))
        ),
        sample="Checking target system type...\n  ... riscv64-linux-gnu\n./configure: error: /usr/lib/skalibs/sysdeps is not a valid sysdeps directory\n",
        expected="/usr/lib/skalibs/sysdeps",
        builders=("configure",),
    ),
    Rule(
        name="missing-for-configure-below",
        pattern=r"configure: error:[ \t]*\n(?P<name>(?:[ \t]+\*{3}[^\n]{3,200}\n){1,4})",
        fix=Install(kind=NeedKind.WORDS),
        sample="configure: error: \n  *** No curses lib was found.  Please install the curses header files\n  *** from libncurses-dev (Debian), ncurses-devel (Fedora), or similar.\n",
        expected="  *** No curses lib was found.  Please install the curses header files\n  *** from libncurses-dev (Debian), ncurses-devel (Fedora), or similar.\n",
        builders=("autotools", "configure"),
    ),
    Rule(
        name="missing-for-configure",
        pattern=r"(?:^|configure: )(?:error|ERROR|Error):(?:[ \t]+|[ \t]*\n\s*)(?P<name>[^\s][^\n]{2,299})",
        fix=Install(kind=NeedKind.WORDS),
        sample='checking for library containing event_init... no\nconfigure: error: "libevent not found"\n',
        expected='"libevent not found"',
        builders=("autotools", "configure"),
    ),
    Rule(
        name="missing-for-cmake",
        pattern=r"CMake Error at [^\n]*\(message\):\s+(?P<name>[^\n]{3,300}(?:\n {2}(?=\S)[^\n]{1,200}){0,2})",
        fix=Install(kind=NeedKind.WORDS),
        sample="CMake Error at CMakeLists.txt:70 (message):\n  libsodium not found\n",
        expected="libsodium not found",
        builders=("cmake",),
    ),
    Rule(
        name="missing-meson-fallback",
        pattern=(
            r"Looking for a fallback subproject for the dependency (?P<name>[\w.+-]+)\n+"
            r"[^\n]*ERROR: Automatic wrap-based subproject downloading is disabled"
        ),
        fix=Install(kind=NeedKind.WORDS),
        sample=(
            "Run-time dependency inih found: NO (tried pkgconfig and cmake)\n"
            "Looking for a fallback subproject for the dependency inih\n\n"
            "meson.build:7:0: ERROR: Automatic wrap-based subproject downloading is disabled\n"
        ),
        expected="inih",
        builders=("meson",),
    ),
    Rule(
        name="meson-subprojects",
        pattern=r"ERROR: Automatic wrap-based subproject downloading is disabled",
        fix=Change(change=Tweak(prepare=(SUBPROJECTS,))),
        sample='Check usable header "sys/xattr.h" : YES \n\nmeson.build:156:10: ERROR: Automatic wrap-based subproject downloading is disabled\n',
        builders=("meson",),
    ),
    Rule(
        name="meson-subprojects-unreachable",
        pattern=r"ERROR: Automatic wrap-based subproject downloading is disabled",
        fix=Stop(
            cause=Cause.DEPENDENCY,
            reason="the build needs a Meson subproject that is neither in the source tree nor to be had",
        ),
        sample="meson.build:156:10: ERROR: Automatic wrap-based subproject downloading is disabled\n",
        builders=("meson",),
    ),
    Rule(
        name="missing-for-meson",
        pattern=r"ERROR: (?!Automatic wrap)(?:Problem encountered: )?(?P<name>[^\n]{3,300})",
        fix=Install(kind=NeedKind.WORDS),
        sample="meson.build:88:2: ERROR: Problem encountered: libsystemd is required\n",
        expected="libsystemd is required",
        builders=("meson",),
    ),
    Rule(
        name="missing-library-of-last-check",
        pattern=r"^[Cc]hecking [^\n]{0,60}-l(?P<name>[\w.+-]+)\)? ?\.\.\. ?(?:no|NO|not found)\n+(?:configure|Configure|Configuration)[^\n]{0,20} failed",
        fix=Install(kind=NeedKind.LIBRARY),
        sample="checking for NCURSES_LIBS (pkg-config)... no\nchecking for NCURSES_LIBS (-lcurses)... no\nconfigure failed.\n",
        expected="curses",
        builders=("configure",),
    ),
    Rule(
        name="missing-of-last-check",
        pattern=(
            r"^[Cc]hecking (?:for )?(?:the )?(?P<name>[A-Za-z][^\n]{1,60}?) ?\.\.\. ?(?:no|NO|not found)\n+"
            r"(?:configure|Configure|Configuration)[^\n]{0,20} failed"
        ),
        fix=Install(kind=NeedKind.WORDS),
        sample="checking for program pkg-config... /usr/bin/pkg-config\nchecking for libcue... no\nconfigure failed.\n",
        expected="libcue",
        builders=("configure",),
    ),
    Rule(
        name="missing-in-plain-words",
        pattern=(
            r"^(?:Cannot|Can't|Could not|Unable to) (?:find|locate) (?:the )?(?P<name>lib[\w.+-]+)"
            r"|\bYou (?:must|need to) have [`'\"]?(?:GNU )?(?P<tool>[A-Za-z][\w.+-]*)[`'\"]? (?:>= [\d.]+ )?(?:installed|in (?:your )?PATH)"
        ),
        fix=Install(kind=NeedKind.WORDS),
        sample="checking for jpeg_read_header in -ljpeg... no\nCannot find libjpeg or you have too old version (v6 or later required).\n",
        expected="libjpeg",
        builders=("autotools", "configure", "make"),
    ),
)

OVERLOOKED: tuple[Rule, ...] = (
    Rule(
        name="overlooked-pkg-config",
        pattern=_NO_PKG_CONFIG_MODULE,
        fix=Install(kind=NeedKind.PKG_CONFIG),
        sample=(
            "checking for gnutls >= 3.3... no\nconfigure: WARNING: Package 'gnutls', required by 'virtual:world', not found\n"
        ),
        expected="gnutls",
    ),
    Rule(
        name="overlooked-cmake",
        # a program alone, such as one for documentation, is not what a compiler misses
        pattern=r"^-- Could NOT find (?P<name>\w+) \(missing: (?![A-Z_]*_EXECUTABLE\))",
        fix=Install(kind=NeedKind.CMAKE),
        sample="-- Could NOT find ZLIB (missing: ZLIB_LIBRARY ZLIB_INCLUDE_DIR) \n-- Configuring done (0.5s)\n",
        expected="ZLIB",
        builders=("cmake",),
    ),
    Rule(
        name="overlooked-command",
        pattern=r"^[\w./+-]+: (?:line )?(?:\d+: )?(?P<name>[A-Za-z][\w.+-]*): (?:command )?not found$",
        fix=Install(kind=NeedKind.COMMAND),
        sample=(
            "Precompiling lexor_keyword.gperf\nautoconf.sh: 15: gperf: not found\nPrecompiling vhdlpp/lexor_keyword.gperf\n"
        ),
        expected="gperf",
    ),
    Rule(
        name="overlooked-meson",
        pattern=r"^Run-time dependency (?P<name>[\w.+-]+) found: NO",
        fix=Install(kind=NeedKind.PKG_CONFIG),
        sample="Run-time dependency gnutls found: NO (tried pkgconfig and cmake)\nRun-time dependency threads found: YES\n",
        expected="gnutls",
        builders=("meson",),
    ),
)
"""What a build did without at first, for when it fails later for a reason that names nothing to bring."""
