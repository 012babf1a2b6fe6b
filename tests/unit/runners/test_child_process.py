"""One child from start to end: facts, limits, signals, and nothing left behind."""

import errno
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from pytest_atesor.core.child_end import ChildEnd
from pytest_atesor.runners.descendants import child_pids, reap_survivors, remember_survivors, signal_orphans
from pytest_atesor.runners.process import ChildSpec, run_child
from pytest_atesor.runners.stop import KILL_NOW, TERMINATE, StopFlag
from tests.unit.processes import LIMIT_S

RunScript = Callable[..., ChildEnd]
WhenReady = Callable[[Callable[[], None]], Path]

PROMPT_S = LIMIT_S
"""Far below the 600 s that a forgotten sleep takes, far above what a loaded machine needs."""


@pytest.fixture
def started() -> float:
    """The moment at which the test began."""
    return time.monotonic()


LOST = (
    "cannot start './lost': No such file or directory "
    "(the program is there, the interpreter in its first line is not)"
)


def names_of(leaks: tuple[str, ...]) -> list[str]:
    return sorted(leak.partition(" ")[0] for leak in leaks)


def assert_gone(pids: Path) -> None:
    alive = [pid for pid in map(int, pids.read_text().split()) if psutil.pid_exists(pid)]
    assert not alive


@pytest.mark.parametrize("code", [0, 1, 3, 124, 126, 127, 137, 143, 255])
def test_an_exit_code_is_reported_as_it_is_and_is_never_a_timeout(run_script: RunScript, code: int) -> None:
    end = run_script(f"exit {code}")
    assert (end.exit_code, end.signal, end.timed_out, end.interrupted) == (code, None, False, False)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
def test_a_death_by_signal_is_no_exit_code(run_script: RunScript, number: signal.Signals) -> None:
    end = run_script(f"kill -{number.value} $$")
    assert (end.exit_code, end.signal, end.timed_out, end.interrupted) == (None, number, False, False)


def test_both_streams_reach_the_log_in_their_order(run_script: RunScript, tmp_path: Path) -> None:
    end = run_script("echo one; echo two >&2; echo three")
    assert (tmp_path / "run.log").read_bytes() == b"one\ntwo\nthree\n"
    assert (end.log_bytes, end.dropped_bytes, end.tail) == (14, 0, b"one\ntwo\nthree\n")


def test_stdin_is_empty(run_script: RunScript) -> None:
    assert run_script("read -r line || echo nothing there").tail == b"nothing there\n"


def test_the_environment_is_the_one_given_and_no_descriptor_is_inherited(run_script: RunScript) -> None:
    reader, writer = os.pipe()
    os.set_inheritable(writer, True)  # noqa: FBT003 - the only way to call it
    try:
        end = run_script("env; ls -x /proc/$$/fd", env={"PATH": os.environ["PATH"], "ONLY": "this"})
    finally:
        os.close(reader)
        os.close(writer)
    lines = end.tail.decode().splitlines()
    assert "ONLY=this" in lines
    assert not any(line.startswith("HOME=") for line in lines)
    assert lines[-1].split()[:3] == ["0", "1", "2"]
    assert str(writer) not in lines[-1].split()


def test_the_child_leads_its_own_session(run_script: RunScript) -> None:
    end = run_script("ps -o sid= -p $$; echo $$")
    sid, pid = end.tail.split()
    assert sid == pid


@pytest.mark.parametrize(
    ("argv", "code", "message"),
    [
        (("no-such-agent",), errno.ENOENT, "cannot start 'no-such-agent': No such file or directory"),
        (("/etc/passwd",), errno.EACCES, "cannot start '/etc/passwd': Permission denied"),
        (("./plain",), errno.ENOEXEC, "cannot start './plain': Exec format error"),
        (
            ("./lost",),
            errno.ENOENT,
            LOST,
        ),
        (("a\0b",), errno.EINVAL, "cannot start 'a\\x00b': embedded null byte"),
    ],
    ids=["missing", "not executable", "no program", "no interpreter", "impossible"],
)
def test_an_agent_that_cannot_start_is_a_fact_with_a_reason(
    run_script: RunScript, tmp_path: Path, argv: tuple[str, ...], code: int, message: str
) -> None:
    for name, text in (("plain", "no program\n"), ("lost", "#!/no/such/interpreter\n")):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    end = run_script("", argv=argv, cwd=tmp_path)
    assert end.start_error is not None
    assert (end.start_error.errno, end.start_error.message) == (code, message)
    assert (end.exit_code, end.signal) == (None, None)
    assert (tmp_path / "run.log").read_text() == f"atesor: {message}\n"


def test_a_missing_working_directory_is_named(run_script: RunScript, tmp_path: Path) -> None:
    end = run_script("true", cwd=tmp_path / "gone")
    assert end.start_error is not None
    assert "working directory" in end.start_error.message


def test_the_deadline_ends_a_child_that_obeys_at_once(run_script: RunScript, started: float) -> None:
    end = run_script("sleep 600", timeout_s=0.2, term_grace_s=600)
    assert (end.timed_out, end.interrupted, end.signal) == (True, False, signal.SIGTERM)
    assert time.monotonic() - started < PROMPT_S


def test_a_child_may_use_its_grace_and_still_timed_out(run_late_script: RunScript) -> None:
    script = 'trap "echo tidy; exit 0" TERM; sleep 600 & echo >ready; wait'
    end = run_late_script(script, term_grace_s=600)
    assert (end.timed_out, end.exit_code, end.tail) == (True, 0, b"tidy\n")


def test_what_is_said_of_the_deadline_is_in_the_log_and_no_last_words(run_late_script: RunScript) -> None:
    script = 'trap "echo got a signal, exiting; exit 1" TERM; echo building; sleep 600 & echo >ready; wait'
    end = run_late_script(script, term_grace_s=600)
    assert (end.timed_out, end.tail) == (True, b"building\n")
    assert end.log_bytes == len(b"building\ngot a signal, exiting\n")


_COUNT = """
import os, signal
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGRTMIN])
os.write(1, b"ready\\n")
count = 0
while signal.sigtimedwait([signal.SIGRTMIN], 0.5 if count else 60.0):
    count += 1
os.write(1, b"%d\\n" % count)
"""


@pytest.mark.parametrize("told", [False, True], ids=["new-group", "told-group"])
def test_each_group_of_orphans_gets_a_signal_once(*, told: bool) -> None:
    # Clients of engines count theirs and give up at the third. Real-time signals are queued, none is merged.
    command = ["sh", "-c", '"$0" -c "$1" & "$0" -c "$1"; wait', sys.executable, _COUNT]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as leader:
        assert leader.stdout is not None
        assert [leader.stdout.readline() for _ in range(2)] == ["ready\n"] * 2
        counters = psutil.Process(leader.pid).children()
        pids = [one.pid for one in counters]
        groups = signal_orphans(pids, signal.SIGRTMIN, {leader.pid} if told else set())
        assert groups == (set() if told else {leader.pid})
        if told:
            os.killpg(leader.pid, signal.SIGRTMIN)
        assert leader.stdout.read() == "1\n1\n"


def test_a_child_that_ignores_term_is_killed_when_its_grace_is_over(
    run_late_script: RunScript, started: float
) -> None:
    end = run_late_script('trap "" TERM; echo >ready; sleep 600; sleep 600', term_grace_s=0.3)
    assert (end.timed_out, end.signal) == (True, signal.SIGKILL)
    assert time.monotonic() - started < PROMPT_S


def test_a_stopped_child_hears_term(run_script: RunScript, started: float) -> None:
    end = run_script("kill -STOP $$", timeout_s=0.2, term_grace_s=600)
    assert (end.timed_out, end.signal) == (True, signal.SIGTERM)
    assert time.monotonic() - started < PROMPT_S


STUBBORN = '(trap "" TERM; echo $BASHPID; sleep 600; sleep 600) >>pids &'
DAEMON = "setsid bash -c 'trap \"\" TERM; echo $$ >>pids; sleep 600; sleep 600' &"
DOUBLE_FORK = "(setsid bash -c 'echo $$ >>pids; sleep 600; sleep 600' >/dev/null 2>&1 &) ;"
FORGETFUL = "(env -i setsid bash -c 'echo $$ >>pids; sleep 600; sleep 600' &) ;"
ALL_STARTED = 'while [ "$(wc -l <pids)" -lt {} ]; do :; done;'


@pytest.mark.parametrize(
    ("script", "count"),
    [
        (STUBBORN, 1),
        (DAEMON, 1),
        (DOUBLE_FORK, 1),
        (FORGETFUL, 1),
        (STUBBORN + DAEMON + DOUBLE_FORK + FORGETFUL, 4),
    ],
    ids=["ignores TERM", "setsid", "double fork", "empty environment", "all of them"],
)
@pytest.mark.parametrize("leader", ["obeys", "ignores"])
def test_nothing_of_a_tree_survives_its_deadline(
    run_late_script: RunScript, tmp_path: Path, started: float, script: str, count: int, leader: str
) -> None:
    (tmp_path / "pids").touch()
    ready = 'trap "" TERM; echo >ready; while :; do wait; sleep 600; done'
    if leader == "obeys":
        ready = "sleep 600 & echo >ready; wait"
    end = run_late_script(f"{script} {ALL_STARTED.format(count)} {ready}", term_grace_s=0.5)
    assert end.timed_out
    assert time.monotonic() - started < PROMPT_S
    assert len((tmp_path / "pids").read_text().split()) == count
    assert_gone(tmp_path / "pids")


def test_what_falls_to_us_while_its_parent_is_reaped_is_reaped_too(run_script: RunScript) -> None:
    # Twenty trees die at once: between a look at our children and the reaping some more always die.
    forest = "for tree in {1..20}; do (setsid bash -c 'sleep 600 & sleep 600 & wait' &); done; sleep 0.05"
    before = child_pids()
    for _ in range(15):
        assert run_script(forest).exit_code == 0
        assert child_pids() <= before


def test_orphans_that_obey_term_end_the_grace_early(run_late_script: RunScript, started: float) -> None:
    end = run_late_script("setsid sleep 600 & (sleep 600 &) ; echo >ready; wait", term_grace_s=600)
    assert end.timed_out
    assert time.monotonic() - started < PROMPT_S


IS_SLEEP = 'until [ "$(cat /proc/$!/comm)" = sleep ]; do :; done'
"""Waits until the last background process is the program that it is to be, whose name is looked at."""


@pytest.mark.parametrize(
    "redirection", ["", ">/dev/null 2>&1"], ids=["holding the output", "with output of its own"]
)
def test_a_process_left_behind_delays_nothing_and_is_named(
    run_script: RunScript, started: float, redirection: str
) -> None:
    end = run_script(f"setsid sleep 600 {redirection} & {IS_SLEEP}; echo done")
    assert (end.exit_code, end.tail, names_of(end.leaks)) == (0, b"done\n", ["sleep"])
    assert time.monotonic() - started < PROMPT_S


def test_the_name_of_what_was_left_behind_is_sanitized(run_script: RunScript, tmp_path: Path) -> None:
    nasty = tmp_path / "evil\x1b[31m\nname"
    nasty.symlink_to("/bin/sleep")
    end = run_script("", argv=("bash", "-c", '"$0" 600 & exit 0', str(nasty)))
    assert len(end.leaks) == 1
    assert end.leaks[0].isprintable()


def test_what_ends_right_after_the_child_is_no_leak_and_its_output_counts(
    run_script: RunScript, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "last")
    # Its parent is another one when the child has ended.
    orphan = 'me=$BASHPID; until [ "$(cut -d" " -f4 /proc/$me/stat)" != $$ ]; do :; done; echo late >&3'
    end = run_script(f"cat last & exec 3>last; ({orphan}) & exit 0", settle_s=LIMIT_S)
    assert (end.exit_code, end.leaks, end.tail) == (0, (), b"late\n")


def test_a_holder_of_the_output_that_is_no_descendant_is_neither_waited_for_nor_touched(
    run_script: RunScript, tmp_path: Path, started: float
) -> None:
    os.mkfifo(tmp_path / "hand over")
    # Opening /proc/PID/fd/1 gives the stranger the very pipe that the child writes into.
    script = "exec 3>/proc/$(cat 'hand over')/fd/1; echo held >&3; exec sleep 600"
    with subprocess.Popen(["/bin/bash", "-c", script], cwd=tmp_path, start_new_session=True) as stranger:
        end = run_script("echo $$ >'hand over'; read -r line </dev/null; until [ -s run.log ]; do :; done")
        assert (end.exit_code, end.leaks, end.tail) == (0, (), b"held\n")
        assert time.monotonic() - started < PROMPT_S
        assert stranger.poll() is None
        stranger.kill()


def test_other_children_of_this_process_are_never_touched(
    run_script: RunScript, when_ready: WhenReady, tmp_path: Path
) -> None:
    sleep = ["sleep", "600"]
    meanwhile: list[subprocess.Popen[bytes]] = []

    started = tmp_path / "started"
    os.mkfifo(started)

    def start_another() -> None:
        meanwhile.append(subprocess.Popen(sleep, start_new_session=True))
        meanwhile.append(subprocess.Popen(sleep))
        started.write_text("both")

    earlier = subprocess.Popen(sleep, start_new_session=True)
    fifo = when_ready(start_another)
    end = run_script(f"setsid sleep 600 & {IS_SLEEP}; echo >{fifo}; cat {started}")
    others = [earlier, *meanwhile]
    try:
        assert names_of(end.leaks) == ["sleep"]
        assert [other.poll() for other in others] == [None, None, None]
    finally:
        for other in others:
            other.kill()
            other.wait()


def test_children_in_several_threads_keep_their_families_apart(tmp_path: Path, stop: StopFlag) -> None:
    ends: dict[int, ChildEnd] = {}

    def run(number: int) -> None:
        spec = ChildSpec(
            argv=("bash", "-c", f"(env -i setsid sleep 60{number} & {IS_SLEEP}) ; exit {number}"),
            env={"PATH": os.environ["PATH"]},
            cwd=tmp_path,
            log_path=tmp_path / f"{number}.log",
            deadline=time.monotonic() + LIMIT_S,
        )
        ends[number] = run_child(spec, stop=stop)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT_S)
    assert [ends[number].exit_code for number in range(4)] == [0, 1, 2, 3]
    assert [names_of(ends[number].leaks) for number in range(4)] == [["sleep"]] * 4


def test_a_flood_is_capped_counted_and_does_not_hold_up_the_deadline(
    run_late_script: RunScript, tmp_path: Path
) -> None:
    cap = 50_000
    # As much as fits into a pipe comes before the deadline, and there is no end of it then.
    end = run_late_script("yes | head -c 60000; echo >ready; exec timeout 300 yes", output_cap_bytes=cap)
    log = (tmp_path / "run.log").read_bytes()
    assert (end.timed_out, end.output_limited, end.log_bytes) == (True, False, cap)
    assert end.dropped_bytes > 0
    assert log.startswith(b"y\ny\n")
    assert b"atesor: %d bytes of output dropped here" % end.dropped_bytes in log
    assert log.endswith(b"y\n")
    assert len(log) < cap + 100


def test_a_flood_can_be_set_to_end_the_child(run_script: RunScript, started: float) -> None:
    end = run_script("yes", output_cap_bytes=100_000, end_at_output_cap=True)
    assert (end.output_limited, end.timed_out, end.signal) == (True, False, signal.SIGTERM)
    assert time.monotonic() - started < PROMPT_S


def test_a_full_disk_neither_hangs_nor_stops_the_child(run_script: RunScript) -> None:
    end = run_script("seq 100000; exit 7", log_path=Path("/dev/full"))
    assert (end.exit_code, end.log_error) == (7, "No space left on device")
    assert (end.log_bytes, end.dropped_bytes) == (0, 588895)
    assert end.tail.endswith(b"\n100000\n")


def test_a_raised_stop_lets_nothing_start(run_script: RunScript, stop: StopFlag, tmp_path: Path) -> None:
    stop.raise_to(TERMINATE)
    end = run_script("touch ran")
    assert (end.interrupted, end.exit_code, end.duration_s) == (True, None, 0.0)
    assert not (tmp_path / "ran").exists()


def test_the_first_stop_level_asks(
    run_script: RunScript, stop: StopFlag, when_ready: WhenReady, started: float
) -> None:
    fifo = when_ready(lambda: stop.raise_to(TERMINATE))
    end = run_script(f'trap "echo bye; exit 5" TERM; echo >{fifo}; sleep 600 & wait', term_grace_s=600)
    assert (end.interrupted, end.timed_out, end.exit_code, end.tail) == (True, False, 5, b"bye\n")
    assert time.monotonic() - started < PROMPT_S


def test_the_second_stop_level_kills_at_once(
    run_script: RunScript, stop: StopFlag, when_ready: WhenReady, started: float
) -> None:
    fifo = when_ready(lambda: stop.raise_to(KILL_NOW))
    end = run_script(f'trap "" TERM; echo >{fifo}; while :; do sleep 600; done', term_grace_s=600)
    assert (end.interrupted, end.signal) == (True, signal.SIGKILL)
    assert time.monotonic() - started < PROMPT_S


def test_the_second_level_may_follow_the_first(
    run_script: RunScript, stop: StopFlag, when_ready: WhenReady, tmp_path: Path, started: float
) -> None:
    second = tmp_path / "second"
    os.mkfifo(second)

    def ask_then_insist() -> None:
        stop.raise_to(TERMINATE)
        second.read_bytes()
        stop.raise_to(KILL_NOW)

    fifo = when_ready(ask_then_insist)
    script = f'trap "echo asked; echo >{second}" TERM; echo >{fifo}; while :; do sleep 600 & wait; done'
    end = run_script(script, term_grace_s=600)
    assert (end.interrupted, end.signal, end.tail) == (True, signal.SIGKILL, b"asked\n")
    assert time.monotonic() - started < PROMPT_S


def test_insisting_ends_the_grace_of_orphans_too(
    run_script: RunScript, stop: StopFlag, tmp_path: Path, when_ready: WhenReady, started: float
) -> None:
    second = tmp_path / "second"
    os.mkfifo(second)

    def ask_then_insist() -> None:
        stop.raise_to(TERMINATE)
        second.read_bytes()
        stop.raise_to(KILL_NOW)

    fifo = when_ready(ask_then_insist)
    stubborn = f"trap 'echo >{second}' TERM; echo >{fifo}; while :; do sleep 600 & wait; done"
    end = run_script(f'setsid bash -c "{stubborn}" & wait', term_grace_s=600)
    assert (end.interrupted, names_of(end.leaks)[0]) == (True, "bash")
    assert time.monotonic() - started < PROMPT_S


def test_an_exception_from_a_signal_handler_leaves_nothing_behind(
    run_script: RunScript, when_ready: WhenReady, tmp_path: Path
) -> None:
    before = signal.signal(signal.SIGUSR1, signal.default_int_handler)
    fifo = when_ready(lambda: os.kill(os.getpid(), signal.SIGUSR1))
    try:
        with pytest.raises(KeyboardInterrupt):
            # Not before its first words are in the log: then the child is waited for.
            run_script(
                "echo $$ >own; echo up; until [ -s run.log ]; do :; done; "
                f"setsid bash -c 'echo $$ >pids; echo >{fifo}; sleep 600; sleep 600' & wait"
            )
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert_gone(tmp_path / "pids")
    assert_gone(tmp_path / "own")


def test_two_hundred_runs_leave_no_descriptor_process_or_thread(run_script: RunScript) -> None:
    for number in range(200):
        assert run_script("exit 4" if number % 10 else "(setsid true &) ; exit 4").exit_code == 4


def wait_for_zombie(pid: int) -> None:
    give_up = time.monotonic() + LIMIT_S
    while psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < give_up
        time.sleep(0.01)


def test_a_survivor_is_reaped_once_it_has_ended() -> None:
    child = subprocess.Popen(["/bin/sleep", "600"])
    remember_survivors({child.pid})
    assert reap_survivors() == {child.pid}
    os.kill(child.pid, signal.SIGKILL)
    wait_for_zombie(child.pid)
    assert reap_survivors() == frozenset()
    assert not psutil.pid_exists(child.pid)
    child.returncode = -signal.SIGKILL  # Popen need not look for it


FREEZER = Path("/sys/fs/cgroup/freezer")
"""The first version's: what it has stopped, even SIGKILL ends only when it goes on."""


@pytest.fixture
def freezer() -> Iterator[Path]:
    """A control group whose processes can be stopped."""
    group = FREEZER / f"atesor-test-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"no freezer of the first version here: {error}")
    yield group
    group.joinpath("freezer.state").write_text("THAWED")
    give_up = time.monotonic() + LIMIT_S
    while group.joinpath("cgroup.procs").read_text() and time.monotonic() < give_up:
        time.sleep(0.01)
    group.rmdir()


def test_what_outlives_its_kill_is_named_and_reaped_when_it_ends_at_last(
    run_script: RunScript, freezer: Path
) -> None:
    end = run_script(
        f"sleep 600 & echo $! >{freezer}/cgroup.procs; echo FROZEN >{freezer}/freezer.state; exit 0"
    )
    (leak,) = end.leaks
    assert leak.endswith(" survived SIGKILL")
    pid = int(freezer.joinpath("cgroup.procs").read_text())
    assert reap_survivors() == {pid}
    freezer.joinpath("freezer.state").write_text("THAWED")
    wait_for_zombie(pid)
    assert reap_survivors() == frozenset()
    assert not psutil.pid_exists(pid)
