"""Programs that make images: what they say goes to a log and line by line to who wants it."""

import errno
import os
import select
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, BinaryIO, Final

from pytest_atesor.core.child_outcome import clean_reason
from pytest_atesor.errors import SetupError
from pytest_atesor.sandbox.kernel import open_process

__all__ = ["STREAM_VARIABLE", "explaining_disk", "is_full_disk", "run_logged", "show_lines"]

STREAM_VARIABLE: Final = "ATESOR_SETUP_STREAM"
"""Its value 1 asks for all that is said while an image is made."""

_TERM_WAIT_S: Final = 30.0
_LINGER_S: Final = 2.0
_CHUNK: Final = 65_536
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
_FULL_WORDS: Final = ("no space left on device", "disk quota exceeded")


def run_logged(
    argv: Sequence[str],
    log: Path,
    *,
    on_line: Callable[[str], None],
    environ: Mapping[str, str] | None = None,
    timeout_s: float | None = None,
    stdin: int | IO[bytes] = subprocess.DEVNULL,
) -> int:
    """Run a program in a session of its own and return its exit code; its output is all of ``log``.

    ``on_line`` gets each line of it as it comes. After the program's own end, output that somebody else still
    holds open is read for 2 seconds. Raises TimeoutError when ``timeout_s`` seconds were not enough, OSError
    when the program cannot be started or the log not be written. Whatever is raised, nothing of the program
    goes on.
    """
    late = threading.Event()

    def end_late() -> None:
        if process.poll() is None:
            late.set()
            _end_session(process)

    with (
        log.open("wb", buffering=0) as written,
        subprocess.Popen(
            argv,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environ,
            start_new_session=True,
        ) as process,
        _alarm(timeout_s, end_late),
    ):
        try:
            _pass_on(_read_output(process), written, on_line)
            process.wait()
        except BaseException:
            _end_session(process)
            raise
    if late.is_set():
        raise TimeoutError(errno.ETIMEDOUT, f"it did not end within {timeout_s:.0f} s")
    return process.returncode


def _pass_on(output: Iterator[bytes], log: BinaryIO, on_line: Callable[[str], None]) -> None:
    rest = b""
    for chunk in output:
        log.write(chunk)
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            on_line(line.decode(errors="replace") + "\n")
    if rest:
        on_line(rest.decode(errors="replace"))


def _read_output(process: "subprocess.Popen[bytes]") -> Iterator[bytes]:
    """Yield the output until it is closed, or for a moment after the end of the process."""
    if process.stdout is None:
        return
    stream = process.stdout.fileno()
    ended = open_process(process.pid)
    waiting = [stream, ended]
    deadline: float | None = None
    try:
        while deadline is None or time.monotonic() < deadline:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            ready, _, _ = select.select(waiting, (), (), left)
            if stream in ready:
                chunk = os.read(stream, _CHUNK)
                if not chunk:
                    return
                yield chunk
            elif ended in ready:
                waiting, deadline = [stream], time.monotonic() + _LINGER_S
    finally:
        os.close(ended)


def show_lines(progress: Callable[[str], None], environ: Mapping[str, str]) -> Callable[[str], None]:
    """Return what passes lines on to ``progress``, clean, where ``environ`` asks for them."""

    def show(line: str) -> None:
        if shown := clean_reason(line):
            progress(shown)

    return show if environ.get(STREAM_VARIABLE) == "1" else lambda _line: None


@contextmanager
def explaining_disk(directory: Path) -> Iterator[None]:
    """Turn what the system has against files below ``directory`` into the SetupError that says so."""
    try:
        yield
    except BrokenPipeError:  # whoever was shown something has gone
        raise
    except OSError as error:
        advice = "free some space there" if is_full_disk(error) else "mend that"
        raise SetupError(
            f"no image can be made below {directory} ({error}); {advice}, or set ATESOR_STATE_DIR"
        ) from error


def is_full_disk(error: Exception) -> bool:
    """Say whether the system, or a program by the system's words, had no more space for files."""
    is_told = any(words in str(error).lower() for words in _FULL_WORDS)
    return is_told or (isinstance(error, OSError) and error.errno in _FULL)


@contextmanager
def _alarm(after_s: float | None, ring: Callable[[], None]) -> Iterator[None]:
    if after_s is None:
        yield
        return
    timer = threading.Timer(after_s, ring)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _end_session(process: "subprocess.Popen[bytes]") -> None:
    """End the program with all its children; it is given time to take down what it set up."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=_TERM_WAIT_S)
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
