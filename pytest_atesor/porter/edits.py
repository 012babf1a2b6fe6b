"""Edits of a fresh tree that fixes ask for by name, as shell scripts of the builder.

They run with ``sh -eu`` in the top of the tree, before anything else of an attempt.
"""

from collections.abc import Iterable, Mapping

__all__ = ["prepare_script"]

# Each x86 header becomes the portable implementation's, where there is one; idirafter lets real ones win.
_SIMD_HEADERS = r"""
mkdir -p /workspace/home/simd-headers; cd /workspace/home/simd-headers
while read -r one path; do
  printf '#define SIMDE_ENABLE_NATIVE_ALIASES\n#include <simde/x86/%s.h>\n' "$path" > "$one.h"
done <<'LIST'
mmintrin mmx
xmmintrin sse
emmintrin sse2
pmmintrin sse3
tmmintrin ssse3
smmintrin sse4.1
nmmintrin sse4.2
wmmintrin clmul
immintrin avx2
x86intrin avx2
LIST
cd - >/dev/null
"""

# Headers that C libraries once had, as what took their place; no package has them any more.
_REMOVED_HEADERS = r"""
mkdir -p /workspace/home/removed-headers/attr /workspace/home/removed-headers/sys \
  /workspace/home/removed-headers/malloc
cd /workspace/home/removed-headers
printf '%s\n' '#include <errno.h>' '#include <sys/xattr.h>' '#ifndef ENOATTR' '#define ENOATTR ENODATA' \
  '#endif' > attr/xattr.h
printf '#include <locale.h>\n' > xlocale.h
printf '#include <unistd.h>\n' > sys/sysctl.h
printf '#include <sys/ioctl.h>\n' > stropts.h
printf '#include <malloc.h>\n' > malloc/malloc.h
cd - >/dev/null
"""

_EXECUTABLE_BITS = r"""
find . -type f \( -name '*.sh' -o -name configure -o -name '*.pl' -o -name '*.py' -o ! -name '*.*' \) \
  -exec sh -c 'for one; do head -c2 "$one" | grep -q "^#!" && chmod +x "$one"; done; :' sh {} +
"""

# What automake's strictest mode wants to see, and config.rpath, which nothing installs; empty files do.
_AUTOMAKE_FILES = r"""
find . -maxdepth 2 \( -name configure.ac -o -name configure.in \) | while read -r one; do
  (cd "${one%/*}"
    for file in NEWS README AUTHORS ChangeLog; do [ -e "$file" ] || : > "$file"; done
    aux=$(sed -n 's/^[[:space:]]*AC_CONFIG_AUX_DIR(\[*\([^])]*\)\]*).*/\1/p' "${one##*/}" | head -n 1)
    mkdir -p "./${aux:-.}"
    [ -e "${aux:-.}/config.rpath" ] || : > "./${aux:-.}/config.rpath")
done
"""

# Scripts of a Windows editor, of Python's second version, and for interpreters that a person installed.
_INTERPRETERS = r"""
find . -type f -perm /111 -exec awk '
  FNR == 1 && /^#!/ && (/\r$/ || /\/usr\/local\/bin\// || /python2?([.][0-9]+)?([ \t]|$)/) { print FILENAME }
  { nextfile }' {} + |
while read -r one; do
  if head -n 1 "$one" | grep -q "$(printf '\r')\$"; then sed -i 's/\r$//' "$one"; fi
  sed -i -E -e '1s,^#![[:space:]]*/usr/local/bin/,#!/usr/bin/,' \
    -e '1s,^#![[:space:]]*/usr/bin/env[[:space:]]+python,#!/usr/bin/python,' \
    -e '1s,^#![[:space:]]*(/usr)?/bin/python2?([.][0-9]+)?([[:space:]]|$),#!/usr/bin/python3\3,' \
    "$one"
done
"""

# AM_GNU_GETTEXT_VERSION has autopoint bring the files of that version, aclocal the macros of the installed
# one; with the other macro both are the installed version's (gettext manual, "Version Control Issues").
_GETTEXT_VERSION = r"""
find . -maxdepth 3 -type f \( -name configure.ac -o -name configure.in \) \
  -exec sed -i 's/\bAM_GNU_GETTEXT_VERSION\b/AM_GNU_GETTEXT_REQUIRE_VERSION/' {} +
"""

_OLD_MACROS = r"""
find . -maxdepth 3 -type f \( -name configure.ac -o -name configure.in \) | while read -r one; do
  sed -i -E -e 's/\bAM_CONFIG_HEADER\b/AC_CONFIG_HEADERS/; s/\bAM_PROG_CC_STDC\b/AC_PROG_CC/' \
    -e 's/\bAM_PROG_MKDIR_P\b/AC_PROG_MKDIR_P/; s/^[[:space:]]*AM_C_PROTOTYPES\b.*$//' \
    -e 's/(^|[[:space:],[])-Werror\b/\1/g' "$one"
  grep -q AM_PROG_AR "$one" || sed -i "/^[[:space:]]*AC_PROG_CC/a AM_PROG_AR" "$one"
done
"""

# A directory of documentation or tests stays, with a Makefile that makes nothing: configure still finds it.
_WITHOUT_EXTRAS = r"""
find . -mindepth 2 -maxdepth 4 -type f \
  \( -name Makefile -o -name Makefile.in -o -name GNUmakefile -o -name Makefile.am \) |
grep -E '/([Dd]ocs?|man|manual|documentation|tests?|testsuite|examples?|samples?)/' |
while read -r one; do
  case $one in
    *.am) : > "$one" ;;
    *) printf 'all:\n.DEFAULT all install check:\n\t@:\n' > "$one" ;;
  esac
done
"""

_EDITS: Mapping[str, str] = {
    "automake-files": _AUTOMAKE_FILES,
    "cargo-lock": "find . -name Cargo.lock -exec rm -f {} +\n",
    "executable-bits": _EXECUTABLE_BITS,
    "gettext-version": _GETTEXT_VERSION,
    "interpreters": _INTERPRETERS,
    "no-objects": "find . -type f \\( -name '*.o' -o -name '*.lo' \\) -exec rm -f {} +\n",
    "old-macros": _OLD_MACROS,
    "removed-headers": _REMOVED_HEADERS,
    "simd-headers": _SIMD_HEADERS,
    "without-extras": _WITHOUT_EXTRAS,
}


def prepare_script(prepare: Iterable[str]) -> str:
    """Return builder's script, run in the fresh tree, for the edits that fixes ask for.

    Words of builders are theirs.
    """
    return "".join(_EDITS.get(one, "") for one in prepare)
