"""A batch on several machines: two names of this one, whose ssh servers can be killed one by one."""

import json
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from machines import NAMED, make_here
from native_lab import NativeLab, await_that, clients

if TYPE_CHECKING:
    import subprocess

    from lab import Run
    from ssh_server import Server

pytestmark = pytest.mark.skipif(NAMED != "here", reason="ATESOR_TEST_NATIVE names one machine; use 'here'")

PATIENCE_S = 2400.0
SLOW_S = 30
NAMES = ("one", "two", "three", "four", "five", "six")


@pytest.fixture(scope="module")
def server_and_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple["Server", NativeLab]]:
    server, environ = make_here(tmp_path_factory.mktemp("two"))
    allowed = f"{environ['ATESOR_NATIVE_ALLOW']},twice"
    machines = {**environ, "ATESOR_SSH_HOST": "left,right", "ATESOR_NATIVE_ALLOW": allowed}
    lab = NativeLab(tmp_path_factory.mktemp("machines") / "root", machines)
    yield server, lab
    assert lab.left_here() == []


@pytest.fixture
def server(server_and_lab: tuple["Server", NativeLab]) -> "Server":
    return server_and_lab[0]


@pytest.fixture
def two_machines(server_and_lab: tuple["Server", NativeLab]) -> NativeLab:
    return server_and_lab[1]


@pytest.fixture(scope="module")
def batch(server_and_lab: tuple["Server", NativeLab]) -> "Run":
    lab = server_and_lab[1]
    lab.write_projects("all", dict.fromkeys(NAMES, 5))
    return lab.run("--atesor-list=all", "--junitxml=junit.xml", timeout_s=PATIENCE_S)


def test_both_machines_get_cases_and_the_slots_are_those_of_both(
    batch: "Run", two_machines: NativeLab
) -> None:
    assert batch.code == 0, batch.out + batch.err
    assert {record["machine"] for record in records(two_machines)} == {"left", "right"}
    rows = [line for line in batch.lines if line.startswith("machine: ")]
    assert [row.split()[1] for row in rows] == ["left:", "right:"]
    plan: dict[str, Any] = json.loads((two_machines.bundles[-1] / "batch_plan.json").read_text())
    machines = plan["settings"]["machines"]
    assert [one["name"] for one in machines] == ["left", "right"]
    attempts = json.loads((two_machines.bundles[-1] / "batch_attempts.json").read_text())
    assert attempts["sessions"][-1]["workers"] == sum(one["slots"] for one in machines) >= 2
    slots = {(record["slot"], record["machine"]) for record in records(two_machines)}
    assert len({slot for slot, _ in slots}) == len(slots), "a slot is on one machine"


def test_records_results_and_junit_name_target_and_machine(batch: "Run", two_machines: NativeLab) -> None:
    assert batch.code == 0
    ran = {record["case_id"]: ("native", record["machine"]) for record in records(two_machines)}
    assert set(ran) == set(NAMES)
    for file in two_machines.bundles[-1].glob("**/result.json"):
        result = json.loads(file.read_text())
        case_id = file.relative_to(two_machines.bundles[-1] / "cases").parts[0]
        assert (result["target"], result["machine"]) == ran.pop(case_id)
    assert ran == {}
    cases = ET.parse(two_machines.root / "junit.xml").iter("testcase")  # noqa: S314 - our own file
    found = [{one.get("name"): one.get("value") for one in case.iter("property")} for case in cases]
    assert {one["machine"] for one in found} == {"left", "right"}
    assert {one["target"] for one in found} == {"native"}


def test_more_workers_than_all_cores_are_refused(two_machines: NativeLab) -> None:
    two_machines.write_projects("too-many", {"refused": 0})
    run = two_machines.run("--atesor-list=too-many", "-n900", timeout_s=PATIENCE_S)
    assert run.code == 2
    assert "bad worker count 900; on the native machines it must be from 1 to " in run.err


def test_doctor_looks_at_all_machines(two_machines: NativeLab, server: "Server") -> None:
    doctor = ("pytest_atesor.cli", "doctor")
    ready = two_machines.start("--target", "native", module=doctor)
    out, err = ready.communicate(timeout=PATIENCE_S)
    assert ready.returncode == 0, out + err
    assert [line.split()[1] for line in out.splitlines() if line.startswith("machine:")] == [
        "left:",
        "right:",
    ]
    server.refuse("left")
    try:
        asked = two_machines.start("--target", "native", module=doctor)
        out, err = asked.communicate(timeout=PATIENCE_S)
    finally:
        server.take_back("left")
    assert asked.returncode == 1, out + err
    assert "problem: left: no connection to left" in out
    assert "machine: right: " in out


def test_a_machine_that_dies_costs_only_its_running_cases(two_machines: NativeLab, server: "Server") -> None:
    projects = [f"dying-{number}" for number in range(5)]
    process, lost = start_and_cut(two_machines, server, "dying", projects)
    try:
        out, err = process.communicate(timeout=PATIENCE_S)
        ends = final_records(two_machines)
        assert set(ends) == set(projects), out + err
        assert {name for name, end in ends.items() if end["status"] != "PASS"} == {lost}
        assert (ends[lost]["cause"], ends[lost]["machine"]) == ("environment", "left")
        assert {end["machine"] for name, end in ends.items() if name != lost} == {"right"}
        assert process.returncode == 1
        assert "the connection to left is lost" in err
        assert "left cannot be reached at the end" in err
        assert "the batch was stopped" not in out + err
        await_that(lambda: not two_machines.left_there())
        assert two_machines.left_here() == []
    finally:
        server.take_back("left")


def test_a_machine_that_comes_back_gets_cases_again(two_machines: NativeLab, server: "Server") -> None:
    projects = [f"back-{number}" for number in range(5)]
    process, lost = start_and_cut(two_machines, server, "back", projects)
    await_that(lambda: len(final_records(two_machines)) > 0)  # the other machine goes on meanwhile
    server.take_back("left")
    out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, out + err
    ends = final_records(two_machines)
    assert {end["status"] for end in ends.values()} == {"PASS"}
    assert (ends[lost]["machine"], ends[lost]["attempt_id"]) == ("left", "002")
    assert "connected to left again" in err
    await_that(lambda: not two_machines.left_there())


def test_a_batch_whose_machines_all_die_stops_and_can_be_resumed(
    two_machines: NativeLab, server: "Server"
) -> None:
    projects = [f"none-{number}" for number in range(4)]
    process, _ = start_and_cut(two_machines, server, "none", projects, hosts=("left", "right"))
    out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1, out + err
    assert "the batch was stopped" in out + err
    cases = two_machines.results()["cases"]
    assert sorted(str(case["cause"]) for case in cases) == ["environment"] * len(projects)
    for host in ("left", "right"):
        server.take_back(host)
    await_that(lambda: not two_machines.left_there())
    bundle = str(two_machines.bundles[-1])
    resumed = two_machines.start("resume", bundle, "--retry-failed", module=("pytest_atesor.cli", "batch"))
    out, err = resumed.communicate(timeout=PATIENCE_S)
    assert resumed.returncode == 0, out + err
    assert {case["status"] for case in two_machines.results()["cases"]} == {"PASS"}
    assert two_machines.left_there() == []


def start_and_cut(
    lab: NativeLab, server: "Server", name: str, projects: list[str], hosts: tuple[str, ...] = ("left",)
) -> tuple["subprocess.Popen[str]", str]:
    """Start a batch with a slot on each machine and kill servers in mid build; return the left one's case."""
    lab.write_projects(name, dict.fromkeys(projects, SLOW_S))
    process = lab.start(f"--atesor-list={name}", "-n2")
    await_that(lambda: len(building(lab, projects)) > 1 or process.poll() is not None)
    assert process.poll() is None, process.communicate()
    (lost,) = (project for project, machine in started(lab).items() if machine == "left")
    for host in hosts:
        server.refuse(host)
        (master,) = (one for one in clients(process, "ControlMaster=yes") if host in one.cmdline())
        killed = server.servers_of(master)
        assert killed
        for one in killed:
            one.kill()
    return process, lost


def building(lab: NativeLab, projects: list[str]) -> list[str]:
    return [project for project in projects if lab.is_building(project)]


def started(lab: NativeLab) -> dict[str, str]:
    """Return case to machine of the attempts that the journal says began."""
    lines = map(json.loads, (lab.bundles[-1] / "journal.jsonl").read_text().splitlines())
    return {line["case_id"]: line["machine"] for line in lines if line["type"] == "attempt_started"}


def records(lab: NativeLab) -> list[dict[str, Any]]:
    return [json.loads(file.read_text()) for file in sorted(lab.bundles[-1].glob("**/attempt.json"))]


def final_records(lab: NativeLab) -> dict[str, dict[str, Any]]:
    """Return the last record of each case that ended."""
    return {record["case_id"]: record for record in records(lab)}
