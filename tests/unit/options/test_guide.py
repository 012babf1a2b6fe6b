from pathlib import Path

import pytest

from pytest_atesor.option_table import OPTIONS, Option

GUIDE = (Path(__file__).parents[3] / "docs" / "guide.md").read_text("utf-8")


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name)
def test_the_guide_names_every_option_and_its_variable(option: Option) -> None:
    assert f"`{option.flag}" in GUIDE
    assert option.is_order or f"`{option.env}`" in GUIDE
