"""Stop signals to the controller alone, as a CI runner sends them: nothing is left, nothing is lost."""

import contextlib
import os
import signal
import time
import xml.etree.ElementTree as ET

import psutil
import pytest
from lab import Lab, finish


def agents_of(lab: Lab) -> list[psutil.Process]:
    """Return what still runs of the batch: every process that works in its rootdir."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.cwd() == str(lab.root):
                found.append(process)
    return found


def check_books(lab: Lab, *, planned: int) -> None:
    results = lab.results()
    assert sum(case["status"] is not None for case in results["cases"]) == planned
    suite = next(iter(ET.parse(lab.root / "junit.xml").getroot()))  # noqa: S314 - our own file
    assert (suite.attrib["tests"], suite.attrib["errors"]) == (str(planned), "0")
    assert lab.journal()[-1]["type"] == "batch_ended"


# A ladder that lasts longer than anybody waits here: an end that comes without it is told without a clock.
LONG_LADDER = """
from pytest_atesor.work import worker

ordinary = worker.AttemptContext

def make_patient(**facts):
    with open("events", "a") as file:
        file.write("ladder of 2000 s\\n")
    return ordinary(**facts, term_grace_s=2000.0)

worker.AttemptContext = make_patient
"""

# Says when the first signal is dealt with: what comes before counts as the same one.
DEALT_WITH = """
from pytest_atesor.control.signals import StopSignals

handle = StopSignals._handle

def handle_and_say(*arguments):
    handle(*arguments)
    with open("events", "a") as file:
        file.write("dealt with\\n")

StopSignals._handle = handle_and_say
"""

VERBS = {"done": "pass", "one": "hang", "two": "hang", "queued": "pass", "later": "pass"}


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)],
    ids=["INT", "TERM", "HUP"],
)
def test_the_first_signal_ends_the_batch_in_order(lab: Lab, number: int, code: int) -> None:
    (lab.root / "conftest.py").write_text(LONG_LADDER)
    lab.write_list("sig", VERBS)
    process = lab.start("--atesor-list", "sig", "-n2", "--junitxml=junit.xml")
    lab.wait_for_events("ladder of 2000 s", "end done", "start one", "start two")
    process.send_signal(number)
    run = finish(process)
    assert run.code == code, run.out + run.err
    found = {case["label"]: (case["status"], case["cause"]) for case in lab.results()["cases"]}
    assert found["done"] == ("PASS", None)
    assert {found[name] for name in VERBS if name != "done"} == {("SKIPPED", "interrupted")}
    assert "5 packages: 1 PASS, 0 UNVERIFIED, 0 FAIL, 0 TIMEOUT, 4 SKIPPED" in run.lines
    assert "start queued" not in lab.events()
    check_books(lab, planned=5)
    lab.wait_until(lambda: agents_of(lab) == [])


def test_without_workers_the_first_signal_ends_the_batch_too(lab: Lab) -> None:
    lab.write_list("sig", {"done": "pass", "one": "hang", "queued": "pass"})
    process = lab.start("--atesor-list", "sig", "--junitxml=junit.xml")
    lab.wait_for_events("end done", "start one")
    process.send_signal(signal.SIGINT)
    run = finish(process)
    assert run.code == 130, run.out + run.err
    assert "3 packages: 1 PASS, 0 UNVERIFIED, 0 FAIL, 0 TIMEOUT, 2 SKIPPED" in run.lines
    check_books(lab, planned=3)
    lab.wait_until(lambda: agents_of(lab) == [])


@pytest.mark.parametrize("workers", ["-n0", "-n2"])
def test_the_second_ctrl_c_kills_at_once(lab: Lab, workers: str) -> None:
    (lab.root / "conftest.py").write_text(LONG_LADDER + DEALT_WITH)
    lab.write_list("sig", {"one": "stubborn", "queued": "pass"})
    process = lab.start("--atesor-list", "sig", workers, "--junitxml=junit.xml")
    lab.wait_for_events("ladder of 2000 s", "start one")
    process.send_signal(signal.SIGINT)
    lab.wait_for_events("dealt with", "term one")
    time.sleep(0.5)  # a person's second press; anything faster counts as the same one
    process.send_signal(signal.SIGINT)
    run = finish(process)
    assert run.code == 130, run.out + run.err
    lab.wait_until(lambda: agents_of(lab) == [])


def test_a_signal_to_the_whole_group_counts_once(lab: Lab) -> None:
    # We may stand still between the two.
    (lab.root / "conftest.py").write_text(
        "from pytest_atesor.control import signals\nsignals._DEBOUNCE_S = 1000.0\n"
    )
    lab.write_list("sig", {"one": "hang", "two": "hang"})
    process = lab.start("--atesor-list", "sig", "-n2", "--junitxml=junit.xml")
    lab.wait_for_events("start one", "start two")
    os.killpg(process.pid, signal.SIGINT)
    os.killpg(process.pid, signal.SIGTERM)
    run = finish(process)
    assert run.code == 130, run.out + run.err
    check_books(lab, planned=2)
    lab.wait_until(lambda: agents_of(lab) == [])


@pytest.mark.parametrize("workers", ["-n0", "-n2"])
def test_a_batch_under_nohup_outlives_the_hangup(lab: Lab, workers: str) -> None:
    lab.write_list("sig", {"one": "after-hangup", "two": "pass"})
    process = lab.start("--atesor-list", "sig", workers, "--junitxml=junit.xml", ignored="HUP INT")
    lab.wait_for_events("start one")
    process.send_signal(signal.SIGHUP)
    process.send_signal(signal.SIGINT)
    with (lab.root / "events").open("a") as events:
        events.write("end hangup\n")
    run = finish(process)
    assert run.code == 0, run.out + run.err
    check_books(lab, planned=2)


def test_a_killed_controller_leaves_no_agent(lab: Lab) -> None:
    lab.write_list("sig", {"one": "hang", "two": "hang"})
    process = lab.start("--atesor-list", "sig", "-n2")
    lab.wait_for_events("start one", "start two")
    process.kill()
    process.communicate()
    lab.wait_until(lambda: agents_of(lab) == [])
    record = lab.bundles[-1] / "cases" / "one" / "attempts" / "001" / "attempt.json"
    lab.wait_until(record.exists)


@pytest.mark.parametrize("order", [("one", "two"), ("two", "one")], ids=["then none", "after another"])
def test_interrupted_cases_stay_in_last_failed(lab: Lab, order: tuple[str, str]) -> None:
    longest, other = order
    lab.write_list("sig", {longest: "slow-fail", other: "fail"})
    assert lab.run("--atesor-list", "sig").code == 1
    lab.write_list("sig", {"one": "hang", "two": "fail"})
    process = lab.start("--atesor-list", "sig", "--lf")
    lab.wait_until(lambda: lab.events().count("start one") == 2)
    process.send_signal(signal.SIGINT)
    finish(process)
    again = lab.run("--atesor-list", "sig", "--lf", "--collect-only", "-q")
    assert sorted(again.lines[:2]) == ["packages/sig.json::one", "packages/sig.json::two"]
