"""A worker that hangs and never dies is ended in time, and its case is charged to nobody's package."""

import os
import signal
import sys

import pytest
from lab import CASE_SECONDS, Lab, finish

# PyDLL keeps the interpreter's lock during the call: no thread and no signal handler of the worker runs.
HANG = """
import ctypes, os, pathlib, signal
from pytest_atesor.control import watch

watch.PATIENCE = watch.Patience({patience})

def hang_once():
    try:
        pathlib.Path("hung").touch(exist_ok=False)
    except FileExistsError:
        return
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    ctypes.PyDLL(None).sleep(3000)

def is_worker(config):
    return hasattr(config, "workerinput")
"""

IN_A_CASE = """
import pytest
@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item):
    if is_worker(item.config) and item.name == "a": hang_once()
"""

BEFORE_THE_SET_UP = """
def pytest_runtest_logstart(nodeid):
    if "PYTEST_XDIST_WORKER" in os.environ and nodeid.endswith("::a"): hang_once()
"""

AFTER_ITS_RECORD = """
def pytest_runtest_teardown(item):
    if is_worker(item.config) and item.name == "a": hang_once()
"""

COLLECTION = """
def pytest_collection_modifyitems(config):
    if is_worker(config): hang_once()
"""

END = """
def pytest_sessionfinish(session):
    if is_worker(session.config): hang_once()
"""

# How long a healthy worker may take over a case: it may stand still for seconds.
LIMIT_S = 10
NEWS = "margin_s=5"

MOMENTS = {
    "in a case": (IN_A_CASE, NEWS, f"gave no news of its case, whose time limit is {LIMIT_S} s,", "FAIL"),
    "before the set-up": (BEFORE_THE_SET_UP, NEWS, "gave no news of its case", "PASS"),
    "after its record": (AFTER_ITS_RECORD, NEWS, "gave no news of its case", "PASS"),
    "during collection": (COLLECTION, "start_s=25", "did not collect its cases within 25 s", "PASS"),
    "at its end": (END, "end_s=5", "had nothing left to do and did not end within 5 s", "PASS"),
}


@pytest.mark.parametrize(("where", "patience", "why", "status"), MOMENTS.values(), ids=list(MOMENTS))
def test_a_worker_that_hangs_does_not_hold_the_batch(
    lab: Lab, where: str, patience: str, why: str, status: str
) -> None:
    (lab.root / "hanger.py").write_text(HANG.format(patience=patience) + where)
    limit_s = LIMIT_S if patience == NEWS else CASE_SECONDS
    lab.write_list("still", {"a": "pass", "b": "pass"}, a={"timeout_seconds": limit_s})
    run = lab.run("--atesor-list", "still", "-n1", "-phanger", PYTHONPATH=str(lab.root))
    assert (lab.root / "hung").exists(), "nobody hung: the test tests nothing"
    assert run.code == 1, run.out + run.err
    assert "INTERNALERROR" not in run.out
    assert f"died (it {why}" in run.out
    cases = {case["label"]: case for case in lab.results()["cases"]}
    assert {name: case["status"] for name, case in cases.items()} == {"a": status, "b": "PASS"}
    tally = lab.results()["tally"]
    assert tally["planned"] == tally["done"] == 2
    if status == "FAIL":
        # No TIMEOUT: whether the package was too slow is not known.
        assert cases["a"]["cause"] == "environment"
        assert cases["a"]["reason"].startswith(f"worker gw0 died while the case ran: it {why}")
        (lost,) = [line for line in lab.journal() if line["type"] == "attempt_lost"]
        assert lost["duration_s"] == cases["a"]["duration_s"] > 0


def test_ctrl_c_ends_a_batch_whose_worker_hangs(lab: Lab) -> None:
    (lab.root / "hanger.py").write_text(HANG.format(patience="stop_s=3") + IN_A_CASE)
    lab.write_list("still", {"a": "pass", "b": "pass"})
    process = lab.start("--atesor-list", "still", "-n1", "-phanger", PYTHONPATH=str(lab.root))
    lab.wait_until((lab.root / "hung").exists)
    process.send_signal(signal.SIGINT)
    run = finish(process)
    assert run.code == 130, run.out + run.err
    assert "was told to stop and did not end within 3 s" in run.out
    found = {case["label"]: (case["status"], case["cause"]) for case in lab.results()["cases"]}
    assert found == {"a": ("SKIPPED", "interrupted"), "b": ("SKIPPED", "interrupted")}


def test_a_process_that_never_says_a_word_is_replaced(lab: Lab) -> None:
    (lab.root / "hanger.py").write_text(HANG.format(patience="answer_s=15"))
    (lab.root / "sitecustomize.py").write_text(
        "import os, sys, time\n"
        "if '-u' in sys.orig_argv and '-c' in sys.orig_argv:\n"
        "    try:\n"
        "        os.close(os.open('hung', os.O_CREAT | os.O_EXCL))\n"
        "    except FileExistsError:\n"
        "        pass\n"
        "    else:\n"
        "        time.sleep(3000)\n"
    )
    lab.write_list("still", {"a": "pass"})
    path = os.pathsep.join([str(lab.root), *sys.path])
    run = lab.run("--atesor-list", "still", "-n1", "-phanger", PYTHONPATH=path)
    assert (lab.root / "hung").exists(), "nobody hung: the test tests nothing"
    assert run.code == 0, run.out + run.err
    assert {case["status"] for case in lab.results()["cases"]} == {"PASS"}
