"""Agents that lay hands on their own attempt's directory: no hang, no leak, no false PASS, no retry."""

import pytest
from lab import Lab

PRIVATE = "only-the-host-may-read-this"
HOSTILE = {
    "log becomes a pipe": 'rm "$A/run.log"; mkfifo "$A/run.log"; exit 1',
    "log becomes a link": 'ln -sf "$PWD/secret" "$A/run.log"; exit 1',
    "directory removed": 'rm -r "$A"; exit 0',
    "directory becomes a link": 'rm -r "$A"; mkdir -p elsewhere; ln -s "$PWD/elsewhere" "$A"; exit 0',
    "log becomes a directory": 'rm "$A/run.log"; mkdir "$A/run.log"; exit 1',
    "result becomes a directory": 'mkdir "$A/result.json" "$A/metrics.json"; exit 1',
    "record becomes a directory": 'mkdir -p "$A/attempt.json/x"; exit 0',
}


@pytest.mark.parametrize("script", HOSTILE.values(), ids=list(HOSTILE))
def test_a_hostile_agent_is_a_failed_agent_and_no_more(lab: Lab, script: str) -> None:
    (lab.root / "secret").write_text(PRIVATE)
    agent = lab.root / "hostile"
    agent.write_text(f'#!/bin/sh\nA=$ATESOR_ATTEMPT_DIR\necho "error: something"\n{script}\n')
    agent.chmod(0o755)
    lab.write_list("evil", {"a": "pass"})
    run = lab.run("--atesor-list", "evil", "-n0", "--atesor-agent=./hostile")
    assert run.code == 1, run.out + run.err
    assert PRIVATE not in run.out
    assert "INTERNALERROR" not in run.out
    (case,) = lab.results()["cases"]
    assert (case["status"], case["attempts"]) == ("FAIL", 1)
    assert case["cause"] in {"agent", "build"}
    assert not list(lab.root.glob("elsewhere/*"))
