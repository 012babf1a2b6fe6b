"""How one child process ended, as facts: no judgement of what that means for a case."""

from dataclasses import dataclass

__all__ = ["ChildEnd", "StartError"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StartError:
    """The child never existed.

    The system's error number and a message that names what could not be started.
    """

    errno: int
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildEnd:
    """The end of one child.

    ``exit_code`` is None when a signal ended the child (then ``signal`` is its number) or when it never
    started. Of ``timed_out`` (our own deadline passed), ``interrupted`` (a stop signal came) and
    ``output_limited`` (the output cap was set to end the child) at most one is True: the first that made us
    end it. ``duration_s`` is monotonic, from the start to the end of the child itself.

    ``log_bytes`` and ``dropped_bytes`` add up to what the child wrote; ``log_error`` says why bytes were lost
    other than to the cap (a full disk). ``leaks`` names processes that outlived the child and were killed, as
    ``name (pid)``. ``tail`` is the last 64 KiB of output, raw; of a child that was made to end, what it had
    said until then, if anything: what programs say of their end is no reason for it.
    """

    exit_code: int | None
    signal: int | None
    timed_out: bool
    interrupted: bool
    duration_s: float
    log_bytes: int
    dropped_bytes: int
    leaks: tuple[str, ...]
    tail: bytes
    output_limited: bool = False
    log_error: str | None = None
    start_error: StartError | None = None
