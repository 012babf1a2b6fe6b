"""A worker that is killed at any moment costs at most the attempt that it was in, and the books close."""

import os
import sys
import xml.etree.ElementTree as ET

import psutil
import pytest
from lab import Lab

KILLER = """
import os, pathlib, signal

def once(name):
    try:
        pathlib.Path(name).touch(exist_ok=False)
    except FileExistsError:
        return
    os.kill(os.getpid(), signal.SIGKILL)

def is_worker(config):
    return hasattr(config, "workerinput")
"""

MOMENTS = {
    "while it configures": """
def pytest_configure(config):
    if is_worker(config): once("killed")
""",
    "during collection": """
def pytest_collection_modifyitems(config):
    if is_worker(config): once("killed")
""",
    "before the set-up": """
def pytest_runtest_setup(item):
    if is_worker(item.config) and item.name == "b": once("killed")
pytest_runtest_setup.pytest_impl = {"tryfirst": True}
""",
    "after the set-up": """
import pytest
@pytest.hookimpl(trylast=True)
def pytest_runtest_call(item):
    if is_worker(item.config) and item.name == "b": once("killed")
""",
    "just after the end": """
def pytest_runtest_teardown(item):
    if is_worker(item.config) and item.name == "b": once("killed")
""",
    "before its news is sent": """
import pytest
@pytest.hookimpl(tryfirst=True)
def pytest_runtest_logreport(report):
    if report.when == "call" and report.nodeid.endswith("::b") and "PYTEST_XDIST_WORKER" in os.environ:
        once("killed")
""",
}

# What the case may end as, with how many attempts.
FATES = {
    "while it configures": {("PASS", 1)},
    "during collection": {("PASS", 1)},
    "before the set-up": {("PASS", 1), ("FAIL", 1)},
    "after the set-up": {("FAIL", 1), ("PASS", 1)},
    "just after the end": {("PASS", 1)},
    "before its news is sent": {("PASS", 1)},
}


@pytest.mark.parametrize("moment", MOMENTS)
def test_one_death_costs_at_most_one_attempt(lab: Lab, moment: str) -> None:
    (lab.root / "killer.py").write_text(KILLER + MOMENTS[moment])
    lab.write_list("death", {"a": "pass", "b": "pass", "c": "pass", "d": "pass"})
    run = lab.run(
        "--atesor-list", "death", "-n2", "-pkiller", "--junitxml=junit.xml", PYTHONPATH=str(lab.root)
    )
    assert (lab.root / "killed").exists(), "nobody was killed: the test tests nothing"
    assert run.code == 1, run.out + run.err
    assert "INTERNALERROR" not in run.out
    cases = {case["label"]: case for case in lab.results()["cases"]}
    assert {cases[name]["status"] for name in "acd"} <= {"PASS"}, run.out + run.err
    assert (cases["b"]["status"], cases["b"]["attempts"]) in FATES[moment]
    if cases["b"]["status"] == "FAIL":
        assert "died while the case ran" in cases["b"]["reason"]
    tally = lab.results()["tally"]
    assert tally["planned"] == tally["done"] == 4
    names = [case.attrib["name"] for case in ET.parse(lab.root / "junit.xml").iter("testcase")]  # noqa: S314 - our own file
    assert sorted(names) == ["a", "b", "c", "d"]
    assert "worker gw" in run.out
    assert "died" in run.out


@pytest.mark.parametrize(
    ("verb", "moment", "reason"),
    [
        ("kill-worker", "", "worker gw0 died while the case ran"),
        ("fail", "before its news is sent", "error: no rule to make target"),
        ("unverified", "before its news is sent", "no riscv64 output was proven"),
    ],
    ids=["lost", "adopted FAIL", "adopted UNVERIFIED"],
)
def test_a_death_is_told_once_and_blames_no_hook(lab: Lab, verb: str, moment: str, reason: str) -> None:
    (lab.root / "killer.py").write_text(KILLER + MOMENTS.get(moment, ""))
    lab.write_list("death", {"b": verb, "c": "pass"})
    run = lab.run("--atesor-list", "death", "-n1", "-pkiller", PYTHONPATH=str(lab.root))
    assert run.code == 1, run.out + run.err
    cases = {case["label"]: (case["status"], case["reason"]) for case in lab.results()["cases"]}
    assert cases["c"] == ("PASS", "")
    assert reason in cases["b"][1]
    (line,) = [line for line in run.lines if line.startswith("atesor: error: ")]
    assert line.startswith("atesor: error: worker gw0 died (")


def test_a_worker_that_ends_badly_after_its_last_report_is_not_a_success(lab: Lab) -> None:
    (lab.root / "killer.py").write_text(
        KILLER + "def pytest_unconfigure(config):\n    if is_worker(config): os._exit(3)\n"
    )
    lab.write_list("death", {"a": "pass", "b": "pass"})
    run = lab.run("--atesor-list", "death", "-n1", "-pkiller", PYTHONPATH=str(lab.root))
    assert {case["status"] for case in lab.results()["cases"]} == {"PASS"}
    assert run.code != 0, run.out


def test_the_slot_of_a_dead_worker_goes_to_its_replacement(lab: Lab) -> None:
    lab.write_list("death", {"boom": "kill-worker", "a": "pass"})
    lab.run("--atesor-list", "death", "-n1")
    slots = {line["record"]["slot"] for line in lab.journal() if line["type"] == "attempt_ended"}
    slots |= {line["slot"] for line in lab.journal() if line["type"] == "attempt_started"}
    assert slots == {"atesor-ai-sandbox-debian-w1"}


@pytest.mark.parametrize("deaths", [1, 2])
def test_a_process_that_dies_before_its_first_word_is_replaced(lab: Lab, deaths: int) -> None:
    (lab.root / "sitecustomize.py").write_text(
        "import os, pathlib, sys\n"
        "if '-u' in sys.orig_argv and '-c' in sys.orig_argv:\n"
        f"    for number in range({deaths}):\n"
        "        try:\n"
        "            pathlib.Path(f'dead-{number}').touch(exist_ok=False)\n"
        "        except FileExistsError:\n"
        "            continue\n"
        "        os._exit(9)\n"
    )
    lab.write_list("death", {"a": "pass", "b": "pass"})
    run = lab.run("--atesor-list", "death", "-n2", PYTHONPATH=os.pathsep.join([str(lab.root), *sys.path]))
    assert (lab.root / f"dead-{deaths - 1}").exists()
    assert run.code == 0, run.out + run.err
    assert {case["status"] for case in lab.results()["cases"]} == {"PASS"}


def is_running(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_an_agent_does_not_outlive_its_worker_though_its_guard_is_dead(lab: Lab) -> None:
    agent = lab.root / "agent"
    agent.write_text(
        "#!/bin/sh\n"
        "echo $$ > pid\n"
        "for guard in $(ps -o pid=,args= --ppid $PPID | awk '$2 == \"atesor-guard\" {print $1}'); do\n"
        "    kill -9 $guard && touch guard-killed\n"
        "done\n"
        "kill -9 $PPID; exec sleep 3000\n"
    )
    lab.write_list("death", {"a": "pass"})
    run = lab.run("--atesor-list", "death", "-n1")
    assert (lab.root / "guard-killed").exists(), "the guard lived: the test tests nothing"
    assert run.code == 1, run.out + run.err
    pid = int((lab.root / "pid").read_text())
    lab.wait_until(lambda: not is_running(pid))


STOPS = {
    "while a case runs": ("stop-worker", "FAIL"),
    "after its last case": ("pass", "PASS"),
}


@pytest.mark.parametrize(("verb", "status"), STOPS.values(), ids=STOPS.keys())
def test_a_worker_that_stands_still_does_not_hold_the_batch(lab: Lab, verb: str, status: str) -> None:
    (lab.root / "stopper.py").write_text(
        "import os, pathlib, signal\n"
        "def pytest_sessionfinish(session):\n"
        "    if hasattr(session.config, 'workerinput'):\n"
        "        try:\n"
        "            pathlib.Path('stopped').touch(exist_ok=False)\n"
        "        except FileExistsError:\n"
        "            return\n"
        "        os.kill(os.getpid(), signal.SIGSTOP)\n"
    )
    more = ["-pstopper"] if verb == "pass" else []
    lab.write_list("still", {"a": verb, "b": "pass"})
    run = lab.run("--atesor-list", "still", "-n1", *more, PYTHONPATH=str(lab.root))
    assert run.code == 1, run.out + run.err
    assert "died" in run.out
    cases = {case["label"]: case["status"] for case in lab.results()["cases"]}
    assert cases == {"a": status, "b": "PASS"}
