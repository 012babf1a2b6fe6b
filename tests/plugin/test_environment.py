"""Failures of the machine: tried again, counted apart, and the end of a batch that has nothing else."""

import json
import xml.etree.ElementTree as ET

import pytest
from lab import Lab

BOTH = pytest.mark.parametrize("workers", ["-n0", "-n2"])


def results(lab: Lab) -> dict[str, tuple[str, str, int]]:
    return {
        case["label"]: (case["status"], case["cause"], case["attempts"]) for case in lab.results()["cases"]
    }


def junit_cases(lab: Lab) -> dict[str, ET.Element]:
    root = ET.parse(lab.root / "junit.xml").getroot()  # noqa: S314 - our own file
    cases = list(root.iter("testcase"))
    assert len({case.attrib["name"] for case in cases}) == len(cases), "a case is in JUnit twice"
    return {case.attrib["name"]: case for case in cases}


@BOTH
def test_a_case_that_recovers_passes_with_both_attempts_on_record(lab: Lab, workers: str) -> None:
    lab.write_list("env", {"a": "recovering", "b": "pass"})
    run = lab.run("--atesor-list", "env", workers, "--junitxml=junit.xml")
    assert run.code == 0, run.out
    assert results(lab) == {"a": ("PASS", None, 2), "b": ("PASS", None, 1)}
    assert "2 packages: 2 PASS, 0 UNVERIFIED, 0 FAIL, 0 TIMEOUT, 0 SKIPPED" in run.lines
    (line,) = [line for line in run.lines if " retry a " in line]
    assert line.endswith("environment: the mirror is down")
    assert sum(line.startswith("[") and " a " in line for line in run.lines) == 1
    assert any(line.split() == ["attempt", "001:", "FAIL", "(environment)"] for line in run.lines), run.out
    journal = [(line["type"], line.get("attempt_id")) for line in lab.journal() if line.get("case_id") == "a"]
    assert journal == [("attempt_started", "001"), ("attempt_started", "002")]
    case = junit_cases(lab)["a"]
    assert case.find("failure") is None
    properties = {item.attrib["name"]: item.attrib["value"] for item in case.iter("property")}
    assert properties["attempt"] == "002"
    assert properties["attempt 001"].startswith("FAIL (environment): the mirror is down; log: ")


@BOTH
def test_a_case_that_does_not_recover_fails_once_and_is_counted_apart(lab: Lab, workers: str) -> None:
    lab.write_list("env", {"a": "environment", "b": "pass", "c": "fail"})
    run = lab.run("--atesor-list", "env", workers, "--junitxml=junit.xml")
    assert run.code == 1
    assert results(lab) == {
        "a": ("FAIL", "environment", 2),
        "b": ("PASS", None, 1),
        "c": ("FAIL", "build", 1),
    }
    assert "1 FAIL of the environment: the package is not to blame, run it again" in run.lines
    failed = [case for case in junit_cases(lab).values() if case.find("failure") is not None]
    assert len(failed) == 2


@pytest.mark.parametrize(("retries", "attempts"), [("0", 1), ("2", 3)])
def test_how_often_is_an_option(lab: Lab, retries: str, attempts: int) -> None:
    lab.write_list("env", {"a": "environment"})
    assert lab.run("--atesor-list", "env", f"--atesor-retry-environment={retries}").code == 1
    assert results(lab)["a"] == ("FAIL", "environment", attempts)


def test_maxfail_counts_cases_and_not_attempts(lab: Lab) -> None:
    lab.write_list("env", {"a": "environment", "b": "fail", "c": "pass"})
    run = lab.run("--atesor-list", "env", "-n1", "--maxfail=2")
    assert run.code == 1
    assert {name: found[0] for name, found in results(lab).items()} == {
        "a": "FAIL",
        "b": "FAIL",
        "c": "SKIPPED",
    }


@BOTH
def test_a_build_that_prints_a_full_disk_is_not_believed(lab: Lab, workers: str) -> None:
    lab.write_list("env", {"a": "forge"})
    assert lab.run("--atesor-list", "env", workers).code == 1
    assert results(lab) == {"a": ("FAIL", "build", 1)}


def test_a_worker_that_dies_in_the_second_attempt_costs_that_one(lab: Lab) -> None:
    lab.write_list("env", {"a": "kill-second", "b": "pass"})
    run = lab.run("--atesor-list", "env", "-n1", "--junitxml=junit.xml")
    assert run.code == 1
    assert results(lab) == {"a": ("FAIL", "environment", 2), "b": ("PASS", None, 1)}
    assert lab.results()["cases"][0]["reason"].startswith("worker gw0 died")
    assert len(junit_cases(lab)) == 2


SICK = {f"p{number}": "environment" for number in range(8)}


@BOTH
def test_five_sick_cases_at_the_start_stop_the_batch(lab: Lab, workers: str) -> None:
    lab.write_list("env", {**SICK, "good": "pass"})
    run = lab.run("--atesor-list", "env", workers, "--atesor-retry-environment=0", "--junitxml=junit.xml")
    assert run.code == 1, run.out
    found = results(lab)
    ran = [name for name, (status, _, _) in found.items() if status == "FAIL"]
    assert len(ran) in {5, 6}, "the breaker did not open, or far too late"
    assert {found[name][:2] for name in set(found) - set(ran)} == {("SKIPPED", "environment")}
    assert "the first 5 cases all failed for the environment's sake; the first: the mirror is down" in run.out
    assert len(junit_cases(lab)) == 9
    assert lab.results()["tally"]["planned"] == 9


def test_without_the_breaker_the_batch_goes_on(lab: Lab) -> None:
    lab.write_list("env", {**SICK, "good": "pass"})
    run = lab.run("--atesor-list", "env", "--atesor-no-breaker", "--atesor-retry-environment=0")
    assert run.code == 1
    assert results(lab)["good"][0] == "PASS"


def test_one_case_that_ends_otherwise_keeps_the_circuit_closed(lab: Lab) -> None:
    lab.write_list("env", {"bad": "fail", **SICK, "good": "pass"})
    assert lab.run("--atesor-list", "env", "--atesor-retry-environment=0").code == 1
    assert results(lab)["good"][0] == "PASS"


def test_durations_order_the_next_batch_longest_first(lab: Lab) -> None:
    lab.write_list("dur", {"short": "pass", "long": "slow", "middle": "fail"})
    lab.run("--atesor-list", "dur")
    (file,) = (lab.root / "state" / "history").glob("durations_v1-debian-qemu-*.json")
    packages = json.loads(file.read_text())["packages"]
    assert sorted(packages) == ["long", "middle", "short"]
    assert packages["long"][0] >= 0.5
    # On a machine that stood still meanwhile it may be another one.
    longest = max(packages, key=lambda name: packages[name][0])
    (lab.root / "events").unlink()
    lab.run("--atesor-list", "dur", "-n1")
    assert lab.events()[0] == f"start {longest}"
    plan = json.loads((lab.bundles[-1] / "batch_plan.json").read_text())
    assert max(plan["settings"]["expected_s"], key=plan["settings"]["expected_s"].get) == longest
    assert {name: len(seconds) for name, seconds in json.loads(file.read_text())["packages"].items()} == {
        "short": 2,
        "long": 2,
        "middle": 2,
    }


def test_a_broken_history_is_a_warning_and_heals(lab: Lab) -> None:
    lab.write_list("dur", {"a": "pass"})
    lab.run("--atesor-list", "dur")
    (file,) = (lab.root / "state" / "history").glob("durations_v1-*.json")
    file.write_text("{")
    run = lab.run("--atesor-list", "dur")
    assert run.code == 0
    assert "atesor: warning: the durations of earlier batches" in run.err
    assert json.loads(file.read_text())["packages"].keys() == {"a"}


def test_a_history_that_cannot_be_written_costs_nothing(lab: Lab) -> None:
    (lab.root / "state").mkdir()
    (lab.root / "state" / "history").write_text("a file where a directory should be")
    lab.write_list("dur", {"a": "pass"})
    run = lab.run("--atesor-list", "dur")
    assert run.code == 0
    assert "cannot be used" in run.out


@BOTH
def test_pytest_timeout_is_the_last_net_behind_every_attempt(lab: Lab, workers: str) -> None:
    (lab.root / "conftest.py").write_text(
        "def pytest_runtest_setup(item):\n"
        "    with open('margins', 'a') as file:\n"
        "        print(item.get_closest_marker('timeout').args[0], file=file)\n"
    )
    lab.write_list("env", {"a": "pass"}, timeout_s=60)
    arguments = ("--atesor-list", "env", workers, "--atesor-retry-environment=2")
    assert lab.run(*arguments).code == 0
    assert int((lab.root / "margins").read_text()) > 3 * (60 + 10)
