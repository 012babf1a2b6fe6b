import base64
import hashlib
import re
from collections.abc import Callable
from typing import BinaryIO

from pytest_atesor.porter.packaged import set_packaged_aside
from pytest_atesor.porter.scan import Before, scan_tree
from pytest_atesor.porter.shell import Shell
from pytest_atesor.porter.tree import Tree
from pytest_atesor.porter.verdict import decide_verdict
from pytest_atesor.sandbox.interface import Completed, ExecSpec

Make = Callable[..., bytes]
MakeTree = Callable[..., Tree]


class _Dpkg:
    """A sandbox whose packages brought files with these MD5 sums."""

    def __init__(self, sums: set[str]) -> None:
        self._sums = sums

    def run(
        self,
        command: ExecSpec,
        *,
        timeout_s: float,  # noqa: ARG002 - the protocol's
        sink: BinaryIO | None = None,  # noqa: ARG002 - the protocol's
        tail_bytes: int = 65_536,
    ) -> Completed:
        asked = re.findall(r"-e (\S+)", command.argv[-1])
        found = "".join(f"{one}\n" for one in asked if one in self._sums).encode()
        return Completed(exit_code=0, tail=found[-tail_bytes:], duration_s=0.0)

    def clear(self) -> None:
        raise AssertionError("nothing asks for that here")

    def set_network(self, *, enabled: bool) -> None:
        raise AssertionError(f"nothing asks for that here: {enabled}")


def _md5(data: bytes) -> str:
    return hashlib.md5(data, usedforsecurity=False).hexdigest()


def test_a_copy_of_the_sandboxs_own_program_proves_nothing(make_tree: MakeTree, elf: Make) -> None:
    tree = make_tree({"product": elf()})
    shell = Shell(_Dpkg({_md5(elf())}), deadline=None, output=None)
    scan = set_packaged_aside(scan_tree(tree, Before()), shell)
    assert (scan.products, scan.packaged) == ((), ("product",))
    outcome = decide_verdict(scan)
    assert outcome.exit_code == 3
    assert "sandbox's own packages" in outcome.reason


def test_apk_knows_files_by_another_digest(make_tree: MakeTree, elf: Make) -> None:
    tree = make_tree({"product": elf(), "built": elf(flags=4)})
    sha1 = base64.b64encode(hashlib.sha1(elf(), usedforsecurity=False).digest()).decode()
    scan = set_packaged_aside(
        scan_tree(tree, Before()), Shell(_Dpkg({f"Q1{sha1}"}), deadline=None, output=None)
    )
    assert ([one.path for one in scan.products], scan.packaged) == (["built"], ("product",))


def test_what_was_built_counts_beside_such_copies_however_many_there_are(
    make_tree: MakeTree, elf: Make
) -> None:
    copies = {f"copy-{number}": elf() + b"%d" % number for number in range(1200)}
    tree = make_tree({**copies, "built": elf(flags=4)})
    shell = Shell(_Dpkg({_md5(one) for one in copies.values()}), deadline=None, output=None)
    scan = set_packaged_aside(scan_tree(tree, Before()), shell)
    assert [one.path for one in scan.products] == ["built"]


def test_nothing_is_set_aside_where_nothing_is_recorded(make_tree: MakeTree, elf: Make) -> None:
    tree = make_tree({"product": elf()})
    scan = set_packaged_aside(scan_tree(tree, Before()), Shell(_Dpkg(set()), deadline=None, output=None))
    assert [one.path for one in scan.products] == ["product"]
