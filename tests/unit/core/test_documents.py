import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_atesor.core.documents import ALIAS_BUDGET, Mark, parse_document, parse_yaml
from pytest_atesor.errors import BadInputError

# YAML has no surrogate pairs, which JSON escapes the rest of Unicode with.
BASIC = st.characters(codec="utf-8", max_codepoint=0xFFFF)
# YAML allows a key of at most 1024 characters without a question mark in front; one escaped takes six.
KEYS = st.text(BASIC, max_size=150)
documents = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.text(BASIC),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)


@given(documents)
def test_json_is_yaml(value: object) -> None:
    # Escaped, since YAML forbids some characters that JSON allows raw.
    assert parse_yaml(json.dumps(value), "m.yaml").value == value


def test_every_place_knows_its_line_and_spelling() -> None:
    document = parse_yaml("a:\n  - 1.10\n  - 'x'\nb: &n yes?\nc: *n\n", "m.yaml")
    assert document.value == {"a": [1.1, "x"], "b": "yes?", "c": "yes?"}
    assert document.marks["a", 0] == Mark(where="m.yaml", line=2, written="1.10")
    assert document.marks["a", 1] == Mark(where="m.yaml", line=3)
    assert document.marks["c",] == Mark(where="m.yaml", line=4, written="yes?")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param("a: 2026-01-02", {"a": "2026-01-02"}, id="dates-stay-text"),
        pytest.param("a: true\nb: False", {"a": True, "b": False}, id="truth"),
        pytest.param("a: ~\nb:\nc: null", {"a": None, "b": None, "c": None}, id="null"),
        pytest.param("a: -5\nb: 1.5e3\nc: .5", {"a": -5, "b": "1.5e3", "c": 0.5}, id="numbers"),
        pytest.param(
            "b: &b {x: 1, y: 2}\nc: {<<: *b, y: 3}",
            {"b": {"x": 1, "y": 2}, "c": {"x": 1, "y": 3}},
            id="merge",
        ),
        pytest.param(
            "a: &a {x: 1}\nb: &b {x: 2, y: 2}\nc: {<<: [*a, *b]}",
            {"a": {"x": 1}, "b": {"x": 2, "y": 2}, "c": {"x": 1, "y": 2}},
            id="merge-list",
        ),
        pytest.param("\ufeffa: 1", {"a": 1}, id="byte-order-mark"),
    ],
)
def test_plain_yaml_is_read(text: str, value: object) -> None:
    assert parse_yaml(text, "m.yaml").value == value
    assert parse_yaml(text.encode(), "m.yaml").value == value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param(
            b"a: 1\nb: 2\na: 3\n",
            "m.yaml, line 3, a: the key stands twice, in lines 1 and 3; remove one",
            id="duplicate",
        ),
        pytest.param(
            b"x:\n- {a: 1, a: 1}",
            "m.yaml, line 2, x[0].a: the key stands twice, in lines 2 and 2",
            id="duplicate-inner",
        ),
        pytest.param(
            b"a: no",
            'm.yaml, line 1, a: no without quotes is not what it looks like in YAML; quote it for text: "no"',
            id="no",
        ),
        pytest.param(
            b"a: On",
            'm.yaml, line 1, a: On without quotes is not what it looks like in YAML; quote it for text: "On"',
            id="on",
        ),
        pytest.param(
            b"a: 010", "m.yaml, line 1, a: 010 without quotes is not what it looks like", id="octal"
        ),
        pytest.param(
            b"a: 0x1F", "m.yaml, line 1, a: 0x1F without quotes is not what it looks like", id="hex"
        ),
        pytest.param(
            b"a: 1:30", "m.yaml, line 1, a: 1:30 without quotes is not what it looks like", id="sexagesimal"
        ),
        pytest.param(
            b"a: 1_000", "m.yaml, line 1, a: 1_000 without quotes is not what it looks like", id="underscore"
        ),
        pytest.param(
            b"a: .nan", "m.yaml, line 1, a: .nan without quotes is not what it looks like", id="nan"
        ),
        pytest.param(b"a: " + b"9" * 5000, "m.yaml, line 1, a: 999", id="huge-integer"),
        pytest.param(b"no: 1", "m.yaml, line 1, the document: no without quotes", id="key-no"),
        pytest.param(
            b"5: 1", 'm.yaml, line 1, the document: the key 5 is not text; quote it: "5"', id="key-number"
        ),
        pytest.param(b"[a]: 1", "m.yaml, line 1, the document: a key must be text", id="key-list"),
        pytest.param(
            b"a: !!python/object:os.system x",
            "m.yaml, line 1, a: the tag tag:yaml.org,2002:python/object:os.system",
            id="python",
        ),
        pytest.param(b"a: !!binary aGk=", "m.yaml, line 1, a: the tag ", id="binary"),
        pytest.param(b"a: !!set {x}", "m.yaml, line 1, a: the tag ", id="set"),
        pytest.param(b"a: &a [*a]", "m.yaml, line 1, a[0]: an alias contains itself", id="recursive"),
        pytest.param(b"a: *b", "m.yaml is not valid YAML: line 1, column 4: ", id="undefined-alias"),
        pytest.param(b"a: [1", "m.yaml is not valid YAML: line ", id="cut"),
        pytest.param(b"a: 1\n\tb: 2", "m.yaml is not valid YAML: line 2, column 1: ", id="tab"),
        pytest.param(b"a: 1\n---\nb: 2", "m.yaml is not valid YAML: line 2", id="two-documents"),
        pytest.param(b"", "m.yaml is empty", id="empty"),
        pytest.param(b"# nothing\n", "m.yaml is empty", id="comment"),
        pytest.param(b"\xff\xfea\x00", "m.yaml is not UTF-8 (byte 0)", id="utf-16"),
        pytest.param(b"a: \x00", "m.yaml is not valid YAML: ", id="nul"),
        pytest.param(b"[" * 100_000, "m.yaml is not valid YAML: ", id="deep"),
        pytest.param(
            b"[" * 200 + b"]" * 200,
            "m.yaml, line 1, the document: it is nested more than 100 deep",
            id="deep-but-parsable",
        ),
        pytest.param(b'a: "\\ud800"', "m.yaml", id="lone-surrogate"),
        pytest.param(b"a: {<<: 5}", "m.yaml, line 1, a: << takes a mapping", id="merge-scalar"),
    ],
)
def test_what_could_be_misread_is_refused_with_its_line(text: bytes, message: str) -> None:
    with pytest.raises(BadInputError) as caught:
        parse_yaml(text, "m.yaml")
    assert str(caught.value).startswith(message)
    assert len(str(caught.value).splitlines()) == 1


def test_a_billion_laughs_end_soon() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]" for level in range(1, 12)]
    with pytest.raises(BadInputError, match=f"expand to more than {ALIAS_BUDGET} values"):
        parse_yaml("\n".join(lines), "m.yaml")


def test_the_name_tells_json_from_yaml() -> None:
    assert parse_document("{a: 1}", "m.yaml").value == {"a": 1}
    with pytest.raises(BadInputError, match=r"^m\.JSON is not valid JSON"):
        parse_document("{a: 1}", "m.JSON")
