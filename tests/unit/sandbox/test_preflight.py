import shutil
from pathlib import Path

import pytest

from pytest_atesor.errors import SetupError
from pytest_atesor.sandbox.preflight import check_space


def test_enough_space_is_silent(tmp_path: Path) -> None:
    check_space(tmp_path, 1, "advice")


def test_too_little_space_names_the_place_and_the_advice(tmp_path: Path) -> None:
    needed = shutil.disk_usage(tmp_path).free + 10**12
    with pytest.raises(
        SetupError, match=rf"too little space in {tmp_path}: .* GB free, .* GB needed; do this$"
    ):
        check_space(tmp_path, needed, "do this")
