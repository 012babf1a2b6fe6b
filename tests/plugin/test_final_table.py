"""The end of a batch: each failure once, and the way on."""

import shlex
import signal

import pytest
from lab import Lab, Run, finish

VERBS = {"zlib": "pass", "gron": "fail", "anew": "environment", "jq": "fail", "hugo": "unverified"}
REASON = "error: no rule to make target"


def end_of(run: Run) -> list[str]:
    """Return what stands below the batch's own heading."""
    assert sum(line.strip("= ") == "packages" for line in run.lines) == 1, run.out
    return run.lines[[line.strip("= ") for line in run.lines].index("packages") + 1 :]


@pytest.fixture
def mixed(lab: Lab) -> Lab:
    lab.write_list("mixed", VERBS)
    return lab


@pytest.mark.parametrize("workers", ["-n0", "-n2"])
@pytest.mark.parametrize("verbosity", ["-q", "-v", ""])
def test_a_cause_is_told_once_with_its_packages_and_logs(mixed: Lab, workers: str, verbosity: str) -> None:
    arguments = [workers, *([verbosity] if verbosity else [])]
    run = mixed.run("--atesor-list=mixed", "--atesor-retry-environment=0", *arguments)
    assert run.code == 1
    assert "FAILURES" not in run.out
    assert "short test summary" not in run.out
    end = end_of(run)
    assert sum(REASON in line for line in end) == 1
    logs = "output/batch_logs"
    headings = [
        f"2 FAIL (build): {REASON}",
        f"gron      FAIL            0.0  {logs}/gron.log",
        f"jq        FAIL            0.0  {logs}/jq.log",
        "1 FAIL (environment, not the package's fault): the mirror is down",
        "1 PASS",
        "5 packages: 1 PASS, 1 UNVERIFIED, 3 FAIL, 0 TIMEOUT, 0 SKIPPED",
        "1 FAIL of the environment: the package is not to blame, run it again",
    ]
    places = [next((at for at, line in enumerate(end) if alike(line, wanted)), -1) for wanted in headings]
    assert -1 not in places, run.out
    assert places == sorted(places)
    assert "3 failed" in run.lines[-1] or "4 failed" in run.lines[-1]


def alike(line: str, wanted: str) -> bool:
    """Say whether two rows are the same but for their seconds."""
    one, other = line.split(), wanted.split()
    return [word for word in one if not word[0].isdigit() or "." not in word] == [
        word for word in other if not word[0].isdigit() or "." not in word
    ]


def test_a_pipe_gets_names_and_log_paths_whole_at_any_width(lab: Lab) -> None:
    name = "a-package-whose-name-is-longer-than-a-quarter-of-eighty-columns"
    lab.write_list("long", {name: "fail", "zlib": "pass"})
    run = lab.run("--atesor-list=long", "-n0", COLUMNS="80")
    end = end_of(run)
    assert sum(f"output/batch_logs/{name}.log" in line and line.startswith(f"{name} ") for line in end) == 1


def test_pytests_own_sections_come_when_asked_for(mixed: Lab) -> None:
    run = mixed.run("--atesor-list=mixed", "-n0", "--tb=short")
    assert sum("= FAILURES =" in line for line in run.lines) == 1
    assert "    error: no rule to make target" in run.lines
    run = mixed.run("--atesor-list=mixed", "-n0", "-rf")
    assert "FAILURES" not in run.out
    assert sum(line.startswith("FAIL packages/mixed.json::gron") for line in run.lines) == 1


def test_two_q_leave_the_table_out_and_not_the_error_nor_the_step_summary(mixed: Lab) -> None:
    summary = mixed.root / "summary.md"
    run = mixed.run("--atesor-list=mixed", "-qq", "-knosuch", GITHUB_STEP_SUMMARY=str(summary))
    assert run.code == 2
    assert "atesor: error: no case of packages/mixed.json was selected" in run.out
    assert "packages" not in [line.strip("= ") for line in run.lines]
    assert "5 planned: 5 unselected" in summary.read_text()


@pytest.mark.parametrize("workers", ["-n0", "-n2"])
def test_an_interrupted_batch_names_the_command_that_goes_on(lab: Lab, workers: str) -> None:
    lab.write_list("long", {"zlib": "pass", "gron": "after-look", "jq": "after-look", "anew": "after-look"})
    process = lab.start("--atesor-list=long", workers)
    lab.wait_for_events("start gron")
    process.send_signal(signal.SIGINT)
    run = finish(process)
    assert run.code == 130, run.out + run.err
    lines = [line for line in run.lines if line.startswith("to go on: ")]
    assert len(lines) == 1, run.out
    words = shlex.split(lines[0].removeprefix("to go on: "))
    assert words[:2] == ["atesor", "batch"]
    with (lab.root / "events").open("a") as events:
        events.write("end look\n")
    again = lab.batch(*words[2:])
    assert again.code == 0, again.out + again.err
    assert "4 packages: 4 PASS, 0 UNVERIFIED, 0 FAIL, 0 TIMEOUT, 0 SKIPPED" in again.lines
    assert "to go on" not in again.out


def test_what_failed_names_the_command_that_runs_it_again(lab: Lab) -> None:
    lab.write_list("demo", {"zlib": "pass", "gron": "exclusive"})
    (lab.root / "lock").mkdir()
    run = lab.run("--atesor-list=demo", "-n0", "--atesor-output-root=a b")
    (lab.root / "lock").rmdir()
    line = next(line for line in run.lines if line.startswith("to run the failed ones again: "))
    again = lab.batch(*shlex.split(line.partition(": ")[2])[2:])
    assert again.code == 0, again.out + again.err
    assert "2 packages: 2 PASS, 0 UNVERIFIED, 0 FAIL, 0 TIMEOUT, 0 SKIPPED" in again.lines


def test_ten_megabytes_of_log_leave_a_short_end_and_a_small_page(lab: Lab) -> None:
    line = "\\033[31m</script><b>red</b>\\033[0m \\342\\200\\256gnp.exe"
    lab.write_manifest({
        "loud": f"yes \"$(printf '{line}')\" | head -c 10000000; echo; echo 'error: at the end' >&2; exit 1"
    })
    run = lab.run("m.yaml", "-n0")
    assert run.code == 4, run.out + run.err
    assert "1 FAIL (agent): error: at the end" in run.lines
    assert len(run.out) < 5000
    assert "\x1b" not in run.out
    page = (lab.bundles[-1] / "report.html").read_text()
    assert len(page) < 60_000
    assert "</script><b>" not in page
    assert "error: at the end" in page
