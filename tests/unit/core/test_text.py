import xml.etree.ElementTree as ET
from xml.sax.saxutils import escape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_atesor.core.text import clip_output, sanitize, sanitize_line

anything = st.text(st.characters(codec=None, categories=None)) | st.binary()
nasty = st.lists(
    st.sampled_from([
        "\x1b",
        "[",
        "]",
        "31m",
        "\x9b",
        "\x07",
        "\x1b\\",
        "P",
        "\r",
        "\n",
        "\x08",
        "\x00",
        "\ud800",
        "\udc9b",
        "a",
        "\ufffe",
    ]),
    max_size=30,
).map("".join)


@given(anything | nasty)
def test_the_result_is_xml_text_and_needs_no_second_pass(data: str | bytes) -> None:
    text = sanitize(data)
    # A parser turns no character of the text into another one and accepts all of them.
    parsed = ET.fromstring(f"<a>{escape(text)}</a>")  # noqa: S314 - our own text is what is tested
    assert (parsed.text or "") == text
    assert sanitize(text) == text
    assert "\x1b" not in text


@given(anything | nasty, st.integers(min_value=2, max_value=50))
def test_a_line_is_one_line_within_its_limit(data: str | bytes, limit: int) -> None:
    line = sanitize_line(data, limit)
    assert len(line.splitlines()) <= 1
    assert len(line) <= limit
    assert sanitize_line(line, limit) == line


@pytest.mark.parametrize(
    ("raw", "clean"),
    [
        pytest.param("\x1b[1;31merror\x1b[0m: x", "error: x", id="colour"),
        pytest.param("\x1b[38:2::255:0:0mred", "red", id="colon-colour"),
        pytest.param("a\x1b[2K\x1b[1Gb", "ab", id="erase"),
        pytest.param("\x1b]0;a title\x07text", "text", id="title-bel"),
        pytest.param("\x1b]8;;https://x\x1b\\link\x1b]8;;\x1b\\", "link", id="hyperlink-st"),
        pytest.param("\x1b]never ended\nnext", "never ended\nnext", id="unended-osc-loses-nothing"),
        pytest.param("\x1bPsome\ndata\x1b\\text", "text", id="dcs"),
        pytest.param("\x9b31mred\x9dtitle\x9cx", "redx", id="8-bit-in-text"),
        pytest.param(b"\x9b31mred", "red", id="8-bit-in-bytes"),
        pytest.param("\x1b(Btext\x1b=\x1b>", "text", id="charset"),
        pytest.param("end\x1b", "end", id="lone-escape"),
        pytest.param("end\x1b[", "end", id="cut-csi"),
        pytest.param("a\x00b\x07c\x7fd", "abcd", id="controls"),
        pytest.param("tab\tnew\nline", "tab\tnew\nline", id="tab-newline"),
        pytest.param("a\r\nb\r\n", "a\nb\n", id="crlf"),
        pytest.param("10%\r50%\r100%\nok\r", "100%\nok", id="progress-bar"),
        pytest.param("100%\r   \nx", "100%\nx", id="bar-wiped"),
        pytest.param("N\x08NA\x08AM\x08ME\x08E", "NAME", id="overstruck"),
        pytest.param(b"caf\xc3\xa9 \xff", "café \ufffd", id="utf-8-and-not"),
        pytest.param("\ud83d and \udc00", "\ufffd and \ufffd", id="surrogates"),
        pytest.param("a\ufffeb\uffff", "a\ufffdb\ufffd", id="noncharacters"),
        pytest.param("abc\u202edcba\u2066", "abc<U+202E>dcba<U+2066>", id="bidi"),
        pytest.param("größe 日本 😀", "größe 日本 😀", id="plain-unicode"),
    ],
)
def test_whole_sequences_go_and_words_stay(raw: str | bytes, clean: str) -> None:
    assert sanitize(raw) == clean


def test_a_megabyte_of_introducers_takes_no_time_to_speak_of() -> None:
    # Quadratic matching would take hours here.
    assert sanitize("\x90" * 500_000 + "\x1bP" * 250_000) == ""
    assert sanitize("\x1b]" + "x" * 1_000_000) == "x" * 1_000_000


def test_a_line_folds_white_space_and_shows_its_cut() -> None:
    assert sanitize_line("  a \n\n b\tc\u2028d ") == "a b c d"
    assert sanitize_line("abcdef", 4) == "abc…"


@given(st.text(alphabet="ab\né😀", max_size=400), st.integers(min_value=120, max_value=300))
def test_clipped_output_fits_and_counts_what_is_missing(text: str, limit: int) -> None:
    clipped = clip_output(text, limit)
    assert len(clipped.encode()) <= limit
    if clipped != text:
        head, _, rest = clipped.partition("\n[... ")
        count, _, tail = rest.partition(" bytes left out; see the log ...]\n")
        assert text.startswith(head)
        assert text.endswith(tail)
        assert len(head.encode()) + int(count) + len(tail.encode()) == len(text.encode())
