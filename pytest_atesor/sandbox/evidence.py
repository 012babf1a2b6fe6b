"""What the engine and the kernel say of a sandbox right after something failed in it.

Every figure comes from outside the build's reach: the engine's own record of the container, the counters of
its control group, the file system's. Nothing here judges; see :mod:`pytest_atesor.core.environment`.
"""

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from pytest_atesor.core.environment import Evidence, SandboxState, has_route, parse_probe
from pytest_atesor.errors import SandboxError, SetupError
from pytest_atesor.sandbox.interface import Engine, ExecSpec, Present
from pytest_atesor.sandbox.pump import NOWHERE

__all__ = [
    "can_start_programs",
    "count_oom_kills",
    "count_refused_forks",
    "read_evidence",
    "read_machine_evidence",
]

# Version 2 counts in memory.events, version 1 in memory.oom_control and memory.failcnt.
_PROBE: Final = """\
cat /sys/fs/cgroup/memory.events /sys/fs/cgroup/memory/memory.oom_control 2>/dev/null
cat /sys/fs/cgroup/pids.events /sys/fs/cgroup/pids/pids.events 2>/dev/null | sed 's/^/pids_/'
echo "failcnt $(cat /sys/fs/cgroup/memory/memory.failcnt 2>/dev/null || echo 0)"
for place in /workspace /tmp; do
    stat -f -c '%a %S %c %d' "$place" | {
        read -r blocks size all_files files || exit 0
        echo "free $((blocks * size))"
        [ "$all_files" = 0 ] || echo "files $files"
    }
done
true
"""
_PATIENCE_S: Final = 30.0
_DYING_S: Final = 1.0


def read_evidence(
    engine: Engine, name: str, state_directory: Path, wait: Callable[[float], None] = time.sleep
) -> Evidence:
    """Return the evidence of a sandbox. Raises nothing: an engine that does not answer is evidence too.

    A sandbox that starts no program is asked once more after ``wait`` has taken a second: what a killed
    build started may still be dying, and holds its process limit until then.
    """
    try:
        found = engine.state(name)
    except (SandboxError, SetupError) as error:
        return Evidence(engine_error=str(error), state=SandboxState.ABSENT)
    if not isinstance(found, Present):
        return _without_sandbox(engine, SandboxState.ABSENT)
    if not found.running:
        evidence = _without_sandbox(engine, SandboxState.STOPPED)
        if found.oom_killed and not evidence.engine_error:
            return Evidence(state=SandboxState.STOPPED, oom_kills=1)
        return evidence
    figures = _probe(engine, name)
    if figures is None:
        wait(_DYING_S)
        figures = _probe(engine, name)
    if figures is None:
        stuck = not can_start_programs(engine, name)
        return Evidence(
            state=SandboxState.STUCK if stuck else SandboxState.RUNNING,
            refused_forks=count_refused_forks(found.pid),
            has_network=_has_network(),
        )
    here = _free(state_directory)
    return Evidence(
        state=SandboxState.RUNNING,
        # Docker's own flag also remembers what happened before the counters began anew.
        oom_kills=max(figures.get("oom_kill", 0), int(found.oom_killed)),
        memory_full=figures.get("failcnt", 0) > 0 or figures.get("max", 0) > 0,
        was_restarted=found.was_restarted,
        refused_forks=figures.get("pids_max", 0),
        free_bytes=_least(figures.get("free"), here.bytes),
        free_files=_least(figures.get("files"), here.files),
        has_network=_has_network(),
    )


def read_machine_evidence(directory: Path, oom_kills_before: int) -> Evidence:
    """Return what this machine says where no sandbox is ours."""
    free = _free(directory)
    return Evidence(
        oom_kills=max(0, count_oom_kills() - oom_kills_before),
        free_bytes=free.bytes,
        free_files=free.files,
        has_network=_has_network(),
    )


def count_oom_kills() -> int:
    """Return how many processes the kernel has killed for want of memory since it started."""
    try:
        # One line of some two hundred, asked for before every case.
        with open("/proc/vmstat", "rb", buffering=0) as file:  # noqa: PTH123 - a Path costs more than the read
            _, found, rest = file.readall().partition(b"\noom_kill ")
    except OSError:
        return 0
    return int(rest.split(b"\n", 1)[0]) if found else 0


def count_refused_forks(pid: int, root: Path = Path("/")) -> int:
    """Return how many processes the limit of a process's control group refused, 0 when that is not known.

    Read from outside: a sandbox at its limit cannot even start what would look.
    """
    try:
        groups = (root / f"proc/{pid}/cgroup").read_text(encoding="utf-8")
        for line in groups.splitlines():
            _, controllers, path = line.split(":", 2)
            # Version 2 has one tree without a name, version 1 one for each controller.
            if controllers in {"", "pids"}:
                place = root / "sys/fs/cgroup" / controllers / path.lstrip("/") / "pids.events"
                if place.is_file():
                    return parse_probe(place.read_text(encoding="ascii")).get("max", 0)
    except (OSError, ValueError):
        return 0
    return 0


def can_start_programs(engine: Engine, name: str) -> bool:
    """Say whether the sandbox still runs the simplest of programs."""
    try:
        return _exec(engine, name, ["true"]).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def _probe(engine: Engine, name: str) -> dict[str, int] | None:
    try:
        ended = _exec(engine, name, ["sh", "-c", _PROBE])
    except (OSError, subprocess.TimeoutExpired):
        return None
    return parse_probe(ended.stdout.decode("ascii", "replace")) if ended.returncode == 0 else None


def _exec(engine: Engine, name: str, argv: list[str]) -> "subprocess.CompletedProcess[bytes]":
    command = engine.exec_argv(name, ExecSpec(argv=argv, user="root", cwd="/"))
    return subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=NOWHERE,
        timeout=_PATIENCE_S,
        check=False,
    )


def _without_sandbox(engine: Engine, state: SandboxState) -> Evidence:
    """Tell a sandbox that is gone from an engine that is."""
    try:
        engine.probe()
    except (SandboxError, SetupError) as error:
        return Evidence(engine_error=str(error), state=state)
    return Evidence(state=state)


class _Free(NamedTuple):
    """What may still be written to a file system, None for what is not known or has no bound."""

    bytes: int | None = None
    files: int | None = None


def _free(directory: Path) -> _Free:
    try:
        found = os.statvfs(directory)
    except OSError:
        return _Free()
    return _Free(found.f_bavail * found.f_frsize, found.f_favail if found.f_files else None)


def _least(*figures: int | None) -> int | None:
    return min((one for one in figures if one is not None), default=None)


def _has_network() -> bool:
    tables = []
    for path in (Path("/proc/net/route"), Path("/proc/net/ipv6_route")):
        try:
            tables.append(path.read_text(encoding="ascii"))
        except OSError:
            tables.append("")
    return has_route(*tables) if any(tables) else True
