"""The JUnit file of a batch against a schema, with names, output and statuses that could break it."""

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
import xmlschema
from lab import CASE_SECONDS, Lab

NAMES = {
    'a "quoted" <b>name</b> & more': "exit 0",
    "שלום عليكم 日本語": "exit 1",
    "percent %s {0} $x `y` ]]>": "printf '<!-- \\000 \\013 \\377 ]]> \\033[31mred\\n'; exit 1",
    "x" * 300: "yes '<&\"]]>' | head -c 5000000; echo; echo the end; exit 1",
    "slow": "sleep 3000",
    "and/slashes/with[brackets]": "exit 3",
}


@pytest.fixture(scope="module", params=["-n0", "-n2"])
def suite(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> ET.Element:
    lab = Lab(tmp_path_factory.mktemp("junit") / "root")
    cases = []
    for number, (label, script) in enumerate(NAMES.items()):
        runspec = {
            "schema_version": "runspec_v1",
            "kind": "command",
            "timeout_seconds": 2 if label == "slow" else CASE_SECONDS,
            "command": {"argv": ["sh", "-c", script]},
        }
        (lab.root / f"{number}.json").write_text(json.dumps(runspec))
        cases.append({"label": label, "runspec": f"{number}.json"})
    (lab.root / "m.yaml").write_text(json.dumps({"schema_version": "batch_v1", "batch": {"cases": cases}}))
    run = lab.run("m.yaml", request.param, "--junitxml=junit.xml")
    assert run.code == 4, run.out + run.err
    xmlschema.XMLSchema(Path(__file__).with_name("junit.xsd")).validate(lab.root / "junit.xml")
    return ET.parse(lab.root / "junit.xml").getroot()[0]  # noqa: S314 - our own file


def test_every_case_stands_once_under_its_own_name(suite: ET.Element) -> None:
    assert sorted(case.attrib["name"] for case in suite) == sorted(NAMES)
    assert {case.attrib["classname"] for case in suite} == {"m.yaml"}


def test_the_counts_add_up(suite: ET.Element) -> None:
    counts = {name: int(suite.attrib[name]) for name in ("tests", "failures", "errors", "skipped")}
    assert counts == {"tests": 6, "failures": 5, "errors": 0, "skipped": 0}
    assert len(suite.findall("testcase/failure")) == 5


def test_output_is_cut_at_64_kib_and_keeps_its_end(suite: ET.Element) -> None:
    texts = {case.attrib["name"]: case.findtext("failure") or "" for case in suite}
    assert 32_000 < len(texts["x" * 300].encode()) <= 65_536
    assert texts["x" * 300].rstrip().endswith("the end")
    assert "red" in texts["percent %s {0} $x `y` ]]>"]
    assert "\x1b" not in "".join(texts.values())


REPORTS = """
import json
import os
import pytest

NAMES = ("nodeid", "location", "keywords", "outcome", "when", "sections", "user_properties")

def pytest_runtest_makereport(item):
    item.user_properties.append(("mine", [1, (2, "three")]))

def pytest_runtest_logreport(report):
    if "PYTEST_XDIST_WORKER" not in os.environ:
        with open("reports.jsonl", "a") as file:
            print(json.dumps([repr(getattr(report, name)) for name in NAMES]), file=file)

class First:
    @pytest.hookimpl(tryfirst=True)
    def pytest_report_to_serializable(self, report):
        report.user_properties.append(("packed by", "nobody"))

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_from_serializable(self, data):
        with open("received.jsonl", "a") as file:
            print(json.dumps([data["nodeid"], data["when"], data["left"]]), file=file)

class Around:
    @pytest.hookimpl(wrapper=True)
    def pytest_report_to_serializable(self):
        data = yield
        data["left"] = data["when"]
        data["user_properties"].pop()
        return data

    @pytest.hookimpl(wrapper=True)
    def pytest_report_from_serializable(self, data):
        data["sections"] = [*data["sections"], ("received", data["nodeid"])]
        report = yield
        report.sections.pop()
        return report

@pytest.hookimpl(trylast=True)
def pytest_sessionstart(session):
    for plugin in (First(), Around()):
        session.config.pluginmanager.register(plugin)
"""


def test_other_plugins_get_the_same_reports_with_and_without_workers(lab: Lab) -> None:
    lab.write_list("two", {"good": "pass", "bad": "fail"})
    (lab.root / "conftest.py").write_text(REPORTS)
    found = []
    for workers in ("-n0", "-n2"):
        lab.run("--atesor-list=two", workers)
        lines = (lab.root / "reports.jsonl").read_text().splitlines()
        (lab.root / "reports.jsonl").unlink()
        found.append([json.loads(line) for line in lines])
    alone, sent = ({(nodeid, when): rest for nodeid, *rest, when, _, _ in reports} for reports in found)
    assert len(alone) == 6
    assert sent == alone
    assert all("('mine', [1, (2, 'three')])" in properties for *_, properties in found[1])
    received = [json.loads(line) for line in (lab.root / "received.jsonl").read_text().splitlines()]
    assert {(repr(nodeid), repr(when)) for nodeid, when, _ in received} == set(sent)
    assert all(when == left for _, when, left in received)
