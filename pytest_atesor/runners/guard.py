"""What happens to a child when the harness itself is killed: a guard process kills the child's whole tree.

The kernel's parent-death signal would reach the child alone and leave what it started, and needs one more
program in front of every child. The guard is a shell that reads from a pipe whose other end only we hold:
when we die, in whatever way, the read ends, and it kills the child's process group and every process with
its birth mark.
"""

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from typing import Final

from pytest_atesor.runners.birth_mark import LIMIT_LABEL

__all__ = ["guarding"]

_SHELL: Final = "/bin/sh"
_SCRIPT: Final = f"""\
read -r group
read -r _
kill -KILL -- "-$group"
for round in 1 2 3 4 5; do
    found=$(grep -ls "^{LIMIT_LABEL}  *$1 " /proc/[0-9]*/limits)
    [ -n "$found" ] || exit 0
    for file in $found; do
        file=${{file#/proc/}}
        kill -KILL "${{file%/limits}}"
    done
done
"""


@contextlib.contextmanager
def guarding(mark: int) -> Iterator[Callable[[int], None]]:
    """Have all with that birth-mark number killed should this process die inside the block, in any way.

    Start the child inside, and tell its process group to the function that the block gets: a group is killed
    in one step, however fast it forks. A guard that cannot be started (no memory, no shell) is done without.
    """
    with contextlib.ExitStack() as stack:
        try:
            reader, writer = os.pipe()
        except OSError:
            yield _do_without
            return
        stack.callback(os.close, writer)
        try:
            guard = _start(reader, mark)
        except OSError:
            yield _do_without
            return
        finally:
            os.close(reader)
        stack.callback(_end, guard)

        def protect(group: int) -> None:
            with contextlib.suppress(BrokenPipeError):
                os.write(writer, b"%d\n" % group)

        yield protect


def _start(reader: int, mark: int) -> int:
    null = [(os.POSIX_SPAWN_OPEN, descriptor, os.devnull, os.O_WRONLY, 0) for descriptor in (1, 2)]
    return os.posix_spawn(
        _SHELL,
        ["atesor-guard", "-c", _SCRIPT, "atesor-guard", str(mark)],
        {"PATH": os.defpath},
        file_actions=[(os.POSIX_SPAWN_DUP2, reader, 0), *null],
        setsid=True,
    )


def _end(guard: int) -> None:
    with contextlib.suppress(ProcessLookupError, ChildProcessError):
        os.kill(guard, signal.SIGKILL)
        os.waitpid(guard, 0)


def _do_without(_group: int) -> None:
    """Protect nothing."""
