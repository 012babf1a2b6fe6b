"""Small text pieces that several builders put into their scripts."""

import shlex
from collections.abc import Iterable

from pytest_atesor.porter.builders.interface import STAGE, BuildOptions, Step, Suite

__all__ = [
    "BSD_MAKE",
    "depth_penalty",
    "limit_download",
    "make_program",
    "make_suites",
    "quote",
    "staged_install",
    "words",
]

BSD_MAKE = "bsd-make"
"""The ``prepare`` word that builds with BSD's make, for Makefiles that GNU make cannot read."""

_INSTALL_SECONDS = 300
"""How long an optional installation into the staging directory may take."""


def words(values: Iterable[str]) -> str:
    """Quote words for the shell and join them, with a leading blank when there are any."""
    return "".join(f" {shlex.quote(value)}" for value in values)


def quote(value: str) -> str:
    """Quote one word for the shell."""
    return shlex.quote(value)


def depth_penalty(directory: str) -> int:
    """Return how much rank a candidate loses for not lying at the root."""
    return 0 if not directory else 30 + 4 * directory.count("/")


def staged_install(command: str) -> Step:
    """Return the optional step that installs into the staging directory.

    It only helps to find the artifacts.
    """
    return Step(
        name="install",
        script=f"timeout {_INSTALL_SECONDS} {command.replace('STAGE', STAGE)}",
        required=False,
    )


def limit_download(command: str, limit_s: int, what: str) -> str:
    """Return the script of a download that ends after ``limit_s`` seconds and then says so.

    ``timeout`` itself ends without a word; ``what`` names in the plural what was to come.
    """
    late = f"echo 'error: the {what} were not downloaded within {limit_s} s'"
    # busybox's has the code of the signal
    return f"timeout {limit_s} {command} || {{ code=$?; case $code in 124|143) {late};; esac; exit $code; }}"


def make_program(options: BuildOptions) -> str:
    """Return the make that reads the project's Makefiles."""
    return "bmake" if BSD_MAKE in options.tweak.prepare else "make"


def make_suites(make: str, file: str = "Makefile") -> tuple[Suite, ...]:
    """Return the usual goals that run tests; ``make`` is the command line, ``file`` where the rules are."""
    program = make.partition(" ")[0]
    return tuple(
        Suite(
            framework="make",
            command=f"{program} {goal}",
            probe=f"grep -Eqs '^([A-Za-z0-9_.-]+ +)*{goal}( +[A-Za-z0-9_.-]+)* *::?([^=:]|$)' {quote(file)}",
            script=f"{make} -k {goal}",
        )
        for goal in ("check", "test", "tests")
    )
