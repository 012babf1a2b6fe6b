from collections.abc import Callable

import pytest

from pytest_atesor.core.attempt import AttemptRecord
from pytest_atesor.core.causes import group_failures, normalize_reason
from pytest_atesor.core.events import AttemptEnded, CasesSelected, CasesSkipped
from pytest_atesor.core.ledger import fold_events
from pytest_atesor.core.outcome import Cause, Status
from pytest_atesor.core.plan import Plan
from pytest_atesor.core.summary import summarize

AT = "2026-01-02T03:04:05Z"


@pytest.mark.parametrize(
    ("reason", "label", "signature"),
    [
        pytest.param(
            "/build/a/src/x.c:12:4: error: 3 args", "zlib", "<path>: error: <n> args", id="absolute path"
        ),
        pytest.param("src/x.c:7: undefined: y", "zlib", "<path>: undefined: y", id="relative path"),
        pytest.param("main.go:7:2: undefined: y", "zlib", "<file>: undefined: y", id="file name"),
        pytest.param("at 0xdeadBEEF in 1a2b3c4d5e", "zlib", "at <hex> in <hex>", id="hexadecimal"),
        pytest.param("cannot clone https://example.org/a.git", "", "cannot clone <url>", id="address"),
        pytest.param("gron needs gron-lib 1.2.3", "gron", "<case> needs <case>-lib <n>", id="own name"),
        pytest.param("no riscv64 output was found", "zlib", "no riscv64 output was found", id="plain words"),
    ],
)
def test_what_differs_between_cases_is_taken_out(reason: str, label: str, signature: str) -> None:
    assert normalize_reason(reason, label) == signature


def test_failures_of_one_kind_are_one_group_and_the_environment_comes_last(
    make_plan: Callable[..., Plan], make_record: Callable[..., AttemptRecord]
) -> None:
    records = [
        make_record("zlib"),
        *(
            make_record(name, Status.FAIL, Cause.ENVIRONMENT, reason="no space is left")
            for name in ("e1", "e2", "e3")
        ),
        make_record("one", Status.FAIL, Cause.BUILD, reason="src/one.c:1: error: bad"),
        make_record("two", Status.FAIL, Cause.BUILD, reason="lib/two.c:99: error: bad"),
        *(make_record(name, Status.UNVERIFIED, reason="nothing proven") for name in ("u1", "u2", "u3")),
        make_record("mute", Status.TIMEOUT, Cause.BUILD),
    ]
    plan = make_plan("zlib", "e1", "e2", "e3", "one", "two", "u1", "u2", "u3", "mute", "stopped", "open")
    ledger = fold_events(
        plan,
        [
            CasesSelected(at=AT, case_ids=tuple(case.case_id for case in plan.cases)),
            *(AttemptEnded(at=AT, record=record) for record in records),
            CasesSkipped(at=AT, case_ids=("stopped",), reason="not needed", cause=None),
        ],
    )
    groups = group_failures(summarize(ledger, {}))
    assert [(group.signature, group.labels) for group in groups] == [
        ("<path>: error: bad", ("one", "two")),
        ("no reason was given", ("mute",)),
        ("nothing proven", ("u1", "u2", "u3")),
        ("no space is left", ("e1", "e2", "e3")),
    ]
    assert groups[0].line == "src/one.c:1: error: bad"
    assert groups[0].log == "cases/one/attempts/001/run.log"
