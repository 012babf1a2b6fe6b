"""The command runner: working files, promised outputs, a stranger's metrics, and the standard layout."""

import ctypes
import errno
import hashlib
import json
import os
import re
import struct
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_atesor.core.outcome import Cause, Status
from pytest_atesor.core.plan import Case, Json, Platform, Target
from pytest_atesor.core.schema import check_schema
from pytest_atesor.errors import SandboxError
from pytest_atesor.runners.command import CommandRunner
from pytest_atesor.runners.interface import AttemptContext, AttemptEnd, Runner
from pytest_atesor.runners.outputs import describe_fault, remove_tree
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
    "link to a fifo within": (
        "mkdir d; mkfifo d/p; ln -s d a",
        {"outputs": ["a"]},
        "the output a cannot be collected: a/p: it is neither a file nor a directory",
    ),
    "link with too long a name": (
        "ln -s $(printf 'n%.0s' $(seq 300)) a",
        {"outputs": ["a"]},
        "the output a is not usable: File name too long",
    ),
    "link to itself": ("ln -s a a", {"outputs": ["a"]}, "the output a is missing"),
    "something in the way": (
        "mkdir -p ../artifacts/a/b a",
        {"outputs": ["a"]},
        "the output a cannot be collected: File exists",
    ),
    "a file for a directory": (
        "echo >../artifacts; echo >a",
        {"outputs": ["a"]},
        "the output a cannot be collected: File exists",
    ),
    "result in the way": ("mkdir ../result.json", {}, "result.json cannot be written: Is a directory"),
    "metrics in the way": (
        "rm -rf ../metrics.json; mkdir ../metrics.json; echo {} >m",
        {"metrics": "m"},
        "metrics.json cannot be written: Is a directory",
    ),
    "too many links to the metrics": (
        "mkdir d0; for i in $(seq 1500); do ln -s d$((i - 1)) d$i; done",
        {"metrics": "d1500/m"},
        "the metrics file d1500/m is not usable: Too many levels of symbolic links",
    ),
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
    assert not (context.attempt_dir / "metrics.json").is_file()


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


LINKED: dict[str, tuple[str, list[Json], dict[str, str]]] = {
    "into another output": (
        "mkdir out; echo x >out/1; ln -s out/1 latest",
        ["out", "latest"],
        {"out/1": "x", "latest": "x"},
    ),
    "a directory into another output": (
        "mkdir -p out/1; echo x >out/1/f; ln -s out/1 latest",
        ["out", "latest"],
        {"out/1/f": "x", "latest/f": "x"},
    ),
    "on the way to an output": (
        "mkdir out; echo x >out/1; ln -s out way",
        ["way/1", "out"],
        {"out/1": "x", "way/1": "x"},
    ),
    "from within an output": (
        "mkdir out; echo x >1; ln -s ../1 out/latest; ln -s ../1 out/other",
        ["out", "out/latest"],
        {"out/latest": "x"},
    ),
    "on the way within an output": (
        "mkdir out d; echo x >d/1; ln -s ../d out/way",
        ["out", "out/way/1"],
        {"out/way/1": "x"},
    ),
    "from one link to another": (
        "echo x >1; ln -s 1 a; ln -s a b",
        ["a", "b", "1"],
        {"a": "x", "b": "x", "1": "x"},
    ),
    "to what it stands in": ("mkdir out; echo x >out/1; ln -s . out/all", ["out/all", "out"], {"out/1": "x"}),
}


@pytest.mark.parametrize(("script", "outputs", "collected"), LINKED.values(), ids=LINKED.keys())
def test_promised_links_lead_to_what_they_led_to(
    context: AttemptContext, script: str, outputs: list[Json], collected: dict[str, str]
) -> None:
    end = run(context, script, outputs=outputs)
    assert (end.status, end.reason) == (Status.PASS, "")
    for name, text in collected.items():
        assert read(context, f"artifacts/{name}") == f"{text}\n"
        assert f"artifacts/{name}" in [
            one["path"] for one in json.loads(read(context, "result.json"))["artifacts"]
        ]
    assert not (context.attempt_dir / "work").exists()


@pytest.fixture
def modes_hold() -> Iterator[None]:
    """Let modes of files hold for this thread, as they do for anybody but root. Children are not affected."""
    libc = ctypes.CDLL(None, use_errno=True)
    header = struct.pack("=Ii", 0x20080522, 0)
    before = ctypes.create_string_buffer(24)
    assert libc.capget(header, before) == 0, os.strerror(ctypes.get_errno())
    effective, *rest = struct.unpack("=6I", before.raw)
    overrides = 1 << 1 | 1 << 2  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
    assert libc.capset(header, struct.pack("=6I", effective & ~overrides, *rest)) == 0
    yield
    assert libc.capset(header, before.raw) == 0


@pytest.mark.usefixtures("modes_hold")
@pytest.mark.parametrize(
    ("script", "outputs"),
    [
        pytest.param("mkdir out; echo x >out/1; chmod 555 out", ["out"], id="directory"),
        pytest.param("mkdir -p d/out; echo x >d/out/1; chmod 555 d/out d", ["d/out"], id="way"),
        pytest.param("mkdir -p out; echo x >out/1; ln -s out a; chmod 555 out", ["a", "out"], id="link"),
    ],
)
def test_read_only_outputs_are_collected(context: AttemptContext, script: str, outputs: list[Json]) -> None:
    end = run(context, script, outputs=outputs)
    assert (end.status, end.reason) == (Status.PASS, "")
    for name in outputs:
        assert read(context, f"artifacts/{name}/1") == "x\n"
        assert (context.attempt_dir / f"artifacts/{name}").stat().st_mode & 0o777 == 0o555
    assert not (context.attempt_dir / "work").exists()


@pytest.mark.usefixtures("modes_hold")
@pytest.mark.parametrize(
    ("script", "reason"),
    [
        pytest.param("echo x >a; chmod 0 a", "an output cannot be read: a: Permission denied", id="file"),
        pytest.param(
            "mkdir a; echo x >a/1; chmod 0 a",
            "the output a cannot be collected: a: Permission denied",
            id="directory",
        ),
        pytest.param(
            "mkdir a; echo x >a/1; chmod 300 a",
            "an output cannot be read: a: Permission denied",
            id="unlisted-directory",
        ),
        pytest.param(
            "mkdir a; echo x >a/1; chmod 600 a",
            "an output cannot be read: a/1: Permission denied",
            id="closed-directory",
        ),
        pytest.param(
            "mkdir d; echo x >d/1; ln -s d/1 a; chmod 0 d",
            "the output a is not usable: Permission denied",
            id="closed-way",
        ),
        pytest.param(
            "echo x >d; ln -s d a; chmod 0 d", "a cannot be collected: a: Permission denied", id="link"
        ),
    ],
)
def test_what_may_not_be_read_is_the_commands_own_failure(
    context: AttemptContext, script: str, reason: str
) -> None:
    end = run(context, script, outputs=["a"])
    assert (end.status, end.cause, end.exit_code) == (Status.FAIL, Cause.AGENT, 0)
    assert reason in end.reason
    assert json.loads(read(context, "result.json"))["reason"] == end.reason


@pytest.fixture
def emptied(context: AttemptContext) -> Iterator[AttemptContext]:
    """Remove what pytest could not."""
    yield context
    remove_tree(context.attempt_dir)


def test_directories_as_deep_as_they_can_be_are_collected_and_removed(emptied: AttemptContext) -> None:
    script = "d=out; for i in $(seq 1500); do d=$d/a; done; mkdir -p $d w/$d; echo x >$d/1; ln -s out link"
    end = run(emptied, script, outputs=["out", "link"])
    assert (end.status, end.reason) == (Status.PASS, "")
    assert [one["size_bytes"] for one in json.loads(read(emptied, "result.json"))["artifacts"]] == [2, 2]
    assert not (emptied.attempt_dir / "work").exists()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS])
def test_what_the_machine_refuses_is_no_fault_of_the_command(tmp_path: Path, number: int) -> None:
    with pytest.raises(OSError, match=re.escape(os.strerror(number))):
        describe_fault(OSError(number, os.strerror(number), str(tmp_path / "a")), tmp_path)


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
