import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_atesor.core.jsontext import format_json, format_json_line, format_path, parse_json, show_value
from pytest_atesor.errors import BadInputError

documents = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(documents)
def test_what_is_written_reads_back_equal(value: object) -> None:
    assert parse_json(format_json(value), "x") == value
    assert parse_json(format_json_line(value).encode(), "x") == value


@given(documents)
def test_a_line_is_one_line_for_every_reader(value: object) -> None:
    line = format_json_line(value)
    assert line.splitlines() == [line[:-1]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param(b"{", "x.json is not valid JSON: line 1, column 2: ", id="cut"),
        pytest.param(b'{\n "a": 1,\n}', "x.json is not valid JSON: line ", id="trailing-comma"),
        pytest.param(b"", "x.json is not valid JSON: line 1, column 1: ", id="empty"),
        pytest.param(
            b"\xff\xfe{\x00}\x00", "x.json is not UTF-8 (line 1, byte 0); save it as UTF-8", id="utf-16"
        ),
        pytest.param(
            b'{\n"a": "\xe9"}', "x.json is not UTF-8 (line 2, byte 8); save it as UTF-8", id="latin-1"
        ),
        pytest.param(
            b'{"packages": [{"name": "a", "name": "b"}]}',
            "x.json, packages[0].name: the key stands twice in one object; remove one of them",
            id="duplicate-key",
        ),
        pytest.param(
            b'{"a": {"b": 1}, "a": 2}', "x.json, a: the key stands twice", id="duplicate-key-at-the-top"
        ),
        pytest.param(b"[NaN]", "x.json is not valid JSON: NaN is no JSON number", id="nan"),
        pytest.param(b"[-Infinity]", "x.json is not valid JSON: -Infinity is no JSON number", id="infinity"),
        pytest.param(b"[1e999]", "x.json is not valid JSON: 1e999 is too large", id="overflow"),
        pytest.param(b"[" + b"9" * 5000 + b"]", "x.json is not valid JSON: ", id="huge-integer"),
        pytest.param(rb'{"a": ["\ud800"]}', "x.json, a[0]: a lone surrogate", id="lone-surrogate"),
        pytest.param(b"[" * 100_000, "x.json is nested too deeply", id="deep"),
        pytest.param(b"[" * 200 + b"]" * 200, "x.json is nested more than 100 deep", id="deep-but-parsable"),
    ],
)
def test_bad_text_is_one_line_that_names_the_place(text: bytes, message: str) -> None:
    with pytest.raises(BadInputError) as caught:
        parse_json(text, "x.json")
    assert str(caught.value).startswith(message)
    assert len(str(caught.value).splitlines()) == 1


def test_a_byte_order_mark_is_skipped() -> None:
    assert parse_json(b'\xef\xbb\xbf{"a": 1}', "x") == {"a": 1}
    assert parse_json('\ufeff{"a": 1}', "x") == {"a": 1}


def test_lone_surrogates_never_reach_a_file() -> None:
    assert json.loads(format_json({"a": "\udc80"}).encode()) == {"a": "\ufffd"}
    assert json.loads(format_json_line("\ud800\u2028").encode()) == "\ufffd\u2028"


def test_one_element_per_line_in_the_two_outer_levels() -> None:
    text = format_json({"a": 1, "cases": [{"id": "x", "n": [1, 2]}, {}], "none": {}})
    assert (
        text == '{\n  "a": 1,\n  "cases": [\n    {"id": "x", "n": [1, 2]},\n    {}\n  ],\n  "none": {}\n}\n'
    )


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        pytest.param(("packages", 3, "url"), "packages[3].url", id="plain"),
        pytest.param((), "the document", id="root"),
        pytest.param(("$schema_version",), "$schema_version", id="dollar"),
        pytest.param(("a", "b c", 0), 'a["b c"][0]', id="quoted"),
    ],
)
def test_paths_are_written_as_people_write_them(path: tuple[str | int, ...], shown: str) -> None:
    assert format_path(path) == shown


def test_shown_values_are_short_and_plain() -> None:
    assert show_value("a\x1b[31m\nb") == '"a\\u001b[31m\\nb"'
    assert len(show_value("x" * 500)) == 80
