"""The command runner: working files, promised outputs, a stranger's metrics, and the standard layout."""

import hashlib
import json
import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_atesor.core.outcome import Cause, Status
from pytest_atesor.core.plan import Case, Json, Platform, Target
from pytest_atesor.core.schema import check_schema
from pytest_atesor.errors import SandboxError
from pytest_atesor.runners.command import CommandRunner
from pytest_atesor.runners.interface import AttemptContext, AttemptEnd, Runner
from pytest_atesor.runners.stop import KILL_NOW, StopFlag
from tests.unit.runners.ready_first import ReadyFirst


@pytest.fixture
def context(tmp_path: Path, stop: StopFlag) -> AttemptContext:
    attempt = tmp_path / "attempt"
    attempt.mkdir()
    return AttemptContext(
        attempt_dir=attempt,
        log_path=attempt / "run.log",
        cwd=tmp_path / "rootdir",
        slot="w1",
        engine="none",
        state_dir=tmp_path / "state",
        environ={
            "PATH": os.environ["PATH"],
            "ATESOR_REF": "v9",
            "PYTEST_XDIST_WORKER": "gw0",
            "HUE": "red",
        },
        deadline=time.monotonic() + 60,
        deadline_epoch=1_900_000_000.75,
        platform=Platform.DEBIAN,
        target=Target.QEMU,
        agent=("agent",),
        stop=stop,
    )


def make_case(script: str, **spec: Json) -> Case:
    body = {"argv": ["sh", "-c", script], **spec}
    return Case(case_id="c", label="c", kind="command", spec=body, timeout_s=60, derived_name="c")


def run(context: AttemptContext, script: str, **spec: Json) -> AttemptEnd:
    return CommandRunner().run(make_case(script, **spec), context)


def read(context: AttemptContext, name: str) -> str:
    return (context.attempt_dir / name).read_text()


def names(context: AttemptContext) -> list[str]:
    root = context.attempt_dir
    return sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if not path.is_dir())


def test_a_command_that_keeps_its_promises_passes_and_leaves_the_standard_layout(
    context: AttemptContext,
) -> None:
    end = run(
        context,
        'cat in/data; mkdir -p out; cp in/data out/copy; echo \'{"speed": {"mean": 1.5}}\' > m.json',
        files={"in/data": "hello\n"},
        outputs=["out", "./out/copy"],
        metrics="m.json",
    )
    assert (end.status, end.cause, end.reason, end.exit_code) == (Status.PASS, None, "", 0)
    assert names(context) == ["artifacts/out/copy", "metrics.json", "result.json", "run.log"]
    assert read(context, "run.log") == "hello\n"
    assert json.loads(read(context, "metrics.json")) == {"speed": {"mean": 1.5}}
    result = json.loads(read(context, "result.json"))
    check_schema(result, "result_v1", "result.json")
    assert result["artifacts"] == [
        {
            "path": "artifacts/out/copy",
            "size_bytes": 6,
            "type": "output",
            "sha256": hashlib.sha256(b"hello\n").hexdigest(),
        }
    ]


FAULTS: dict[str, tuple[str, dict[str, Json], str]] = {
    "missing output": (
        "true",
        {"outputs": ["a", "b/c"]},
        "the output a is missing; the output b/c is missing",
    ),
    "dangling link": ("ln -s nowhere a", {"outputs": ["a"]}, "the output a is missing"),
    "output outside": (
        "ln -s /etc/hostname a",
        {"outputs": ["a"]},
        "the output a leads out of the working directory",
    ),
    "fifo": ("mkfifo a", {"outputs": ["a"]}, "the output a is neither a file nor a directory"),
    "missing metrics": ("true", {"metrics": "m"}, "the metrics file m is missing"),
    "broken metrics": (
        "echo '{' > m",
        {"metrics": "m"},
        "the metrics file m is not usable: it is not valid JSON: line 2",
    ),
    "metrics no object": ("echo '[1]' > m", {"metrics": "m"}, "not usable: it is no JSON object"),
    "metrics too large": (
        "head -c 5000000 /dev/zero > m",
        {"metrics": "m"},
        "not usable: it is larger than 4194304 bytes",
    ),
    "metrics a fifo": ("mkfifo m", {"metrics": "m"}, "not usable: it is no regular file"),
    "metrics a link": ("ln -s /etc/hostname m", {"metrics": "m"}, "not usable: Too many levels"),
    "metrics in a linked directory": (
        "ln -s /proc/self d",
        {"metrics": "d/status"},
        "leads out of the working directory",
    ),
}


@pytest.mark.parametrize(("script", "spec", "reason"), FAULTS.values(), ids=FAULTS.keys())
def test_a_broken_promise_fails_a_command_that_exits_0(
    context: AttemptContext, script: str, spec: dict[str, Json], reason: str
) -> None:
    end = run(context, script, **spec)
    assert (end.status, end.cause, end.exit_code) == (Status.FAIL, Cause.AGENT, 0)
    assert reason in end.reason
    assert not (context.attempt_dir / "metrics.json").exists()


@pytest.mark.parametrize("code", [1, 3, 126])
def test_any_other_exit_code_is_a_failure_by_the_command(context: AttemptContext, code: int) -> None:
    end = run(context, f"echo 'error: bad weather'; exit {code}")
    assert (end.status, end.cause, end.exit_code) == (Status.FAIL, Cause.AGENT, code)
    assert "error: bad weather" in end.reason


def test_what_a_failed_command_left_is_kept_and_collected(context: AttemptContext) -> None:
    end = run(context, "echo x > out; echo y > scratch; exit 1", outputs=["out", "never"])
    assert end.status is Status.FAIL
    assert names(context) == ["artifacts/out", "result.json", "run.log", "work/scratch"]


def test_a_link_to_a_file_inside_is_collected_as_what_it_leads_to(context: AttemptContext) -> None:
    end = run(context, "echo x > lib.1; ln -s lib.1 lib", outputs=["lib"])
    assert end.status is Status.PASS
    assert read(context, "artifacts/lib") == "x\n"
    assert not (context.attempt_dir / "artifacts/lib").is_symlink()


def test_a_file_that_begins_with_a_hash_bang_can_be_run(context: AttemptContext) -> None:
    script = "#!/bin/sh\necho $1 $HUE $SIZE ${ATESOR_REF:-none} $ATESOR_RUN_DEADLINE\n"
    case = make_case("", files={"bin/tool": script}, argv=["bin/tool", "hi"], env={"SIZE": "7"})
    end = CommandRunner().run(case, context)
    assert end.status is Status.PASS
    assert read(context, "run.log") == "hi red 7 none 1900000000\n"


def test_a_program_of_the_rootdir_is_found_and_told_where_that_is(context: AttemptContext) -> None:
    tool = context.cwd / "tools" / "measure"
    tool.parent.mkdir(parents=True)
    tool.write_text('#!/bin/sh\necho "$ATESOR_ROOTDIR"; basename "$PWD"\n')
    tool.chmod(0o755)
    end = CommandRunner().run(make_case("", argv=["tools/measure"]), context)
    assert end.status is Status.PASS
    assert read(context, "run.log") == f"{context.cwd}\nwork\n"


def test_a_program_that_is_not_there_is_the_commands_own_failure(context: AttemptContext) -> None:
    end = CommandRunner().run(make_case("", argv=["no-such-program"]), context)
    assert (end.status, end.cause) == (Status.FAIL, Cause.AGENT)
    assert "cannot start 'no-such-program'" in end.reason


def test_the_deadline_alone_makes_a_timeout(context: AttemptContext, stop: StopFlag, tmp_path: Path) -> None:
    ready = ReadyFirst(stop, tmp_path / "ready")
    late = replace(context, deadline=time.monotonic(), stop=ready)
    end = run(late, f"echo started; echo >{tmp_path}/ready; exec sleep 600")
    assert end.status is Status.TIMEOUT
    assert end.reason.endswith("last: started")


def test_a_stopped_command_is_interrupted(context: AttemptContext, stop: StopFlag) -> None:
    stop.raise_to(KILL_NOW)
    end = run(context, "true", outputs=["a"])
    assert (end.status, end.cause) == (Status.SKIPPED, Cause.INTERRUPTED)


def test_a_disk_that_refuses_the_working_files_is_no_failure_of_the_command(context: AttemptContext) -> None:
    (context.attempt_dir / "work").write_text("in the way")
    with pytest.raises(SandboxError, match="cannot write the working files in"):
        run(context, "true")


def test_the_runner_is_one_for_commands() -> None:
    runner: Runner = CommandRunner()
    assert runner.kind == "command"
