"""A kind of case that a plugin brings: planned, run and reported like the built-in ones."""

import json

from lab import Lab

PLUGIN = """
import json
from pytest_atesor.core.outcome import Cause, Status
from pytest_atesor.core.runspec import Fault, Kind
from pytest_atesor.runners.interface import AttemptEnd


def find_faults(body):
    if body["numbers"] == []:
        yield Fault(("numbers",), "there is nothing to add")


class SumRunner:
    kind = "sum"

    def run(self, case, context):
        total = sum(case.spec["numbers"])
        context.log_path.write_text(f"{total}\\n")
        (context.attempt_dir / "metrics.json").write_text(json.dumps({"total": total}))
        good = total == case.spec["expected"]
        return AttemptEnd(
            status=Status.PASS if good else Status.FAIL,
            cause=None if good else Cause.AGENT,
            reason="" if good else f"the sum is {total}",
            exit_code=0,
            duration_s=0.25,
            log_bytes=3,
            log_dropped_bytes=0,
        )


def pytest_atesor_kinds(config):
    schema = {
        "type": "object",
        "required": ["numbers", "expected"],
        "additionalProperties": False,
        "properties": {
            "numbers": {"type": "array", "items": {"type": "number"}},
            "expected": {"type": "number"},
        },
    }
    return [Kind(name="sum", schema=schema, find_faults=find_faults)]


def pytest_atesor_runners(config):
    return [SumRunner()]
"""


def write_batch(lab: Lab, **bodies: dict[str, object]) -> None:
    cases = []
    for label, body in bodies.items():
        runspec = {"schema_version": "runspec_v1", "kind": "sum", "sum": body}
        (lab.root / f"{label}.json").write_text(json.dumps(runspec))
        cases.append({"label": label, "runspec": f"{label}.json"})
    summary = {"fields": ["total"]}
    manifest = {"schema_version": "batch_v1", "batch": {"cases": cases, "summary": summary}}
    (lab.root / "m.json").write_text(json.dumps(manifest))


def test_a_plugin_brings_a_kind_with_schema_runner_and_metrics(lab: Lab) -> None:
    (lab.root / "conftest.py").write_text(PLUGIN)
    write_batch(lab, good={"numbers": [1, 2], "expected": 3}, bad={"numbers": [2], "expected": 3})
    run = lab.batch("run", "m.json", "--workers", "2", ATESOR_ENGINE="docker")
    assert run.code == 4, run.out + run.err
    assert "FAIL bad 0.2 s - agent: the sum is 2" in run.out
    summary = json.loads((lab.bundles[-1] / "batch_summary.json").read_text())
    assert [row["values"] for row in summary["rows"]] == [{"total": 3}, {"total": 2}]


def test_its_mistakes_are_told_with_their_place(lab: Lab) -> None:
    (lab.root / "conftest.py").write_text(PLUGIN)
    write_batch(lab, empty={"numbers": [], "expected": 3})
    run = lab.batch("plan", "m.json")
    assert run.code == 1
    assert run.err == "atesor: error: empty.json, sum.numbers: [] is refused: there is nothing to add\n"


def test_without_the_plugin_its_batch_is_refused(lab: Lab) -> None:
    (lab.root / "conftest.py").write_text(PLUGIN)
    write_batch(lab, good={"numbers": [1, 2], "expected": 3})
    assert lab.batch("plan", "m.json", "--batch-id", "b").code == 0
    (lab.root / "conftest.py").unlink()
    run = lab.batch("resume", "runs/batches/b")
    assert run.code == 1
    assert "the plan has cases of kind 'sum', which no plugin here brings" in run.err
    run = lab.batch("plan", "m.json")
    assert run.code == 1
    assert 'good.json, kind: unknown kind "sum"; known kinds are command, coverage, port' in run.err
