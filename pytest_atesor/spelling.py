"""How the flags of a batch are spelled where ``atesor`` started pytest: errors name those that were typed."""

import re
from collections.abc import Mapping
from typing import Final

import pytest

__all__ = ["SPELLINGS", "spell_as_typed"]

SPELLINGS: Final = pytest.StashKey[Mapping[str, str]]()
"""The flags of the command that was typed, by the flags of pytest that it translates them to."""

_FLAG: Final = re.compile(r"--atesor(?:-[a-z]+)+")


def spell_as_typed(text: str, config: pytest.Config) -> str:
    """Return ``text`` with the flags of the command that was typed in place of pytest's."""
    spellings = config.stash.get(SPELLINGS, {})
    return _FLAG.sub(lambda found: spellings.get(found[0], found[0]), text)
