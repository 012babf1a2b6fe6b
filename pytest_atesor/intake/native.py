"""The native target's part of the preparation: the machine is checked, held, and put down in the plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pytest_atesor.core.limits import share_memory
from pytest_atesor.core.native import SESSION_VARIABLE
from pytest_atesor.core.plan import Target
from pytest_atesor.errors import UsageError
from pytest_atesor.sandbox.native.hold import NativeHold
from pytest_atesor.sandbox.native.preflight import read_workers
from pytest_atesor.sandbox.native.probe import format_machine

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import ExitStack
    from pathlib import Path

    import pytest

    from pytest_atesor.core.plan import Json, Platform
    from pytest_atesor.options import Options
    from pytest_atesor.sandbox.interface import Engine
    from pytest_atesor.sandbox.native.probe import Machine

__all__ = ["count_workers_there", "counts_there", "hold_machine", "spread_over_machine"]

_KIB: Final = 1024


def counts_there(config: pytest.Config, options: Options) -> bool:
    """Say whether the number of workers is that machine's to tell."""
    is_idle = bool(config.option.collectonly) or options.is_plan_only
    return options.target is Target.NATIVE and options.engine != "none" and not is_idle


def count_workers_there(options: Options, environ: Mapping[str, str]) -> int:
    """Return how many workers the machine can have; 1 for one that cannot be read: the preflight says why."""
    return read_workers({**options.dotenv, **environ}) or 1


def spread_over_machine(config: pytest.Config, options: Options, environ: Mapping[str, str]) -> None:
    """Have xdist start as many workers as the machine can have, where the user said nothing of workers."""
    given = config.option
    is_free = getattr(given, "numprocesses", 0) is None and given.dist == "no" and not given.tx
    if not is_free or given.usepdb or not counts_there(config, options):
        return
    count = count_workers_there(options, environ)
    if count > 1:
        given.numprocesses, given.dist, given.tx = count, "load", ["popen"] * count


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

    def accept(machine: Machine) -> None:
        if workers > machine.cores:
            raise UsageError(
                f"bad worker count {workers}; on the native machine it must be from 1 to {machine.cores}, "
                "the core count of the machine"
            )

    hold = stack.enter_context(
        NativeHold({**options.dotenv, **environ}, platform, state=state, say=say, accept=accept)
    )
    machine, engine = hold.machine, hold.engine
    limits = options.limits
    memory = limits.memory_bytes or share_memory(machine.memory_kb * _KIB, workers)
    settings.update(engine="podman", engine_version=machine.podman, image=engine.session.image)
    settings.update(image_id=engine.session.image_id, machine=format_machine(machine), memory_bytes=memory)
    settings.update(pids=limits.pids, cpu_weight=limits.cpu_weight)
    if engine.session.unenforced:
        say(f"warning: podman cannot enforce there: {', '.join(engine.session.unenforced)}")
    return engine, {SESSION_VARIABLE: engine.session.directory}
