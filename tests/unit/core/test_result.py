import json

import pytest

from pytest_atesor.core.outcome import Cause, Verdict
from pytest_atesor.core.result import Artifact, Phase, parse_result
from pytest_atesor.errors import BadInputError

WHOLE = {
    "schema_version": "result_v1",
    "verdict": "verified",
    "cause": None,
    "reason": "",
    "source": {"url": "https://h/x", "url_used": "deb:x", "kind": "deb", "commit": None, "sha256": "0" * 64},
    "build_system": "cmake",
    "phases": [{"name": "build", "duration_s": 1.5, "status": "ok"}],
    "artifacts": [
        {"path": "libz.so", "size_bytes": 5, "type": "shared", "abi": "lp64d", "sha256": "0" * 64, "more": 1}
    ],
    "metrics": {"x": 1},
    "notes": ["a"],
}


def test_a_whole_result_is_read() -> None:
    result = parse_result(json.dumps(WHOLE), "result.json")
    assert (result.verdict, result.cause, result.build_system) == (Verdict.VERIFIED, None, "cmake")
    assert result.source == {"url": "https://h/x", "url_used": "deb:x", "kind": "deb", "sha256": "0" * 64}
    assert result.phases == (Phase(name="build", duration_s=1.5, status="ok"),)
    assert result.artifacts == (
        Artifact(path="libz.so", size_bytes=5, type="shared", abi="lp64d", sha256="0" * 64),
    )
    assert (result.metrics, result.notes) == ({"x": 1}, ("a",))


def test_all_but_the_version_may_be_absent() -> None:
    result = parse_result('{"schema_version": "result_v1"}', "result.json")
    assert (result.verdict, result.cause, result.reason, result.artifacts) == (None, None, "", ())


def test_a_strangers_words_are_cleaned() -> None:
    text = json.dumps({
        "schema_version": "result_v1",
        "cause": "build",
        "reason": "\x1b[31merror:\x1b[0m\r\nbad\x00",
    })
    result = parse_result(text, "result.json")
    assert (result.cause, result.reason) == (Cause.BUILD, "error: bad")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param({"cause": "weather"}, 'result.json, cause: "weather" must be one of', id="cause"),
        pytest.param({"verdict": True}, "result.json, verdict: true must be one of", id="verdict"),
        pytest.param({"artifacts": [{"path": 1}]}, "result.json, artifacts[0]: the key", id="artifact"),
        pytest.param({"artifacts": {}}, "result.json, artifacts: {} must be an array", id="artifacts"),
        pytest.param(
            {"schema_version": "result_v2"},
            'result.json, schema_version: "result_v2" must be "result_v1"',
            id="version",
        ),
    ],
)
def test_a_result_that_lies_about_its_form_is_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(BadInputError) as caught:
        parse_result(json.dumps(WHOLE | change), "result.json")
    assert str(caught.value).startswith(message)
