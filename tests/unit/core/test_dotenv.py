"""Names in ``.env`` that are almost ours, and the list of those that are."""

import re
from pathlib import Path

import pytest

import pytest_atesor
from pytest_atesor.core.dotenv import describe_mistyped
from pytest_atesor.option_table import INTERNAL_VARIABLES, VARIABLES

ROOT = Path(pytest_atesor.__file__).parent


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("ATESOR_PLATFROM", "ATESOR_PLATFORM"),
        ("ATESOR_NO_ACCELLERATION", "ATESOR_NO_ACCELERATION"),
        ("ATESOR_STATE_DIRECTORY", "ATESOR_STATE_DIR"),
        ("ATESOR_SSH_HOSTS", "ATESOR_SSH_HOST"),
        ("atesor_platform", "ATESOR_PLATFORM"),
    ],
)
def test_a_mistyped_name_is_told_with_the_one_that_was_meant(name: str, meant: str) -> None:
    assert list(describe_mistyped([name], VARIABLES)) == [
        f"nothing reads {name} in .env; did you mean {meant}?"
    ]


def test_the_names_of_others_are_left_alone() -> None:
    others = ["ATESOR_ROBOT_MODEL", "PLATFORM", "HTTP_PROXY", "ATESOR_"]
    names = [*VARIABLES, *INTERNAL_VARIABLES, *others]
    assert list(describe_mistyped(names, VARIABLES, INTERNAL_VARIABLES)) == []


def test_every_variable_that_is_read_is_known() -> None:
    named = re.compile(r"\b(ATESOR_[A-Z_]*[A-Z])\b")
    read = {name for path in ROOT.rglob("*.py") for name in named.findall(path.read_text("utf-8"))}
    assert read - INTERNAL_VARIABLES <= VARIABLES
    assert "ATESOR_TESTS" in read
