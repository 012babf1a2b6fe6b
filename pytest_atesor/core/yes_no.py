"""The words for yes and no that flags take from variables and ini files."""

from typing import Final

from pytest_atesor.errors import UsageError

__all__ = ["parse_yes_no"]

_YES: Final = frozenset({"1", "true", "yes", "on"})
_NO: Final = frozenset({"", "0", "false", "no", "off"})


def parse_yes_no(text: str, origin: str) -> bool:
    """Return whether a value says yes, in whatever case. Raises UsageError for one that says neither."""
    word = text.strip().lower()
    if word not in _YES | _NO:
        raise UsageError(f"bad value {text[:80]!r} of {origin}; use 1 or 0")
    return word in _YES
