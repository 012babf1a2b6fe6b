"""The port runner: the contract's flags and variables, and result.json read as a stranger's file."""

import json
import os
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_atesor.core.outcome import Cause, Status
from pytest_atesor.core.plan import Case, Json, Platform, Target
from pytest_atesor.core.port_outcome import AgentResult, NoResult
from pytest_atesor.runners.interface import AttemptContext, Runner
from pytest_atesor.runners.port import (
    DEFAULT_AGENT,
    PortRunner,
    plan_agent_argv,
    plan_agent_environment,
    read_agent_result,
)
from pytest_atesor.runners.stop import StopFlag

VALID = '{"schema_version": "result_v1", "verdict": "verified"}'


def make_case(**spec: Json) -> Case:
    return Case(
        case_id="zlib",
        label="zlib",
        kind="port",
        spec={"name": "zlib", "url": "https://example.org/zlib", "max_attempts": 5, **spec},
        timeout_s=60,
        derived_name="zlib",
    )


@pytest.fixture
def context(tmp_path: Path, stop: StopFlag) -> AttemptContext:
    attempt = tmp_path / "attempt"
    attempt.mkdir()
    return AttemptContext(
        attempt_dir=attempt,
        log_path=attempt / "run.log",
        cwd=tmp_path,
        slot="atesor-ai-sandbox-debian-w1",
        engine="docker",
        state_dir=tmp_path / "state",
        environ={"PATH": os.environ["PATH"]},
        deadline=time.monotonic() + 60,
        deadline_epoch=1_900_000_000.75,
        platform=Platform.DEBIAN,
        target=Target.QEMU,
        agent=("agent",),
        stop=stop,
    )


def run_agent(context: AttemptContext, script: str) -> Any:
    return PortRunner().run(make_case(), replace(context, agent=("/bin/sh", "-c", script, "agent")))


def test_the_runner_is_one_for_ports() -> None:
    runner: Runner = PortRunner()
    assert runner.kind == "port"


def test_a_whole_number_reaches_the_agent_as_one_however_it_is_written(context: AttemptContext) -> None:
    argv = plan_agent_argv(make_case(max_attempts=2.0), context)
    assert argv[argv.index("--max-attempts") + 1] == "2"


def test_the_default_agent_is_the_built_in_one() -> None:
    assert (sys.executable, "-m", "pytest_atesor.porter") == DEFAULT_AGENT


@pytest.mark.parametrize(
    ("changes", "extra"),
    [
        ({}, ()),
        ({"target": Target.NATIVE}, ("--target", "native")),
        ({"package": True}, ("--package",)),
        ({"target": Target.NATIVE, "package": True}, ("--target", "native", "--package")),
    ],
    ids=["qemu", "native", "package", "both"],
)
def test_the_command_line_is_the_contracts(
    context: AttemptContext, changes: Mapping[str, Any], extra: tuple[str, ...]
) -> None:
    assert plan_agent_argv(make_case(), replace(context, **changes)) == (
        *("agent", "--repo", "https://example.org/zlib", "--max-attempts", "5", "--force"),
        *("--container", "atesor-ai-sandbox-debian-w1", "--platform", "debian"),
        *extra,
    )


def test_the_environment_is_the_inherited_one_with_the_contract_over_it(context: AttemptContext) -> None:
    inherited = {
        "HOME": "/home/me",
        "API_KEY": "from .env",
        "ATESOR_TARGET": "native",
        "ATESOR_REF": "somebody else's",
        "ATESOR_MIRRORS": "[]",
        "PYTEST_CURRENT_TEST": "test_x",
        "PYTEST_XDIST_WORKER": "gw0",
    }
    assert plan_agent_environment(make_case(), replace(context, environ=inherited)) == {
        "HOME": "/home/me",
        "API_KEY": "from .env",
        "PYTHONUNBUFFERED": "1",
        "ATESOR_RUN_DEADLINE": "1900000000",
        "ATESOR_ATTEMPT_DIR": str(context.attempt_dir),
        "ATESOR_ENGINE": "docker",
        "ATESOR_STATE_DIR": str(context.state_dir),
        "ATESOR_PLATFORM": "debian",
        "ATESOR_TARGET": "qemu",
    }


@pytest.mark.parametrize(("is_on", "told"), [(False, None), (True, "1")], ids=["off", "on"])
def test_the_agent_is_told_of_the_network_by_the_plan_alone(
    context: AttemptContext, *, is_on: bool, told: str | None
) -> None:
    mine = replace(context, environ={"ATESOR_BUILD_NETWORK": "yes"}, has_build_network=is_on)
    assert plan_agent_environment(make_case(), mine).get("ATESOR_BUILD_NETWORK") == told


@pytest.mark.parametrize(("is_accelerated", "told"), [(True, None), (False, "1")], ids=["fast", "plain"])
def test_the_agent_is_told_of_a_plain_sandbox_whatever_the_environment_says(
    context: AttemptContext, *, is_accelerated: bool, told: str | None
) -> None:
    inherited = {"ATESOR_NO_ACCELERATION": "yes"}
    mine = replace(context, environ=inherited, is_accelerated=is_accelerated)
    assert plan_agent_environment(make_case(), mine).get("ATESOR_NO_ACCELERATION") == told


def test_ref_and_mirrors_are_passed_on_when_the_entry_has_them(context: AttemptContext) -> None:
    case = make_case(ref="v1.3", mirrors=["https://example.net/zlib", "deb:zlib"])
    environment = plan_agent_environment(case, context)
    assert environment["ATESOR_REF"] == "v1.3"
    assert json.loads(environment["ATESOR_MIRRORS"]) == ["https://example.net/zlib", "deb:zlib"]


def test_an_agent_runs_in_the_rootdir_with_its_flags_and_its_log(context: AttemptContext) -> None:
    end = run_agent(context, 'pwd; echo "$@"; echo "$ATESOR_ATTEMPT_DIR"')
    assert (end.status, end.cause, end.reason, end.exit_code) == (Status.PASS, None, "", 0)
    place, flags, attempt_dir = context.log_path.read_text().splitlines()
    assert (place, attempt_dir) == (str(context.cwd), str(context.attempt_dir))
    assert flags == " ".join(plan_agent_argv(make_case(), context)[1:])


def test_what_the_agent_left_decides_cause_and_reason(context: AttemptContext) -> None:
    document = (
        '{"schema_version": "result_v1", "cause": "dependency", "reason": "no libfoo", "metrics": {"n": 1}}'
    )
    end = run_agent(context, f"echo '{document}' >$ATESOR_ATTEMPT_DIR/result.json; exit 1")
    assert (end.status, end.cause, end.reason) == (Status.FAIL, Cause.DEPENDENCY, "no libfoo")
    assert end.result == json.loads(document)
    assert end.notes == ()


def test_a_broken_result_is_noted_and_the_exit_code_decides(context: AttemptContext) -> None:
    end = run_agent(context, "echo '{' >$ATESOR_ATTEMPT_DIR/result.json; echo it broke; exit 1")
    assert (end.status, end.cause, end.reason, end.result) == (Status.FAIL, Cause.BUILD, "it broke", None)
    assert len(end.notes) == 1
    assert end.notes[0].startswith("result.json is ignored: ")


def test_an_agent_that_cannot_start_is_the_agents_failure(context: AttemptContext) -> None:
    end = PortRunner().run(make_case(), replace(context, agent=("/no/such/agent",)))
    assert (end.status, end.cause) == (Status.FAIL, Cause.AGENT)
    assert end.reason == "cannot start '/no/such/agent': No such file or directory"


def test_a_lost_log_is_noted_even_for_a_pass(context: AttemptContext) -> None:
    end = PortRunner().run(
        make_case(), replace(context, agent=("/bin/sh", "-c", "echo text"), log_path=Path("/dev/full"))
    )
    assert (end.status, end.notes) == (Status.PASS, ("the log is incomplete: No space left on device",))


def test_no_result_is_nothing_to_speak_of(tmp_path: Path) -> None:
    assert read_agent_result(tmp_path) == NoResult()


def test_a_valid_result_is_read(tmp_path: Path) -> None:
    (tmp_path / "result.json").write_text(VALID)
    assert isinstance(read_agent_result(tmp_path), AgentResult)


def make_link(path: Path) -> None:
    path.with_name("real.json").write_text(VALID)
    path.symlink_to("real.json")


def make_huge(path: Path) -> None:
    path.write_text(VALID)
    os.truncate(path, 5 * 1024 * 1024)


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (make_link, "symbolic link"),
        (os.mkfifo, "no regular file"),
        (Path.mkdir, "no regular file"),
        (make_huge, "larger than"),
    ],
    ids=["link", "FIFO", "directory", "huge file"],
)
def test_what_is_no_plain_small_file_is_ignored_with_a_note(tmp_path: Path, make: Any, word: str) -> None:
    make(tmp_path / "result.json")
    result = read_agent_result(tmp_path)
    assert isinstance(result, NoResult)
    assert word in result.note
