import os
from pathlib import Path

import pytest

from pytest_atesor.control.phase import PhaseReader


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "run.log"


def add(log: Path, text: str) -> None:
    with log.open("a") as file:
        file.write(text)


def test_a_log_is_followed_and_read_once_a_second(log: Path) -> None:
    reader = PhaseReader(log)
    assert reader.read(10.0) == ""
    add(log, "==> [   0.1 s] fetch\n")
    assert reader.read(10.5) == ""
    assert reader.read(11.5) == "fetch"
    add(log, "x" * 400 + "\n==> [   2.0 s] bu")
    assert reader.read(20.0) == "fetch"
    add(log, "ild\n" + "make\n" * 30_000)
    assert reader.read(30.0) == "build"
    add(log, "make\n" * 1_000_000)
    assert reader.read(40.0) == "build"


@pytest.mark.parametrize("kind", ["a pipe", "a link", "a directory"])
def test_a_log_that_is_no_file_is_neither_followed_nor_waited_for(log: Path, kind: str) -> None:
    if kind == "a pipe":
        os.mkfifo(log)
    elif kind == "a link":
        (log.parent / "other").write_text("==> [   0.1 s] secret\n")
        log.symlink_to(log.parent / "other")
    else:
        log.mkdir()
    assert PhaseReader(log).read(10.0) == ""
