"""Whether an attempt failed for the sandbox's or the machine's sake: decided by evidence, not by words.

Words are cheap: a build can print "No space left on device" as its last line, and an agent that believes it
says "environment". So a claim of that kind holds only when something that the build cannot write says the
same: the engine, the kernel's counters of the sandbox's control group, the free space.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum, unique
from typing import Final, NamedTuple

from pytest_atesor.core.outcome import Cause

__all__ = ["Evidence", "Judgement", "SandboxState", "has_route", "judge_failure", "parse_probe"]


@unique
class SandboxState(StrEnum):
    """What became of the sandbox; a stuck one starts no more programs, an unmanaged one is not ours."""

    RUNNING = "running"
    STOPPED = "stopped"
    ABSENT = "absent"
    STUCK = "stuck"
    UNMANAGED = "unmanaged"


_MIB: Final = 1024 * 1024
LITTLE_SPACE_BYTES: Final = 256 * _MIB
"""Below this a claim that the disk is full is believed; healthy machines have more."""

NO_SPACE_BYTES: Final = 8 * _MIB
"""Below this the disk is full, whatever was said."""

LITTLE_FILES: Final = 1000
"""Below this many files that may still be made the same claim is believed: that is the word for it, too."""

NO_FILES: Final = 10
"""Below this none can be made, whatever was said."""

_CLAIMS_QUOTA: Final = re.compile(r"quota exceeded|disk quota", re.IGNORECASE)
_CLAIMS_SPACE: Final = re.compile(r"no space|disk quota|disk (?:is )?full", re.IGNORECASE)
_CLAIMS_MEMORY: Final = re.compile(
    r"out of memory|cannot allocate memory|memory exhausted|killed signal|signal: 9|signal: killed|oom",
    re.IGNORECASE,
)
_DEAD: Final = {
    SandboxState.STOPPED: "the sandbox died while the case ran",
    SandboxState.ABSENT: "the sandbox vanished while the case ran",
    SandboxState.STUCK: "the sandbox starts no more programs",
}
_INNER: Final = re.compile(
    r"lo|br-[0-9a-f]{12}|(?:docker|veth|virbr|cni|podman|vnet|lxc|lxd|incus|flannel|cali).*"
)
"""Devices behind which there is nothing but this machine's own containers, unless a gateway stands there."""

_UP: Final = 0x1
_GATEWAY: Final = 0x2
_REJECT: Final = 0x200
_LEAST: Final = frozenset({"free", "files"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What the machine itself says right after an attempt.

    ``engine_error`` is the engine's failure to answer, empty when it did. ``oom_kills`` counts the processes
    that the kernel killed for want of memory since the attempt began, in the sandbox where there is one;
    ``memory_full`` says that its memory was at the limit at some time. ``was_restarted`` means that these
    counters began anew in between. ``refused_forks`` counts the processes that the kernel did not start,
    because the sandbox had as many as it may. ``free_bytes`` is the least free space where the attempt may
    write and ``free_files`` how many files may still be made there, None when it is not known or not bounded.
    ``has_network`` is the machine's.
    """

    engine_error: str = ""
    state: SandboxState = SandboxState.UNMANAGED
    oom_kills: int = 0
    memory_full: bool = False
    was_restarted: bool = False
    refused_forks: int = 0
    free_bytes: int | None = None
    free_files: int | None = None
    has_network: bool = True


class Judgement(NamedTuple):
    """Cause and reason of a failure, when the evidence changes what was said of it."""

    cause: Cause
    reason: str


def judge_failure(cause: Cause | None, reason: str, evidence: Evidence) -> Judgement | None:
    """Return what the evidence makes of a failure with that cause and reason; None when it stands."""
    if cause in {Cause.OUTPUT_LIMIT, Cause.INTERRUPTED}:
        return None
    if evidence.refused_forks and not evidence.engine_error:
        return _blame_forks(cause, reason, evidence.refused_forks)
    found = _find_fault(cause, reason, evidence)
    if found:
        said = f"; last: {reason}" if reason else ""
        return Judgement(Cause.ENVIRONMENT, f"{found}{said}")
    if cause is Cause.ENVIRONMENT and _is_refuted(reason, evidence):
        return Judgement(Cause.BUILD, reason)
    return None


def parse_probe(text: str) -> dict[str, int]:
    """Return the figures of a probe: lines "name value", the names of the kernel and of ``df``.

    Of a name that stands twice the larger figure counts; "free", in bytes, and "files" are the least.
    """
    figures: dict[str, int] = {}
    for line in text.splitlines():
        name, _, value = line.strip().partition(" ")
        if not value.strip().isdecimal():
            continue
        number = int(value)
        if name in figures:
            number = min(figures[name], number) if name in _LEAST else max(figures[name], number)
        figures[name] = number
    return figures


def has_route(ipv4: str, ipv6: str) -> bool:
    """Say whether the kernel's tables (/proc/net/route, /proc/net/ipv6_route) lead out of this machine."""
    return any(_leads_out(line.split()) for line in ipv4.splitlines()[1:]) or any(
        _leads_out_v6(line.split()) for line in ipv6.splitlines()
    )


def _find_fault(cause: Cause | None, reason: str, evidence: Evidence) -> str:
    """Return what the machine is guilty of, empty when of nothing."""
    if evidence.engine_error:
        return f"the engine does not answer: {evidence.engine_error}"
    if evidence.oom_kills:
        return f"out of memory: the kernel killed {evidence.oom_kills} of its processes"
    if evidence.state in _DEAD:
        return _DEAD[evidence.state]
    if full := _find_full(reason, evidence):
        return full
    cut_off = cause in {Cause.SOURCE, Cause.DEPENDENCY} and not evidence.has_network
    return "this machine has no network" if cut_off else ""


def _find_full(reason: str, evidence: Evidence) -> str:
    """Return what there is too little of for files, less with a claim than without; empty when of nothing."""
    is_claimed = _CLAIMS_SPACE.search(reason) is not None
    free, files = evidence.free_bytes, evidence.free_files
    if free is not None and free < (LITTLE_SPACE_BYTES if is_claimed else NO_SPACE_BYTES):
        return f"no space left: {free // _MIB} MiB are free"
    if files is not None and files < (LITTLE_FILES if is_claimed else NO_FILES):
        return f"no space left: {files} more files can be made (inodes)"
    return ""


def _blame_forks(cause: Cause | None, reason: str, count: int) -> Judgement | None:
    """Take back what is the machine's fault in the agent's eyes: whoever uses up all processes did it."""
    if cause not in {None, Cause.ENVIRONMENT}:
        return None
    said = f"; last: {reason}" if reason else ""
    return Judgement(
        Cause.BUILD,
        f"it used up the processes of its sandbox (--atesor-slot-pids), {count} more were refused{said}",
    )


def _is_refuted(reason: str, evidence: Evidence) -> bool:
    """Say whether a claim of want is the word of a build alone. A quota shows in no free space."""
    if _CLAIMS_QUOTA.search(reason):
        return False
    if evidence.free_bytes is not None and _CLAIMS_SPACE.search(reason):
        return True
    counted = not evidence.was_restarted and not evidence.memory_full
    return counted and _CLAIMS_MEMORY.search(reason) is not None


def _leads_out(fields: list[str]) -> bool:
    flags = 3
    if len(fields) <= flags or not _is_usable(bits := int(fields[flags], 16)):
        return False
    return bool(bits & _GATEWAY) or _INNER.fullmatch(fields[0]) is None


def _leads_out_v6(fields: Iterable[str]) -> bool:
    found = list(fields)
    gateway, flags, device = 4, 8, 9
    if len(found) <= device or found[0].startswith(("fe80", "ff")):
        return False
    # the addresses of one's own and of the link lead nowhere else
    return _is_usable(int(found[flags], 16)) and found[gateway].strip("0") != ""


def _is_usable(flags: int) -> bool:
    return bool(flags & _UP) and not flags & _REJECT
