"""A plugin for the runs of pytest that we start.

It sees whether pytest took its command line, and tells the batch how the flags were typed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_atesor.spelling import SPELLINGS

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Witness"]


class Witness:
    """Knows whether pytest got as far as its plugins; before that, exit code 4 is its own word.

    ``spellings`` are the flags of the command that was typed, by pytest's.
    """

    def __init__(self, spellings: Mapping[str, str]) -> None:
        self.has_begun = False
        self._spellings = spellings

    @pytest.hookimpl(tryfirst=True)
    def pytest_cmdline_main(self, config: pytest.Config) -> None:
        """Take note."""
        self.has_begun = True
        config.stash[SPELLINGS] = self._spellings
