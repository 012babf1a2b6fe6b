"""The native target's part of the preparation: its machines are checked, held, and put down in the plan."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING, Final

from pytest_atesor.control.site import Site
from pytest_atesor.core.dotenv import add_dotenv
from pytest_atesor.core.limits import share_memory
from pytest_atesor.core.native import MACHINE_VARIABLE, SESSION_VARIABLE
from pytest_atesor.core.plan import Target
from pytest_atesor.core.text import LONGEST_LINE, count_of, sanitize_line
from pytest_atesor.errors import UsageError
from pytest_atesor.sandbox.native.hold import NativeHold
from pytest_atesor.sandbox.native.preflight import read_workers
from pytest_atesor.sandbox.native.probe import format_machine, share_workers

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import ExitStack
    from pathlib import Path

    import pytest

    from pytest_atesor.core.plan import Json, Platform
    from pytest_atesor.options import Options
    from pytest_atesor.sandbox.native.hold import Held
    from pytest_atesor.sandbox.native.probe import Machine

__all__ = ["count_workers_there", "counts_there", "hold_machines", "open_voice", "spread_over_machines"]

_KIB: Final = 1024


def counts_there(config: pytest.Config, options: Options) -> bool:
    """Say whether the number of workers is the riscv64 machines' to tell."""
    is_idle = bool(config.option.collectonly) or options.is_plan_only
    return options.target is Target.NATIVE and options.engine != "none" and not is_idle


def count_workers_there(options: Options, environ: Mapping[str, str]) -> int:
    """Return how many workers the machines can have; 1 when one cannot be read: the preflight says why."""
    return read_workers(add_dotenv(options.dotenv, environ)) or 1


def spread_over_machines(config: pytest.Config, options: Options, environ: Mapping[str, str]) -> None:
    """Have xdist start as many workers as the machines can have, where the user said nothing of workers."""
    given = config.option
    is_free = getattr(given, "numprocesses", 0) is None and given.dist == "no" and not given.tx
    if not is_free or given.usepdb or not counts_there(config, options):
        return
    count = count_workers_there(options, environ)
    if count > 1:
        given.numprocesses, given.dist, given.tx = count, "load", ["popen"] * count


def hold_machines(  # noqa: PLR0913 - keyword-only facts of one batch
    stack: ExitStack,
    settings: dict[str, Json],
    *,
    platform: Platform,
    options: Options,
    workers: int,
    environ: Mapping[str, str],
    state: Path,
    say: Callable[[str], None],
) -> tuple[Site, ...]:
    """Hold the machines until ``stack`` ends; return those that have slots.

    ``settings`` gets what was found. Raises SetupError with all problems of all machines, and UsageError for
    more workers than they have cores.
    """
    voice = open_voice(stack, say)
    hold = stack.enter_context(
        NativeHold(
            add_dotenv(options.dotenv, environ),
            platform,
            state=state,
            say=voice,
            share=lambda machines: _share(max(1, workers), machines),
        )
    )
    limits = options.limits
    sites = tuple(_make_site(one, limits.memory_bytes) for one in hold.held)
    first = hold.held[0].engine.session
    settings.update(engine="podman", engine_version=first.podman, image=first.image)
    settings.update(pids=limits.pids, cpu_weight=limits.cpu_weight, memory_bytes=sites[0].memory_bytes)
    settings["machines"] = [
        {
            "name": one.name,
            "description": format_machine(one.machine),
            "slots": one.slots,
            "memory_bytes": site.memory_bytes,
            "podman": one.machine.podman,
            "image_id": one.engine.session.image_id,
        }
        for one, site in zip(hold.held, sites, strict=True)
    ]
    for one in hold.held:
        if one.engine.session.unenforced:
            say(f"warning: podman cannot enforce on {one.name}: {', '.join(one.engine.session.unenforced)}")
    return sites


def open_voice(stack: ExitStack, say: Callable[[str], None]) -> Callable[[str], None]:
    """Return what says a line on the standard error of now, until ``stack`` ends.

    What happens to a machine is said at once, also while pytest captures a case that runs in this process.
    """
    try:
        descriptor = os.dup(sys.stderr.fileno())
    except (OSError, ValueError):
        return say  # a standard error that is no file is captured by nobody
    stack.callback(os.close, descriptor)

    def voice(line: str) -> None:
        text = f"atesor: {sanitize_line(line, LONGEST_LINE)}\n"
        with contextlib.suppress(OSError):  # nobody listens any more; the machine is cared for all the same
            os.write(descriptor, text.encode("utf-8", "backslashreplace"))

    return voice


def _share(workers: int, machines: Sequence[Machine]) -> tuple[int, ...]:
    cores = sum(machine.cores for machine in machines)
    if workers > cores:
        where, whose = (
            ("the native machine", "of the machine")
            if len(machines) == 1
            else ("the native machines", "of all together")
        )
        raise UsageError(
            f"bad worker count {workers}; on {where} it must be from 1 to {cores}, the core count {whose}"
        )
    return share_workers(workers, machines)


def _make_site(held: Held, memory_bytes: int | None) -> Site:
    session = held.engine.session
    return Site(
        engine=held.engine,
        slots=held.slots,
        image=session.image_id,
        memory_bytes=memory_bytes or share_memory(held.machine.memory_kb * _KIB, held.slots),
        machine=held.name,
        description=f"{format_machine(held.machine)}, {count_of('slot', held.slots)}",
        environment={SESSION_VARIABLE: session.directory, MACHINE_VARIABLE: held.name},
        is_reachable=lambda: session.is_connected,
    )
