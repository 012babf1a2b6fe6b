"""The native target's part of the preparation: the machine is checked, held, and put down in the plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pytest_atesor.core.limits import share_memory
from pytest_atesor.core.native import SESSION_VARIABLE
from pytest_atesor.errors import UsageError
from pytest_atesor.sandbox.native.hold import NativeHold
from pytest_atesor.sandbox.native.probe import format_machine

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import ExitStack
    from pathlib import Path

    from pytest_atesor.core.plan import Json, Platform
    from pytest_atesor.options import Options
    from pytest_atesor.sandbox.interface import Engine

__all__ = ["hold_machine"]

_KIB: Final = 1024


def hold_machine(  # noqa: PLR0913 - keyword-only facts of one batch
    stack: ExitStack,
    settings: dict[str, Json],
    *,
    platform: Platform,
    options: Options,
    workers: int,
    environ: Mapping[str, str],
    state: Path,
    say: Callable[[str], None],
) -> tuple[Engine, dict[str, str]]:
    """Hold the machine until ``stack`` ends; return its engine and what workers need in their environment.

    ``settings`` gets what was found. Raises SetupError with all problems of the machine, and UsageError for
    more workers than it has cores.
    """
    hold = stack.enter_context(NativeHold({**options.dotenv, **environ}, platform, state=state, say=say))
    machine, engine = hold.machine, hold.engine
    if workers > machine.cores:
        raise UsageError(
            f"bad worker count {workers}; on the native machine it must be from 1 to {machine.cores}, "
            "the core count of the machine"
        )
    limits = options.limits
    memory = limits.memory_bytes or share_memory(machine.memory_kb * _KIB, workers)
    settings.update(engine="podman", engine_version=machine.podman, image=engine.session.image)
    settings.update(image_id=engine.session.image_id, machine=format_machine(machine), memory_bytes=memory)
    settings.update(pids=limits.pids, cpu_weight=limits.cpu_weight)
    if engine.session.unenforced:
        say(f"warning: podman cannot enforce there: {', '.join(engine.session.unenforced)}")
    return engine, {SESSION_VARIABLE: engine.session.directory}
