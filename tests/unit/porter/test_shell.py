import io
from typing import BinaryIO

from pytest_atesor.errors import SandboxError
from pytest_atesor.porter.shell import Capture, Shell
from pytest_atesor.sandbox.interface import Completed, ExecSpec


def test_a_captured_line_is_cut_so_that_no_search_in_it_takes_long() -> None:
    capture = Capture(io.BytesIO())
    capture.write(b"before\n" + b"x" * 100_000 + b"\nafter\n")
    assert capture.text() == f"before\n{'x' * 2000}\nafter\n"


def test_everything_is_passed_on_whole() -> None:
    through = io.BytesIO()
    capture = Capture(through)
    capture.write(b"x" * 100_000)
    assert through.getvalue() == b"x" * 100_000


class _Full:
    """A sandbox in which nothing can be started any more."""

    def __init__(self) -> None:
        self.cleared = 0

    def run(
        self,
        command: ExecSpec,  # noqa: ARG002 - the protocol's
        *,
        timeout_s: float,  # noqa: ARG002 - the protocol's
        sink: BinaryIO | None = None,  # noqa: ARG002 - the protocol's
        tail_bytes: int = 65_536,  # noqa: ARG002 - the protocol's
    ) -> Completed:
        raise SandboxError("no room for one more process")

    def clear(self) -> None:
        self.cleared += 1

    def set_network(self, *, enabled: bool) -> None:
        raise AssertionError(f"nothing asks for that here: {enabled}")


def test_a_sandbox_full_of_processes_is_emptied_from_outside() -> None:
    sandbox = _Full()
    Shell(sandbox, deadline=None, output=None).end_builders()
    assert sandbox.cleared == 1
