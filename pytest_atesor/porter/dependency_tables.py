"""What names alone do not tell: CMake's own find modules, commands behind alternatives, macros' files, empty words."""

from collections.abc import Mapping

__all__ = ["BUILD_DEPENDENCY_TOOLS", "CMAKE_MODULES", "COMMANDS", "MACROS", "STOP_WORDS"]

_PC = "usr/lib/riscv64-linux-gnu/pkgconfig/"

CMAKE_MODULES: Mapping[str, tuple[str, ...]] = {
    "ALSA": (f"{_PC}alsa.pc",),
    "Backtrace": ("usr/include/execinfo.h",),
    "BISON": ("usr/bin/bison",),
    "BLAS": (f"{_PC}openblas.pc", "usr/lib/riscv64-linux-gnu/openblas-pthread/libblas.so"),
    "Boost": ("usr/include/boost/version.hpp",),
    "BZip2": ("usr/include/bzlib.h",),
    "CURL": ("usr/include/riscv64-linux-gnu/curl/curl.h",),
    "Curses": ("usr/include/ncurses.h", "usr/include/curses.h"),
    "Doxygen": ("usr/bin/doxygen",),
    "EXPAT": ("usr/include/expat.h",),
    "FLEX": ("usr/bin/flex",),
    "FLTK": ("usr/include/FL/Fl.H",),
    "Freetype": (f"{_PC}freetype2.pc",),
    "GIF": ("usr/include/gif_lib.h",),
    "GLEW": (f"{_PC}glew.pc",),
    "GLUT": ("usr/include/GL/glut.h",),
    "GnuTLS": (f"{_PC}gnutls.pc",),
    "GSL": (f"{_PC}gsl.pc",),
    "GTest": ("usr/include/gtest/gtest.h",),
    "HDF5": ("usr/include/hdf5/serial/hdf5.h",),
    "ICU": (f"{_PC}icu-uc.pc",),
    "ImageMagick": (f"{_PC}MagickWand.pc",),
    "Intl": ("usr/include/libintl.h",),
    "Gettext": ("usr/bin/msgfmt",),
    "JPEG": ("usr/include/jpeglib.h",),
    "LAPACK": ("usr/lib/riscv64-linux-gnu/openblas-pthread/liblapack.so",),
    "LibArchive": (f"{_PC}libarchive.pc",),
    "LibLZMA": ("usr/include/lzma.h",),
    "LibXml2": (f"{_PC}libxml-2.0.pc",),
    "LibXslt": (f"{_PC}libxslt.pc",),
    "Lua": (f"{_PC}lua5.4.pc", f"{_PC}lua5.3.pc"),
    "MPI": (f"{_PC}mpi.pc", f"{_PC}ompi.pc"),
    "OpenAL": (f"{_PC}openal.pc",),
    "OpenGL": ("usr/include/GL/gl.h",),
    "OpenSSL": (f"{_PC}openssl.pc", "usr/include/openssl/ssl.h"),
    "Patch": ("usr/bin/patch",),
    "Perl": ("usr/bin/perl",),
    "PkgConfig": ("usr/bin/pkgconf",),
    "PNG": (f"{_PC}libpng.pc",),
    "PostgreSQL": (f"{_PC}libpq.pc",),
    "Protobuf": (f"{_PC}protobuf.pc",),
    "PythonInterp": ("usr/bin/python3",),
    "Python3": (f"{_PC}python3.pc", "usr/bin/python3"),
    "Python": (f"{_PC}python3.pc", "usr/bin/python3"),
    "PythonLibs": (f"{_PC}python3.pc",),
    "SDL": (f"{_PC}sdl.pc",),
    "SQLite3": (f"{_PC}sqlite3.pc",),
    "SWIG": ("usr/bin/swig",),
    "TCL": (f"{_PC}tcl.pc",),
    "TIFF": (f"{_PC}libtiff-4.pc",),
    "X11": (f"{_PC}x11.pc",),
    "ZLIB": (f"{_PC}zlib.pc", "usr/include/zlib.h"),
    "ZSTD": (f"{_PC}libzstd.pc",),
    "LZ4": (f"{_PC}liblz4.pc",),
    "GMP": ("usr/include/riscv64-linux-gnu/gmp.h",),
    "READLINE": ("usr/include/readline/readline.h",),
}
"""Files that satisfy ``find_package(X)`` through CMake's own modules and the ones that projects copy around."""

COMMANDS: Mapping[str, str] = {
    "aclocal": "automake",
    "automake": "automake",
    "cc": "gcc",
    "c++": "g++",
    "gtkdocize": "gtkdocize",
    "lex": "flex",
    "libtool": "libtoolize",
    "nc": "nc.openbsd",
    "pkg-config": "pkgconf",
    "python": "python3",
    "python2": "python3",
    "vim": "vim.basic",
    "yacc": "bison",
    "awk": "mawk",
    "java": "default-java",
    "ctags": "universal-ctags",
    "tclsh": "tclsh8.6",
    "lua": "lua5.4",
    "luac": "luac5.4",
    "rst2man.py": "rst2man",
    "which": "which.debianutils",
    "xxd": "xxd",
}
"""Commands that a package provides under another file name (alternatives and links made at installation)."""

MACROS: Mapping[str, str] = {
    "AC_CHECK_ICONV": "iconv.m4",
    "AC_LIB_LINKFLAGS": "lib-link.m4",
    "AC_LIB_HAVE_LINKFLAGS": "lib-link.m4",
    "AC_LIB_PREPARE_PREFIX": "lib-prefix.m4",
    "AC_LIB_RPATH": "lib-prefix.m4",
    "AC_LIBTOOL_DLOPEN": "libtool.m4",
    "AC_PROG_LIBTOOL": "libtool.m4",
    "AM_GNU_GETTEXT": "gettext.m4",
    "AM_GNU_GETTEXT_VERSION": "gettext.m4",
    "AM_GNU_GETTEXT_REQUIRE_VERSION": "gettext.m4",
    "AM_ICONV": "iconv.m4",
    "AM_NLS": "nls.m4",
    "AM_PATH_CPPUNIT": "cppunit.m4",
    "AM_PATH_GPGME": "gpgme.m4",
    "AM_PATH_GPG_ERROR": "gpg-error.m4",
    "AM_PATH_LIBGCRYPT": "libgcrypt.m4",
    "AM_PATH_LIBASSUAN": "libassuan.m4",
    "AM_PATH_KSBA": "ksba.m4",
    "AM_PATH_SDL": "sdl.m4",
    "AM_PATH_SDL2": "sdl2.m4",
    "AM_PATH_CHECK": "check.m4",
    "AM_PROG_LIBTOOL": "libtool.m4",
    "GLIB_GSETTINGS": "gsettings.m4",
    "GOBJECT_INTROSPECTION_CHECK": "introspection.m4",
    "GTK_DOC_CHECK": "gtk-doc.m4",
    "IT_PROG_INTLTOOL": "intltool.m4",
    "LT_INIT": "libtool.m4",
    "LT_PREREQ": "libtool.m4",
    "LT_LIB_DLLOAD": "ltdl.m4",
    "LTDL_INIT": "ltdl.m4",
    "PKG_CHECK_EXISTS": "pkg.m4",
    "PKG_CHECK_MODULES": "pkg.m4",
    "PKG_INSTALLDIR": "pkg.m4",
    "PKG_PROG_PKG_CONFIG": "pkg.m4",
    "XORG_MACROS_VERSION": "xorg-macros.m4",
}
"""Autoconf macros whose file is not named after them; any other is looked for as ``<name in lower case>.m4``."""

STOP_WORDS = frozenset(
    """
    a able add all also am an and any are as at available be been below build building but by c can cannot cc check
    compile compiled compiler compilers configure could create current depends dependencies dependency detected dev
    devel development directory distro do does either enable enabled environment error executables exist exists failed
    failing fails file files find flags for found from function functions get gnu guess has have header headers help if
    in include includes install installed installing into is isn it its least lib libraries library library's libs link
    linux log make maybe messages might minimum missing more must need needed needs new newer no none not of on one
    older only option or otherwise out package packages path perhaps pkg please problem program proper properly
    provide required requirement requirements requires retry run running see set should skip some source sources
    specify standard subdirectory such suitable support supported system target test tests than that the them then
    there this to tool tools try type unable undefined unknown unless unmet unsupported up use used using valid value
    variable version versions via was we were when where which with within without won work working works would you
    your cross-compiling don't doesn't can't couldn't and/or
    """.split()
)
"""Words of error messages that never name a dependency."""

BUILD_DEPENDENCY_TOOLS = frozenset(
    """
    autoconf-archive autopoint bc bison flex gawk gettext gobject-introspection gperf gtk-doc-tools help2man intltool
    libtool-bin libxml2-utils lemon nasm pkgconf pkg-config pkgconf-bin python3 re2c swig texinfo xxd yasm ragel
    valac libglib2.0-bin xsltproc python3-jinja2 python3-yaml python3-mako cython3 protobuf-compiler wayland-protocols
    libwayland-bin gengetopt xutils-dev perl tcl lua5.4 file rsync
    """.split()
)
"""Build dependencies of a Debian source that are no ``-dev`` packages and still belong to a plain build."""
