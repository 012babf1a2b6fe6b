"""Agents that will not end, flood, or mislead about why they ended, and what becomes of their case."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from pytest_atesor.core.outcome import Cause, Status
from pytest_atesor.core.plan import Case, Platform, Target
from pytest_atesor.runners.interface import AttemptContext, AttemptEnd
from pytest_atesor.runners.port import PortRunner
from pytest_atesor.runners.stop import StopFlag

# A deadline before which the agent surely does what it does at once: it may stand still for seconds.
AMPLE_S = 12.0


@pytest.fixture
def stop() -> Iterator[StopFlag]:
    with StopFlag() as flag:
        yield flag


def run_agent(
    directory: Path,
    stop: StopFlag,
    script: str,
    *,
    timeout_s: float = 300.0,
    grace_s: float = 1.0,
    end_at_output_cap: bool = False,
) -> AttemptEnd:
    """Run ``script`` as the agent of one case, with tight limits."""
    case = Case(
        case_id="x",
        label="x",
        kind="port",
        spec={"url": "https://example.org/x", "max_attempts": 1},
        timeout_s=1,
        derived_name="x",
    )
    context = AttemptContext(
        attempt_dir=directory,
        log_path=directory / "run.log",
        cwd=directory,
        slot="w1",
        engine="none",
        state_dir=directory,
        environ={"PATH": os.environ["PATH"]},
        deadline=time.monotonic() + timeout_s,
        deadline_epoch=time.time() + timeout_s,
        platform=Platform.DEBIAN,
        target=Target.QEMU,
        agent=("/bin/bash", "-c", script, "agent"),
        stop=stop,
        term_grace_s=grace_s,
        output_cap_bytes=1_000_000,
        end_at_output_cap=end_at_output_cap,
    )
    return PortRunner().run(case, context)


def test_a_leader_that_dies_on_term_does_not_save_its_children(tmp_path: Path, stop: StopFlag) -> None:
    script = """
        (trap "" TERM; echo $BASHPID >>pids; sleep 3000; sleep 3000) &
        setsid bash -c 'echo $$ >>pids; sleep 3000; sleep 3000' &
        wait
    """
    end = run_agent(tmp_path, stop, script, timeout_s=AMPLE_S)
    assert end.status is Status.TIMEOUT
    pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
    assert len(pids) == 2
    assert not [pid for pid in pids if psutil.pid_exists(pid)]


def test_an_agent_that_obeys_frees_its_slot_at_once(tmp_path: Path, stop: StopFlag) -> None:
    started = time.monotonic()
    end = run_agent(tmp_path, stop, "echo building; sleep 3000", timeout_s=AMPLE_S, grace_s=600)
    assert (end.status, end.cause) == (Status.TIMEOUT, None)
    assert end.reason.endswith("; last: building")
    assert time.monotonic() - started < 300, "the ladder was waited for"


@pytest.mark.parametrize(
    ("ends", "timeout_s", "status", "cause"),
    [(False, 5.0, Status.TIMEOUT, None), (True, 300.0, Status.FAIL, Cause.OUTPUT_LIMIT)],
    ids=["goes on capped", "ends the attempt"],
)
def test_a_prompt_loop_stays_small(
    tmp_path: Path, stop: StopFlag, *, ends: bool, timeout_s: float, status: Status, cause: Cause | None
) -> None:
    loop = "exec timeout 600 yes 'really?'"
    end = run_agent(tmp_path, stop, loop, timeout_s=timeout_s, end_at_output_cap=ends)
    assert (end.status, end.cause) == (status, cause)
    assert end.log_dropped_bytes > 0
    assert end.log_bytes == 1_000_000
    assert (tmp_path / "run.log").stat().st_size < 1_000_100


def test_a_prompt_finds_no_one_to_answer_it(tmp_path: Path, stop: StopFlag) -> None:
    end = run_agent(tmp_path, stop, "echo 'continue?'; read -r answer || { echo 'no answer'; exit 1; }")
    assert (end.status, end.reason) == (Status.FAIL, "no answer")


@pytest.mark.parametrize("code", [124, 137, 143])
def test_only_our_own_deadline_makes_a_timeout(tmp_path: Path, stop: StopFlag, code: int) -> None:
    end = run_agent(tmp_path, stop, f"echo the inner one gave up; exit {code}")
    assert (end.status, end.exit_code) == (Status.FAIL, code)
    assert "the inner one gave up" in end.reason


def test_a_failure_always_has_its_evidence(tmp_path: Path, stop: StopFlag) -> None:
    end = run_agent(tmp_path, stop, "exit 1")
    assert (end.status, end.cause, end.reason) == (Status.FAIL, Cause.AGENT, "exit 1, with no output at all")
