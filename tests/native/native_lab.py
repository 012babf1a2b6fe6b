"""Batches on a native machine, with sources that only this one has."""

import getpass
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from pytest_atesor.sandbox.native.session import make_owner

sys.path.insert(0, str(Path(__file__).parents[1] / "plugin"))

from lab import Lab

PATIENCE_S = 2400


class NativeLab(Lab):
    """A rootdir whose batches run on the machine, with sources that only this one has."""

    def __init__(self, root: Path, machine: dict[str, str]) -> None:
        super().__init__(root)
        self.machine = machine

    def environment(self, **more: str) -> dict[str, str]:
        plain = super().environment(**self.machine, ATESOR_TARGET="native", **more)
        base = f"url.file://{self.root}/sources/.insteadOf"
        plain |= {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": base}
        plain |= {"GIT_CONFIG_VALUE_0": "https://example.invalid/"}
        return {name: value for name, value in plain.items() if name not in {"ATESOR_AGENT", "ATESOR_ENGINE"}}

    def write_projects(self, name: str, seconds: dict[str, int]) -> None:
        """Write packages/NAME.json with a project for each key; its build takes that many seconds."""
        packages = dict.fromkeys(seconds, "x")
        more = {
            project: {"url": f"https://example.invalid/{project}", "max_attempts": 1} for project in seconds
        }
        self.write_list(name, packages, timeout_s=PATIENCE_S, **more)
        for project, slow_s in seconds.items():
            source = self.root / "sources" / project
            source.mkdir(parents=True)
            (source / "tool.c").write_text(
                'int printf(const char *, ...);\nint main(void) { printf("hi"); }\n'
            )
            (source / "Makefile").write_text(
                f"{project}: tool.c\n\t@echo is-building\n\tsleep {slow_s}\n\t$(CC) -o $@ tool.c\n"
                f"install: {project}\n\tinstall -D {project} $(DESTDIR)/usr/bin/{project}\n"
            )
            git = ["git", "-C", str(source), "-c", "user.name=x", "-c", "user.email=x@example.invalid"]
            for arguments in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "x"]):
                subprocess.run([*git, *arguments], check=True)

    def is_building(self, project: str) -> bool:
        """Say whether the newest attempt's build has begun."""
        log = self.root / "output" / "batch_logs" / f"{project}.log"
        return log.exists() and b"\nis-building" in log.read_bytes()

    def there(self, script: str) -> str:
        """Run a shell script on the machine, the last of several, and return what it prints."""
        host = self.machine["ATESOR_SSH_HOST"].replace(",", " ").split()[-1]
        argv = ["ssh", "-o", "BatchMode=yes", host, script]
        path = self.machine.get("PATH", os.environ["PATH"])
        done = subprocess.run(
            argv, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=True, timeout=300
        )
        return done.stdout

    def left_there(self) -> list[str]:
        """Return what of all batches of this lab is on the machine: sandboxes, keepers, build trees."""
        work = self.machine.get("ATESOR_REMOTE_WORKDIR", "pytest-atesor")
        mark = self.owner
        return self.there(
            f"podman ps --all --format '{{{{.Names}}}}' | grep -F .{mark}; "
            "ls ${XDG_RUNTIME_DIR:-$HOME}/.atesor-keepers; "
            f"find {work}/slots/{mark}/*/workspace -mindepth 1 -maxdepth 1 ! -name cache 2>/dev/null; true"
        ).split()

    @property
    def owner(self) -> str:
        """The mark of this lab's sandboxes."""
        return make_owner(self.root / "state" / "native", getpass.getuser(), platform.node())

    def left_here(self) -> list[psutil.Process]:
        """Return the processes that work for batches of this lab."""
        found = []
        for process in psutil.process_iter():
            try:
                if process.status() != psutil.STATUS_ZOMBIE and str(self.root) in (
                    process.environ().get("ATESOR_STATE_DIR", "")
                ):
                    found.append(process)
            except psutil.Error:
                continue
        return found


def await_that(is_true: Callable[[], bool]) -> None:
    give_up = time.monotonic() + PATIENCE_S
    while not is_true():
        assert time.monotonic() < give_up, "the event never came"
        time.sleep(0.2)


def clients(batch: "subprocess.Popen[str]", word: str) -> list[psutil.Process]:
    """Return the batch's ssh clients with that word in their command line."""
    found = []
    for one in psutil.Process(batch.pid).children(recursive=True):
        try:
            if one.name() == "ssh" and any(word in part for part in one.cmdline()):
                found.append(one)
        except psutil.Error:
            continue
    return found
