"""Values that many unit tests start from, and how properties are tested."""

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, settings

from pytest_atesor.core.attempt import AttemptRecord
from pytest_atesor.core.outcome import Cause, Status
from pytest_atesor.core.plan import BatchKind, Case, InputFile, Plan, Platform, Target

# A machine that stands still for a second makes no example wrong.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")

PlanFactory = Callable[..., Plan]
RecordFactory = Callable[..., AttemptRecord]


def build_plan(
    *labels: str, kind: BatchKind = BatchKind.PACKAGE_LIST, summary_fields: tuple[str, ...] = ()
) -> Plan:
    cases = tuple(
        Case(
            case_id=label,
            label=label,
            kind="port",
            spec={"name": label, "url": f"https://example.org/acme/{label}.git", "max_attempts": 5},
            timeout_s=1800,
            derived_name=label,
            marks=("c",),
        )
        for label in labels
    )
    return Plan(
        batch_id="smoke-20260102-030405",
        kind=kind,
        name="smoke",
        source="packages/smoke.json",
        platform=Platform.DEBIAN,
        target=Target.QEMU,
        cases=cases,
        inputs=(InputFile(path="packages/smoke.json", sha256="0" * 64),),
        settings={"engine": "docker"},
        created_at="2026-01-02T03:04:05.000Z",
        summary_fields=summary_fields,
    )


def build_record(
    case_id: str,
    status: Status = Status.PASS,
    cause: Cause | None = None,
    *,
    attempt_id: str = "001",
    reason: str = "",
    duration_s: float = 12.34,
) -> AttemptRecord:
    return AttemptRecord(
        case_id=case_id,
        attempt_id=attempt_id,
        status=status,
        cause=cause,
        reason=reason,
        exit_code=0 if status is Status.PASS else 1,
        slot="atesor-ai-sandbox-debian-w1",
        started_at="2026-01-02T03:04:06.000Z",
        ended_at="2026-01-02T03:04:18.340Z",
        duration_s=duration_s,
        log=f"cases/{case_id}/attempts/{attempt_id}/run.log",
        log_bytes=100,
        log_dropped_bytes=0,
    )


@pytest.fixture
def make_plan() -> PlanFactory:
    """A plan with one case per label."""
    return build_plan


@pytest.fixture
def make_record() -> RecordFactory:
    """The record of an ended attempt: PASS unless told otherwise."""
    return build_record
