"""``atesor batch``: plan, run, resume, rerun, as the seed spells them, and the same through pytest."""

import csv
import json
import os
import socket
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
from lab import PYTEST, Lab, Run, finish, kill_tree, run_inside

from pytest_atesor.cli import main

MIXED = {"good": "echo fine", "bad": "echo 'error: no luck'; exit 3", "other": "true"}


def outcomes(bundle: Path) -> dict[str, str]:
    results = json.loads((bundle / "batch_results.json").read_text())
    return {case["label"]: case["status"] or case["state"] for case in results["cases"]}


def attempts(bundle: Path) -> dict[str, list[str]]:
    return {
        path.name: sorted(attempt.name for attempt in path.glob("attempts/*"))
        for path in (bundle / "cases").iterdir()
    }


@pytest.fixture
def bundle(lab: Lab) -> Path:
    """The finished bundle of a manifest with one case that fails."""
    lab.write_manifest(MIXED)
    run = lab.batch("run", "m.yaml", "--batch-id", "b", "--", "-q")
    assert run.code == 4, run.out + run.err
    return lab.root / "runs" / "batches" / "b"


def test_planning_runs_nothing_and_resume_runs_what_was_planned(lab: Lab) -> None:
    lab.write_manifest(MIXED, good={"metrics": "m.json", "argv": ["sh", "-c", "echo '{\"a\": 1}' > m.json"]})
    options = ("--batch-id=b", "--output-root=out", "--write-summary-csv", "--workers=2", "--max-cases=2")
    run = lab.batch("plan", "m.yaml", *options)
    assert (run.code, run.out) == (0, "atesor: planned 3 cases of m.yaml in out/b\n")
    assert run.err == "atesor: warning: m.yaml has 3 cases, more than the 2 expected\n"
    bundle = lab.root / "out" / "b"
    assert attempts(bundle) == {"good": [], "bad": [], "other": []}
    assert json.loads((bundle / "cases/good/runspec.json").read_text())["command"]["metrics"] == "m.json"
    assert not (lab.root / "output").exists()

    run = lab.batch("resume", "out/b")
    assert run.code == 4, run.out + run.err
    assert "atesor: planned 3 = done 0 + interrupted 0 + not started 3" in run.out
    assert "created: 2/2 workers" in run.out
    assert outcomes(bundle) == {"good": "PASS", "bad": "FAIL", "other": "PASS"}
    with (bundle / "batch_summary.csv").open(newline="") as file:
        assert [row["status"] for row in csv.DictReader(file)] == ["PASS", "FAIL", "PASS"]


def test_cases_run_one_after_the_other_unless_workers_are_given(lab: Lab) -> None:
    waits = "touch {mine}; until [ -e {other} ]; do sleep 0.05; done"
    root = lab.root
    scripts = {"a": waits.format(mine=root / "a", other=root / "b"), "b": f"touch {root}/b"}
    lab.write_manifest(scripts)
    assert lab.batch("run", "m.yaml", "--workers", "2", "--", "-q").code == 0
    lab.write_manifest({
        "first": f"mkdir {root}/d && sleep 0.2 && rmdir {root}/d",
        "second": f"mkdir {root}/d",
    })
    run = lab.batch("run", "m.yaml", "--", "-q")
    assert run.code == 0, run.out
    assert "gw0" not in (lab.bundles[-1] / "journal.jsonl").read_text()


def test_pytest_takes_a_manifest_as_it_takes_a_test_file(lab: Lab) -> None:
    lab.write_manifest(MIXED)
    run = lab.run("m.yaml", "-n2", "-q", "--junitxml=junit.xml")
    assert run.code == 4, run.out + run.err
    assert outcomes(lab.bundles[-1]) == {"good": "PASS", "bad": "FAIL", "other": "PASS"}
    run = lab.run("m.yaml::other", "m.yaml::good", "-v")
    assert run.code == 0, run.out + run.err
    assert "m.yaml::other PASS" in run.out
    assert "bad" not in outcomes(lab.bundles[-1])


def test_resuming_a_finished_batch_runs_nothing_and_keeps_its_exit_code(lab: Lab, bundle: Path) -> None:
    before = attempts(bundle)
    journal = (bundle / "journal.jsonl").read_bytes()
    run = lab.batch("resume", "runs/batches/b")
    assert (run.code, run.err) == (4, "")
    assert run.lines[:2] == [
        "atesor: planned 3 = done 3 + interrupted 0 + not started 0",
        "atesor: resuming runs/batches/b: 0 cases to run",
    ]
    assert attempts(bundle) == before
    assert (bundle / "journal.jsonl").read_bytes() == journal


@pytest.mark.parametrize("more", [("-n2",), ("-pno:xdist",)], ids=["workers", "no-xdist"])
def test_a_batch_with_nothing_to_run_shows_what_stands_and_writes_an_empty_junit_file(
    lab: Lab, bundle: Path, more: tuple[str, ...]
) -> None:
    run = lab.run(f"--atesor-resume={bundle}", *more, "--junitxml=j.xml")
    assert (run.code, run.err) == (4, "")
    assert "3 cases: 2 PASS, 0 UNVERIFIED, 1 FAIL, 0 TIMEOUT, 0 SKIPPED" in run.lines
    assert "to run the failed ones again: atesor batch rerun runs/batches/b --failed" in run.lines
    assert "collected 0 items" in [line.rstrip() for line in run.lines]  # by this process alone
    (suite,) = ET.parse(lab.root / "j.xml").getroot()  # noqa: S314 - our own file
    assert (suite.attrib["tests"], len(suite)) == ("0", 0)


def test_a_listing_of_a_finished_batch_says_that_nothing_is_to_run(lab: Lab, bundle: Path) -> None:
    run = lab.run(f"--atesor-resume={bundle}", "--co", "-q")
    assert (run.code, run.out, run.err) == (0, "", "atesor: runs/batches/b: 0 cases to run\n")


def test_retry_failed_and_rerun_make_new_attempts_and_keep_the_old(lab: Lab, bundle: Path) -> None:
    first = (bundle / "cases/bad/attempts/001/run.log").read_bytes()
    assert lab.batch("resume", "runs/batches/b", "--retry-failed", "--", "-q").code == 4
    assert attempts(bundle) == {"good": ["001"], "bad": ["001", "002"], "other": ["001"]}
    assert lab.batch("rerun", "runs/batches/b", "--failed", "--", "-q").code == 4
    assert attempts(bundle)["bad"] == ["001", "002", "003"]
    run = lab.run(
        "--atesor-rerun=runs/batches/b", "--atesor-rerun-case=good", "--atesor-rerun-case=other", "-n2"
    )
    assert run.code == 4, run.out
    assert "[2/2]" in run.out
    assert lab.batch("rerun", "runs/batches/b", "--all", "--", "-q").code == 4
    assert attempts(bundle) == {
        "good": ["001", "002", "003"],
        "bad": ["001", "002", "003", "004"],
        "other": ["001", "002", "003"],
    }
    assert (bundle / "cases/bad/attempts/001/run.log").read_bytes() == first
    history = json.loads((bundle / "batch_attempts.json").read_text())
    assert len(history["attempts"]) == 10
    assert len(history["sessions"]) == 5


def test_a_rerun_that_stops_leaves_the_outcomes_that_it_did_not_reach(lab: Lab) -> None:
    lab.write_manifest({"bad": "false", "good": "true", "worse": "false"})
    assert lab.run("m.yaml", "--atesor-batch-id=b", "-n0").code == 4
    bundle = lab.root / "runs" / "batches" / "b"
    run = lab.batch("rerun", "runs/batches/b", "--all", "--", "-n0", "-x")
    assert run.code == 4, run.out + run.err
    assert outcomes(bundle) == {"bad": "FAIL", "good": "PASS", "worse": "FAIL"}
    assert attempts(bundle) == {"bad": ["001", "002"], "good": ["001"], "worse": ["001"]}
    counts = json.loads((bundle / "batch_results.json").read_text())["counts"]
    assert (counts["PASS"], counts["FAIL"], counts["SKIPPED"]) == (1, 2, 0)
    assert "3 cases: 1 PASS, 0 UNVERIFIED, 2 FAIL, 0 TIMEOUT, 0 SKIPPED" in run.out.splitlines()

    assert lab.batch("rerun", "runs/batches/b", "--failed", "--", "-n0").code == 4
    assert attempts(bundle) == {"bad": ["001", "002", "003"], "good": ["001"], "worse": ["001", "002"]}


def test_a_killed_batch_goes_on_where_it_was(lab: Lab) -> None:
    wait = f"echo begun > {lab.root}/events; exec sleep 3000"
    lab.write_manifest({"done": "true", "cut": wait, "waiting": "true"})
    process = lab.start("m.yaml", "--atesor-batch-id=b", "-n1")
    lab.wait_for_events("begun")
    bundle = lab.root / "runs" / "batches" / "b"
    kill_tree(process.pid)
    process.communicate()
    with (bundle / "journal.jsonl").open("a") as journal:
        journal.write('{"schema": "jour')
    lab.write_manifest({"done": "true", "cut": "false", "waiting": "false"})

    run = lab.batch("resume", "runs/batches/b", "--", "-n1", "-k", "not cut")
    assert run.code == 4, run.out + run.err
    notices = [line for line in run.out.splitlines() if line.startswith("atesor: ")]
    assert notices[:4] == [
        "atesor: planned 3 = done 1 + interrupted 1 + not started 1",
        "atesor: dropped a torn last line of 16 bytes from the journal",
        "atesor: gave up 1 attempt that had been cut short",
        "atesor: specs/cut.json changed since planning; the frozen plan goes on",
    ]
    assert "atesor: resuming runs/batches/b: 2 cases to run" in notices
    assert "m.yaml changed" not in run.out
    # The frozen plan: what the file says now is not what ran.
    assert outcomes(bundle) == {"done": "PASS", "cut": "SKIPPED", "waiting": "PASS"}
    assert attempts(bundle) == {"done": ["001"], "cut": ["001"], "waiting": ["001"]}


def test_a_package_list_batch_goes_on_with_its_own_settings(lab: Lab) -> None:
    lab.write_list("two", {"zlib": "pass", "gron": "args"})
    run = lab.run("--atesor-list=two", "--atesor-batch-id=b", "--atesor-plan-only", ATESOR_PLATFORM="ubuntu")
    assert (run.code, run.out) == (0, "atesor: planned 2 cases of packages/two.json in runs/batches/b\n")
    run = lab.batch("resume", "runs/batches/gone")
    assert run.code == 1
    assert "runs/batches/gone is no bundle: it has no batch_plan.json" in run.err
    run = lab.batch("resume", "runs/batches/b", ATESOR_AGENT="./no-such-agent", ATESOR_PLATFORM="alpine")
    assert run.code == 0, run.out + run.err
    assert "--platform ubuntu" in (lab.root / "output/batch_logs/gron.log").read_text()
    run = lab.batch("rerun", "runs/batches/b", "--case", "gron", "--", "--collect-only", "-q")
    assert run.out.splitlines()[0] == "packages/two.json::gron"


def test_a_batch_whose_builds_have_the_network_says_so_in_its_plan_and_stays_so(lab: Lab) -> None:
    lab.write_list("one", {"zlib": "pass"})
    agent = lab.root / "tells"
    agent.write_text('#!/bin/sh\necho "network=${ATESOR_BUILD_NETWORK-no}"\n')
    agent.chmod(0o755)
    flags = ("--atesor-list=one", "--atesor-agent=./tells", "--atesor-plan-only")
    log = lab.root / "output/batch_logs/zlib.log"
    for name, flag, said in (("on", "--atesor-build-network", "1"), ("off", "-q", "no")):
        run = lab.run(*flags, f"--atesor-batch-id={name}", flag)
        assert run.code == 0, run.err
        plan = json.loads((lab.root / f"runs/batches/{name}/batch_plan.json").read_text())
        assert plan["settings"]["build_network"] is (name == "on")
        run = lab.batch("resume", f"runs/batches/{name}", ATESOR_BUILD_NETWORK="1" if name == "off" else "0")
        assert run.code == 0, run.out + run.err
        assert ("network while building" in run.out) is (name == "on")
        assert log.read_text() == f"network={said}\n"


def test_a_batch_without_acceleration_says_so_in_its_plan_and_stays_so(lab: Lab) -> None:
    lab.write_list("one", {"zlib": "pass"})
    agent = lab.root / "tells"
    agent.write_text('#!/bin/sh\necho "plain=${ATESOR_NO_ACCELERATION-no}"\n')
    agent.chmod(0o755)
    agreed = ("--atesor-list=one", "--atesor-agent=./tells")
    log = lab.root / "output/batch_logs/zlib.log"
    run = lab.run(*agreed, "--atesor-batch-id=plain", "--atesor-plan-only", "--atesor-no-acceleration")
    assert run.code == 0, run.err
    plan = json.loads((lab.root / "runs/batches/plain/batch_plan.json").read_text())
    assert plan["settings"]["no_acceleration"] is True
    run = lab.batch("resume", "runs/batches/plain")
    assert run.code == 0, run.out + run.err
    assert "all tools emulated" in run.out
    assert log.read_text() == "plain=1\n"
    # what the environment says of batches in general does not reach into a plan
    run = lab.run(*agreed, "--atesor-batch-id=fast")
    assert run.code == 0, run.err
    run = lab.batch("rerun", "runs/batches/fast", "--all", ATESOR_NO_ACCELERATION="1")
    assert run.code == 0, run.out + run.err
    assert log.read_text() == "plain=no\n"


@pytest.mark.parametrize("value", [None, ""], ids=["not-set", "set-to-nothing"])
def test_the_state_directory_may_stand_in_the_env_file_of_the_rootdir(lab: Lab, value: str | None) -> None:
    lab.write_list("one", {"zlib": "pass"})
    agent = lab.root / "agent"
    agent.write_text('#!/bin/sh\necho "state=$ATESOR_STATE_DIR"\n')
    (lab.root / ".env").write_text("ATESOR_STATE_DIR=kept\n")
    (lab.root / "sub").mkdir()
    environment = lab.environment()
    if value is None:
        del environment["ATESOR_STATE_DIR"]
    else:
        environment["ATESOR_STATE_DIR"] = value
    command = [sys.executable, "-m", *PYTEST, "--atesor-list=one", "--atesor-batch-id=b", "-q"]
    done = subprocess.run(
        command, cwd=lab.root / "sub", env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    log = lab.root / "runs/batches/b/cases/zlib/attempts/001/run.log"
    assert log.read_text() == f"state={lab.root}/kept\n"
    assert {path.name for path in (lab.root / "kept").iterdir()} == {"history", "slots"}


def test_a_batch_in_use_is_refused_naming_its_holder(lab: Lab) -> None:
    lab.write_manifest({"long": f"echo begun > {lab.root}/events; exec sleep 3000"})
    process = lab.start("m.yaml", "--atesor-batch-id=b", "-n1")
    lab.wait_for_events("begun")
    run = lab.batch("resume", "runs/batches/b")
    process.terminate()
    finish(process)
    assert run.code == 1
    assert f"runs/batches/b is in use by process {process.pid} on {socket.gethostname()} since 2" in run.err


def test_a_rerun_of_nothing_is_a_bad_flag_whatever_earlier_runs_said(lab: Lab) -> None:
    lab.write_manifest({"good": "exit 0"})
    assert lab.batch("run", "m.yaml", "--batch-id", "b", "--", "-q").code == 0
    run = lab.batch("rerun", "runs/batches/b", "--all", "--", "-k", "nosuch")
    assert run.code == 2, run.out + run.err
    assert "atesor: error: no case of m.yaml was selected; check -k, -m and --deselect" in run.out


def test_a_newer_bundle_is_refused_and_left_alone(lab: Lab, bundle: Path) -> None:
    journal = bundle / "journal.jsonl"
    journal.write_text(journal.read_text().replace("journal_v1", "journal_v2"))
    before = {path: path.read_bytes() for path in bundle.rglob("*") if path.is_file()}
    run = lab.batch("resume", "runs/batches/b", "--retry-failed")
    assert run.code == 1
    assert "was written by a newer version; it can be read, not continued" in run.err
    assert {path: path.read_bytes() for path in bundle.rglob("*") if path.is_file()} == before


@pytest.fixture
def planned(pytester: pytest.Pytester, capfd: pytest.CaptureFixture[str], monkeypatch: Any) -> str:
    """The path of a bundle that was only planned, in pytester's directory."""
    for name in [name for name in os.environ if name.startswith("ATESOR_")]:
        monkeypatch.delenv(name)
    pytester.makeini("[pytest]\n")
    lab = Lab(pytester.path / "inner")
    lab.write_manifest({"a": "true"})
    (lab.root / "m.yaml").rename(pytester.path / "m.yaml")
    (lab.root / "specs").rename(pytester.path / "specs")
    run = run_inside(pytester, capfd, "m.yaml", "--atesor-plan-only", "--atesor-batch-id=b")
    assert run.code == 0, run.err
    return "runs/batches/b"


REFUSALS = {
    "platform": (["--atesor-platform=alpine"], "--atesor-platform alpine contradicts the plan of"),
    "network": (
        ["--atesor-build-network"],
        "--atesor-build-network True contradicts the plan of",
    ),
    "acceleration": (
        ["--atesor-no-acceleration"],
        "--atesor-no-acceleration True contradicts the plan of",
    ),
    "agent": (["--atesor-agent=x"], "--atesor-agent ['x'] contradicts the plan of"),
    "list": (["--atesor-list=smoke"], "--atesor-list is for a new batch"),
    "batch id": (["--atesor-batch-id=c"], "--atesor-batch-id is for a new batch"),
    "names": (["--atesor-only=@gone.txt"], "--atesor-only is for a new batch"),
    "shard": (["--atesor-shard-index=3"], "--atesor-shard-index is for a new batch"),
    "unknown platform": (["--atesor-platform=bogus"], "unknown platform 'bogus' from --atesor-platform"),
    "a path": (["m.yaml"], "a bundle that goes on has its own cases, and 'm.yaml' is none"),
    "rerun too": (["--atesor-rerun=x"], "--atesor-resume and --atesor-rerun exclude each other"),
    "rerun's option": (["--atesor-rerun-all"], "--atesor-rerun-all needs --atesor-rerun DIR"),
}


@pytest.mark.parametrize(("more", "message"), REFUSALS.values(), ids=REFUSALS.keys())
def test_what_contradicts_the_frozen_plan_is_a_bad_flag(
    pytester: pytest.Pytester, capfd: pytest.CaptureFixture[str], planned: str, more: list[str], message: str
) -> None:
    run = run_inside(pytester, capfd, f"--atesor-resume={planned}", *more)
    assert run.code == 2
    assert message in run.err
    assert len(run.err.splitlines()) == 1


OF_OTHERS = {
    "LIST": "none",
    "ONLY": "@gone.txt",
    "SHARD_INDEX": "3",
    "MAX_CASES": "x",
    "BATCH_ID": "../x",
    "PROFILE_ROOT": "gone",
    "OUTPUT_ROOT": " ",
    "WRITE_SUMMARY_CSV": "perhaps",
    "PLATFORM": "bogus",
    "TARGET": "native",
    "ENGINE": "bogus",
    "NO_ACCELERATION": "perhaps",
    "BUILD_NETWORK": "perhaps",
    "AGENT": "'open",
    "PACKAGE": "perhaps",
}


@pytest.mark.parametrize("place", ["environment", "ini"])
@pytest.mark.parametrize("order", ["--atesor-resume={}", "--atesor-rerun={} --atesor-rerun-all"])
def test_settings_of_what_the_plan_fixed_are_not_read(
    pytester: pytest.Pytester,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    planned: str,
    order: str,
    place: str,
) -> None:
    if place == "ini":
        lines = [f"atesor_{name.lower()} = {value}" for name, value in OF_OTHERS.items() if value.strip()]
        pytester.makeini("\n".join(["[pytest]", *lines]))
    else:
        for name, value in OF_OTHERS.items():
            monkeypatch.setenv(f"ATESOR_{name}", value)
    run = run_inside(pytester, capfd, *order.format(planned).split(), "--co", "-q")
    assert (run.code, run.err, run.out.splitlines()[0]) == (0, "", "m.yaml::a")


@pytest.mark.parametrize("name", ["RETRY_ENVIRONMENT", "NO_BREAKER", "SLOT_PIDS", "SLOT_MEMORY"])
def test_limits_retries_and_the_breaker_are_those_of_now(
    pytester: pytest.Pytester,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    planned: str,
    name: str,
) -> None:
    monkeypatch.setenv(f"ATESOR_{name}", "bogus")
    run = run_inside(pytester, capfd, f"--atesor-resume={planned}", "--co", "-q")
    assert run.code == 2
    assert f"ATESOR_{name} in the environment" in run.err


def test_the_engine_that_a_plan_left_open_is_that_of_now(
    pytester: pytest.Pytester,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    planned: str,
) -> None:
    pytester.mkdir("packages").joinpath("p.json").write_text(
        '{"$schema_version": 1, "packages": [{"name": "a", "url": "https://example.org/a"}]}'
    )
    run = run_inside(pytester, capfd, "--atesor-list=p", "--atesor-plan-only", "--atesor-batch-id=p")
    assert run.code == 0, run.err
    monkeypatch.setenv("ATESOR_ENGINE", "bogus")
    run = run_inside(pytester, capfd, f"--atesor-resume={planned}", "--co", "-q")
    assert run.code == 0, run.err
    run = run_inside(pytester, capfd, "--atesor-resume=runs/batches/p", "--co", "-q")
    assert run.code == 2
    assert "unknown engine 'bogus' from ATESOR_ENGINE in the environment" in run.err


def test_what_repeats_the_frozen_plan_is_not(
    pytester: pytest.Pytester, capfd: pytest.CaptureFixture[str], planned: str
) -> None:
    run = run_inside(
        pytester,
        capfd,
        f"--atesor-resume={planned}",
        "--atesor-platform=debian",
        "--atesor-engine=none",
        "--co",
        "-q",
    )
    assert (run.code, run.out.splitlines()[0]) == (0, "m.yaml::a")


BAD_COMMANDS = {
    "no selection": (
        "rerun runs/b",
        2,
        "a rerun needs exactly one selection; give --failed, --case or --all",
    ),
    "two selections": ("rerun runs/b --all --failed", 2, "a rerun needs exactly one selection"),
    "bad workers": ("run m.yaml --workers 0", 2, "bad worker count '0' from --workers"),
    "unknown flag": ("resume b --nonsense", 2, "No such option"),
    "no manifest": ("run", 2, "Missing argument 'MANIFEST'"),
}


@pytest.mark.parametrize(("line", "code", "message"), BAD_COMMANDS.values(), ids=BAD_COMMANDS.keys())
def test_bad_commands_are_one_line(
    capsys: pytest.CaptureFixture[str], line: str, code: int, message: str
) -> None:
    assert main(["batch", *line.split()]) == code
    error = capsys.readouterr().err
    assert message in error
    assert len(error.splitlines()) == 1


BAD_INPUTS = {
    "a RunSpec": ("specs/a.json", 1, "specs/a.json is a single RunSpec, not a batch manifest"),
    "missing": ("gone.yaml", 1, "no manifest at 'gone.yaml'"),
    "strange yaml": ("other.yaml", 1, "other.yaml, line 1, "),
    "bad id": ("m.yaml --atesor-batch-id=../x", 2, "bad batch id '../x'"),
    "no profile root": (
        "m.yaml --atesor-profile-root=gone",
        2,
        "the profile root gone, from --atesor-profile-root, is no directory",
    ),
    "unknown label": ("m.yaml --atesor-only=b", 2, '"b"'),
}


@pytest.mark.parametrize(("line", "code", "message"), BAD_INPUTS.values(), ids=BAD_INPUTS.keys())
def test_bad_inputs_are_one_line_and_create_nothing(
    pytester: pytest.Pytester,
    capfd: pytest.CaptureFixture[str],
    planned: str,
    line: str,
    code: int,
    message: str,
) -> None:
    assert planned
    (pytester.path / "other.yaml").write_text("a: 1\n")
    source, *more = line.split()
    run: Run = run_inside(pytester, capfd, f"--atesor-manifest={source}", *more)
    assert run.code == code, run.err
    assert message in run.err
    assert len(run.err.splitlines()) == 1
    assert [path.name for path in (pytester.path / "runs/batches").iterdir()] == ["b"]
