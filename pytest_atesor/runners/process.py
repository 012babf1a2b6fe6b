"""One child process from start to end: its deadline, its output, and everything it leaves behind.

:func:`run_child` returns when the child and all its descendants are gone, and says how that came about. It
decides nothing about the case. It works in any thread and never polls: it waits for the output pipe, for
the ends of processes (pidfds) and for stop signals, and wakes every five seconds to reap orphans and to
save the log's tail.
"""

import contextlib
import errno
import os
import selectors
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto, unique
from pathlib import Path
from typing import Final, final

from pytest_atesor.core.child_end import ChildEnd, StartError
from pytest_atesor.core.text import sanitize_line
from pytest_atesor.errors import SandboxError
from pytest_atesor.runners.birth_mark import BirthMark
from pytest_atesor.runners.descendants import (
    Family,
    adopting_orphans,
    child_pids,
    name_process,
    remember_survivors,
    signal_orphans,
)
from pytest_atesor.runners.guard import guarding
from pytest_atesor.runners.output import CappedLog
from pytest_atesor.runners.stop import KILL_NOW, TERMINATE, StopSignal

__all__ = ["ChildEnd", "ChildSpec", "run_child"]

_KILL_PATIENCE_S: Final = 5.0  # a process in an uninterruptible wait may never die; the slot must go on
_MOMENT_S: Final = 1.0  # for dying, for those that are killed at the end of that
_KILL_LIMIT_S: Final = 60.0  # for the killing: what forks for ever has no end of its own
_HOUSEKEEPING_S: Final = 5.0
_CHUNK_BYTES: Final = 65536
_CHUNKS_PER_ROUND: Final = 32  # a flood must not keep us from the clock
_NAMED_LEAKS: Final = 20
_WATCHED: Final = 64  # pidfds at a time: a fork bomb must not use up our descriptors


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildSpec:
    """One child: what to start, and its limits.

    ``env`` is its whole environment. ``deadline`` is time.monotonic() seconds; then the child's process
    group gets TERM, and what is left of the family KILL after ``term_grace_s`` seconds. After the child's own
    end the others have ``settle_s`` seconds: a ``tee`` ends by itself. The log at ``log_path`` keeps head and
    tail of the output, ``output_cap_bytes`` in all; with ``end_at_output_cap`` more output than that ends the
    child.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: Path
    log_path: Path
    deadline: float
    term_grace_s: float = 10.0
    settle_s: float = 0.2
    output_cap_bytes: int = 64 * 1024 * 1024
    end_at_output_cap: bool = False


def run_child(spec: ChildSpec, *, stop: StopSignal) -> ChildEnd:
    """Run the child to its end and return the facts. Raises nothing that the child or the disk can cause.

    A child that cannot be started is a fact too; one that nobody can wait for on this machine is killed and
    raises SandboxError. Stop level 1 is answered with TERM, grace and KILL, level 2 with KILL. Descendants
    that outlive the child by ``settle_s`` are killed and named in ``leaks``.
    """
    with contextlib.ExitStack() as stack:
        log = stack.enter_context(CappedLog(spec.log_path, spec.output_cap_bytes))
        if stop.level >= TERMINATE:
            return _finish(log, ending=_Ending.INTERRUPTED)
        stack.enter_context(adopting_orphans())
        mark = BirthMark()
        protect = stack.enter_context(guarding(mark.number))
        try:
            return _run_marked(spec, stop, log, mark, protect)
        except BaseException:  # out of a signal handler, perhaps before anybody knew of the child
            mark.kill_all()
            raise


def _run_marked(
    spec: ChildSpec, stop: StopSignal, log: CappedLog, mark: BirthMark, protect: Callable[[int], None]
) -> ChildEnd:
    try:
        attendance = _Attendance(spec, stop, log, mark)
    except (OSError, ValueError) as error:
        return _finish(log, start_error=_describe(error, spec))
    with contextlib.closing(attendance):
        protect(attendance.child)
        attendance.run()
        return attendance.finish()


@unique
class _Ending(Enum):
    """Why we end a child."""

    TIMED_OUT = auto()
    INTERRUPTED = auto()
    OUTPUT_LIMITED = auto()


@final
class _Attendance:
    """A running child and all that is waited for on its behalf."""

    def __init__(self, spec: ChildSpec, stop: StopSignal, log: CappedLog, mark: BirthMark) -> None:
        """Start the child. Raises OSError or ValueError, with nothing left behind, when that fails.

        Raises SandboxError when it was started and cannot be attended.
        """
        self._spec = spec
        self._stop = stop
        self._log = log
        self._ended: float | None = None
        self._ending: _Ending | None = None
        self._kill_at = float("inf")
        self._killed = False
        self._said_in_time = b""
        self._leaks: dict[int, str] = {}
        self._descriptors: dict[int, int] = {}  # process id -> pidfd
        self._stop_descriptor = -1
        self._awaited_level: int = TERMINATE
        self._output = -1
        before = child_pids()
        self._selector = selectors.DefaultSelector()
        self._started = time.monotonic()  # the child may run long before we do again
        try:
            with mark.given():
                self._process, self._output = _start(spec)
        except BaseException:
            self._selector.close()
            raise
        self._tick_at = self._started + _HOUSEKEEPING_S
        self.child = self._process.pid
        self._family = Family(self.child, mark, before)
        try:
            self._selector.register(self._output, selectors.EVENT_READ)
            self._watch(self.child)
            self._await_level(TERMINATE)
        except BaseException as error:
            _signal_group(self.child, signal.SIGKILL)
            self._process.wait()
            self.close()
            if isinstance(error, OSError):
                raise SandboxError(
                    f"a child was started and cannot be waited for ({error.strerror}); "
                    "atesor doctor tells whether this machine can do that"
                ) from error
            raise

    def run(self) -> None:
        """Attend the child until nothing of it is left."""
        try:
            self._attend_child()
            self._attend_orphans()
        except BaseException:  # an exception out of a signal handler: leave nothing behind, then let it go
            if self._ended is None:
                _signal_group(self.child, signal.SIGKILL)
                self._wait_for_killed_child()
            raise
        finally:
            self._kill_orphans()
            self._drain()

    def finish(self) -> ChildEnd:
        """Close the log and return the facts."""
        code = self._process.returncode if self._ended is not None else None
        leaks = tuple(self._leaks.values())
        if len(leaks) > _NAMED_LEAKS:
            leaks = (*leaks[:_NAMED_LEAKS], f"and {len(leaks) - _NAMED_LEAKS} more")
        return _finish(
            self._log,
            exit_code=code if code is not None and code >= 0 else None,
            signal_number=-code if code is not None and code < 0 else None,
            ending=self._ending,
            duration_s=(self._ended or time.monotonic()) - self._started,
            leaks=leaks,
            said_in_time=self._said_in_time,
        )

    def close(self) -> None:
        """Close every descriptor."""
        for descriptor in self._descriptors.values():
            os.close(descriptor)
        self._selector.close()
        self._close_output()

    def _attend_child(self) -> None:
        """Wait for the child's own end, and bring it about when it must end."""
        while self._ended is None:
            now = time.monotonic()
            if self._ending is None and (ending := self._decide_ending(now)) is not None:
                self._ending = ending
                self._drain()
                self._said_in_time = self._log.tail()
                self._kill_at = now + self._spec.term_grace_s
                _signal_group(self.child, signal.SIGTERM)
                _signal_group(self.child, signal.SIGCONT)  # a stopped process hears TERM only then
            if self._ending is not None and not self._killed and self._must_kill(now):
                self._killed = True
                _signal_group(self.child, signal.SIGKILL)
                self._wait_for_killed_child()
                return
            self._wait(self._spec.deadline if self._ending is None else self._kill_at)

    def _decide_ending(self, now: float) -> _Ending | None:
        if self._stop.level >= TERMINATE:
            return _Ending.INTERRUPTED
        if now >= self._spec.deadline:
            return _Ending.TIMED_OUT
        if self._spec.end_at_output_cap and self._log.is_over_cap:
            return _Ending.OUTPUT_LIMITED
        return None

    def _must_kill(self, now: float) -> bool:
        return now >= self._kill_at or self._stop.level >= KILL_NOW

    def _wait_for_killed_child(self) -> None:
        give_up = time.monotonic() + _KILL_PATIENCE_S
        self._wait(give_up)
        while self._ended is None and time.monotonic() < give_up:
            self._wait(give_up)
        if self._ended is None:
            self._leaks[self.child] = f"{name_process(self.child)} survived SIGKILL"
            self._process.returncode = -signal.SIGKILL  # Popen will not wait for it: keep it from warning
            remember_survivors({self.child})

    def _attend_orphans(self) -> None:
        """Give the orphans their chance: a moment after a natural end, the rest of the grace after TERM."""
        settled_at = time.monotonic() + self._spec.settle_s
        warned: set[int] = set()
        told = {self.child}  # its group has had its TERM with it
        while True:
            orphans = self._family.reap()
            if not orphans and self._output < 0:
                return
            in_grace = self._ending is not None and not self._killed and bool(orphans)
            now = time.monotonic()
            if now >= (self._kill_at if in_grace else settled_at) or (in_grace and self._must_kill(now)):
                return
            if in_grace:
                groups = signal_orphans(orphans - warned, signal.SIGTERM, told)
                signal_orphans(orphans - warned, signal.SIGCONT, told)
                told |= groups
            warned |= orphans
            self._watch_only(orphans)
            self._wait(self._kill_at if in_grace else settled_at)

    def _kill_orphans(self) -> None:
        """Kill what is left, layer by layer: the children of a killed process fall to us next."""
        now = time.monotonic()
        give_up, limit = now + _KILL_PATIENCE_S, now + _KILL_LIMIT_S
        told: frozenset[int] = frozenset()
        while orphans := self._family.reap():
            for pid in orphans - self._leaks.keys():
                self._leaks[pid] = name_process(pid)
            signal_orphans(orphans, signal.SIGKILL)
            if not orphans <= told and now < limit:
                give_up = max(give_up, time.monotonic() + _MOMENT_S)
            if now >= give_up:
                for pid in orphans & told:
                    self._leaks[pid] = f"{name_process(pid)} survived SIGKILL"
                remember_survivors(orphans)
                break
            told |= orphans
            self._watch_only(orphans)
            self._wait(give_up)
            now = time.monotonic()
            if give_up < limit and now >= give_up + _MOMENT_S:
                give_up = now + _MOMENT_S  # we stood still, and so perhaps did those that are to die
        self._watch_only(frozenset())

    def _wait(self, until: float) -> None:
        """Wait for anything to happen, at most until then; output that came is in the log afterwards."""
        timeout = max(0.0, min(until, self._tick_at) - time.monotonic())
        for key, _ in self._selector.select(timeout):
            if key.fd == self._output:
                self._read_output(_CHUNKS_PER_ROUND)
        if self._ended is None and self._process.poll() is not None:
            self._ended = time.monotonic()
            self._watch_only(frozenset())
        if self._stop.level >= self._awaited_level:
            self._await_level(self._stop.level + 1)
        if time.monotonic() >= self._tick_at:
            self._tick_at = time.monotonic() + _HOUSEKEEPING_S
            self._log.checkpoint()
            self._family.reap()

    def _read_output(self, chunks: int) -> None:
        for _ in range(chunks):
            try:
                chunk = os.read(self._output, _CHUNK_BYTES)
            except BlockingIOError:
                return
            if not chunk:
                self._selector.unregister(self._output)
                self._close_output()
                return
            self._log.write(chunk)

    def _drain(self) -> None:
        """Take what stands in the pipe when all have gone; a stranger that holds it is not waited for."""
        if self._output >= 0:
            self._read_output(_CHUNKS_PER_ROUND)

    def _await_level(self, level: int) -> None:
        """Wait for this stop level from now on: one that was reached stays readable."""
        if self._stop_descriptor >= 0:
            self._selector.unregister(self._stop_descriptor)
            self._stop_descriptor = -1
        self._awaited_level = level
        if level <= KILL_NOW:
            self._stop_descriptor = self._stop.fileno(level)
            self._selector.register(self._stop_descriptor, selectors.EVENT_READ)

    def _watch(self, pid: int) -> None:
        descriptor = os.pidfd_open(pid)
        self._descriptors[pid] = descriptor
        self._selector.register(descriptor, selectors.EVENT_READ)

    def _watch_only(self, pids: frozenset[int]) -> None:
        pids = frozenset(sorted(pids)[:_WATCHED])
        for pid in self._descriptors.keys() - pids:
            descriptor = self._descriptors.pop(pid)
            self._selector.unregister(descriptor)
            os.close(descriptor)
        for pid in pids - self._descriptors.keys():
            with contextlib.suppress(OSError):  # out of descriptors: the next look comes with the next tick
                self._watch(pid)

    def _close_output(self) -> None:
        if self._output >= 0:
            os.close(self._output)
            self._output = -1


def _start(spec: ChildSpec) -> tuple[subprocess.Popen[bytes], int]:
    """Start the child and return it with the reading end of its output."""
    reader, writer = os.pipe()
    try:
        os.set_blocking(reader, False)
        # No preexec_fn: it would force a real fork, which costs three times as much.
        process = subprocess.Popen(
            spec.argv,
            env=spec.env,
            cwd=spec.cwd,
            stdin=subprocess.DEVNULL,
            stdout=writer,
            stderr=writer,
            start_new_session=True,
        )
    except BaseException:
        os.close(reader)
        raise
    finally:
        os.close(writer)
    return process, reader


def _signal_group(group: int, signal_number: int) -> None:
    """Signal the child's group; called only before its leader is reaped, while the number is its own."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal_number)


def _describe(error: OSError | ValueError, spec: ChildSpec) -> StartError:
    program = spec.argv[0]
    if not isinstance(error, OSError):
        return StartError(
            errno=errno.EINVAL, message=sanitize_line(f"cannot start {program!r}: {error}", 300)
        )
    hint = ""
    if str(error.filename) == str(spec.cwd):
        hint = f" (its working directory {str(spec.cwd)!r})"
    elif error.errno == errno.ENOENT and _is_there(program, spec):
        hint = " (the program is there, the interpreter in its first line is not)"
    message = f"cannot start {program!r}: {error.strerror}{hint}"
    return StartError(errno=error.errno or 0, message=sanitize_line(message, 300))


def _is_there(program: str, spec: ChildSpec) -> bool:
    if "/" in program:
        return (spec.cwd / program).is_file()
    return shutil.which(program, path=spec.env.get("PATH")) is not None


def _finish(  # noqa: PLR0913 - the facts of an end, by name
    log: CappedLog,
    *,
    exit_code: int | None = None,
    signal_number: int | None = None,
    ending: _Ending | None = None,
    duration_s: float = 0.0,
    leaks: tuple[str, ...] = (),
    start_error: StartError | None = None,
    said_in_time: bytes = b"",
) -> ChildEnd:
    """Close the log and put the facts together."""
    if start_error is not None:
        log.write(f"atesor: {start_error.message}\n".encode())
    log.close()
    return ChildEnd(
        exit_code=exit_code,
        signal=signal_number,
        timed_out=ending is _Ending.TIMED_OUT,
        interrupted=ending is _Ending.INTERRUPTED,
        output_limited=ending is _Ending.OUTPUT_LIMITED,
        duration_s=duration_s,
        log_bytes=log.kept_bytes,
        dropped_bytes=log.dropped_bytes,
        leaks=leaks,
        tail=said_in_time or log.tail(),
        log_error=log.error,
        start_error=start_error,
    )
