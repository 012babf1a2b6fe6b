import pytest

from pytest_atesor.sandbox.failure import Failure, decide_failure


@pytest.mark.parametrize(
    ("exit_code", "tail"),
    [
        pytest.param(2, b"make: *** [Makefile:3: all] Error 2\n", id="make"),
        pytest.param(127, b"sh: 1: frobnicate: not found\n", id="unknown-command-in-a-shell"),
        pytest.param(
            127,
            b'OCI runtime exec failed: exec failed: unable to start container process: exec: "frob": '
            b"executable file not found in $PATH: unknown\n",
            id="docker-unknown-command",
        ),
        pytest.param(
            127,
            b'Error: runc: exec failed: unable to start container process: exec: "frob": executable file not '
            b"found in $PATH: OCI runtime attempted to invoke a command that was not found\n",
            id="podman-unknown-command",
        ),
        pytest.param(137, b"ok\n", id="a-test-that-kills-itself"),
        pytest.param(1, b"", id="silent"),
        pytest.param(
            1, b"Error response from daemon: said a test\nbut then went on\n", id="not-the-last-line"
        ),
        pytest.param(3, b"Error response from daemon: said a test\n", id="no-exit-code-of-a-client"),
        pytest.param(1, b"No space left on device\n" + b"x" * 5000, id="full-disk-long-ago"),
    ],
)
def test_a_failed_command_is_the_commands_own(exit_code: int, tail: bytes) -> None:
    assert decide_failure(exit_code, tail, running=True) is Failure.COMMAND


@pytest.mark.parametrize(
    ("exit_code", "tail"),
    [
        pytest.param(1, b"Error response from daemon: No such container: x\n", id="docker-gone"),
        pytest.param(1, b"Error response from daemon: Container 5f is not running\n", id="docker-stopped"),
        pytest.param(
            1, b"Cannot connect to the Docker daemon at unix:///var/run/docker.sock.\n", id="no-daemon"
        ),
        pytest.param(
            125, b'Error: no container with name or ID "x" found: no such container\n', id="podman-gone"
        ),
        pytest.param(
            255, b"Error: can only create exec sessions on running containers\n", id="podman-stopped"
        ),
        pytest.param(126, b"cannot exec in a stopped state: unknown\n", id="stopping"),
        pytest.param(
            126,
            b"OCI runtime exec failed: exec failed: unable to start container process: resource temporarily "
            b"unavailable: unknown\n",
            id="no-process-left",
        ),
    ],
)
def test_what_the_engine_says_last_is_the_sandboxs_failure(exit_code: int, tail: bytes) -> None:
    assert decide_failure(exit_code, tail, running=True) is Failure.SANDBOX


def test_a_sandbox_that_no_longer_runs_has_failed_whatever_was_said() -> None:
    assert decide_failure(137, b"fine so far\n", running=False) is Failure.SANDBOX


@pytest.mark.parametrize(
    ("exit_code", "tail", "failure"),
    [
        pytest.param(1, b"ld: final link failed: No space left on device\n", Failure.NO_SPACE, id="disk"),
        pytest.param(
            1,
            b"g++: fatal error: Killed signal terminated program cc1plus\n",
            Failure.NO_MEMORY,
            id="compiler-killed",
        ),
        pytest.param(137, b"Killed\n", Failure.NO_MEMORY, id="killed"),
        pytest.param(
            1, b"virtual memory exhausted: Cannot allocate memory\n", Failure.NO_MEMORY, id="allocation"
        ),
    ],
)
def test_scarcity_is_told_apart_from_faults(exit_code: int, tail: bytes, failure: Failure) -> None:
    assert decide_failure(exit_code, tail, running=True) is failure
