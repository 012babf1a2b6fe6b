"""Public reports of failures in sandboxes, each as a small batch on a real engine."""

import json
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import pytest
from lab import finish, kill_tree

if TYPE_CHECKING:
    from lab import Run

    from conftest import SandboxLab

pytestmark = pytest.mark.engine

PATIENCE_S = 1200  # for a whole batch in sandboxes

VERBS = {
    "leave": "leave",
    "look": "look",
    "stall": "stall",
    "look-again": "look",
    "die": "die",
    "die-once": "die-once",
    "memory": "memory",
    "says-daemon": "says-daemon",
    "says-space": "says-space",
    "says-memory": "says-memory",
    "exit-137": "exit-137",
    "good": "pass",
}


class Found(NamedTuple):
    lab: "SandboxLab"
    run: "Run"
    cases: dict[str, dict[str, object]]


@pytest.fixture(scope="module")
def batch(make_lab: Callable[[str], "SandboxLab"]) -> Found:
    """One batch on one slot, so that each case follows the one before into the same sandbox."""
    lab = make_lab("cases")
    lab.write_list("all", VERBS, leave={"timeout_seconds": 6}, stall={"timeout_seconds": 40})
    run = lab.run(
        "--atesor-list",
        "all",
        "-n1",
        "--atesor-slot-memory=128M",
        "--atesor-slot-pids=200",
        timeout_s=PATIENCE_S,
    )
    cases = {case["label"]: case for case in lab.results()["cases"]} if lab.bundles else {}
    return Found(lab, run, cases)


def outcome(found: Found, label: str) -> tuple[object, object, object]:
    case = found.cases[label]
    return case["status"], case["cause"], case["attempts"]


def test_what_a_timeout_leaves_in_the_sandbox_is_gone_before_the_next_case(batch: Found) -> None:
    assert outcome(batch, "leave") == ("TIMEOUT", None, 1), batch.run.out + batch.run.err
    assert outcome(batch, "look") == ("PASS", None, 1), batch.run.out


def test_an_emulated_program_that_hangs_is_ended_at_its_deadline_and_is_no_failure_of_the_machine(
    batch: Found,
) -> None:
    assert outcome(batch, "stall") == ("TIMEOUT", None, 1), batch.run.out + batch.run.err
    assert str(batch.cases["stall"]["reason"]).endswith("; last: 1")  # it had begun to hang
    assert outcome(batch, "look-again") == ("PASS", None, 1)


def test_a_container_that_died_is_the_environment_s_and_tried_again(batch: Found) -> None:
    assert outcome(batch, "die") == ("FAIL", "environment", 2)
    assert "sandbox died" in str(batch.cases["die"]["reason"])
    assert outcome(batch, "die-once") == ("PASS", None, 2)


def test_out_of_memory_is_proven_by_the_control_group(batch: Found) -> None:
    assert outcome(batch, "memory") == ("FAIL", "environment", 2)
    assert str(batch.cases["memory"]["reason"]).startswith("out of memory: the kernel killed ")


@pytest.mark.parametrize("label", ["says-daemon", "says-space", "says-memory"])
def test_words_alone_never_blame_the_environment(batch: Found, label: str) -> None:
    assert outcome(batch, label) == ("FAIL", "build", 1)


def test_a_fork_bomb_is_the_build_s_own_fault(make_lab: Callable[[str], "SandboxLab"]) -> None:
    lab = make_lab("bomb")
    lab.write_list("bomb", {"bomb": "bomb", "good": "pass"}, bomb={"timeout_seconds": 300})
    run = lab.run(
        "--atesor-list",
        "bomb",
        "-n1",
        "--atesor-slot-memory=1G",
        "--atesor-slot-pids=64",
        timeout_s=PATIENCE_S,
    )
    assert lab.bundles, run.out + run.err
    cases = {case["label"]: case for case in lab.results()["cases"]}
    bomb = cases["bomb"]
    assert (bomb["status"], bomb["cause"], bomb["attempts"]) == ("FAIL", "build", 1), run.out + run.err
    assert bomb["reason"].startswith("it used up the processes of its sandbox")
    assert cases["good"]["status"] == "PASS"
    assert lab.left() == set()


def test_exit_137_of_a_child_is_no_timeout(batch: Found) -> None:
    assert outcome(batch, "exit-137") == ("FAIL", "agent", 1)


def test_nothing_is_left_when_the_batch_is_over(batch: Found) -> None:
    assert batch.run.code == 1
    assert outcome(batch, "good") == ("PASS", None, 1)
    assert batch.lab.slots()
    assert batch.lab.left() == set()


def test_limits_are_in_the_plan_and_on_the_container(batch: Found) -> None:
    plan = json.loads((batch.lab.bundles[-1] / "batch_plan.json").read_text())
    found = {key: plan["settings"][key] for key in ("memory_bytes", "pids", "cpu_weight")}
    assert found == {"memory_bytes": 128 * 1024**2, "pids": 200, "cpu_weight": 512}


def test_two_batches_of_two_users_share_no_slot(make_lab: Callable[[str], "SandboxLab"]) -> None:
    # Two state directories are what two users of one daemon have.
    first, second = make_lab("first"), make_lab("second")
    first.write_list("first", {"a": "after-go"})
    second.write_list("second", {"b": "pass"})
    process = first.start("--atesor-list", "first", "-n1")
    first.wait_until(lambda: bool(first.slots()) or process.poll() is not None)
    other = second.run("--atesor-list", "second", "-n1")
    assert other.code == 0, other.out + other.err
    assert first.left(), "the second batch removed the first one's sandbox"
    with (first.root / "events").open("a") as events:
        events.write("end go\n")
    run = finish(process)
    assert run.code == 0, run.out + run.err
    assert first.slots().isdisjoint(second.slots())


def test_the_next_start_reaps_what_a_killed_batch_left(make_lab: Callable[[str], "SandboxLab"]) -> None:
    lab = make_lab("killed")
    lab.write_list("hang", {"a": "hang", "b": "hang"})
    lab.write_list("next", {"c": "pass"})
    process = lab.start("--atesor-list", "hang", "-n2")
    lab.wait_until(lambda: len(lab.slots()) == 2 or process.poll() is not None)
    kill_tree(process.pid)
    process.communicate()
    left = lab.left()
    assert len(left) == 2
    run = lab.run("--atesor-list", "next", "-n1")
    assert run.code == 0, run.out + run.err
    assert lab.left() == set()


@pytest.mark.parametrize("engine", ["docker", "podman"], indirect=True)  # host has no client to lose
def test_an_engine_that_goes_away_stops_the_batch(make_lab: Callable[[str], "SandboxLab"]) -> None:
    lab = make_lab("gone")
    client = lab.root / "bin" / lab.engine.name
    client.parent.mkdir()
    # The real client until the first case has begun; then what it says without its engine.
    client.write_text(
        f'#!/bin/sh\n[ -e {lab.root}/events ] || PATH=${{PATH#*:}} exec {lab.engine.name} "$@"\n'
        "echo 'Cannot connect to the Docker daemon at unix:///var/run/docker.sock.' >&2; exit 1\n"
    )
    client.chmod(0o755)
    lab.write_list("gone", {"a": "pass", "b": "pass", "c": "pass"})
    run = lab.run(
        "--atesor-list",
        "gone",
        "-n1",
        "--atesor-retry-environment=0",
        PATH=f"{client.parent}:{os.environ['PATH']}",
    )
    cases = {case["label"]: (case["status"], case["cause"]) for case in lab.results()["cases"]}
    for name in lab.left():
        lab.engine.remove(name)
    assert run.code == 1
    assert cases == {
        "a": ("FAIL", "environment"),
        "b": ("SKIPPED", "environment"),
        "c": ("SKIPPED", "environment"),
    }, run.out
    assert "the engine does not answer" in run.out
