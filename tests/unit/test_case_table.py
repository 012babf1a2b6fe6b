"""The table of public reports names tests that exist."""

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
ROWS = [line for line in (TESTS / "README.md").read_text().splitlines() if re.match(r"\| \d+ \|", line)]


def test_every_row_is_there() -> None:
    assert [row.split("|")[1].strip() for row in ROWS] == [str(number) for number in range(1, 25)]


@pytest.mark.parametrize("row", ROWS, ids=[row.split("|")[1].strip() for row in ROWS])
def test_a_row_names_tests_that_exist(row: str) -> None:
    names = re.findall(r"`([^`]*(?:\.py|::)[^`]*)`", row)
    assert names
    path = ""
    for name in names:
        file, _, function = name.partition("::")
        path = file or path
        text = (TESTS / path).read_text()
        assert not function or f"def {function}(" in text, f"{path} has no {function}"
