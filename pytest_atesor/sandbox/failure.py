"""Says whether a command failed, or the sandbox it ran in. Pure: decides by exit code and last output."""

import re
from enum import StrEnum, unique

__all__ = ["Failure", "decide_failure"]


@unique
class Failure(StrEnum):
    """Who is to blame for a command's non-zero end."""

    COMMAND = "command"
    SANDBOX = "sandbox"
    NO_SPACE = "no-space"
    NO_MEMORY = "no-memory"


_KILLED = frozenset({137, -9})
_ENGINE_EXITS = frozenset({1, 125, 126, 127, 255})

# What the clients say themselves when the container or the engine is gone; always their last line.
_ENGINE_SAYS = re.compile(
    rb"^(?:Error response from daemon: "
    rb"|Error: (?:No such container|no container with name or ID|can only create exec sessions on running)"
    rb"|Cannot connect to the Docker daemon"
    rb"|OCI runtime exec failed: (?!.*(?:no such file or directory|not found|permission denied))"
    rb"|Error: (?:container_linux|crun|runc|OCI runtime error|exec failed): "
    rb"(?!.*(?:no such file or directory|not found|permission denied))"
    rb"|cannot exec in a (?:stopped|paused) state"
    rb"|error during connect: )",
    re.IGNORECASE,
)
_NO_SPACE = re.compile(rb"no space left on device|disk quota exceeded", re.IGNORECASE)
_NO_MEMORY = re.compile(
    rb"cannot allocate memory|virtual memory exhausted|out of memory|Killed signal terminated program",
    re.IGNORECASE,
)


def decide_failure(exit_code: int, tail: bytes, *, running: bool) -> Failure:
    """Classify a non-zero end. ``running`` tells whether the sandbox still ran right after it.

    Only the last 4 kB of the output are looked at: a build that mentions a full disk early on and then goes
    on is an ordinary failure. Exit code 137 alone says nothing: a test may kill itself.
    """
    if not running:
        return Failure.SANDBOX
    lines = tail.rstrip().splitlines()
    if exit_code in _ENGINE_EXITS and lines and _ENGINE_SAYS.match(lines[-1].strip()):
        return Failure.SANDBOX
    recent = tail[-4096:]
    if _NO_SPACE.search(recent):
        return Failure.NO_SPACE
    if _NO_MEMORY.search(recent) or (exit_code in _KILLED and b"Killed" in recent):
        return Failure.NO_MEMORY
    return Failure.COMMAND
