"""Fixtures of the plugin's tests."""

from pathlib import Path

import pytest
from lab import Lab

# pytester forgets, after each test, what was imported during it; these are slow to import again and again.
import pytest_atesor.intake.entry  # noqa: F401 - for the reason above
import pytest_atesor.reports.table  # noqa: F401 - the same


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path / "root")


@pytest.fixture(scope="module")
def module_lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    return Lab(tmp_path_factory.mktemp("lab") / "root")
