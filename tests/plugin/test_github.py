"""A batch inside GitHub Actions: the runner obeys the batch, and never what a stranger's log says."""

import signal

import pytest
from lab import Lab, Run, finish

# Wherever a table or a terminal breaks such a line, a command may begin.
FORGED = " ".join(f"##[{name}]forged ::{name}::forged" for name in ("error", "stop-commands") * 3)
AGENT = f"""#!/bin/sh
echo '::error::forged'
echo '##[error]forged'
echo 'error: {FORGED}'
exit 1
"""
COMMANDS = {"stop-commands", "error", "warning", "group", "add-mask", "debug"}


class Runner:
    """What GitHub's runner makes of lines, as its ActionCommandManager does."""

    def __init__(self) -> None:
        self.obeyed: list[tuple[str, str]] = []
        self.token = ""

    def read(self, text: str) -> "Runner":
        for line in text.splitlines():
            command, data = self._parse(line)
            if self.token and command.lower() == self.token.lower():
                self.token = ""
            elif self.token or not command:
                continue
            elif command == "stop-commands":
                self.token = data
            else:
                self.obeyed.append((command, data))
        return self

    def _parse(self, line: str) -> tuple[str, str]:
        known = {*COMMANDS, self.token} - {""}
        stripped = line.lstrip()
        if stripped.startswith("::") and "::" in stripped[2:]:
            info, _, data = stripped[2:].partition("::")
            if info.split(" ")[0] in known:
                return info.split(" ")[0], data
        _, separator, rest = line.partition("##[")
        if separator and "]" in rest:
            info, _, data = rest.partition("]")
            if info.split(" ")[0] in known:
                return info.split(" ")[0], data
        return "", ""


def start_of(run: Run) -> str:
    """Return the line that stops the runner, which nothing of the batch may come before."""
    (line,) = [line for line in run.lines if line.startswith("::stop-commands::") and "forged" not in line]
    return line


def end_of(run: Run) -> str:
    """Return the line that lets the runner obey again."""
    return f"::{start_of(run).removeprefix('::stop-commands::')}::"


@pytest.fixture
def hostile(lab: Lab) -> Lab:
    (lab.root / "agent").write_text(AGENT)
    lab.write_list("mixed", {"zlib": "fail", "gron": "fail", "jq": "fail"})
    return lab


def run_in_github(lab: Lab, *arguments: str, **environment: str) -> Run:
    summary = str(lab.root / "summary.md")
    return lab.run(
        "--atesor-list=mixed",
        *arguments,
        GITHUB_ACTIONS="true",
        GITHUB_STEP_SUMMARY=summary,
        COLUMNS="80",
        **environment,
    )


@pytest.mark.parametrize(
    "flags",
    [
        pytest.param(("-n0",), id="plain"),
        pytest.param(("-n2",), id="workers"),
        pytest.param(("-n0", "-q"), id="q"),
        pytest.param(("-n2", "-qq", "-rf"), id="qq"),
        pytest.param(("-n2", "-v", "-rA"), id="v"),
        pytest.param(("-n0", "--tb=short", "-rf", "--color=yes"), id="tb"),
        pytest.param(("-n2", "-x", "--tb=long"), id="x"),
    ],
)
def test_the_runner_obeys_the_annotations_and_nothing_else(hostile: Lab, flags: tuple[str, ...]) -> None:
    run = run_in_github(hostile, *flags)
    assert run.code == 1, run.out + run.err
    runner, annotations = (
        Runner().read(run.out),
        [line for line in run.lines if line.startswith("::error title=")],
    )
    assert [command for command, _ in runner.obeyed] == ["error"] * len(annotations)
    assert runner.token == ""
    assert annotations[0].startswith(
        "::error title=3 FAIL::error: ##[" if "-x" not in flags else "::error title="
    )
    assert run.lines[0] == start_of(run)
    assert run.lines[-1 - len(annotations) :] == [end_of(run), *annotations]
    assert Runner().read(run.err).obeyed == []
    unguarded = Runner().read(run.out.replace(start_of(run), ""))
    assert (unguarded.obeyed, unguarded.token) != (runner.obeyed, ""), "nothing was forged: no test"


def test_each_session_has_a_token_of_its_own(hostile: Lab) -> None:
    one, other = (start_of(run_in_github(hostile, "-n0", "-qq")) for _ in range(2))
    assert one != other
    assert len(one.removeprefix("::stop-commands::")) == 32


def test_elsewhere_than_in_github_nothing_is_said_to_a_runner(hostile: Lab) -> None:
    for name in ("GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY"):
        run = hostile.run("--atesor-list=mixed", "-n0", "-qq", **{name: ""})
        assert "stop-commands" not in run.out
    run = hostile.run("--atesor-list=mixed", "-n0", "-qq", GITHUB_ACTIONS="true", GITHUB_STEP_SUMMARY="")
    assert (run.lines[0], run.lines[-1]) == (start_of(run), end_of(run))


ENDS = {
    "no start": ("-n0", "def pytest_sessionstart(): raise pytest.UsageError('no')", 4),
    "no workers": ("-n2", "def pytest_xdist_setupnodes(): raise EOFError('no')", 1),
    "exit at the start": ("-n2", "def pytest_sessionstart(): pytest.exit('no', returncode=7)", 7),
    "internal error": ("-n2", "def pytest_runtest_logfinish(): raise RuntimeError('no')", 3),
    "broken end": ("-n0", "def pytest_sessionfinish(): raise RuntimeError('no')", 1),
    "exit at the end": ("-n0", "def pytest_terminal_summary(): pytest.exit('no', returncode=7)", 7),
}


@pytest.mark.parametrize(("workers", "hook", "code"), ENDS.values(), ids=ENDS.keys())
def test_no_end_of_a_session_leaves_the_runner_deaf(hostile: Lab, workers: str, hook: str, code: int) -> None:
    (hostile.root / "conftest.py").write_text(f"import pytest\n{hook}\n")
    run = run_in_github(hostile, workers)
    assert run.code == code, run.out + run.err
    runner = Runner().read(run.out)
    assert start_of(run) in run.lines
    assert runner.token == ""
    assert ("error", "forged") not in runner.obeyed


def test_an_interrupted_batch_gives_the_runner_its_commands_back(lab: Lab) -> None:
    lab.write_list("long", {"zlib": "pass", "gron": "hang"})
    process = lab.start("--atesor-list=long", "-n2", GITHUB_ACTIONS="true")
    lab.wait_for_events("start gron")
    process.send_signal(signal.SIGINT)
    run = finish(process)
    assert run.code == 130, run.out + run.err
    assert run.lines[-1] == end_of(run)
    assert Runner().read(run.out).token == ""


def test_a_batch_that_is_refused_never_stops_the_runner(hostile: Lab) -> None:
    run = run_in_github(hostile, "--atesor-only=nosuch")
    assert run.code == 2
    assert "stop-commands" not in run.out + run.err
