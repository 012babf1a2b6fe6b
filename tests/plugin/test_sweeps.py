"""``atesor sweep``: plan, run, resume, rerun; the documented example; sweeps through pytest."""

import csv
import json
import re
from pathlib import Path
from typing import Any

import pytest
from lab import Lab, Run, finish, kill_tree

from pytest_atesor.cli import main

PAGE = Path(__file__).parents[2] / "docs" / "sweep.md"
COMMAND = re.compile(r"^\$ (?P<line>[^#\n]+?) *(#.*)?$", re.MULTILINE)
MIXED = 'test "$SIZE" != 2 || { echo "error: no luck"; exit 3; }'


def atesor(lab: Lab, *arguments: str, **environment: str) -> Run:
    return finish(lab.start(*arguments, module=("pytest_atesor.cli",), **environment))


def write_sweep(lab: Lab, script: str = MIXED, sizes: tuple[str, ...] = ("1", "2", "3")) -> None:
    """Write s.yaml, which runs a shell script once per SIZE, and its base c.yaml."""
    command = {"argv": ["sh", "-c", script], "env": {"SIZE": "1"}}
    runspec = {"schema_version": "runspec_v1", "kind": "command", "command": command}
    (lab.root / "c.yaml").write_text(json.dumps(runspec))
    axes = [{"parameter": "command.env.SIZE", "values": sizes}]
    sweep = {"schema_version": "sweep_v1", "sweep": {"base": "c.yaml", "axes": axes}}
    (lab.root / "s.yaml").write_text(json.dumps(sweep))


def outcomes(bundle: Path) -> dict[str, str]:
    results = json.loads((bundle / "batch_results.json").read_text())
    return {case["label"]: case["status"] or case["state"] for case in results["cases"]}


def attempts(bundle: Path) -> dict[str, list[str]]:
    return {
        path.name: sorted(attempt.name for attempt in path.glob("attempts/*"))
        for path in (bundle / "cases").iterdir()
    }


def rows(bundle: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((bundle / "batch_summary.json").read_text())["rows"]
    return found


def test_a_planned_sweep_runs_nothing_and_resume_and_rerun_go_on_with_it(lab: Lab) -> None:
    write_sweep(lab)
    run = atesor(lab, "sweep", "plan", "s.yaml", "--batch-id=b", "--max-cases=2", "--write-summary-csv")
    assert (run.code, run.out) == (0, "atesor: planned 3 cases of s.yaml in runs/sweeps/b\n")
    assert run.err == "atesor: warning: s.yaml has 3 cases, more than the 2 expected\n"
    bundle = lab.root / "runs" / "sweeps" / "b"
    assert attempts(bundle) == {"SIZE-1": [], "SIZE-2": [], "SIZE-3": []}
    assert json.loads((bundle / "cases/SIZE-3/runspec.json").read_text())["command"]["env"] == {"SIZE": "3"}

    run = atesor(lab, "sweep", "resume", "runs/sweeps/b", "--", "-q")
    assert run.code == 4, run.out + run.err
    assert outcomes(bundle) == {"SIZE-1": "PASS", "SIZE-2": "FAIL", "SIZE-3": "PASS"}
    with (bundle / "batch_summary.csv").open(newline="") as file:
        table = [(row["label"], row["status"], row["command.env.SIZE"]) for row in csv.DictReader(file)]
    assert table == [("SIZE-1", "PASS", "1"), ("SIZE-2", "FAIL", "2"), ("SIZE-3", "PASS", "3")]

    run = atesor(lab, "sweep", "rerun", "runs/sweeps/b", "--failed", "--", "-q")
    assert run.code == 4, run.out + run.err
    assert attempts(bundle) == {"SIZE-1": ["001"], "SIZE-2": ["001", "002"], "SIZE-3": ["001"]}


def test_a_run_with_mixed_outcomes_ends_with_4_and_one_without_with_0(lab: Lab) -> None:
    write_sweep(lab)
    run = atesor(
        lab, "sweep", "run", "s.yaml", "--batch-id=b", "--workers=2", "--output-root=out", "--", "-q"
    )
    assert run.code == 4, run.out + run.err
    assert "to run the failed ones again: atesor sweep rerun out/b --failed" in run.lines
    assert outcomes(lab.root / "out" / "b") == {"SIZE-1": "PASS", "SIZE-2": "FAIL", "SIZE-3": "PASS"}
    write_sweep(lab, sizes=("1", "3"))
    run = atesor(lab, "sweep", "run", "s.yaml", "--batch-id=c", "--", "-q")
    assert run.code == 0, run.out + run.err
    assert outcomes(lab.root / "runs" / "sweeps" / "c") == {"SIZE-1": "PASS", "SIZE-3": "PASS"}


@pytest.mark.parametrize("place", ["environment", ".env"])
def test_an_output_root_that_is_given_holds_for_sweeps_whatever_it_is(lab: Lab, place: str) -> None:
    write_sweep(lab)
    setting = {"ATESOR_OUTPUT_ROOT": "runs/batches"}
    if place == ".env":
        (lab.root / ".env").write_text("ATESOR_OUTPUT_ROOT=runs/batches\n")
    run = atesor(
        lab, "sweep", "plan", "s.yaml", "--batch-id=b", **(setting if place == "environment" else {})
    )
    assert (run.code, run.out) == (0, "atesor: planned 3 cases of s.yaml in runs/batches/b\n")


def test_a_killed_sweep_goes_on_with_its_frozen_variants(lab: Lab) -> None:
    waits = 'test "$SIZE" != 2 || [ -e go ] || { echo begun > %s/events; exec sleep 900; }; test "$SIZE" != 3'
    write_sweep(lab, (waits % lab.root).replace("go ", f"{lab.root}/go "))
    process = lab.start("s.yaml", "--atesor-batch-id=b", "-n1")
    lab.wait_for_events("begun")
    kill_tree(process.pid)
    process.communicate()
    bundle = lab.root / "runs" / "sweeps" / "b"
    (lab.root / "go").touch()
    write_sweep(lab, "false", sizes=("7", "8"))

    run = atesor(lab, "sweep", "resume", "runs/sweeps/b")
    assert run.code == 4, run.out + run.err
    assert "atesor: planned 3 = done 1 + interrupted 1 + not started 1" in run.out
    assert outcomes(bundle) == {"SIZE-1": "PASS", "SIZE-2": "PASS", "SIZE-3": "FAIL"}
    assert attempts(bundle) == {"SIZE-1": ["001"], "SIZE-2": ["001", "002"], "SIZE-3": ["001"]}


def test_pytest_takes_a_sweep_as_it_takes_a_test_file(lab: Lab) -> None:
    write_sweep(lab)
    run = lab.run("s.yaml", "-n2", "-q", "--atesor-batch-id=b")
    assert run.code == 4, run.out + run.err
    bundle = lab.root / "runs" / "sweeps" / "b"
    assert outcomes(bundle) == {"SIZE-1": "PASS", "SIZE-2": "FAIL", "SIZE-3": "PASS"}
    run = lab.run("s.yaml::SIZE-3", "-v", "--atesor-batch-id=c")
    assert run.code == 0, run.out + run.err
    assert outcomes(lab.root / "runs" / "sweeps" / "c") == {"SIZE-3": "PASS"}


@pytest.mark.skipif(not PAGE.is_file(), reason="only a checkout has the page")
def test_the_documented_commands_run_as_they_stand_there(lab: Lab) -> None:
    page = PAGE.read_text()
    commands = [match["line"].split() for match in COMMAND.finditer(page)]
    copy, plan, run, resume, by_pytest = commands
    assert atesor(lab, *copy[1:]).code == 0
    example = lab.root / plan[-1]
    (documented,) = re.findall(r"^```yaml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    example.write_text(documented)

    assert atesor(lab, *plan[1:], "--batch-id=planned").code == 0
    ended = atesor(lab, *run[1:], "--batch-id=b")
    assert ended.code == 0, ended.out + ended.err
    bundle = lab.root / "runs" / "sweeps" / "b"
    assert [(row["label"], row["values"]) for row in rows(bundle)] == [
        (
            f"COUNT-{count}_STEP-{step}",
            {"command.env.COUNT": str(count), "command.env.STEP": str(step), "total": count * step},
        )
        for count, step in ((1, 10), (1, 20), (2, 10), (2, 20), (3, 10))
    ]
    again = atesor(lab, *(word.replace("ID", "b") for word in resume[1:]))
    assert again.code == 0
    assert "atesor: resuming runs/sweeps/b: 0 cases to run" in again.out
    ended = lab.run(*by_pytest[1:], "-q")
    assert ended.code == 0, ended.out + ended.err


def refuse(lab: Lab, *arguments: str) -> str:
    """Return the one line of an error that ends with 1 and starts nothing."""
    run = atesor(lab, *arguments)
    assert (run.code, run.out) == (1, "")
    assert len(run.err.splitlines()) == 1
    assert not (lab.root / "runs").exists()
    return run.err.removeprefix("atesor: error: ").rstrip()


def test_sweeps_and_batches_refuse_each_other_by_name(lab: Lab) -> None:
    write_sweep(lab)
    assert refuse(lab, "batch", "run", "s.yaml") == (
        "s.yaml is a sweep, not a batch manifest; run it with `atesor sweep run s.yaml`"
    )
    lab.write_list("few", {"zlib": "pass"})
    cases = [{"label": "one", "runspec": "s.yaml"}]
    (lab.root / "m.yaml").write_text(json.dumps({"schema_version": "batch_v1", "batch": {"cases": cases}}))
    assert refuse(lab, "batch", "run", "m.yaml") == (
        "s.yaml is a sweep: a batch takes single-run RunSpecs; run it by itself with `atesor sweep run`, or"
        " list its variants"
    )
    for source in ("m.yaml", "packages/few.json"):
        assert refuse(lab, "sweep", "run", source) == (
            f"{source} is no sweep; for manifests and package lists use `atesor batch`"
        )
    assert refuse(lab, "sweep", "plan", "few") == "few does not exist; check the path"
    (lab.root / "s.yaml").write_text("schema_version: sweep_v1\nsweep: [\n")
    assert refuse(lab, "sweep", "plan", "s.yaml").startswith("s.yaml is not valid YAML: line 3")


@pytest.mark.parametrize("command", ["plan", "run", "resume", "rerun"])
def test_the_help_of_a_sweep_command_speaks_of_sweeps(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sweep", command, "--help"]) == 0
    text = capsys.readouterr().out.replace("batch_summary.csv", "").replace("--batch-id", "")
    assert "sweep" in text.lower()
    assert "batch" not in text
    assert "manifest" not in text.lower()
