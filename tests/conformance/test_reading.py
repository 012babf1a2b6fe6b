"""What the sandbox's users own is read from outside, by somebody who is not root of this machine."""

import ctypes
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from pytest_atesor.porter.context import Place
from pytest_atesor.porter.readable import forget_products, read_products, read_source
from pytest_atesor.porter.scan import digest_natives, scan_tree
from pytest_atesor.porter.shell import Shell as PorterShell
from pytest_atesor.sandbox.interface import Completed
from pytest_atesor.sandbox.slots import slot_directory

if TYPE_CHECKING:
    from conftest import Workbench

pytestmark = pytest.mark.engine

Shell = Callable[..., Completed]

CLOSED = """
umask 077
mkdir -p src/p/data build/p/data stage/sbin
cp /bin/true src/p/data/old
cp src/p/data/old build/p/data/old
echo 'void f(void) {}' > build/p/f.c
gcc -shared -o build/p/libf.so build/p/f.c
install -m 4711 build/p/libf.so stage/sbin/f
"""
MODES = "stat -c '%a %h %n' src/p build/p build/p/data/old build/p/libf.so stage/sbin/f"
CAPABILITIES_3 = 0x20080522
PAST_MODES = 1 << 1 | 1 << 2  # CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH


@contextmanager
def bound_by_modes() -> Iterator[None]:
    """Make this thread ask for permission where it is root; programs that it starts need not."""
    libc = ctypes.CDLL(None, use_errno=True)
    head, had = struct.pack("=Ii", CAPABILITIES_3, 0), ctypes.create_string_buffer(24)
    assert libc.capget(head, had) == 0
    effective, *rest = struct.unpack("=6I", had.raw)
    assert libc.capset(head, struct.pack("=6I", effective & ~PAST_MODES, *rest)) == 0
    try:
        yield
    finally:
        assert libc.capset(head, had.raw) == 0


def test_what_a_build_closes_is_read_all_the_same_and_stays_as_it_is(
    workbench: "Workbench", shell: Shell
) -> None:
    if workbench.engine.is_remote:
        pytest.skip("its workspaces are copies that belong to this user")
    sandbox = workbench.open("closed")
    workspace = slot_directory(workbench.state, sandbox.name) / "workspace"
    assert shell(sandbox, "install -d -o builder -g builder build stage src", user="root").exit_code == 0
    done = shell(sandbox, f"set -e; {CLOSED}{MODES}")
    assert done.exit_code == 0, done.tail
    place = Place(sandbox=sandbox, workspace=workspace, index=workspace)
    inside = PorterShell(sandbox, deadline=None, output=None)
    with bound_by_modes():
        before = digest_natives(read_source(place, inside, "p"))
        scan = scan_tree(read_products(place, inside, "p"), before)
    forget_products(place, inside, scan.root)
    assert (sorted(one.path for one in scan.products), scan.prebuilt, scan.gaps) == (
        ["build/p/libf.so", "stage/sbin/f"],
        ("build/p/data/old",),
        0,
    )
    assert shell(sandbox, MODES, user="root").tail == done.tail
