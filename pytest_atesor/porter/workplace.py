"""Where things are inside the sandbox, and the scripts that lay out a fresh attempt there."""

from collections.abc import Sequence

from pytest_atesor.porter.builders.interface import Tweak
from pytest_atesor.porter.builders.shared import quote, words

__all__ = [
    "BUILD_ROOT",
    "HOME",
    "READABLE",
    "STAGE_ROOT",
    "attempt_environment",
    "build_directory",
    "forget_readable_script",
    "fresh_tree_script",
    "readable_script",
    "with_wrappers",
    "wrapper_script",
]

HOME = "/workspace/home"
BUILD_ROOT = "/workspace/build"
STAGE_ROOT = "/workspace/stage"
READABLE = "readable"
"""Below the workspace: root's copies of trees of which the host may not read all."""
_WRAPPERS = f"{HOME}/wrappers"

_C_COMPILERS = ("cc", "gcc", "gcc-14", "riscv64-linux-gnu-gcc", "c99", "c89", "clang")
_CXX_COMPILERS = ("c++", "g++", "g++-14", "riscv64-linux-gnu-g++", "clang++")


def attempt_environment(tweak: Tweak) -> dict[str, str]:
    """Return the environment of a build's steps."""
    environment = {
        "HOME": HOME,
        "LC_ALL": "C.UTF-8",
        "TERM": "dumb",
        "CI": "true",
        "GIT_TERMINAL_PROMPT": "0",
        "GOTOOLCHAIN": "local",
        "GOTELEMETRY": "off",
        # Gone with the sandbox; the image may bring the standard library compiled.
        "GOCACHE": "/home/builder/.cache/go-build",
        "CARGO_TERM_COLOR": "never",
        "CARGO_HOME": f"{HOME}/.cargo",
        "FORCE_UNSAFE_CONFIGURE": "1",
        "ATESOR_STAGE": STAGE_ROOT,
    }
    environment.update(tweak.environment)
    return environment


def build_directory(name: str, directory: str = "") -> str:
    """Return where the package ``name`` is built, or ``directory`` of its tree."""
    return "/".join(one for one in (BUILD_ROOT, name, directory) if one)


def fresh_tree_script(name: str, *, same_times: bool) -> str:
    """Return builder's script that makes ``/workspace/build/<name>`` a clean copy of the fetched tree.

    With ``same_times`` every file gets one time stamp: a checkout has random ones, which make generated files
    look outdated and start a regeneration that nobody asked for.
    """
    target = quote(build_directory(name))
    touch = (
        f"find {target} -not -path '*/.git/*' -exec touch -h -d @1600000000 {{}} +\n" if same_times else ""
    )
    return (
        f"rm -rf {BUILD_ROOT}/* {BUILD_ROOT}/.[!.]* {STAGE_ROOT}/* {_WRAPPERS}\n"
        f"cp -a --reflink=auto {quote(f'/workspace/src/{name}')} {target}\n{touch}"
    )


def readable_script(places: Sequence[str]) -> str:
    """Return root's script that makes a copy below ``readable/`` that everybody may read.

    ``places`` are paths relative to the workspace, ``stage`` or below ``src`` or ``build``; what is absent is
    left out. A file that everybody may read already gets a second name there instead of a copy. No link is
    followed. However many files are closed, a few processes copy them: each takes long under emulation.
    """
    return (
        f"umask 022\n{forget_readable_script(places)}mkdir -p {READABLE}/src {READABLE}/build\n"
        + "".join(_copy_script(one) for one in places)
        + f"find {READABLE} -type d ! -perm -555 -exec chmod a+rx {{}} +\n"
    )


def _copy_script(place: str) -> str:
    above, _, name = place.rpartition("/")
    original, target, copy = quote(place), quote(f"{READABLE}/{above}"), quote(f"{READABLE}/{place}")
    closed = "-type f ! -perm -444"
    # second names of closed files go before anything is opened, so that only copies are
    return f"""
if [ -e {original} ]; then
  cp -al -- {original} {copy}
  find {copy} {closed} -delete
  target=$PWD/{target}
  (cd {quote(above or ".")} && find {quote(name)} {closed} -exec cp -dp --parents -t "$target" -- {{}} +)
  find {copy} {closed} -exec chmod a+r {{}} +
fi
"""


def forget_readable_script(places: Sequence[str]) -> str:
    """Return root's script that removes what ``readable_script`` made of ``places``."""
    return f"rm -rf --{words(f'{READABLE}/{one}' for one in places)}\n"


def wrapper_script(tweak: Tweak) -> str:
    """Return builder's script that puts a wrapper in front of every compiler; "" when no fix needs one."""
    if not (tweak.compiler_add or tweak.compiler_drop or tweak.c_add or tweak.cxx_add):
        return ""
    return f"mkdir -p {_WRAPPERS}\n" + "".join(
        _one_wrapper(name, tweak.compiler_drop, for_language, tweak.compiler_add)
        for names, for_language in ((_C_COMPILERS, tweak.c_add), (_CXX_COMPILERS, tweak.cxx_add))
        for name in names
    )


def _one_wrapper(
    name: str, drop: tuple[str, ...], for_language: tuple[str, ...], add: tuple[str, ...]
) -> str:
    patterns = "|".join(_shell_pattern(one) for one in drop)
    choose = (
        f'for one; do shift; case $one in {patterns}) ;; *) set -- "$@" "$one";; esac; done\n'
        if patterns
        else ""
    )
    # An assembler source is preprocessed too, and a C header in it is a syntax error.
    choose += (
        f'case " $* " in *.[Ss]" "*|*assembler*) ;; *) set -- "$@"{words(for_language)};; esac\n'
        if for_language
        else ""
    )
    real = {"clang": "gcc", "clang++": "g++"}.get(name, name)
    return (
        f"if [ -x /usr/bin/{real} ]; then cat > {_WRAPPERS}/{name} <<'WRAPPER'\n#!/bin/sh\n{choose}"
        f'exec /usr/bin/{real} "$@"{words(add)}\nWRAPPER\nchmod +x {_WRAPPERS}/{name}; fi\n'
    )


def _shell_pattern(flag: str) -> str:
    """Quote a flag for ``case`` but keep a trailing asterisk as a pattern."""
    return f"{quote(flag[:-1])}*" if flag.endswith("*") else quote(flag)


def with_wrappers(script: str) -> str:
    """Return ``script`` with the compilers' wrappers in front of PATH, where there are any."""
    return f'PATH="{_WRAPPERS}:$PATH"; export PATH\n{script}'
