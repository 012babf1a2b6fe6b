import signal
from collections.abc import Callable

import pytest

from pytest_atesor.core.attempt import AttemptRecord
from pytest_atesor.core.exit_code import decide_exit_code
from pytest_atesor.core.ledger import CaseState, Ended, NotStarted, Running, Skipped
from pytest_atesor.core.outcome import Cause, Status
from pytest_atesor.core.plan import BatchKind

RecordFactory = Callable[..., AttemptRecord]
LIST, MANIFEST, SWEEP = BatchKind.PACKAGE_LIST, BatchKind.MANIFEST, BatchKind.SWEEP


@pytest.fixture
def passed(make_record: RecordFactory) -> CaseState:
    return Ended(make_record("zlib"))


@pytest.mark.parametrize(
    ("status", "cause", "of_list", "of_manifest"),
    [
        pytest.param(Status.PASS, None, 0, 0, id="pass"),
        pytest.param(Status.FAIL, Cause.BUILD, 1, 4, id="fail"),
        pytest.param(Status.FAIL, Cause.ENVIRONMENT, 1, 4, id="environment"),
        pytest.param(Status.TIMEOUT, Cause.BUILD, 1, 4, id="timeout"),
        pytest.param(Status.UNVERIFIED, None, 1, 4, id="unverified"),
        pytest.param(Status.SKIPPED, Cause.INTERRUPTED, 1, 4, id="interrupted"),
    ],
)
def test_one_outcome_decides(
    make_record: RecordFactory,
    passed: CaseState,
    status: Status,
    cause: Cause | None,
    of_list: int,
    of_manifest: int,
) -> None:
    states = [passed, Ended(make_record("gron", status, cause))]
    assert decide_exit_code(LIST, states) == of_list
    assert decide_exit_code(MANIFEST, states) == of_manifest
    assert decide_exit_code(SWEEP, states) == of_manifest


@pytest.mark.parametrize(
    ("state", "code"),
    [
        pytest.param(NotStarted(), 1, id="never-started"),
        pytest.param(Running(attempt_id="001", slot="w1", started_at=""), 1, id="no-end"),
        pytest.param(Skipped(reason="circuit breaker", cause=Cause.ENVIRONMENT), 1, id="skipped-for-a-cause"),
        pytest.param(Skipped(reason="nothing to do", cause=None), 0, id="skipped-as-it-should-be"),
    ],
)
def test_an_incomplete_batch_is_never_zero(passed: CaseState, state: CaseState, code: int) -> None:
    assert decide_exit_code(LIST, [passed, state]) == code


def test_an_empty_shard_is_zero() -> None:
    assert decide_exit_code(LIST, []) == 0


@pytest.mark.parametrize(
    ("stopped_by", "code"),
    [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)],
    ids=["ctrl-c", "term", "hangup"],
)
@pytest.mark.parametrize("kind", BatchKind)
def test_a_signal_outranks_the_outcomes(
    passed: CaseState, kind: BatchKind, stopped_by: int, code: int
) -> None:
    assert decide_exit_code(kind, [passed], stopped_by=stopped_by) == code
