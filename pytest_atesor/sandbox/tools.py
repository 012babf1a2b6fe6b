"""Which tools of a sandbox are programs of the host's own architecture: how to ask for them."""

from collections.abc import Iterable
from typing import Final

__all__ = ["ASK_TOOLS", "parse_native_tools"]

# The image's list tells what may be native; the links and wrappers in the places of programs tell what is.
# Installing a package may take Perl back.
ASK_TOOLS: Final = """
[ -f /native/tools ] || exit 0
cat /native/tools
echo
find /usr/bin /usr/local/bin -maxdepth 1 -lname '/native/usr/bin/*' -printf '%f\\n'
grep -ls /native/usr/bin /usr/local/bin/go /usr/local/bin/rustc /usr/bin/meson | sed 's,.*/,,'
"""
"""A shell script for root, whom nothing that the builder left running can answer for."""


def parse_native_tools(text: str) -> dict[str, str]:
    """Return package to version from lines "PROGRAM PACKAGE VERSION", a blank one, and the programs there."""
    listed, _, used = text.partition("\n\n")
    return _select(listed.splitlines(), frozenset(used.split()))


def _select(lines: Iterable[str], used: frozenset[str]) -> dict[str, str]:
    found = {}
    for program, package, version in (words for line in lines if len(words := line.split()) == 3):  # noqa: PLR2004 - as above
        if program in used:
            found[package] = version
    return dict(sorted(found.items()))
