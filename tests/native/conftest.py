"""Batches on the machine that ATESOR_TEST_NATIVE names (see machines.py); without it, no test is here."""

from collections.abc import Iterator

import pytest
from machines import NAMED, find_machine
from native_lab import NativeLab

collect_ignore_glob = [] if NAMED else ["test_*.py"]


@pytest.fixture(scope="session")
def machine(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return find_machine(tmp_path_factory.mktemp("machine"))


@pytest.fixture(scope="module")
def native_lab(tmp_path_factory: pytest.TempPathFactory, machine: dict[str, str]) -> Iterator[NativeLab]:
    lab = NativeLab(tmp_path_factory.mktemp("native") / "root", machine)
    yield lab
    assert lab.left_here() == []
