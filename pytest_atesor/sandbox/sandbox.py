"""One sandbox in use: run commands in it, empty it, cut its network.

The sandbox belongs to whoever holds its slot. A failed command is a value, a failed sandbox raises
SandboxError.
"""

import contextlib
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from pytest_atesor.errors import SandboxError
from pytest_atesor.sandbox.evidence import can_start_programs
from pytest_atesor.sandbox.failure import Failure, decide_failure
from pytest_atesor.sandbox.interface import Completed, Engine, ExecSpec, Foreign, Present, SandboxSpec
from pytest_atesor.sandbox.pump import pump_process
from pytest_atesor.sandbox.slots import slot_directory
from pytest_atesor.sandbox.stall import StallWatch, read_cpu_s
from pytest_atesor.sandbox.workspace import (
    EMPTY,
    LAY_OUT,
    empty_workspace,
    replace_workspace,
    settle_workspace,
)

__all__ = ["DEFAULT_LIMITS", "Limits", "Sandbox", "find_running_image", "open_sandbox"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a sandbox may use. Emulated programs have two or more threads each, and all of them count."""

    memory_bytes: int | None = 4 * 1024**3
    pids: int = 4096
    cpu_weight: int = 1024


DEFAULT_LIMITS = Limits()

_PREPARE_S = 300.0
_DEATH_NOTICES_S = (0.1, 0.2, 0.4, 0.8, 1.6)
_KILLED = 137


class Sandbox:
    """A running sandbox, by engine and container name."""

    def __init__(self, engine: Engine, name: str) -> None:
        self.engine = engine
        self.name = name

    def run(
        self, command: ExecSpec, *, timeout_s: float, sink: BinaryIO | None = None, tail_bytes: int = 65_536
    ) -> Completed:
        """Run one command; after ``timeout_s`` seconds everything in the sandbox is killed.

        ``sink`` gets all of the output as it comes. Raises SandboxError when not the command but the sandbox
        failed.
        """
        pumped = pump_process(
            self.engine.exec_argv(self.name, command),
            timeout_s=timeout_s,
            sink=sink,
            tail_bytes=tail_bytes,
            on_timeout=self.clear,
            watch=None if command.stall_s is None else StallWatch(self._read_cpu_s, command.stall_s),
        )
        if pumped.exit_code != 0 and not pumped.timed_out:
            self._refuse_own_failure(pumped.exit_code, pumped.tail)
        return Completed(
            exit_code=pumped.exit_code,
            tail=pumped.tail,
            duration_s=pumped.duration_s,
            timed_out=pumped.timed_out,
            is_stalled=pumped.is_stalled,
        )

    def clear(self) -> None:
        """Kill everything that runs in the sandbox, whoever started it; files and network stay as they are.

        Done from outside: a sandbox at its process limit has no room for a program that kills.
        """
        self.engine.restart(self.name)

    def set_network(self, *, enabled: bool) -> None:
        """Connect the sandbox to the network or cut it off."""
        self.engine.set_network(self.name, enabled=enabled)

    def _refuse_own_failure(self, exit_code: int, tail: bytes) -> None:
        running = self._is_running()
        for pause_s in _DEATH_NOTICES_S if exit_code == _KILLED else ():
            if not running:
                break
            # the client may learn of the end of the sandbox before the engine itself does
            time.sleep(pause_s)
            running = self._is_running()
        if decide_failure(exit_code, tail, running=running) is Failure.SANDBOX and not (
            # What a build printed looks the same: the engine's words count only when nothing can be started.
            running and can_start_programs(self.engine, self.name)
        ):
            said = tail.decode(errors="replace").strip().splitlines()[-1:] or ["no message"]
            raise SandboxError(f"{self.engine.name}: the sandbox {self.name} failed ({said[0][:300]})")

    def _read_cpu_s(self) -> float | None:
        with contextlib.suppress(SandboxError):  # its silence is noticed elsewhere
            state = self.engine.state(self.name)
            return read_cpu_s(state.pid) if isinstance(state, Present) and state.pid else None
        return None

    def _is_running(self) -> bool:
        state = self.engine.state(self.name)
        return isinstance(state, Present) and state.running


def find_running_image(engine: Engine, name: str) -> str | None:
    """Return the id of the image that a running sandbox of ours was made from, None where none runs."""
    found = engine.state(name)
    return found.image_id if isinstance(found, Present) and found.running else None


def open_sandbox(  # noqa: PLR0913 - keyword-only facts of one sandbox
    engine: Engine,
    name: str,
    *,
    image: str,
    state: Path,
    limits: Limits = DEFAULT_LIMITS,
    reset: bool = False,
    labels: Mapping[str, str] | None = None,
) -> Sandbox:
    """Return the running sandbox of that slot, created when absent; ``reset`` creates it anew in any case.

    A new one has a fresh file system and proves that nothing of the old one runs. A sandbox of another image
    (a name or an id) is replaced in any case. Raises SandboxError when a container of somebody else has the
    name.
    """
    if reset:
        engine.remove(name)
    elif _is_ready(engine, name, image):
        return Sandbox(engine, name)
    directory = slot_directory(state, name)
    spec = SandboxSpec(
        name=name,
        image=image,
        workspace=directory / "workspace",
        memory_bytes=limits.memory_bytes,
        pids=limits.pids,
        labels=labels or {},
        cpu_weight=limits.cpu_weight,
    )
    if reset:
        return _open_anew(engine, spec, directory)
    spec.workspace.mkdir(parents=True, exist_ok=True)
    engine.create(spec)
    sandbox = Sandbox(engine, name)
    _prepare_workspace(sandbox, LAY_OUT)
    return sandbox


def _is_ready(engine: Engine, name: str, image: str) -> bool:
    """Say whether the sandbox runs and has that image; another of ours in its place is removed."""
    found = engine.state(name)
    if isinstance(found, Foreign):
        raise SandboxError(
            f"{engine.name}: the container {name} was not made by this program and is left alone"
        )
    if not isinstance(found, Present):
        return False
    if found.running and (image == found.image_id or engine.image_id(image) == found.image_id):
        return True
    engine.remove(name)
    return False


def _open_anew(engine: Engine, spec: SandboxSpec, directory: Path) -> Sandbox:
    """Create a sandbox whose workspace is empty, whatever the case before did to it."""
    settle_workspace(directory)
    is_empty = not engine.is_remote and empty_workspace(directory)
    engine.create(spec)
    sandbox = Sandbox(engine, spec.name)
    if is_empty:
        return sandbox
    try:
        _prepare_workspace(sandbox, EMPTY)
    except SandboxError:
        # what was done to the workspace is no fault of the case that comes next
        engine.remove(spec.name)
        replace_workspace(directory)
        engine.create(spec)
        _prepare_workspace(sandbox, EMPTY)
    return sandbox


def _prepare_workspace(sandbox: Sandbox, script: str) -> None:
    """Put the workspace in order from inside: the host may not be allowed to touch files there."""
    done = sandbox.run(ExecSpec(argv=["sh", "-c", script], user="root"), timeout_s=_PREPARE_S)
    if done.exit_code != 0 or done.timed_out:
        said = done.tail.decode(errors="replace").strip()[-300:]
        raise SandboxError(
            f"{sandbox.engine.name}: the workspace of {sandbox.name} cannot be prepared ({said})"
        )
