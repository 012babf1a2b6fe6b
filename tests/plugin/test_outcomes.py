"""One batch with every outcome on two workers, looked at from all sides."""

import json
import xml.etree.ElementTree as ET

import pytest
from lab import Lab, Run

VERBS = {
    "good": "pass",
    "doubtful": "unverified",
    "bad": "fail",
    "slow": "hang",
    "weird": "strange",
    "loud": "flood",
    "told": "args",
}


@pytest.fixture(scope="module")
def batch(module_lab: Lab) -> Run:
    module_lab.write_list("all", VERBS, slow={"timeout_seconds": 2}, told={"max_attempts": 3})
    (module_lab.root / ".env").write_text("KEY=from-dotenv\nATESOR_PLATFORM=ubuntu\n")
    return module_lab.run("--atesor-list", "all", "-n2", "--junitxml=junit.xml", "--atesor-package")


@pytest.fixture(scope="module")
def cases(module_lab: Lab, batch: Run) -> dict[str, ET.Element]:
    assert batch.code == 1
    root = ET.parse(module_lab.root / "junit.xml").getroot()  # noqa: S314 - our own file, and that it parses is the test
    return {case.attrib["name"]: case for case in root.iter("testcase")}


def log_of(lab: Lab, name: str) -> str:
    return (lab.root / "output" / "batch_logs" / f"{name}.log").read_text(errors="replace")


def test_exit_code_is_1_when_anything_but_pass_came_out(batch: Run) -> None:
    assert batch.code == 1, batch.out + batch.err
    assert "Traceback" not in batch.out + batch.err
    assert "INTERNALERROR" not in batch.out


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("good", "PASS"),
        ("doubtful", "UNVERIFIED"),
        ("bad", "FAIL"),
        ("slow", "TIMEOUT"),
        ("weird", "FAIL"),
        ("loud", "FAIL"),
        ("told", "PASS"),
    ],
)
def test_each_case_has_its_status_in_table_results_and_junit(
    module_lab: Lab, batch: Run, cases: dict[str, ET.Element], name: str, status: str
) -> None:
    assert any(line.split()[:2] == [name, status] for line in batch.lines)
    found = {case["label"]: case["status"] for case in module_lab.results()["cases"]}
    assert found[name] == status
    properties = {item.attrib["name"]: item.attrib["value"] for item in cases[name].iter("property")}
    assert properties["status"] == status
    assert properties["url"] == f"https://example.org/{VERBS[name]}/{name}"
    assert properties["slot"].startswith("atesor-ai-sandbox-debian-w")
    assert (module_lab.root / properties["log"]).is_file()


def test_counts_and_pass_rate_are_of_the_cases_that_ran(batch: Run) -> None:
    assert "7 packages: 2 PASS, 1 UNVERIFIED, 3 FAIL, 1 TIMEOUT, 0 SKIPPED" in batch.lines
    assert "pass rate 2/7 = 28.6 %, verified passes only" in batch.lines


def test_each_case_has_one_line_for_its_start_and_one_for_its_end(batch: Run) -> None:
    for name in VERBS:
        starts = [line for line in batch.lines if line.endswith(f" start {name}")]
        ends = [line for line in batch.lines if line.startswith("[") and f" {name} " in line]
        assert (len(starts), len(ends)) == (1, 1), batch.out
    # Older pytest closes with one "[100%]" of its own.
    assert sum("%]" in line for line in batch.lines) <= 1


def test_junit_has_one_testcase_each_and_no_errors(
    module_lab: Lab, batch: Run, cases: dict[str, ET.Element]
) -> None:
    assert batch.code == 1
    suite = next(iter(ET.parse(module_lab.root / "junit.xml").getroot()))  # noqa: S314 - our own file
    counts = {key: suite.attrib[key] for key in ("tests", "failures", "errors", "skipped")}
    assert counts == {"tests": "7", "failures": "5", "errors": "0", "skipped": "0"}
    assert set(cases) == set(VERBS)


def test_failure_text_is_short_clean_and_names_the_log(cases: dict[str, ET.Element]) -> None:
    failure = cases["bad"].find("failure")
    assert failure is not None
    assert failure.attrib["message"] == "FAIL (build): error: no rule to make target"
    text = failure.text or ""
    assert text.splitlines()[0] == failure.attrib["message"]
    assert "cases/bad/attempts/001/run.log" in text
    assert text.endswith("building\nerror: no rule to make target")
    loud = cases["loud"].find("failure")
    assert loud is not None
    assert 30_000 < len((loud.text or "").encode()) <= 64 * 1024


def test_escape_sequences_and_nul_never_reach_a_report(
    module_lab: Lab, batch: Run, cases: dict[str, ET.Element]
) -> None:
    failure = cases["weird"].find("failure")
    assert failure is not None
    assert failure.attrib["message"] == "FAIL (build): error: bad"
    assert "red  nul \ufffd byte" in (failure.text or "")
    assert "\x1b" not in batch.out
    assert "\x1b[31m" in log_of(module_lab, "weird")


def test_agent_gets_the_contract_s_flags_and_environment(module_lab: Lab, batch: Run) -> None:
    assert batch.code == 1
    flags, environment = log_of(module_lab, "told").splitlines()
    slot = flags.partition("--container ")[2].split()[0]
    assert flags == (
        "--repo https://example.org/args/told --max-attempts 3 --force "
        f"--container {slot} --platform ubuntu --package"
    )
    assert environment.startswith("deadline=1")
    assert environment.endswith(" key=from-dotenv")


def test_attempts_logs_and_journal_agree(module_lab: Lab, batch: Run) -> None:
    assert batch.code == 1
    bundle = module_lab.bundles[-1]
    record = json.loads((bundle / "cases" / "bad" / "attempts" / "001" / "attempt.json").read_text())
    assert (record["status"], record["cause"], record["exit_code"]) == ("FAIL", "build", 1)
    link = module_lab.root / "output" / "batch_logs" / "bad.log"
    assert not link.readlink().is_absolute()
    assert link.resolve() == (bundle / record["log"]).resolve()
    journal = module_lab.journal()
    types = [line["type"] for line in journal]
    assert types[:2] == ["batch_started", "cases_selected"]
    assert types[-1] == "batch_ended"
    assert sorted(types[2:-1]) == ["attempt_ended"] * 7 + ["attempt_started"] * 7
    ended = {line["record"]["case_id"]: line["record"] for line in journal if line["type"] == "attempt_ended"}
    assert ended["bad"] == record
    assert journal[-1]["exit_code"] == batch.code
    assert module_lab.results()["tally"] == {
        "planned": 7,
        "done": 7,
        "interrupted": 0,
        "not_started": 0,
        "unselected": 0,
    }


def test_plan_records_what_shaped_the_batch(module_lab: Lab, batch: Run) -> None:
    assert batch.code == 1
    plan = json.loads((module_lab.bundles[-1] / "batch_plan.json").read_text())
    assert (plan["source"], plan["platform"], plan["target"]) == ("packages/all.json", "ubuntu", "qemu")
    assert plan["settings"]["agent"] == ["./agent"]
    assert plan["settings"]["workers"] == 2
    assert "from-dotenv" not in json.dumps(plan)


def test_no_secret_of_dotenv_lies_in_the_bundle_s_own_files(module_lab: Lab, batch: Run) -> None:
    assert batch.code == 1
    own = [path for path in module_lab.bundles[-1].rglob("*.json*") if path.is_file()]
    assert own
    assert not [path for path in own if "from-dotenv" in path.read_text()]
