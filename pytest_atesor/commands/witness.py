"""A plugin for the runs of pytest that we start: it sees whether pytest took its command line."""

from __future__ import annotations

import pytest

__all__ = ["Witness"]


class Witness:
    """Knows whether pytest got as far as its plugins; before that, exit code 4 is its own word."""

    def __init__(self) -> None:
        self.has_begun = False

    @pytest.hookimpl(tryfirst=True)
    def pytest_cmdline_main(self) -> None:
        """Take note."""
        self.has_begun = True
