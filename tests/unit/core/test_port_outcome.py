"""From how an agent ended, and what it said, to status, cause and reason."""

import errno
import json
import signal
from dataclasses import replace
from typing import Any

import pytest

from pytest_atesor.core.child_end import ChildEnd, StartError
from pytest_atesor.core.child_outcome import REASON_CHARACTERS, AttemptOutcome
from pytest_atesor.core.outcome import Cause, Status
from pytest_atesor.core.port_outcome import AgentResult, NoResult, decide_port_end, parse_agent_result
from pytest_atesor.errors import BadInputError

END = ChildEnd(
    exit_code=0,
    signal=None,
    timed_out=False,
    interrupted=False,
    duration_s=12.3,
    log_bytes=4,
    dropped_bytes=0,
    leaks=(),
    tail=b"cloning\nerror: it broke\n",
)
ARTIFACT = {"path": "libz.so", "size_bytes": 10, "type": "shared", "abi": "lp64d", "sha256": "0" * 64}


def ended(**facts: Any) -> ChildEnd:
    return replace(END, **facts)


def said(**keys: object) -> AgentResult:
    """Return a parsed result.json with these keys."""
    return parse_agent_result(json.dumps({"schema_version": "result_v1", **keys}).encode(), "result.json")


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        (ended(exit_code=0), AttemptOutcome(Status.PASS, None, "")),
        (
            ended(exit_code=3),
            AttemptOutcome(Status.UNVERIFIED, None, "the commands passed, but no riscv64 output was proven"),
        ),
        (ended(exit_code=1), AttemptOutcome(Status.FAIL, Cause.BUILD, "error: it broke")),
        (
            ended(exit_code=1, tail=b" \n"),
            AttemptOutcome(Status.FAIL, Cause.AGENT, "exit 1, with no output at all"),
        ),
        (ended(exit_code=124), AttemptOutcome(Status.FAIL, Cause.BUILD, "error: it broke")),
        (ended(exit_code=127), AttemptOutcome(Status.FAIL, Cause.AGENT, "exit 127; last: error: it broke")),
        (ended(exit_code=137), AttemptOutcome(Status.FAIL, Cause.AGENT, "exit 137; last: error: it broke")),
        (ended(exit_code=143), AttemptOutcome(Status.FAIL, Cause.AGENT, "exit 143; last: error: it broke")),
        (
            ended(exit_code=None, signal=signal.SIGSEGV),
            AttemptOutcome(Status.FAIL, Cause.AGENT, "killed by SIGSEGV; last: error: it broke"),
        ),
        (
            ended(exit_code=None, signal=40, tail=b""),
            AttemptOutcome(Status.FAIL, Cause.AGENT, "killed by signal 40, with no output at all"),
        ),
        (
            ended(exit_code=1, tail=b"cc: write error: No space left on device\nmake: *** [x] Error 1\n"),
            AttemptOutcome(Status.FAIL, Cause.ENVIRONMENT, "cc: write error: No space left on device"),
        ),
        (
            ended(exit_code=1, log_error="No space left on device"),
            AttemptOutcome(
                Status.FAIL,
                Cause.ENVIRONMENT,
                "the log could not be written (No space left on device); error: it broke",
            ),
        ),
        (ended(exit_code=0, log_error="No space left on device"), AttemptOutcome(Status.PASS, None, "")),
        (
            ended(exit_code=143, timed_out=True),
            AttemptOutcome(Status.TIMEOUT, None, "killed at the deadline, after 12 s; last: error: it broke"),
        ),
        (
            ended(exit_code=0, timed_out=True, tail=b""),
            AttemptOutcome(Status.TIMEOUT, None, "killed at the deadline, after 12 s; it had said nothing"),
        ),
        (
            ended(exit_code=0, interrupted=True),
            AttemptOutcome(Status.SKIPPED, Cause.INTERRUPTED, "interrupted after 12 s"),
        ),
        (
            ended(exit_code=None, interrupted=True, duration_s=0.0),
            AttemptOutcome(Status.SKIPPED, Cause.INTERRUPTED, "the batch was stopped first"),
        ),
        (
            ended(exit_code=0, output_limited=True, dropped_bytes=96),
            AttemptOutcome(Status.FAIL, Cause.OUTPUT_LIMIT, "ended at the output limit, after 100 bytes"),
        ),
        (
            ended(exit_code=None, start_error=StartError(errno=errno.ENOENT, message="cannot start 'x': no")),
            AttemptOutcome(Status.FAIL, Cause.AGENT, "cannot start 'x': no"),
        ),
        (
            ended(exit_code=None, start_error=StartError(errno=errno.EMFILE, message="cannot start 'x': no")),
            AttemptOutcome(Status.FAIL, Cause.ENVIRONMENT, "cannot start 'x': no"),
        ),
    ],
    ids=[
        "0",
        "3",
        "1",
        "1 silently",
        "124",
        "127",
        "137",
        "143",
        "signal",
        "real-time signal",
        "sandbox full",
        "log disk full",
        "log disk full, yet verified",
        "deadline",
        "deadline, and exit 0",
        "interrupted",
        "stopped before the start",
        "output limit",
        "no such agent",
        "no descriptors left",
    ],
)
def test_an_agent_without_result_is_judged_by_its_end(end: ChildEnd, expected: AttemptOutcome) -> None:
    assert decide_port_end(end, NoResult()) == expected


@pytest.mark.parametrize(
    ("code", "result", "expected"),
    [
        (0, said(verdict="verified", artifacts=[ARTIFACT]), AttemptOutcome(Status.PASS, None, "")),
        (0, said(verdict="verified"), AttemptOutcome(Status.PASS, None, "")),
        (
            0,
            said(verdict="unverified", reason="only scripts"),
            AttemptOutcome(
                Status.UNVERIFIED, None, "exit 0, but result.json gives the verdict unverified: only scripts"
            ),
        ),
        (
            0,
            said(verdict=None, artifacts=[ARTIFACT]),
            AttemptOutcome(
                Status.UNVERIFIED,
                None,
                "exit 0, but result.json gives no verdict: "
                "the commands passed, but no riscv64 output was proven",
            ),
        ),
        (
            0,
            said(verdict="verified", artifacts=[]),
            AttemptOutcome(Status.UNVERIFIED, None, "exit 0 and verified, but result.json lists no artifact"),
        ),
        (3, said(verdict="verified", reason="tests failed", cause="tests"), None),
        (1, said(cause="source", reason="404 of https://user:pw@example.org/x"), None),
        (
            1,
            said(verdict="verified", artifacts=[ARTIFACT]),
            AttemptOutcome(Status.FAIL, Cause.BUILD, "error: it broke"),
        ),
        (1, said(cause="environment"), AttemptOutcome(Status.FAIL, Cause.ENVIRONMENT, "error: it broke")),
    ],
    ids=[
        "verified",
        "verified, artifacts not spoken of",
        "unverified",
        "no verdict",
        "no artifacts",
        "3 stays unverified",
        "cause and reason",
        "1 stays a failure",
        "cause alone",
    ],
)
def test_the_exit_code_stays_the_truth_but_a_pass_needs_no_contradiction(
    code: int, result: AgentResult, expected: AttemptOutcome | None
) -> None:
    special = {
        3: AttemptOutcome(Status.UNVERIFIED, Cause.TESTS, "tests failed"),
        1: AttemptOutcome(Status.FAIL, Cause.SOURCE, "404 of https://***@example.org/x"),
    }
    assert decide_port_end(ended(exit_code=code), result) == (expected or special[code])


def test_a_timeout_keeps_what_the_agent_knew() -> None:
    end = decide_port_end(ended(timed_out=True), said(cause="tests", reason="tests were running"))
    assert end == AttemptOutcome(
        Status.TIMEOUT, Cause.TESTS, "killed at the deadline, after 12 s; last: tests were running"
    )


def test_a_timeout_says_what_ran_and_not_only_that_the_agent_was_stopped() -> None:
    result = said(cause="interrupted", reason="stopped by SIGTERM during attempt 1/3")
    words = "error: it broke (stopped by SIGTERM during attempt 1/3)"
    assert decide_port_end(ended(timed_out=True), result) == AttemptOutcome(
        Status.TIMEOUT, None, f"killed at the deadline, after 12 s; last: {words}"
    )
    silent = decide_port_end(ended(timed_out=True, tail=b""), result)
    assert silent.reason.endswith("; last: stopped by SIGTERM during attempt 1/3")


@pytest.mark.parametrize("code", [1, 137, None], ids=["plain", "with its exit code", "signal"])
def test_a_reason_is_one_clean_line_of_bounded_length(code: int | None) -> None:
    tail = b"\x1b[31m" + b"error \x00 \xff " * 200 + b"\n"
    _, _, reason = decide_port_end(ended(exit_code=code, signal=11, tail=tail), NoResult())
    assert len(reason) <= REASON_CHARACTERS
    assert reason.isprintable()
    hostile = said(reason="a\nb\x1b[2J\u202ec" * 100)
    _, _, reason = decide_port_end(ended(exit_code=1), hostile)
    assert len(reason) <= REASON_CHARACTERS
    assert reason.isprintable()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "null",
        "{}",
        '{"schema_version": "result_v2"}',
        '{"schema_version": "result_v1", "verdict": "PASS"}',
        '{"schema_version": "result_v1", "cause": "bad luck"}',
        '{"schema_version": "result_v1", "reason": 7}',
        '{"schema_version": "result_v1", "artifacts": [{"size_bytes": 1}]}',
        '{"schema_version": "result_v1", "artifacts": [{"path": "x", "sha256": "beef"}]}',
        '{"schema_version": "result_v1", "verdict": "verified", "verdict": "unverified"}',
        '{"schema_version": "result_v1", "metrics": {"x": NaN}}',
        "[" * 100_000,
        "\udc80",
    ],
    ids=[
        "empty",
        "array",
        "null",
        "no version",
        "other version",
        "verdict",
        "cause",
        "reason",
        "artifact without path",
        "digest",
        "duplicate key",
        "NaN",
        "nesting",
        "not UTF-8",
    ],
)
def test_a_result_that_breaks_the_format_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(BadInputError) as caught:
        parse_agent_result(text.encode("utf-8", "surrogateescape"), "result.json")
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("result.json")


def test_unknown_keys_are_kept() -> None:
    assert said(extra={"deep": [1]}).document["extra"] == {"deep": [1]}
