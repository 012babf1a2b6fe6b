"""The words that a tree's build files speak; they settle between packages that have the same file."""

import re

from pytest_atesor.porter.tree import Tree

__all__ = ["build_file_words"]

_BUILD_FILE = re.compile(
    r"(^|/)(CMakeLists\.txt|[^/]*\.cmake|meson\.build|configure\.(ac|in)|(GNU)?[Mm]akefile(\.(am|in))?|[^/]*\.mk)$"
)
_SPOKEN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_+.-]*[A-Za-z0-9+]")
_MOST_BUILD_FILES = 40


def build_file_words(tree: Tree) -> frozenset[str]:
    """Return the words, in lower case, of the build files in the first two levels of ``tree``."""
    names = [one for one in tree.files if one.count("/") <= 1 and _BUILD_FILE.search(one)]
    return frozenset(
        word.lower() for name in names[:_MOST_BUILD_FILES] for word in _SPOKEN.findall(tree.text(name))
    )
