"""What the engine and the kernel are asked after a failure, and what their answers become."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from sandbox_fakes import FakeEngine

from pytest_atesor.errors import SandboxError
from pytest_atesor.sandbox.evidence import (
    count_oom_kills,
    count_refused_forks,
    read_evidence,
    read_machine_evidence,
)
from pytest_atesor.sandbox.interface import Absent, ExecSpec, Foreign, Present
from pytest_atesor.sandbox.sandbox import Sandbox
from tests.unit.processes import LIMIT_S

ALIVE = Present(running=True, image_id="x", labels={})


def engine_with(state: Present, **more: str) -> FakeEngine:
    return FakeEngine(containers={"box": state}, **more)  # type: ignore[arg-type]  # only texts are given


@dataclass
class DeadEngine(FakeEngine):
    """An engine whose client gets no answer any more."""

    def state(self, name: str) -> Absent | Foreign | Present:
        raise SandboxError(f"no answer about {name}")


def test_the_kernel_s_counters_are_read_inside(tmp_path: Path) -> None:
    engine = engine_with(ALIVE, says="printf 'oom_kill 2\\nfailcnt 5\\npids_max 3\\nfree 1000\\nfree 70\\n'")
    evidence = read_evidence(engine, "box", tmp_path)
    assert (evidence.state, evidence.oom_kills, evidence.memory_full) == ("running", 2, True)
    assert evidence.free_bytes == 70
    assert (evidence.was_restarted, evidence.refused_forks) == (False, 3)


@dataclass
class MountingEngine(FakeEngine):
    """Runs what it is given here, where /tmp is a file system of its own with these options."""

    options: str = ""

    def exec_argv(self, name: str, command: ExecSpec) -> list[str]:
        del name
        own = ("--propagation=private",) if os.geteuid() == 0 else ("--user", "--map-root-user")
        mount = 'mount -t tmpfs -o "$0" none /tmp && exec "$@"'
        return ["unshare", "--mount", *own, "sh", "-c", mount, self.options, *command.argv]


@pytest.mark.parametrize(
    ("options", "files"),
    [
        pytest.param("size=1g,nr_inodes=1", 0, id="none"),
        pytest.param("size=1g,nr_inodes=5", 4, id="four"),
    ],
)
def test_how_many_files_can_be_made_is_asked_like_how_many_bytes(
    tmp_path: Path, options: str, files: int
) -> None:
    engine = MountingEngine(containers={"box": ALIVE}, options=options)
    probe = engine.exec_argv("box", ExecSpec(argv=["true"]))
    if subprocess.run(probe, capture_output=True, check=False).returncode != 0:
        pytest.skip("needs a mount namespace of its own")
    evidence = read_evidence(engine, "box", tmp_path)
    assert (evidence.free_files, (evidence.free_bytes or 0) > 1 << 20) == (files, True)


def test_files_without_a_bound_are_no_want_of_them(tmp_path: Path) -> None:
    engine = engine_with(ALIVE, says="printf 'free 70\n'")
    here = os.statvfs(tmp_path)
    assert (read_evidence(engine, "box", tmp_path).free_files is None) == (here.f_files == 0)
    assert (read_machine_evidence(tmp_path, 0).free_files is None) == (here.f_files == 0)


def test_what_cannot_be_measured_is_not_known(tmp_path: Path) -> None:
    evidence = read_evidence(engine_with(ALIVE), "box", tmp_path / "gone")
    assert (evidence.free_bytes, evidence.free_files) == (None, None)


def test_counters_of_a_sandbox_that_was_restarted_are_marked(tmp_path: Path) -> None:
    again = Present(running=True, image_id="x", labels={}, was_restarted=True)
    assert read_evidence(engine_with(again), "box", tmp_path).was_restarted


def test_an_engine_without_an_answer_is_evidence(tmp_path: Path) -> None:
    assert read_evidence(DeadEngine(), "box", tmp_path).engine_error == "no answer about box"


def test_a_sandbox_that_is_gone_is_told_from_an_engine_that_is(tmp_path: Path) -> None:
    assert read_evidence(FakeEngine(), "box", tmp_path).state == "absent"
    gone = read_evidence(FakeEngine(problem="the daemon does not answer"), "box", tmp_path)
    assert gone.engine_error == "the daemon does not answer"


@pytest.mark.parametrize(("oom_killed", "kills"), [(True, 1), (False, 0)])
def test_a_stopped_sandbox_has_the_engine_s_word_on_memory(
    tmp_path: Path, *, oom_killed: bool, kills: int
) -> None:
    stopped = Present(running=False, image_id="x", labels={}, oom_killed=oom_killed)
    evidence = read_evidence(engine_with(stopped), "box", tmp_path)
    assert (evidence.state, evidence.oom_kills) == ("stopped", kills)


def test_a_sandbox_that_starts_nothing_is_stuck(tmp_path: Path) -> None:
    assert read_evidence(engine_with(ALIVE, says="exit 126"), "box", tmp_path).state == "stuck"


TREES = {
    "version 1": ("9:memory:/box\n8:pids:/docker/x\n0::/docker/x\n", "pids/docker/x"),
    "version 2": ("0::/machine.slice/x.scope\n", "machine.slice/x.scope"),
}


@pytest.mark.parametrize(("groups", "place"), TREES.values(), ids=TREES.keys())
def test_refused_processes_are_counted_from_outside(tmp_path: Path, groups: str, place: str) -> None:
    process = tmp_path / "proc" / "42"
    process.mkdir(parents=True)
    (process / "cgroup").write_text(groups)
    assert count_refused_forks(42, tmp_path) == 0
    counter = tmp_path / "sys" / "fs" / "cgroup" / place
    counter.mkdir(parents=True)
    (counter / "pids.events").write_text("max 9\n")
    assert count_refused_forks(42, tmp_path) == 9
    assert count_refused_forks(0, tmp_path) == 0


def test_a_sandbox_whose_last_processes_are_still_dying_is_asked_again(tmp_path: Path) -> None:
    freed = tmp_path / "freed"
    engine = engine_with(ALIVE, says=f"test -e '{freed}' && printf 'free 70\\n'")
    waits: list[float] = []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        freed.touch()

    evidence = read_evidence(engine, "box", tmp_path, wait)
    assert (evidence.state, evidence.free_bytes, waits) == ("running", 70, [1.0])


def test_without_a_sandbox_the_machine_is_asked(tmp_path: Path) -> None:
    before = count_oom_kills()
    evidence = read_machine_evidence(tmp_path, before - 1)
    assert evidence.oom_kills >= 1
    assert evidence.state == "unmanaged"
    assert evidence.free_bytes is not None


FORGERIES = {
    "docker": "Error response from daemon: No such container: box",
    "podman": "Error: can only create exec sessions on running containers",
    "runtime": "OCI runtime exec failed: exec failed: resource temporarily unavailable",
}


@pytest.mark.parametrize("words", FORGERIES.values(), ids=FORGERIES.keys())
def test_the_engine_s_words_in_a_build_s_mouth_are_a_failed_command(words: str) -> None:
    # Each start says the words and fails, unless it is the check that programs start at all.
    engine = ForgingEngine(containers={"box": ALIVE}, says=f"echo '{words}'; exit 1")
    done = Sandbox(engine, "box").run(ExecSpec(argv=["make"]), timeout_s=LIMIT_S)
    assert done.exit_code == 1
    assert words.encode() in done.tail


@dataclass
class ForgingEngine(FakeEngine):
    """Runs ``true`` as itself and everything else as ``says``."""

    def exec_argv(self, name: str, command: ExecSpec) -> list[str]:
        return ["true"] if list(command.argv) == ["true"] else super().exec_argv(name, command)


@pytest.mark.parametrize("words", FORGERIES.values(), ids=FORGERIES.keys())
def test_the_same_words_count_when_nothing_can_be_started(words: str) -> None:
    engine = FakeEngine(containers={"box": ALIVE}, says=f"echo '{words}'; exit 1")
    with pytest.raises(SandboxError, match="the sandbox box failed"):
        Sandbox(engine, "box").run(ExecSpec(argv=["make"]), timeout_s=LIMIT_S)
