"""What a runner is: something that turns one case into the facts of one attempt.

The plugin's hook collects runners by ``kind``; other plugins may bring their own. A runner starts processes
and reads the attempt's directory. It neither makes sandboxes (the session has one ready under ``slot``) nor
writes ``attempt.json``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from pytest_atesor.core.outcome import Cause, Status
from pytest_atesor.core.plan import Case, Json, Platform, Target
from pytest_atesor.runners.stop import StopSignal

__all__ = ["AttemptContext", "AttemptEnd", "Runner"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptContext:
    """Everything about one attempt that is not in its case.

    ``attempt_dir`` was created for this attempt alone; ``log_path`` is where the output goes. ``cwd`` is
    the rootdir. ``slot`` is the sandbox's container name, ``engine`` the name of its engine ("none": no
    sandbox is managed). ``environ`` is the inherited environment with the rootdir's ``.env`` under it.
    ``deadline`` (time.monotonic()) and ``deadline_epoch`` (time.time()) are the same moment. ``agent`` is
    the agent's command, without the flags of the contract; ``package`` asks it for a zip.
    ``is_accelerated`` is False for a sandbox of the plain image; ``has_build_network`` leaves the network on.
    """

    attempt_dir: Path
    log_path: Path
    cwd: Path
    slot: str
    engine: str
    state_dir: Path
    environ: Mapping[str, str]
    deadline: float
    deadline_epoch: float
    platform: Platform
    target: Target
    agent: tuple[str, ...]
    stop: StopSignal
    package: bool = False
    is_accelerated: bool = True
    has_build_network: bool = False
    term_grace_s: float = 10.0
    output_cap_bytes: int = 64 * 1024 * 1024
    end_at_output_cap: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptEnd:
    """How an attempt ended, ready for its record.

    The fields that AttemptRecord has too mean the same here. ``result`` is the agent's valid
    ``result.json``, None when there was none; its strings are the agent's, unsanitized. ``notes`` are
    sanitized lines on what went wrong beside the outcome (an incomplete log, a ``result.json`` that was
    ignored).
    """

    status: Status
    cause: Cause | None
    reason: str
    exit_code: int | None
    duration_s: float
    log_bytes: int
    log_dropped_bytes: int
    leaks: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    result: Mapping[str, Json] | None = None


class Runner(Protocol):
    """Runs the cases of one kind. One runner serves one worker, one case at a time."""

    @property
    def kind(self) -> str:
        """The ``kind`` of its cases, such as "port" or "command"."""

    def run(self, case: Case, context: AttemptContext) -> AttemptEnd:
        """Run the case to its end: deadline, stop signals and leftovers included.

        Returns when nothing of it runs on the host any more. Raises SandboxError when the sandbox failed,
        so that the attempt says nothing about the case.
        """
