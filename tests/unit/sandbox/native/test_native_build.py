"""A build on the machine, by a podman there that does what the test says, at the other end of a real ssh."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_atesor.errors import SandboxError
from pytest_atesor.sandbox.interface import ImageBuild
from pytest_atesor.sandbox.native.engine import NativeEngine
from pytest_atesor.sandbox.native.session import Session
from tests.unit.processes import LIMIT_S

if TYPE_CHECKING:
    from ssh_server import Server


class Lab:
    """A machine whose podman is a script; what it builds is said line by line."""

    def __init__(self, server: "Server", place: Path) -> None:
        self.place = place
        self.log = place / "build.log"
        self.work = place / "work"
        self.work.mkdir()
        self._podman = place / "there" / "podman"
        self._podman.parent.mkdir()
        config = server.directory / "sshd_config"
        plain = config.read_text(encoding="utf-8")
        config.write_text(f"{plain}SetEnv PATH={self._podman.parent}:/usr/bin:/bin\n", encoding="utf-8")
        session = Session(
            directory=str(place),
            host="board",
            config=None,
            token="t",  # noqa: S106 - a mark, no secret
            owner="0a1b2c3d",
            work=str(self.work),
            image="",
            image_id="",
            podman="5.4.2",
            is_rootless=True,
            options=(),
            unenforced=(),
        )
        self.engine = NativeEngine(session)

    def build(
        self, podman: str, *, timeout_s: float = LIMIT_S, on_line: Callable[[str], None] = print
    ) -> None:
        """Build with that script in the place of podman."""
        self._podman.write_text(f"#!/bin/sh\n{podman}\n", encoding="utf-8")
        self._podman.chmod(0o755)
        recipe = self.place / "context"
        recipe.mkdir(exist_ok=True)
        (recipe / "Containerfile").write_text("FROM nothing\n", encoding="utf-8")
        self.engine.build_image(
            ImageBuild(
                tag="localhost/x:y",
                containerfile=recipe / "Containerfile",
                context=recipe,
                host_platform=None,
                arguments={},
                labels={},
                log=self.log,
                timeout_s=timeout_s,
                on_line=on_line,
            )
        )


@pytest.fixture
def lab(server: "Server", tmp_path: Path) -> Lab:
    return Lab(server, tmp_path)


def test_what_a_build_says_is_shown_and_logged_as_it_comes(lab: Lab) -> None:
    go = lab.place / "go"
    lines: list[str] = []
    logged: list[str] = []

    def take(line: str) -> None:
        lines.append(line)
        logged.append(lab.log.read_text(encoding="utf-8"))
        go.touch()

    waiting = (
        f"n=0; while [ ! -e {go} ]; do n=$((n + 1)); [ $n -lt {LIMIT_S * 10:.0f} ] || exit 9; sleep 0.1; done"
    )
    lab.build(f"cat recipe/Containerfile; {waiting}; echo two >&2", on_line=take)
    assert lines == ["FROM nothing\n", "two\n"]
    assert (logged[0], lab.log.read_text(encoding="utf-8")) == ("FROM nothing\n", "FROM nothing\ntwo\n")


def test_a_build_that_takes_too_long_ends_there_and_lets_the_next_one_in(lab: Lab) -> None:
    with pytest.raises(SandboxError) as caught:
        lab.build("echo begun; exec sleep 3600", timeout_s=1)
    assert str(caught.value) == f"native: the build took more than 1 s; see {lab.log}"
    lab.build("echo the next")
    assert lab.log.read_text(encoding="utf-8") == "the next\n"


def test_a_build_that_fails_names_its_code_and_its_log(lab: Lab) -> None:
    with pytest.raises(SandboxError) as caught:
        lab.build("exit 125")
    assert str(caught.value) == f"native: podman build ended with 125; see {lab.log}"


def test_a_connection_that_is_lost_during_a_build_is_said(lab: Lab) -> None:
    with pytest.raises(SandboxError) as caught:
        lab.build("exit 255")  # ssh's own word for it
    assert str(caught.value) == f"native: the connection to board was lost during the build; see {lab.log}"


def test_a_log_that_cannot_be_written_is_said(lab: Lab) -> None:
    lab.log.mkdir()
    with pytest.raises(SandboxError, match=r"native: the build failed \(.*Is a directory.*\); see "):
        lab.build("true")
