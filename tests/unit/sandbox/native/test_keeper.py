"""The keeper at the far end of a connection: what it removes, for whom it waits, and whom it leaves alone."""

import contextlib
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from importlib.resources import files
from pathlib import Path

import pytest

from pytest_atesor.sandbox.native.link import KEEPER_LABEL
from tests.unit.processes import LIMIT_S

BATCH = "token-of-this-test"
PODMAN = """\
#!/bin/sh
echo "$1" >> "$LOG"
case $1 in ps) echo 1234 ;; container) echo 1234 /nowhere ;; esac
"""
SHELLS = [shell for shell in ("sh", "busybox") if shutil.which(shell)]


class Machine:
    """The far end: a home, keepers in it, and a podman that writes down what it is asked for."""

    def __init__(self, root: Path, shell: str, stack: contextlib.ExitStack) -> None:
        self.root = root
        self.shell = shell
        self._stack = stack
        (root / "podman").write_text(PODMAN)
        (root / "podman").chmod(0o755)
        self.script = root / "keeper.sh"
        self.script.write_bytes(files("pytest_atesor.resources").joinpath("native/keeper.sh").read_bytes())

    def start(self, *argv: str) -> "subprocess.Popen[bytes]":
        """Start a program that gets its input from us."""
        path = f"{self.root}:{os.environ['PATH']}"
        process = self._stack.enter_context(
            subprocess.Popen(
                argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={"PATH": path, "HOME": str(self.root), "LOG": str(self.root / "log")},
                bufsize=0,
            )
        )
        self._stack.callback(process.kill)
        return process

    def keep(self) -> "subprocess.Popen[bytes]":
        """Start a keeper of the batch and wait until it stands."""
        shell = ["busybox", "sh"] if self.shell == "busybox" else [self.shell]
        keeper = self.start(*shell, str(self.script), BATCH, "600", KEEPER_LABEL)
        assert keeper.stdout is not None
        assert keeper.stdout.readline() == b"ready\n"
        return keeper

    def make(self) -> "subprocess.Popen[bytes]":
        """Start what makes a sandbox of the batch until its input ends."""
        return self.start("sh", "-c", "read nothing", "podman", "--label", f"{KEEPER_LABEL}={BATCH}")

    def removals(self) -> int:
        """Count what podman was asked to remove."""
        log = self.root / "log"
        return log.read_text().split().count("rm") if log.exists() else 0


@pytest.fixture(params=SHELLS)
def machine(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Machine]:
    with contextlib.ExitStack() as stack:
        yield Machine(tmp_path, request.param, stack)


def end_input(process: "subprocess.Popen[bytes]") -> None:
    assert process.stdin is not None
    process.stdin.close()


def wait_until(is_so: Callable[[], bool]) -> None:
    give_up = time.monotonic() + LIMIT_S
    while not is_so():
        assert time.monotonic() < give_up
        time.sleep(0.05)


def test_the_good_end_waits_for_what_is_still_being_made(machine: Machine) -> None:
    maker, keeper = machine.make(), machine.keep()
    assert keeper.stdin is not None
    assert keeper.stdout is not None
    keeper.stdin.write(b".")
    assert keeper.stdout.readline() == b".\n"
    keeper.stdin.write(b"q")
    wait_until(lambda: machine.removals() == 1)
    assert keeper.poll() is None
    end_input(maker)
    assert keeper.stdout.readline() == b"bye\n"
    assert keeper.wait(LIMIT_S) == 0
    assert machine.removals() == 2


def test_one_that_waits_leaves_what_another_of_its_batch_cares_for(machine: Machine) -> None:
    maker, lost = machine.make(), machine.keep()
    end_input(lost)
    wait_until(lambda: machine.removals() == 1)
    machine.keep()
    end_input(maker)
    assert lost.wait(LIMIT_S) == 0
    assert machine.removals() == 1
