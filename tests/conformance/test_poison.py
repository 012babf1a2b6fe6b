"""Whatever a case did to its sandbox, the next one in the same slot finds everything as new."""

import contextlib
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_atesor.errors import SandboxError
from pytest_atesor.sandbox.interface import Absent, Completed
from pytest_atesor.sandbox.sandbox import Sandbox, open_sandbox
from pytest_atesor.sandbox.slots import slot_directory

sys.path.insert(0, str(Path(__file__).parents[1] / "plugin"))

from disks import AS_ROOT, memory_disk

if TYPE_CHECKING:
    from conftest import Workbench

pytestmark = pytest.mark.engine

Shell = Callable[..., Completed]
Processes = Callable[[Sandbox], list[str]]

HIDING = """
    setsid sh -c 'trap "" TERM HUP INT; while :; do sleep 609; done' > /dev/null 2>&1 &
    (setsid bash -c '(sleep 609 &); (exec -a innocent sleep 609 &)' > /dev/null 2>&1 &)
"""
# One entry more than the owner's own: user 1000 may do all.
ACCESS_LIST = """
import os, struct
entries = [(1, 7, -1), (2, 7, 1000), (4, 5, -1), (16, 7, -1), (32, 5, -1)]
packed = [struct.pack("<HHI", tag, may, who & 0xFFFFFFFF) for tag, may, who in entries]
text = struct.pack("<I", 2) + b"".join(packed)
for place in ("/workspace", "/workspace/cache", "/workspace/cache/apt/archives"):
    for kind in ("access", "default"):
        os.setxattr(place, f"system.posix_acl_{kind}", text)
"""

# What a root inside does; the commands of a sandbox that dies of it may fail in any way.
POISONS = {
    "PID 1 ended": "kill -TERM 1; sleep 60",
    "no programs": "rm -rf /bin /usr/bin /usr/sbin /native",
    "no libraries": "rm -rf /usr/lib /lib /native",
    "processes left": HIDING,
    "cache is a dangling link": "rm -rf cache && ln -s /nowhere/at/all cache",
    "cache is a link to a directory": "rm -rf cache && ln -s /etc cache",
    "a link inside the cache": "rm -rf cache/apt && ln -s /etc cache/apt",
    "the packages are a link": "rm -rf cache/apt/archives && ln -s /etc cache/apt/archives",
    "cache is a file": "rm -rf cache && echo > cache",
    "cache is a pipe": "rm -rf cache && mkfifo cache",
    "links in the builder's places": "rm -rf src; for n in src build stage home; do ln -s /etc $n; done",
    "closed": "chmod 0 src cache/apt/archives cache/apt cache .",
    "given away": "chown -R builder:builder . && chmod -R 777 .",
    "an access list": f"python3 -c '{ACCESS_LIST}'",
    "odd names": 'mkdir -- "-rf" "old" "a\nb" " " && touch -- "src/-f" "$(printf "\\377")"',
    "a deep tree": "cd src; d=a-name-that-adds-up; for n in $(seq 300); do mkdir $d; cd $d; done",
}
AS_NEW = """\
. directory 755
./cache directory root 755
./cache/apt directory root 755
./cache/apt/archives directory root 755
./cache/apt/archives/partial directory root 755
./src directory builder 755
"""
LOOK = """
    cd /workspace; stat -c '%n %F %a' .
    find . -mindepth 1 | LC_ALL=C sort | while read -r one; do stat -c '%n %F %U %a' "$one"; done
"""


@pytest.mark.parametrize("poison", POISONS)
def test_the_next_case_finds_everything_as_new(
    workbench: "Workbench", shell: Shell, processes: Processes, poison: str
) -> None:
    sandbox = workbench.open("poison", reset=True)
    with contextlib.suppress(SandboxError):  # it may not survive
        shell(sandbox, f"cd /workspace\n{POISONS[poison]}", user="root")
    again = workbench.open("poison", reset=True)
    assert shell(again, LOOK).tail.decode() == AS_NEW
    assert shell(again, "ls /bin/sh /etc/passwd > /dev/null; touch src/mine && rm src/mine").exit_code == 0
    assert shell(again, "touch cache/x || touch cache/apt/archives/x || mv cache other").exit_code != 0
    assert processes(again) == []


CACHES = """
    for place in ~/.cache/go-build ~/.cache/ccache ~/.ccache ~/.cargo/registry ~/go/pkg/mod ~/.config/git \\
        /workspace/src /tmp /var/tmp /dev/shm; do mkdir -p $place; echo evil > $place/planted; done
    for place in /workspace/cache /workspace/cache/apt/archives /usr/share/gocode /usr/share/cargo /.cargo \\
        /var/cache/apt /var/lib/apt/lists /etc/apt /native/usr/bin /usr/local/bin; do
        ! echo evil > $place/planted || exit 1
    done 2> /dev/null
"""
PLANTED = "find / -xdev -name planted 2> /dev/null; find /dev/shm /workspace -name planted"


def test_what_a_build_plants_in_caches_reaches_no_other_slot_and_no_later_case(
    workbench: "Workbench", shell: Shell
) -> None:
    sandbox, other = workbench.open("plants", reset=True), workbench.open("beside", reset=True)
    assert shell(sandbox, CACHES).exit_code == 0
    assert shell(sandbox, PLANTED, user="root").tail.count(b"planted\n") >= 10
    assert shell(other, PLANTED, user="root").tail == b""
    for word in ("beside", "plants"):
        assert shell(workbench.open(word, reset=True), PLANTED, user="root").tail == b""


def test_packages_are_kept_and_nothing_that_only_looks_like_one(workbench: "Workbench", shell: Shell) -> None:
    sandbox = workbench.open("packages", reset=True)
    script = """
        cd /workspace/cache/apt/archives
        echo good > good_1_riscv64.deb
        echo text > text; mkdir dir_1_riscv64.deb; mkfifo pipe_1_riscv64.deb
        ln -s /etc/shadow link_1_riscv64.deb
        echo x > open_1_riscv64.deb; chmod 666 open_1_riscv64.deb
        echo x > given_1_riscv64.deb; chown builder given_1_riscv64.deb
        echo x > twice_1_riscv64.deb; ln twice_1_riscv64.deb again_1_riscv64.deb
        echo x > partial/x_1_riscv64.deb
    """
    assert shell(sandbox, script, user="root").exit_code == 0
    again = workbench.open("packages", reset=True)
    found = shell(again, "cd cache/apt/archives; find . ! -type d; cat good_1_riscv64.deb")
    assert found.tail.decode() == "./good_1_riscv64.deb\ngood\n"


@pytest.mark.parametrize("workbench", ["docker", "podman", "host"], indirect=True)  # on this disk
def test_a_full_disk_is_emptied_for_the_next_case(
    workbench: "Workbench", shell: Shell, tmp_path: Path
) -> None:
    name = workbench.name("full")
    place = slot_directory(tmp_path, name)
    place.mkdir(parents=True)
    with memory_disk(place, "8m"):
        try:
            sandbox = open_sandbox(workbench.engine, name, image=workbench.image, state=tmp_path, reset=True)
            fill = "cat /dev/zero > src/all; i=0; while echo > src/$i; do i=$((i + 1)); done"
            assert b"No space left" in shell(sandbox, fill).tail
            again = open_sandbox(workbench.engine, name, image=workbench.image, state=tmp_path, reset=True)
            assert shell(again, LOOK).tail.decode() == AS_NEW
            assert shell(again, "head -c 6000000 /dev/zero > src/room").exit_code == 0
        finally:
            workbench.engine.remove(name)
    assert workbench.engine.state(name) == Absent()


@pytest.mark.parametrize("workbench", ["docker", "podman", "host"], indirect=True)  # on this disk
def test_a_workspace_that_cannot_be_put_in_order_is_replaced(workbench: "Workbench", shell: Shell) -> None:
    sandbox = workbench.open("replaced", reset=True)
    shell(sandbox, "touch src/stubborn")
    place = slot_directory(workbench.state, sandbox.name)
    # not even root removes it, as on a file system with an error
    attributes("+i", place / "workspace/src/stubborn")
    try:
        again = workbench.open("replaced", reset=True)
        assert shell(again, LOOK).tail.decode() == AS_NEW
        (stubborn,) = place.glob("retired-*/src/stubborn")
    finally:
        for left in place.rglob("stubborn"):
            attributes("-i", left)
    assert stubborn.exists()
    workbench.open("replaced", reset=True)
    assert not list(place.glob("retired-*"))


def attributes(change: str, file: Path) -> None:
    subprocess.run([*AS_ROOT, "chattr", change, str(file)], check=True)
