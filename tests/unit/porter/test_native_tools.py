"""Which tools were native, from the sandbox's own answer."""

import pytest
from fake_sandbox import FakeSandbox

from pytest_atesor.errors import SandboxError
from pytest_atesor.porter.shell import Shell
from pytest_atesor.porter.tools import read_native_tools
from pytest_atesor.sandbox.tools import parse_native_tools

ANSWER = """\
make make 4.4.1-2
gmake make 4.4.1-2
perl perl-base 5.40.1-6
go golang-1.26-go 1.26.8-1~bpo13+1
a line of five words !

make
go
someone-elses-link
"""


class BrokenSandbox(FakeSandbox):
    def run(self, *_command: object, **_options: object) -> None:  # type: ignore[override]  # always fails
        raise SandboxError("no room for one more process")


def test_packages_are_named_whose_programs_stand_in_place() -> None:
    assert parse_native_tools(ANSWER) == {"golang-1.26-go": "1.26.8-1~bpo13+1", "make": "4.4.1-2"}


@pytest.mark.parametrize("answer", ["", "\n", "make make 4.4.1-2\n", "make make 4.4.1-2\n\n"])
def test_without_programs_in_place_nothing_is_native(answer: str) -> None:
    assert parse_native_tools(answer) == {}


def test_root_is_asked_so_that_a_build_cannot_answer() -> None:
    sandbox = FakeSandbox([("/native/tools", [(0, ANSWER.encode())])])
    found = read_native_tools(Shell(sandbox, deadline=None, output=None))
    assert found["make"] == "4.4.1-2"
    assert [one.user for one in sandbox.ran] == ["root"]


def test_a_sandbox_that_does_not_answer_is_no_verdict() -> None:
    assert read_native_tools(Shell(BrokenSandbox([]), deadline=None, output=None)) == {}
