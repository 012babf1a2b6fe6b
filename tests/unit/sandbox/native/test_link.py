"""The open connection: shared by all commands, noticed when it is lost, made again; the keeper cleans up."""

import contextlib
import queue
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from pytest_atesor.errors import SetupError
from pytest_atesor.sandbox.native.connection import Connection
from pytest_atesor.sandbox.native.link import CONNECTED, Link, Pace
from tests.unit.processes import LIMIT_S, find_children

if TYPE_CHECKING:
    from ssh_server import Server

PATIENT = Pace(ask_s=0.1, answer_s=LIMIT_S, silence_s=int(LIMIT_S), open_s=LIMIT_S, again_s=0.1)
QUICK = replace(PATIENT, answer_s=10.0)
"""Notices what hangs; what it takes for hanging must not be a machine that stands still for a while."""


class Batch:
    """A link with what it says, one line after the other."""

    def __init__(self, directory: Path, pace: Pace = PATIENT) -> None:
        self.lines: queue.Queue[str] = queue.Queue()
        self.connection = Connection(host="board", control=directory / "control", trips=directory / "trips")
        self.directory = directory
        self.losses = 0
        self.is_refusing = False
        self.refusals: queue.Queue[OSError] = queue.Queue()
        self.link = Link(
            self.connection,
            "token-1",
            say=self.lines.put,
            on_loss=self.lose,
            restore=self.restore,
            pace=pace,
        )

    def lose(self) -> None:
        self.losses += 1

    def restore(self) -> None:
        try:
            if self.is_refusing:
                raise FileExistsError(self.directory)
            self.directory.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            self.refusals.put(error)
            raise

    def client(self) -> psutil.Process:
        """Return the client that holds the connection."""
        (client,) = find_children("ControlMaster=yes")
        return client

    def hear(self, words: str) -> None:
        """Wait until the link has said that."""
        while words not in self.lines.get(timeout=2 * LIMIT_S):
            pass


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory with a short name: a socket's may have a hundred letters."""
    with tempfile.TemporaryDirectory(prefix="link-") as directory:
        yield Path(directory)


@pytest.fixture
def batch(server: "Server", place: Path) -> Iterator[Batch]:
    assert server.directory.is_dir()
    batch = Batch(place)
    with batch.link:
        yield batch


def test_commands_are_channels_of_the_one_connection(batch: Batch, server: "Server") -> None:
    (server.directory / "key.pub").write_text("", encoding="utf-8")  # nobody could log in any more
    assert batch.connection.script("echo $((6 * 7))", timeout_s=LIMIT_S).stdout == b"42\n"


def test_a_connection_that_was_killed_is_made_again(batch: Batch) -> None:
    batch.client().kill()
    batch.hear("is lost")
    batch.hear("again")
    assert batch.connection.script("echo here", timeout_s=LIMIT_S).stdout == b"here\n"


@pytest.mark.parametrize("whose", ["client", "server"])
def test_one_that_hangs_is_noticed_and_made_again(server: "Server", place: Path, whose: str) -> None:
    batch = Batch(place, QUICK)
    with batch.link:
        client = batch.client()
        stopped = [client] if whose == "client" else server.servers_of(client)
        for process in stopped:
            with contextlib.suppress(psutil.NoSuchProcess):  # what served the login only
                process.send_signal(signal.SIGSTOP)
        batch.hear("is lost")
        batch.hear("again")
        assert batch.connection.script("echo here", timeout_s=LIMIT_S).stdout == b"here\n"
    for process in stopped:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()


def test_a_connection_whose_files_were_removed_is_made_again_with_them(batch: Batch, place: Path) -> None:
    shutil.rmtree(place)
    batch.hear("is lost")
    batch.hear("again")
    assert (batch.losses, (place / CONNECTED).exists()) == (1, True)
    assert batch.connection.script("echo here", timeout_s=LIMIT_S).stdout == b"here\n"


def put_a_link(place: Path) -> None:
    """Let nobody say whether anything is below ``place``: where its link leads is too long a name."""
    place.symlink_to("x" * 300)


@pytest.mark.parametrize("put", [Path.touch, put_a_link], ids=["a-file", "what-cannot-be-looked-at"])
def test_a_link_outlives_a_place_that_cannot_be_made_again(
    batch: Batch, place: Path, put: Callable[[Path], None]
) -> None:
    aside = place.with_name(f"{place.name}-aside")
    batch.is_refusing = True  # from before it is gone: the link is another thread
    place.rename(aside)
    try:
        put(place)
        for _ in range(3):
            batch.refusals.get(timeout=LIMIT_S)
        place.unlink()
        batch.is_refusing = False
        batch.hear("again")
    finally:
        shutil.rmtree(aside)
    assert batch.losses == 1
    assert batch.connection.script("echo here", timeout_s=LIMIT_S).stdout == b"here\n"


def test_a_mark_alone_that_was_removed_is_set_again(batch: Batch, place: Path) -> None:
    (place / CONNECTED).unlink()
    give_up = time.monotonic() + LIMIT_S
    while not (place / CONNECTED).exists() and time.monotonic() < give_up:
        time.sleep(0.02)
    assert ((place / CONNECTED).exists(), batch.losses) == (True, 0)


def test_nobody_needs_to_listen(server: "Server", place: Path) -> None:
    assert server.directory.is_dir()
    batch = Batch(place)

    def complain(line: str) -> None:
        batch.lines.put(line)
        raise BrokenPipeError(line)

    batch.link = Link(batch.connection, "token-1", say=complain, pace=PATIENT)
    with batch.link:
        batch.client().kill()
        batch.hear("is lost")
        batch.hear("again")
        assert batch.connection.script("echo here", timeout_s=LIMIT_S).stdout == b"here\n"


@pytest.mark.usefixtures("server")
def test_a_closed_link_leaves_neither_client_nor_socket(place: Path) -> None:
    batch = Batch(place)
    batch.link.open()
    client = batch.client()
    batch.link.close()
    batch.link.close()
    assert not client.is_running()
    assert not (place / "control").exists()


def test_a_machine_that_refuses_is_said_at_once(server: "Server", place: Path) -> None:
    (server.directory / "key.pub").write_text("", encoding="utf-8")
    with pytest.raises(SetupError, match="ssh-add"):
        Batch(place).link.open()
