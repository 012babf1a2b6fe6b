"""A controller killed at any step of its work, and the bundle that it leaves."""

import json
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from pytest_atesor.bundle.attempts import create_attempt, write_attempt
from pytest_atesor.bundle.lock import Holder
from pytest_atesor.bundle.writer import Bundle
from pytest_atesor.core.attempt import AttemptRecord
from pytest_atesor.core.attempt_json import format_attempt
from pytest_atesor.core.clock import Clock
from pytest_atesor.core.ledger import Ended
from pytest_atesor.core.plan import Plan
from pytest_atesor.core.recovery import decide_resume
from pytest_atesor.core.schema import check_schema

PlanFactory = Callable[..., Plan]
RecordFactory = Callable[..., AttemptRecord]
CASES = tuple(f"case{number}" for number in range(4))

# Opens the bundle, runs what is left, and says each step before the next one begins.
CONTROLLER = """
import sys
from dataclasses import replace
from pathlib import Path
from pytest_atesor.bundle.attempts import create_attempt, write_attempt
from pytest_atesor.bundle.clock import system_clock
from pytest_atesor.bundle.lock import Holder
from pytest_atesor.bundle.writer import Bundle
from pytest_atesor.core.attempt_json import parse_attempt
from pytest_atesor.core.events import AttemptEnded, AttemptStarted, CasesSelected
from pytest_atesor.core.recovery import decide_resume

record = parse_attempt(sys.argv[2], "argv")
holder = Holder(host="here", pid=1, started_at="now")
step = lambda: (print(".", flush=True), sys.stdin.readline())
bundle = Bundle.open(Path(sys.argv[1]), holder=holder, clock=system_clock())
todo = decide_resume(bundle.ledger)
step()
bundle.record(CasesSelected(at="now", case_ids=todo))
for case_id in todo:
    step()
    attempt = create_attempt(bundle.layout, case_id)
    step()
    started = AttemptStarted(at="now", case_id=case_id, attempt_id=attempt.attempt_id, slot="w1", worker="w")
    bundle.record(started)
    step()
    done = replace(record, case_id=case_id, attempt_id=attempt.attempt_id)
    write_attempt(attempt, done)
    step()
    bundle.record(AttemptEnded(at="now", record=done))
step()
bundle.close()
"""


class SettableClock(Protocol):
    def as_clock(self) -> Clock: ...


def run_and_kill(root: Path, record: str, steps: int) -> int | None:
    """Let a controller take ``steps`` steps and kill it in the next; its exit code if it ended before."""
    command = [sys.executable, "-c", CONTROLLER, str(root), record]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        for _ in range(steps):
            if not child.stdout.readline():
                return child.wait()
            child.stdin.write(b"\n")
            child.stdin.flush()
        child.send_signal(signal.SIGKILL)
        child.wait()
    return None


def test_every_case_ends_once_whatever_step_its_controllers_die_at(
    tmp_path: Path,
    make_plan: PlanFactory,
    make_record: RecordFactory,
    holder: Holder,
    stopped_clock: SettableClock,
) -> None:
    clock = stopped_clock.as_clock()
    with Bundle.create(tmp_path, make_plan(*CASES), holder=holder, clock=clock) as bundle:
        layout = bundle.layout
    record = format_attempt(make_record("any"))
    kills = 0
    for steps in (1, 2, 3, 4, 5, 7, 9, 4, 3, 6):
        if run_and_kill(layout.root, record, steps) is not None:
            break
        kills += 1
        with Bundle.open(layout.root, holder=holder, clock=clock) as survivor:
            tally = survivor.ledger.tally()
            assert tally.planned == len(CASES) == tally.done + tally.interrupted + tally.not_started
    assert kills >= 5
    assert run_and_kill(layout.root, record, 1000) == 0

    with Bundle.open(layout.root, holder=holder, clock=clock) as final:
        assert decide_resume(final.ledger) == ()
        assert all(
            isinstance(state, Ended) and state.record.cause is None
            for state in final.ledger.states().values()
        )
        passed = Counter(
            attempt.case_id
            for case_id in CASES
            for attempt in final.ledger.attempts(case_id)
            if attempt.record is not None and attempt.record.cause is None
        )
        # Nothing was done twice, and no directory was used twice: one journal start per directory.
        assert passed == Counter(CASES)
        for case_id in CASES:
            on_disk = {path.name for path in (layout.case(case_id) / "attempts").iterdir()}
            assert on_disk == {attempt.attempt_id for attempt in final.ledger.attempts(case_id)}
    for path in (layout.plan, layout.results, layout.attempts, layout.summary):
        document = json.loads(path.read_text())
        check_schema(document, document["schema_version"], path.name)


def test_an_attempt_that_ends_between_two_controllers_is_not_run_again(
    tmp_path: Path,
    make_plan: PlanFactory,
    make_record: RecordFactory,
    holder: Holder,
    stopped_clock: SettableClock,
) -> None:
    clock = stopped_clock.as_clock()
    with Bundle.create(tmp_path, make_plan("zlib"), holder=holder, clock=clock) as bundle:
        attempt = create_attempt(bundle.layout, "zlib")
    write_attempt(attempt, make_record("zlib"))
    with Bundle.open(bundle.layout.root, holder=holder, clock=clock) as again:
        assert again.recovery.adopted == (("zlib", "001"),)
        assert decide_resume(again.ledger) == ()
        assert again.ledger.attempts("zlib")[0].adopted
        assert again.ledger.state("zlib") == Ended(make_record("zlib"))
