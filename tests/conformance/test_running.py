"""Commands in a sandbox: what goes in, what comes out, how they end."""

import io
import os
import signal
import subprocess
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from pytest_atesor.errors import SandboxError
from pytest_atesor.porter import shell as porter_shell
from pytest_atesor.sandbox.interface import Absent, Completed, ExecSpec
from pytest_atesor.sandbox.sandbox import Sandbox

if TYPE_CHECKING:
    from conftest import Workbench

pytestmark = pytest.mark.engine

PATIENCE_S = 300.0  # for a command that ends by itself

Shell = Callable[..., Completed]
Processes = Callable[[Sandbox], list[str]]


def test_a_megabyte_on_each_stream_arrives_in_full(shared: Sandbox) -> None:
    sink = io.BytesIO()
    script = "head -c 1000000 /dev/zero | tr '\\0' o; head -c 1000000 /dev/zero | tr '\\0' e >&2"
    done = shared.run(ExecSpec(argv=["sh", "-c", script]), timeout_s=PATIENCE_S, sink=sink)
    assert done.exit_code == 0
    assert (sink.getvalue().count(b"o"), sink.getvalue().count(b"e")) == (1_000_000, 1_000_000)


def test_lines_of_both_streams_of_a_porters_script_keep_their_order(shared: Sandbox) -> None:
    numbers = "".join(f"{number}\n" for number in range(2000)).encode()
    script = "for one in $(seq 0 2 1998); do echo $one; echo $((one + 1)) >&2; done"
    assert porter_shell.Shell(shared, deadline=None, output=None).script(script).tail == numbers


@pytest.mark.parametrize("exit_code", [0, 1, 3, 42, 125, 126, 127, 255], ids=str)
def test_the_exit_code_is_the_commands_own(shared: Sandbox, shell: Shell, exit_code: int) -> None:
    if exit_code == 255 and shared.engine.name == "native":
        exit_code = 254  # 255 is ssh's own word for a lost connection
    assert shell(shared, f"exit {exit_code}").exit_code == exit_code


@pytest.mark.parametrize(
    ("argv", "exit_codes"),
    [(["/no/such/program"], {126, 127}), (["/etc/passwd"], {126}), (["sh", "-c", "kill -9 $$"], {137})],
    ids=["absent", "not-executable", "killed"],
)
def test_a_command_that_cannot_run_is_a_value(shared: Sandbox, argv: list[str], exit_codes: set[int]) -> None:
    assert shared.run(ExecSpec(argv=argv), timeout_s=PATIENCE_S).exit_code in exit_codes


def test_arguments_pass_unchanged(shared: Sandbox) -> None:
    arguments = ["", " ", "a b", "$HOME", "'\"", "--help", "*", "ä\n"]
    done = shared.run(ExecSpec(argv=["printf", "<%s>", *arguments]), timeout_s=PATIENCE_S)
    assert done.tail.decode() == "".join(f"<{argument}>" for argument in arguments)


def test_stdin_is_at_its_end(shared: Sandbox, shell: Shell) -> None:
    done = shell(shared, "cat; echo over")
    assert (done.tail, done.timed_out) == (b"over\n", False)


@pytest.mark.parametrize(("user", "uid"), [("builder", b"1000\n"), ("root", b"0\n")], ids=["builder", "root"])
def test_commands_run_as_the_user_asked_for(shared: Sandbox, shell: Shell, user: str, uid: bytes) -> None:
    assert shell(shared, "id -u", user=user).tail == uid


def test_only_the_environment_that_is_given_gets_in(shared: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATESOR_CANARY", "from-the-host")
    monkeypatch.setenv("HTTP_PROXY", "http://from-the-host.invalid")
    done = shared.run(ExecSpec(argv=["env"], env={"GIVEN": "a=b c"}), timeout_s=PATIENCE_S)
    lines = done.tail.decode().splitlines()
    assert "GIVEN=a=b c" in lines
    assert "HOME=/home/builder" in lines
    assert not [line for line in lines if "from-the-host" in line]


def test_the_tail_is_bounded_and_the_sink_is_not(shared: Sandbox) -> None:
    sink = io.BytesIO()
    done = shared.run(ExecSpec(argv=["seq", "100000"]), timeout_s=PATIENCE_S, sink=sink, tail_bytes=7)
    assert done.tail == b"100000\n"
    assert len(sink.getvalue()) == 588_895


def test_a_timeout_kills_what_was_started_inside_and_how_it_hides(
    workbench: "Workbench", shell: Shell, processes: Processes
) -> None:
    sandbox = workbench.open("timeout")
    stubborn = "setsid sh -c 'trap \"\" TERM; sleep 602'"
    hiding = f"(trap '' TERM HUP INT; setsid sleep 601 & {stubborn} & wait) & sleep 603"
    done = shell(sandbox, hiding, timeout_s=2)
    assert done.timed_out
    assert processes(sandbox) == []


LOCK = "import threading as t; l = t.Lock(); l.acquire(); print('begun', flush=True)"
# Nothing going on is counted from the client's start, which may take longer than a test's patience with that.
BUSY = "rm -f /tmp/begun; (while [ ! -e /tmp/begun ]; do :; done) >/dev/null 2>&1 &"


def test_an_emulated_program_that_hangs_is_ended_before_its_deadline(
    workbench: "Workbench", shell: Shell, processes: Processes
) -> None:
    sandbox = workbench.open("timeout")
    shell(sandbox, BUSY)
    argv = ["python3", "-c", f"{LOCK}; open('/tmp/begun', 'w').close(); l.acquire()"]
    done = sandbox.run(ExecSpec(argv=argv, stall_s=20), timeout_s=600)
    assert (done.is_stalled, done.timed_out, done.tail) == (True, True, b"begun\n")
    assert done.duration_s < 300
    assert processes(sandbox) == []


def test_a_program_that_works_in_silence_does_not_count_as_one_that_hangs(
    workbench: "Workbench", shell: Shell
) -> None:
    sandbox = workbench.open("timeout")
    shell(sandbox, BUSY)
    argv = ["timeout", "45", "sh", "-c", "touch /tmp/begun; while :; do :; done"]
    done = sandbox.run(ExecSpec(argv=argv, stall_s=20), timeout_s=600)
    assert (done.is_stalled, done.exit_code) == (False, 124)


def test_a_flood_of_output_ends_at_the_deadline(workbench: "Workbench", processes: Processes) -> None:
    sandbox = workbench.open("timeout")
    done = sandbox.run(ExecSpec(argv=["timeout", "300", "yes"]), timeout_s=60, tail_bytes=1000)
    assert done.timed_out
    assert len(done.tail) == 1000
    assert processes(sandbox) == []


def test_a_background_process_does_not_hold_its_command_up(shared: Sandbox, shell: Shell) -> None:
    done = shell(shared, "sleep 3000 & echo $!")  # longer than the command's own time
    assert (done.exit_code, done.timed_out) == (0, False)
    assert shell(shared, f"kill -9 {int(done.tail)}").exit_code == 0


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=["KILL", "TERM"])
def test_what_a_killed_client_leaves_behind_is_cleared(
    workbench: "Workbench", processes: Processes, number: signal.Signals
) -> None:
    sandbox = workbench.open("orphan")
    argv = sandbox.engine.exec_argv(sandbox.name, ExecSpec(argv=["sh", "-c", "echo up; exec sleep 604"]))
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as client:
        assert client.stdout is not None
        assert client.stdout.readline() == b"up\n"
        os.kill(client.pid, number)
    sandbox.clear()
    assert processes(sandbox) == []


@pytest.mark.parametrize("action", ["remove", "clear"])
@pytest.mark.parametrize("script", ["exec sleep 604", "exec yes"], ids=["quiet", "flooding"])
def test_a_stopped_client_does_not_hold_its_sandbox(
    workbench: "Workbench", shell: Shell, processes: Processes, script: str, action: str
) -> None:
    sandbox = workbench.open("stopped-client")
    argv = sandbox.engine.exec_argv(sandbox.name, ExecSpec(argv=["sh", "-c", f"echo up; {script}"]))
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as client:
        assert client.stdout is not None
        assert client.stdout.readline() == b"up\n"
        os.kill(client.pid, signal.SIGSTOP)
        try:
            if action == "remove":
                workbench.engine.remove(sandbox.name)
                assert workbench.engine.state(sandbox.name) == Absent()
            else:
                sandbox.clear()
            again = workbench.open("stopped-client")
            assert processes(again) == []
            assert shell(again, "echo well").tail == b"well\n"
        finally:
            client.kill()


def test_zombies_are_reaped(shared: Sandbox, shell: Shell) -> None:
    shell(shared, "(sh -c 'sleep 0.01 & exec true' &) ; true")
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        done = shell(shared, "grep -l '^State:.Z' /proc/[0-9]*/status 2>/dev/null; true")
        if done.tail == b"":
            return
    pytest.fail(f"zombies stay: {done.tail!r}")


def test_a_sandbox_that_is_gone_is_no_fault_of_the_command(workbench: "Workbench", shell: Shell) -> None:
    sandbox = workbench.open("gone")
    workbench.engine.remove(sandbox.name)
    with pytest.raises(SandboxError, match="conformance"):
        shell(sandbox, "true")
    with pytest.raises(SandboxError, match="gone"):
        sandbox.clear()


def test_a_sandbox_that_dies_is_no_fault_of_the_command(workbench: "Workbench") -> None:
    sandbox = workbench.open("dies")
    argv = ["sh", "-c", "echo dying; kill -TERM 1; exec sleep 60"]
    with pytest.raises(SandboxError, match="failed"):
        sandbox.run(ExecSpec(argv=argv, user="root"), timeout_s=PATIENCE_S)
