"""What the hooks of a user's conftest.py and other plugins do to a batch's cases."""

import json
import xml.etree.ElementTree as ET

import pytest
from lab import Lab

WORKERS = pytest.mark.parametrize("workers", ["-n0", "-n2"], ids=["one process", "workers"])

MARK_ONE = """
import pytest

def pytest_collection_modifyitems(items):
    for item in items:
        if item.name == "other":
            item.add_marker({mark})
"""

SKIP_MARKS = {
    "skip": 'pytest.mark.skip(reason="not today")',
    "skipif": 'pytest.mark.skipif(True, reason="not today")',
}


@WORKERS
@pytest.mark.parametrize("mark", SKIP_MARKS.values(), ids=SKIP_MARKS.keys())
def test_a_skip_mark_skips_its_case_and_no_other(lab: Lab, mark: str, workers: str) -> None:
    (lab.root / "conftest.py").write_text(MARK_ONE.format(mark=mark))
    lab.write_list("three", {"other": "pass", "good": "pass", "bad": "fail"})
    run = lab.run("--atesor-list", "three", workers)
    assert run.code == 1, run.out + run.err
    assert "INTERNALERROR" not in run.out
    found = {case["label"]: case["status"] for case in lab.results()["cases"]}
    assert found == {"other": "SKIPPED", "good": "PASS", "bad": "FAIL"}
    assert sorted(lab.events()) == ["end bad", "end good", "start bad", "start good"]


def test_a_word_that_a_loaded_plugin_acts_on_is_refused_and_no_other(lab: Lab) -> None:
    site = lab.root / "site"
    info = site / "pytest_order-1.0.dist-info"
    info.mkdir(parents=True)
    (site / "ordering.py").write_text("")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: pytest-order\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[pytest11]\npytest_order = ordering\n")
    entry = {"name": "good", "url": "https://example.org/good", "tags": ["flaky", "order"]}
    path = lab.root / "packages" / "one.json"
    path.write_text(json.dumps({"$schema_version": 1, "packages": [entry]}))
    run = lab.run("--atesor-list", "one", "-n0", PYTHONPATH=str(site))
    assert run.code == 1
    assert "packages/one.json: 'good' has the word 'order', and pytest-order gives that mark" in run.err
    assert lab.bundles == []
    freed = lab.run(
        "--atesor-list", "one", "--co", "-q", "-m", "order", "-pno:pytest_order", PYTHONPATH=str(site)
    )
    assert "packages/one.json::good" in freed.out.splitlines(), freed.out + freed.err


SKIPS = """
import pytest

def pytest_collection_modifyitems(items):
    for item in items:
        if item.name == "known":
            item.add_marker(pytest.mark.xfail(run=False, reason="it hangs"))

def pytest_runtest_setup(item):
    if item.name == "early":
        pytest.skip("not today")

class Late:
    @pytest.hookimpl(trylast=True)
    def pytest_runtest_setup(self, item):
        if item.name == "late":
            pytest.skip("no sandbox for it")

def pytest_configure(config):
    config.pluginmanager.register(Late())
"""


@WORKERS
def test_a_hook_s_skip_has_its_reason_and_fails_no_batch(lab: Lab, workers: str) -> None:
    (lab.root / "conftest.py").write_text(SKIPS)
    lab.write_list("four", {"early": "fail", "late": "fail", "known": "fail", "good": "pass"})
    run = lab.run("--atesor-list", "four", workers, "--junitxml=junit.xml", "-rs")
    assert run.code == 0, run.out + run.err
    found = {case["label"]: case for case in lab.results()["cases"]}
    assert {label: (case["status"], case["cause"], case["reason"]) for label, case in found.items()} == {
        "early": ("SKIPPED", None, "not today"),
        "late": ("SKIPPED", None, "no sandbox for it"),
        "known": ("SKIPPED", None, "[NOTRUN] it hangs"),
        "good": ("PASS", None, ""),
    }
    assert lab.results()["counts"]["SKIPPED"] == 3
    assert [label for label, case in found.items() if case["attempts"]] == ["late", "good"]
    cases = junit_cases(lab)
    assert sorted(cases) == ["early", "good", "known", "late"]
    skips = {name: case.find("skipped") for name, case in cases.items()}
    assert {name: skip.attrib["message"] for name, skip in skips.items() if skip is not None} == {
        "early": "not today",
        "late": "no sandbox for it",
        "known": "[NOTRUN] it hangs",
    }
    assert properties(cases["early"]) == {"status": "SKIPPED", "url": "https://example.org/fail/early"}
    assert properties(cases["late"])["attempt"] == "001"
    assert "SKIPPED early: not today" in run.lines
    assert [line for line in run.lines if line.startswith("SKIPPED [1] conftest.py:") and "not today" in line]
    assert lab.events() == ["start good", "end good"]


RAISES = """
import pytest

def pytest_runtest_setup(item):
    if item.name == "early":
        raise ValueError("no key")

class Late:
    @pytest.hookimpl(trylast=True)
    def pytest_runtest_setup(self, item):
        if item.name == "late":
            raise ValueError("no room")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_call(self, item):
        if item.name == "call":
            raise ValueError("no time\\nat all")

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_teardown(self, item):
        if item.name == "after":
            raise ValueError("no end")

class Around:
    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item):
        yield
        if item.name == "around":
            raise ValueError("no way")

def pytest_configure(config):
    config.pluginmanager.register(Late())
    config.pluginmanager.register(Around())
"""


@WORKERS
def test_a_hook_s_exception_in_a_rerun_is_the_outcome_of_its_case(lab: Lab, workers: str) -> None:
    lab.write_list("two", dict.fromkeys(("good", "early"), "pass"))
    assert lab.run("--atesor-list", "two", workers, "--atesor-batch-id=b").code == 0
    (lab.root / "conftest.py").write_text(RAISES)
    run = lab.run("--atesor-rerun=runs/batches/b", "--atesor-rerun-all", workers)
    assert run.code == 1, run.out + run.err
    reason = "not started: conftest.py:6: ValueError: no key"
    found = {case["label"]: case for case in lab.results()["cases"]}
    assert (found["good"]["status"], found["good"]["attempt_id"]) == ("PASS", "002")
    assert [found["early"][key] for key in ("state", "status", "cause", "reason")] == [
        "skipped",
        "SKIPPED",
        "environment",
        reason,
    ]
    assert reason in " ".join(run.out.split())
    assert lab.results()["counts"]["SKIPPED"] == 1
    (lab.root / "conftest.py").unlink()
    assert lab.run("--atesor-rerun=runs/batches/b", "--atesor-rerun-failed", workers).code == 0
    assert [case["attempts"] for case in lab.results()["cases"]] == [2, 2]
    assert {case["status"] for case in lab.results()["cases"]} == {"PASS"}


@WORKERS
def test_a_hook_s_exception_is_the_reason_of_its_case(lab: Lab, workers: str) -> None:
    (lab.root / "conftest.py").write_text(RAISES)
    lab.write_list("all", dict.fromkeys(("good", "early", "late", "call"), "pass"))
    run = lab.run("--atesor-list", "all", workers, "--junitxml=junit.xml")
    assert run.code == 1, run.out + run.err
    found = {case["label"]: case for case in lab.results()["cases"]}
    assert {label: (case["status"], case["cause"], case["reason"]) for label, case in found.items()} == {
        "good": ("PASS", None, ""),
        "early": ("SKIPPED", "environment", "not started: conftest.py:6: ValueError: no key"),
        "late": ("FAIL", "environment", "conftest.py:12: ValueError: no room"),
        "call": ("FAIL", "environment", "conftest.py:17: ValueError: no time"),
    }
    for name in ("late", "call"):
        record = json.loads((lab.bundles[-1] / f"cases/{name}/attempts/001/attempt.json").read_text())
        assert (record["status"], record["reason"]) == ("FAIL", found[name]["reason"])
    assert sorted(junit_cases(lab)) == ["call", "early", "good", "late"]
    assert properties(junit_cases(lab)["late"])["cause"] == "environment"
    assert lab.events() == ["start good", "end good"]


@WORKERS
@pytest.mark.parametrize("name", ["after", "around"])
def test_a_hook_that_raises_after_a_pass_is_a_defect_of_the_batch(lab: Lab, name: str, workers: str) -> None:
    (lab.root / "conftest.py").write_text(RAISES)
    lab.write_list("two", {name: "pass", "good": "pass"})
    run = lab.run("--atesor-list", "two", workers)
    assert run.code == 1, run.out + run.err
    assert {case["status"] for case in lab.results()["cases"]} == {"PASS"}
    (line,) = [line for line in run.lines if line.startswith("atesor: error: ")]
    message = {"after": "22: ValueError: no end", "around": "29: ValueError: no way"}[name]
    assert line == f"atesor: error: {name}: a hook failed after the case had ended: conftest.py:{message}"


SKIPS_LATE = """
import pytest

class Around:
    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item):
        try:
            yield
        finally:
            if item.name in {"around", "bad"}:
                pytest.skip("not today")
            if item.name == "expected":
                pytest.xfail("not today")

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_teardown(self, item):
        if item.name == "after":
            pytest.skip("not today")

def pytest_configure(config):
    config.pluginmanager.register(Around())

def pytest_collection_modifyitems(items):
    for item in items:
        if item.name == "known":
            item.add_marker(pytest.mark.xfail(reason="it fails"))
"""


@WORKERS
def test_a_hook_that_skips_after_the_end_changes_no_outcome_and_is_named(lab: Lab, workers: str) -> None:
    (lab.root / "conftest.py").write_text(SKIPS_LATE)
    verbs = {"good": "pass", "around": "pass", "after": "pass", "expected": "pass"}
    lab.write_list("all", {**verbs, "bad": "fail", "known": "fail"})
    run = lab.run("--atesor-list", "all", workers, "--junitxml=junit.xml")
    assert run.code == 1, run.out + run.err
    found = {case["label"]: case["status"] for case in lab.results()["cases"]}
    assert found == {**dict.fromkeys(verbs, "PASS"), "bad": "FAIL", "known": "FAIL"}
    cases = {
        case.attrib["name"]: [one.tag for one in case if one.tag != "properties"]
        for case in list_junit_cases(lab)
    }
    assert cases == {**{name: [] for name in verbs}, "bad": ["failure"], "known": ["skipped"]}
    assert len(list_junit_cases(lab)) == 6
    assert sorted(line for line in run.lines if line.startswith("atesor: error: ")) == [
        f"atesor: error: {name}: a hook skipped after the case had ended: not today"
        for name in ("after", "around", "bad", "expected")
    ]


AGAIN = """
from _pytest.runner import runtestprotocol

def pytest_runtest_protocol(item, nextitem):
    for turn in ("first", "second"):
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        for report in runtestprotocol(item, nextitem=nextitem, log=False):
            if turn == "first" and report.failed:
                report.outcome = "rerun"
            item.ihook.pytest_runtest_logreport(report=report)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True

def pytest_collection_modifyitems(items):
    for item in items:
        item.user_properties.append(("mine", item.name))
"""


@WORKERS
def test_a_plugin_that_runs_items_again_finds_each_as_new(lab: Lab, workers: str) -> None:
    (lab.root / "conftest.py").write_text(AGAIN)
    lab.write_list("two", {"good": "pass", "bad": "fail"})
    run = lab.run("--atesor-list", "two", workers, "--junitxml=junit.xml")
    assert run.code == 1, run.out + run.err
    assert {case["label"]: (case["status"], case["attempts"]) for case in lab.results()["cases"]} == {
        "good": ("PASS", 2),
        "bad": ("FAIL", 2),
    }
    assert [line for line in run.lines if " start " in line and not line.startswith("w")] == []
    counts = [line.split()[0] for line in run.lines if line.startswith("[")]
    assert (len(counts), set(counts), counts[-1]) == (4, {"[1/2]", "[2/2]"}, "[2/2]")
    for case in list_junit_cases(lab):
        found = [(one.attrib["name"], one.attrib["value"]) for one in case.iter("property")]
        assert len(dict(found)) == len(found)
        assert found[0] == ("mine", case.attrib["name"])
    assert properties(list_junit_cases(lab)[-1])["attempt"] == "002"


def list_junit_cases(lab: Lab) -> list[ET.Element]:
    return list(ET.parse(lab.root / "junit.xml").getroot().iter("testcase"))  # noqa: S314 - our own file


def junit_cases(lab: Lab) -> dict[str, ET.Element]:
    cases = list_junit_cases(lab)
    found = {case.attrib["name"]: case for case in cases}
    assert len(found) == len(cases)
    return found


def properties(case: ET.Element) -> dict[str, str]:
    return {one.attrib["name"]: one.attrib["value"] for one in case.iter("property")}
