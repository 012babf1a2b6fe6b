"""Finds the machine that tests of the native target run on.

ATESOR_TEST_NATIVE names it: "here" for an ssh server on this one, a directory of tools/riscv_machine.py whose
machine runs, or a host of the user's ssh configuration. Other settings of native batches are the user's.
"""

import os
import shutil
from pathlib import Path

from ssh_server import SSHD, Server, make_server

from pytest_atesor.core.plan import Platform
from pytest_atesor.sandbox.engines.podman import PodmanEngine
from pytest_atesor.sandbox.image import ensure_image
from pytest_atesor.sandbox.slots import state_directory

NAMED = os.environ.get("ATESOR_TEST_NATIVE", "")
OWN = ("ATESOR_SSH_", "ATESOR_NATIVE_", "ATESOR_REMOTE_WORKDIR")


def find_machine(place: Path) -> dict[str, str]:
    """Return the environment in which a native batch finds the machine."""
    given = {name: value for name, value in os.environ.items() if name.startswith(OWN)}
    if NAMED == "here":
        return make_here(place)[1]
    config = Path(NAMED).absolute() / "ssh_config"
    if not config.is_file():
        return {"ATESOR_SSH_HOST": NAMED, **given}
    programs = place / "bin"
    programs.mkdir()
    client = programs / "ssh"
    client.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F "{config}" "$@"\n', encoding="utf-8")
    client.chmod(0o755)
    return {
        "ATESOR_SSH_HOST": "riscv-machine",
        "ATESOR_NATIVE_ALLOW": "virtual",
        **given,
        "PATH": f"{programs}:{os.environ['PATH']}",
    }


def make_here(place: Path) -> tuple[Server, dict[str, str]]:
    """Return an ssh server on this machine, and the environment in which batches find it."""
    assert SSHD is not None, "sshd is not installed; apt-get install openssh-server"
    given = {name: value for name, value in os.environ.items() if name.startswith(OWN)}
    server = make_server(place)
    image = ensure_image(PodmanEngine(), Platform.DEBIAN, state=state_directory(os.environ), progress=print)
    settings = {name: value for name, value in server.environ.items() if name.startswith("ATESOR_")}
    path = f"{server.programs}:{os.environ['PATH']}"
    return server, {"ATESOR_NATIVE_IMAGE": image, **settings, **given, "PATH": path}
