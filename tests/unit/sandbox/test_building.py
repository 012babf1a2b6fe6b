"""Programs that make images: logged, shown, and ended with all that they started."""

import errno
import os
from pathlib import Path

import psutil
import pytest

from pytest_atesor.errors import SetupError
from pytest_atesor.sandbox.building import explaining_disk, run_logged
from tests.unit.processes import LIMIT_S

# What it starts stays in its session and does not mind TERM.
FAMILY = "sh -c 'trap \"\" TERM; echo $$; while :; do sleep 600; done' & echo $$; "


def assert_gone(lines: list[str]) -> None:
    pids = [int(line) for line in lines]
    _, alive = psutil.wait_procs([psutil.Process(pid) for pid in pids if psutil.pid_exists(pid)], LIMIT_S)
    assert alive == []


def test_output_is_logged_and_shown_line_by_line(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("of another one")
    lines: list[str] = []
    code = run_logged(
        ["sh", "-c", 'echo "$WORD"; echo two >&2; exit 3'],
        log,
        on_line=lines.append,
        environ={**os.environ, "WORD": "one"},
    )
    assert (code, lines, log.read_text()) == (3, ["one\n", "two\n"], "one\ntwo\n")


def test_what_takes_too_long_is_ended_with_its_children(tmp_path: Path) -> None:
    lines: list[str] = []
    with pytest.raises(TimeoutError, match="it did not end within 2 s"):
        run_logged(["sh", "-c", FAMILY + "wait"], tmp_path / "log", on_line=lines.append, timeout_s=2)
    assert_gone(lines)


def test_what_it_left_running_with_its_output_is_not_waited_for(tmp_path: Path) -> None:
    log, lines = tmp_path / "log", list[str]()
    left = f"setsid sleep {LIMIT_S} & echo $!; printf end; exit 3"
    code = run_logged(["sh", "-c", left], log, on_line=lines.append)
    daemon = psutil.Process(int(lines[0]))
    daemon.kill()
    assert (code, lines[1:], log.read_text()) == (3, ["end"], "".join(lines))


def test_a_log_that_cannot_be_written_ends_the_program(tmp_path: Path) -> None:
    lines: list[str] = []
    (tmp_path / "log").symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left on device") as caught:
        run_logged(["sh", "-c", "echo one; exec sleep 600"], tmp_path / "log", on_line=lines.append)
    assert (caught.value.errno, lines) == (errno.ENOSPC, [])


def test_who_is_interrupted_leaves_nothing_running(tmp_path: Path) -> None:
    lines: list[str] = []

    def stop_at_the_second(line: str) -> None:
        lines.append(line)
        if len(lines) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_logged(["sh", "-c", FAMILY + "wait"], tmp_path / "log", on_line=stop_at_the_second)
    assert len(lines) == 2
    assert_gone(lines)


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        (errno.ENOSPC, "free some space there"),
        (errno.EDQUOT, "free some space there"),
        (errno.EROFS, "mend that"),
    ],
    ids=["full", "quota", "read-only"],
)
def test_what_a_disk_refuses_is_told_with_its_directory(code: int, advice: str, tmp_path: Path) -> None:
    with (
        pytest.raises(SetupError, match=rf"below {tmp_path} \(.*\); {advice}, or set ATESOR_STATE_DIR$"),
        explaining_disk(tmp_path),
    ):
        raise OSError(code, os.strerror(code))


def test_a_reader_of_ours_that_has_gone_is_no_matter_of_the_disk(tmp_path: Path) -> None:
    with pytest.raises(BrokenPipeError), explaining_disk(tmp_path):
        raise BrokenPipeError(errno.EPIPE, "gone")
