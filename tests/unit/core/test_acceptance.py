"""The quick yes is never wrong, and ordinary documents get it."""

from importlib import resources
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from pytest_atesor.core.acceptance import compile_acceptance
from pytest_atesor.core.schema import load_schema

OURS = sorted(
    file.name.removesuffix(".schema.json")
    for file in resources.files("pytest_atesor.core.schemas").iterdir()
    if file.name.endswith(".schema.json")
)
SCALARS = st.sampled_from([None, True, False, 0, 1, 1.0, 1.5, -1, "", "a", "b\n", "runspec_v1", "1", "\0"])
WORDS = st.sampled_from(["a", "b", "kind", "argv", "env", "schema_version", "batch", "cases", "label", "url"])
DOCUMENTS = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=4),
    max_leaves=12,
)
KEYWORDS: dict[str, Any] = {
    "type": st.sampled_from(["array", "boolean", "integer", "null", "number", "object", "string"])
    | st.just(["integer", "null"]),
    "const": SCALARS,
    "enum": st.lists(SCALARS, min_size=1, max_size=3),
    "required": st.lists(WORDS, max_size=2, unique=True),
    "pattern": st.sampled_from(["^[a-z]+$", "^[^\\u0000]*$", "b"]),
    "minimum": st.sampled_from([0, 1, 1.5]),
    "maximum": st.sampled_from([0, 1, 1.5]),
    "minLength": st.integers(0, 2),
    "minItems": st.integers(0, 2),
    "maxItems": st.integers(0, 2),
    "uniqueItems": st.booleans(),
    "description": st.just("text"),
}


def _schemas(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    deeper = {
        "items": inner,
        "prefixItems": st.lists(inner, min_size=1, max_size=2),
        "properties": st.dictionaries(WORDS, inner, max_size=3),
        "patternProperties": st.dictionaries(st.just("a"), inner, max_size=1),
        "additionalProperties": inner,
        "propertyNames": inner,
        "not": inner,
    }
    return st.fixed_dictionaries({}, optional={**KEYWORDS, **deeper})


SCHEMAS = st.recursive(st.booleans() | st.fixed_dictionaries({}, optional=KEYWORDS), _schemas, max_leaves=6)


@given(schema=SCHEMAS, document=DOCUMENTS)
def test_a_yes_is_the_validator_s_yes(schema: Any, document: Any) -> None:
    if compile_acceptance(schema)(document):
        assert Draft202012Validator(schema).is_valid(document)


@given(name=st.sampled_from(OURS), document=DOCUMENTS)
def test_a_yes_of_our_schemas_is_the_validator_s_yes(name: str, document: Any) -> None:
    if compile_acceptance(load_schema(name))(document):
        assert Draft202012Validator(load_schema(name)).is_valid(document)


@pytest.mark.parametrize(
    ("name", "document"),
    [
        pytest.param(
            "runspec_v1",
            {"schema_version": "runspec_v1", "kind": "command", "timeout_seconds": 5, "tags": ["x"]},
            id="runspec",
        ),
        pytest.param("runspec_command_v1", {"argv": ["/bin/true"], "env": {"A": "b"}}, id="command"),
        pytest.param("runspec_port_v1", {"url": "https://example.org/a.git"}, id="port"),
        pytest.param(
            "batch_v1",
            {"schema_version": "batch_v1", "batch": {"cases": [{"label": "a", "runspec": "a.yaml"}]}},
            id="manifest",
        ),
    ],
)  # fmt: skip
def test_ordinary_documents_get_the_quick_yes(name: str, document: Any) -> None:
    assert compile_acceptance(load_schema(name))(document)


@pytest.mark.parametrize(
    "document",
    [
        pytest.param({"argv": []}, id="too-few"),
        pytest.param({"argv": ["a\0"]}, id="nul"),
        pytest.param({"argv": ["a"], "env": {"1A": "b"}}, id="name"),
        pytest.param({"argv": ["a"], "shell": True}, id="unknown-key"),
        pytest.param({}, id="missing"),
        pytest.param([], id="no-object"),
    ],
)
def test_faults_get_no_quick_yes(document: Any) -> None:
    assert not compile_acceptance(load_schema("runspec_command_v1"))(document)
