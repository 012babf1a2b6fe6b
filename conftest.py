"""The suite's own plugins: pytester runs the batches of tests/plugin. And what may run at the same time."""

from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

_ROOT = Path(__file__).parent
# A batch that starts removes what a dead one left, so these would meet each other's sandboxes.
_BATCHES_ON_ENGINES = ("tests/cases/", "tests/e2e/test_host_batch.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the tests of a file in one worker, and in the same one all batches that own real sandboxes."""
    for item in items:
        file = item.path.relative_to(_ROOT).as_posix() if item.path.is_relative_to(_ROOT) else str(item.path)
        group = "batches-on-engines" if file.startswith(_BATCHES_ON_ENGINES) else file
        item.add_marker(pytest.mark.xdist_group(group))
