"""Who runs what when, and what a dead worker costs: real workers, real processes."""

import contextlib
import json
import os
import sys
import xml.etree.ElementTree as ET

import psutil
import pytest
from lab import Lab, finish


def statuses(lab: Lab) -> dict[str, str]:
    return {case["label"]: case["status"] or case["state"] for case in lab.results()["cases"]}


def junit_counts(lab: Lab) -> dict[str, str]:
    suite = next(iter(ET.parse(lab.root / "junit.xml").getroot()))  # noqa: S314 - our own file
    return {key: suite.attrib[key] for key in ("tests", "failures", "errors", "skipped")}


def test_nothing_is_pinned_behind_a_running_case(lab: Lab) -> None:
    # The long case ends only after all others did: one item queued behind it would wait for ever.
    lab.write_list("long", {"long": "after-d", "a": "pass", "b": "pass", "c": "pass", "d": "pass"})
    run = lab.run("--atesor-list", "long", "-n2")
    assert run.code == 0, run.out
    assert lab.events()[-1] == "end long"


@pytest.mark.parametrize("mode", ["loadscope", "worksteal", "loadfile"])
def test_any_distribution_mode_dispatches_the_same_way(lab: Lab, mode: str) -> None:
    lab.write_list("long", {"long": "after-b", "a": "pass", "b": "pass"})
    run = lab.run("--atesor-list", "long", "-n2", f"--dist={mode}")
    assert run.code == 0, run.out


def test_two_cases_of_one_derived_name_never_run_at_once(lab: Lab) -> None:
    path = lab.write_list("same", {"tool": "exclusive", "other": "exclusive", "free": "pass"})
    path.write_text(path.read_text().replace("exclusive/other", "exclusive/tool"))
    run = lab.run("--atesor-list", "same", "-n2")
    assert run.code == 0, run.out
    assert statuses(lab) == dict.fromkeys(("tool", "other", "free"), "PASS")


def test_a_dead_worker_costs_one_attempt_and_everything_else_runs(lab: Lab) -> None:
    lab.write_list(
        "crash", {"boom": "kill-worker", "a": "pass", "b": "pass", "c": "fail", "bang": "kill-worker"}
    )
    run = lab.run("--atesor-list", "crash", "-n2", "--junitxml=junit.xml")
    assert run.code == 1, run.out
    assert statuses(lab) == {"boom": "FAIL", "a": "PASS", "b": "PASS", "c": "FAIL", "bang": "FAIL"}
    assert sorted(lab.events()) == sorted([
        *(f"start {name}" for name in ("boom", "a", "b", "c", "bang")),
        "end a",
        "end b",
        "end c",
    ])
    assert junit_counts(lab) == {"tests": "5", "failures": "3", "errors": "0", "skipped": "0"}
    lost = [line for line in lab.journal() if line["type"] == "attempt_lost"]
    assert {line["case_id"] for line in lost} == {"boom", "bang"}
    assert all(line["cause"] == "environment" and "died" in line["reason"] for line in lost)
    assert "5 packages: 2 PASS, 0 UNVERIFIED, 3 FAIL, 0 TIMEOUT, 0 SKIPPED" in run.lines
    assert sum(line.startswith("[") and " FAIL boom " in line for line in run.lines) == 1


# The first two workers never get beyond it; those that replace them do.
COLLECTING_FOR_EVER = """
import os, time
def pytest_collection_modifyitems():
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    if worker in {"gw0", "gw1"}:
        with open("events", "a") as file:
            file.write(f"collecting {worker}\\n")
        time.sleep(3000)
"""


@pytest.mark.parametrize("moment", ["collection", "mid case"])
def test_all_workers_killed_at_once_are_replaced(lab: Lab, moment: str) -> None:
    lab.write_list("crash", {"a": "after-go", "b": "after-go", "c": "pass", "d": "pass"})
    (lab.root / "conftest.py").write_text(COLLECTING_FOR_EVER if moment == "collection" else "")
    process = lab.start("--atesor-list", "crash", "-n2")
    if moment == "collection":
        lab.wait_for_events("collecting gw0", "collecting gw1")
    else:
        lab.wait_for_events("start a", "start b")
    for worker in psutil.Process(process.pid).children():
        with contextlib.suppress(psutil.NoSuchProcess):
            worker.kill()
    with (lab.root / "events").open("a") as events:
        events.write("end go\n")
    run = finish(process)
    assert run.code == 1, run.out + run.err
    assert "INTERNALERROR" not in run.out
    fate = "FAIL" if moment == "mid case" else "PASS"
    assert statuses(lab) == {"a": fate, "b": fate, "c": "PASS", "d": "PASS"}


def test_a_worker_that_dies_before_its_first_word_ends_the_batch(lab: Lab) -> None:
    lab.write_list("two", {"a": "pass", "b": "pass"})
    (lab.root / "sitecustomize.py").write_text(
        "import os, sys\nif '-u' in sys.orig_argv and '-c' in sys.orig_argv:\n    os._exit(9)\n"
    )
    run = lab.run("--atesor-list", "two", "-n2", PYTHONPATH=os.pathsep.join([str(lab.root), *sys.path]))
    assert run.code == 1
    assert "a worker process died while it started" in run.err
    assert "INTERNALERROR" not in run.out
    assert statuses(lab) == {"a": "SKIPPED", "b": "SKIPPED"}


def test_max_worker_restart_leaves_nothing_unaccounted(lab: Lab) -> None:
    lab.write_list("crash", {"boom": "kill-worker", "a": "pass", "b": "pass"})
    run = lab.run("--atesor-list", "crash", "-n1", "--max-worker-restart=0")
    assert run.code == 1, run.out
    assert statuses(lab) == {"boom": "FAIL", "a": "SKIPPED", "b": "SKIPPED"}
    assert lab.results()["tally"]["planned"] == 3


@pytest.mark.parametrize("workers", ["-n0", "-n1", "-n2"])
def test_exitfirst_skips_the_rest_with_its_reason(lab: Lab, workers: str) -> None:
    # What runs beside the failing case goes on until the controller deals with the failure: it hears of one
    # end after the other, so that of any other case only when it has stopped.
    (lab.root / "conftest.py").write_text("""
import os

def pytest_runtest_logreport(report):
    if report.failed and "PYTEST_XDIST_WORKER" not in os.environ:
        with open("events", "a") as file:
            file.write("end end\\n")
""")
    lab.write_list("first", {"a": "fail", **{f"b{number}": "after-end" for number in range(4)}})
    run = lab.run("--atesor-list", "first", "-x", workers, "--junitxml=junit.xml")
    assert run.code == 1, run.out
    found = statuses(lab)
    assert found["a"] == "FAIL"
    assert list(found.values()).count("SKIPPED") >= 3
    skips = [line for line in lab.journal() if line["type"] == "cases_skipped"]
    assert "stopping after 1 failures" in skips[0]["reason"]
    assert junit_counts(lab)["tests"] == "5"
    assert junit_counts(lab)["errors"] == "0"


def test_a_dead_worker_counts_for_exitfirst(lab: Lab) -> None:
    lab.write_list("first", {"boom": "kill-worker", "a": "pass", "b": "pass"})
    run = lab.run("--atesor-list", "first", "-x", "-n1")
    assert run.code == 1
    assert statuses(lab) == {"boom": "FAIL", "a": "SKIPPED", "b": "SKIPPED"}


def test_workers_that_never_come_up_end_the_batch(lab: Lab) -> None:
    (lab.root / "conftest.py").write_text(
        "import os\n"
        "def pytest_sessionstart(session):\n"
        "    if hasattr(session.config, 'workerinput'):\n"
        "        os._exit(9)\n"
    )
    lab.write_list("two", {"a": "pass", "b": "pass"})
    run = lab.run("--atesor-list", "two", "-n1")
    assert run.code == 1
    assert "workers died in a row without running a case" in run.out + run.err
    assert lab.events() == []


@pytest.mark.parametrize(
    "arguments",
    [["-n0"], ["-p", "no:xdist"], ["-n1", "-p", "no:timeout"], ["-p", "no:terminal"]],
    ids=" ".join,
)
def test_it_runs_without_the_plugins_that_it_can_do_without(lab: Lab, arguments: list[str]) -> None:
    lab.write_list("two", {"a": "pass", "b": "pass"})
    run = lab.run("--atesor-list", "two", *arguments)
    assert run.code == 0, run.out + run.err
    assert statuses(lab) == {"a": "PASS", "b": "PASS"}


def test_more_workers_than_cpus_are_only_warned_of(lab: Lab) -> None:
    count = (os.cpu_count() or 1) + 1
    lab.write_list("two", {"a": "pass", "b": "pass"})
    run = lab.run("--atesor-list", "two", f"-n{count}", "-qq", "-W", "error")
    assert run.code == 0, run.out + run.err
    assert f"atesor: warning: {count} workers on {count - 1} CPUs" in run.err
    assert "PASS" not in run.out


def test_two_batches_at_once_share_no_slot_and_no_bundle(lab: Lab) -> None:
    lab.write_list("first", {"a": "after-go"})
    lab.write_list("second", {"b": "pass"})
    first = lab.start("--atesor-list", "first")
    lab.wait_for_events("start a")
    assert lab.run("--atesor-list", "second").code == 0
    with (lab.root / "events").open("a") as events:
        events.write("end go\n")
    assert finish(first).code == 0
    slots = {
        json.loads(path.read_text())["slot"]
        for path in lab.root.glob("runs/batches/*/cases/*/attempts/001/*.json")
    }
    assert slots == {"atesor-ai-sandbox-debian-w1", "atesor-ai-sandbox-debian-w2"}


def test_other_plugins_bring_runners_and_learn_of_ends(lab: Lab) -> None:
    (lab.root / "conftest.py").write_text("""
from pytest_atesor.core.outcome import Cause, Status
from pytest_atesor.runners.interface import AttemptEnd

class Refuser:
    kind = "port"
    def run(self, case, context):
        return AttemptEnd(
            status=Status.FAIL, cause=Cause.UNSUPPORTED, reason=f"no {case.label} in {context.slot}",
            exit_code=7, duration_s=0.5, log_bytes=0, log_dropped_bytes=0)

def pytest_atesor_runners(config):
    return [Refuser()]

def pytest_atesor_case_ended(config, plan, case, record):
    with open("ended", "a") as file:
        print(plan.name, case.label, record.status, record.exit_code, file=file)
""")
    lab.write_list("one", {"a": "pass"})
    assert lab.run("--atesor-list", "one", "-n1").code == 1
    assert (lab.root / "ended").read_text() == "one a FAIL 7\n"
    assert lab.results()["cases"][0]["cause"] == "unsupported"
    assert lab.events() == []


def test_a_defect_of_a_runner_is_a_failure_with_its_traceback_and_nothing_hangs(lab: Lab) -> None:
    (lab.root / "conftest.py").write_text("""
class Broken:
    kind = "port"
    def run(self, case, context):
        raise ZeroDivisionError("ours")

def pytest_atesor_runners(config):
    return [Broken()]
""")
    lab.write_list("two", {"a": "pass", "b": "pass"})
    run = lab.run("--atesor-list", "two", "-n1")
    assert run.code == 1
    assert statuses(lab) == {"a": "FAIL", "b": "FAIL"}
    assert "ZeroDivisionError" in run.out
    assert "INTERNALERROR" not in run.out


@pytest.mark.parametrize("workers", ["-n0", "-n2"])
def test_a_global_timeout_is_not_for_cases(lab: Lab, workers: str) -> None:
    (lab.root / "pytest.ini").write_text("[pytest]\ntimeout = 1\n")
    lab.write_list("slow", {"a": "hang"}, timeout_s=2)
    run = lab.run("--atesor-list", "slow", workers)
    assert run.code == 1
    assert statuses(lab) == {"a": "TIMEOUT"}
    assert "Timeout" not in run.out


@pytest.mark.parametrize("workers", [[], ["-n1"]], ids=["in process", "one worker"])
def test_verbose_shows_pytest_s_own_lines_with_our_words(lab: Lab, workers: list[str]) -> None:
    lab.write_list("two", {"a": "pass", "b": "unverified"})
    run = lab.run("--atesor-list", "two", "-v", *workers)
    assert run.code == 1
    ends = [line for line in run.lines if "%]" in line]
    assert len(ends) == 2, run.out
    assert all(word in ends[0] for word in ("PASS (", "packages/two.json::a"))
    assert all(word in ends[1] for word in ("UNVERIFIED (", "packages/two.json::b"))
    assert not [line for line in run.lines if " start " in line]


def test_last_failed_runs_only_what_failed(lab: Lab) -> None:
    lab.write_list("mix", {"a": "pass", "b": "fail", "c": "unverified"})
    assert lab.run("--atesor-list", "mix", "-n2").code == 1
    second = lab.run("--atesor-list", "mix", "--lf", "-n2")
    assert second.code == 1
    assert statuses(lab) == {"a": "not_started", "b": "FAIL", "c": "UNVERIFIED"}
    ordered = lab.run("--atesor-list", "mix", "--ff", "--collect-only", "-q")
    assert ordered.lines[:3] == [f"packages/mix.json::{name}" for name in "bca"]
