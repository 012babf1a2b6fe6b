"""The phases that a port and a replay have in common: workspace, source, and what a scan says."""

import os
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pytest_atesor.errors import SandboxError
from pytest_atesor.porter.context import Place, Run
from pytest_atesor.porter.phases import Phases
from pytest_atesor.porter.settings import Settings
from pytest_atesor.porter.shell import Shell
from pytest_atesor.porter.sources.fetch import fetch_source
from pytest_atesor.porter.sources.interface import Fetched, SourceRequest
from pytest_atesor.porter.workplace import BUILD_ROOT, HOME, READABLE, STAGE_ROOT

if TYPE_CHECKING:
    from pytest_atesor.porter.scan import Scan

__all__ = ["decide_jobs", "fetch", "lay_out", "note_scan", "open_shell"]

_LARGEST_CACHE_MIB = 4096
_LAYOUT = f"""
rm -rf {BUILD_ROOT} {STAGE_ROOT} {HOME} {READABLE}
install -d -o builder -g builder {BUILD_ROOT} {STAGE_ROOT} {HOME} /workspace/src
install -d /workspace/cache
[ "$(du -sm /workspace/cache | cut -f1)" -lt {_LARGEST_CACHE_MIB} ] || rm -rf /workspace/cache/apt
cat /sys/fs/cgroup/memory.max /sys/fs/cgroup/memory/memory.limit_in_bytes 2>/dev/null | head -n 1
nproc
"""
_BYTES_PER_JOB = 768 * 1024 * 1024
# The harness ends us at the deadline, which is a TIMEOUT; our own limit only serves where nobody does.
_AFTER_KILL_S = 60.0
_MOST_ODDITIES = 10


def open_shell(settings: Settings, place: Place, phases: Phases) -> Shell:
    """Return the shell of a run, bounded by its deadline."""
    deadline = None
    if settings.kill_at is not None:
        deadline = time.monotonic() + max(0.0, settings.kill_at - time.time()) + _AFTER_KILL_S
    return Shell(
        place.sandbox,
        deadline=deadline,
        output=phases.output,
        keeps_network=settings.has_build_network,
    )


def lay_out(shell: Shell) -> int:
    """Make the workspace's directories; return how many jobs a build may run at once."""
    shell.set_network(enabled=True)
    done = shell.script(_LAYOUT, user="root")
    lines = done.tail.decode("utf-8", "replace").split()
    if done.exit_code != 0 or not lines:
        raise SandboxError(f"the workspace cannot be laid out: {' '.join(lines)[-300:]}")
    return decide_jobs(lines, os.cpu_count() or 1)


def decide_jobs(lines: Sequence[str], processors: int) -> int:
    """Return how many compilers may run at once, from the sandbox's memory limit in bytes and its processors.

    The last of ``lines`` is the number of processors, the one before it the limit, where there is one.
    """
    count = int(lines[-1]) if lines and lines[-1].isdigit() else processors
    limit = lines[-2] if len(lines) > 1 else ""
    most = max(1, int(limit) // _BYTES_PER_JOB) if limit.isdigit() else count
    return max(1, min(count, most))


def fetch(settings: Settings, place: Place, shell: Shell, run: Run, environ: Mapping[str, str]) -> Fetched:
    """Fetch the source and keep its identity in ``run``. Raises SourceError and SandboxError."""
    request = SourceRequest(url=settings.url, ref=settings.ref, mirrors=settings.mirrors)
    fetched = fetch_source(
        request,
        sandbox=place.sandbox,
        workspace=place.workspace,
        sink=shell.output,
        deadline=time.monotonic() + shell.remaining_s(),
        environ=environ,
        pool=place.downloads,
    )
    run.source.update(
        url_used=fetched.url_used, kind=fetched.kind.value, commit=fetched.commit, sha256=fetched.sha256
    )
    run.notes.extend(fetched.notes)
    return fetched


def note_scan(scan: "Scan", run: Run) -> None:
    """Keep in ``run`` what a scan found, and what of it is no proof."""
    from pytest_atesor.porter.abi import describe_abi  # noqa: PLC0415 - only after a build

    products = sorted(scan.products, key=lambda one: (one.is_test, not one.path.startswith("stage/")))
    seen: set[str] = set()
    kept = []
    for one in products:
        if one.sha256 not in seen:
            seen.add(one.sha256)
            kept.append(one)
    run.artifacts = tuple(kept)
    run.artifacts_root = scan.root
    run.metrics.update(native_files=len(kept), objects=scan.objects, foreign_files=len(scan.foreign))
    for path, machine in scan.foreign[:5]:
        run.notes.append(f"for another processor ({machine}), no proof: {path}")
    for path in scan.prebuilt[:5]:
        run.notes.append(f"in the source tree before the build, no proof: {path}")
    for path in scan.packaged[:5]:
        run.notes.append(f"a copy of a file of the sandbox's packages, no proof: {path}")
    run.notes.extend(describe_abi(kept)[:_MOST_ODDITIES])
