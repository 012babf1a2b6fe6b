"""How many workers a native batch has: what the machine says, in one call."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from pytest_atesor.plugin import pytest_xdist_auto_num_workers
from pytest_atesor.sandbox.native.preflight import read_workers
from pytest_atesor.sandbox.native.probe import decide_workers, parse_size

if TYPE_CHECKING:
    from ssh_server import Server

LIST = '{"$schema_version": 1, "packages": [{"name": "x", "url": "https://example.org/x"}]}'


def test_the_machine_s_cores_and_memory_decide(server: "Server") -> None:
    here = decide_workers(len(os.sched_getaffinity(0)), psutil.virtual_memory().total // 1024)
    assert read_workers(server.environ) == here


def test_n_auto_asks_the_machine_in_one_call(
    server: "Server", pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (server.directory / "sshd_config").open("a", encoding="utf-8") as file:
        file.write(f"ForceCommand echo call >> {server.directory}/calls; echo 64; echo 131072000\n")
    for name, value in server.environ.items():
        if name.startswith("ATESOR_"):
            monkeypatch.setenv(name, value)
    pytester.path.joinpath("x.json").write_text(LIST, encoding="utf-8")
    monkeypatch.delenv("ATESOR_ENGINE", raising=False)
    native = pytester.parseconfig("--atesor-list=./x.json", "--atesor-target=native")
    assert pytest_xdist_auto_num_workers(native) == 31
    assert (server.directory / "calls").read_text(encoding="utf-8") == "call\n"
    emulated = pytester.parseconfig("--atesor-list=./x.json", "--atesor-target=qemu")
    assert pytest_xdist_auto_num_workers(emulated) is None
    assert pytest_xdist_auto_num_workers(pytester.parseconfig()) is None


@pytest.mark.parametrize("answer", ["", "no such file", "0\n4000000", "4", "4\n\n"], ids=str)
def test_an_answer_that_is_none_is_no_number(answer: str) -> None:
    assert parse_size(answer) is None


def test_words_of_a_login_shell_before_the_answer_are_skipped() -> None:
    assert parse_size("Welcome to board\n4\n17000000\n") == 4


def test_a_machine_that_cannot_be_reached_tells_nothing(server: "Server", tmp_path: Path) -> None:
    assert tmp_path.is_dir()
    (server.directory / "key.pub").write_text("", encoding="utf-8")
    assert read_workers(server.environ) is None
