"""JSON as text, strictly: nothing that two parsers could read differently gets in or out.

Reading refuses duplicate keys, NaN and infinities, lone surrogates, text that is not UTF-8 and absurd
nesting, each with its place. A UTF-8 byte order mark is skipped, as RFC 8259 allows. Writing is
deterministic.
"""

import functools
import json
import re
from collections.abc import Iterator
from typing import Final, Never

from pytest_atesor.core.plan import Json
from pytest_atesor.errors import BadInputError

__all__ = ["JsonPath", "format_json", "format_json_line", "format_path", "parse_json", "show_value"]

JsonPath = tuple[str | int, ...]
"""A place in a JSON document: object keys and array indexes, outermost first."""

_PLAIN_KEY: Final = re.compile(r"[A-Za-z_$][A-Za-z0-9_$-]*")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_ESCAPED_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F]")
_encode: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode
_LINE_ENDS: Final = re.compile("[\x85\u2028\u2029]")  # str.splitlines breaks there, JSON does not escape them
_SHOWN_CHARACTERS: Final = 80
_MAX_DEPTH: Final = 100


class _Duplicated(dict[str, "Json"]):
    """An object in which ``key`` stood twice; the walk that follows finds its place."""

    __slots__ = ("key",)

    def __init__(self, pairs: list[tuple[str, "Json"]], key: str) -> None:
        super().__init__(pairs)
        self.key = key


def parse_json(text: str | bytes, where: str) -> Json:
    """Return the document in ``text``. ``where`` names its origin in errors, as the user knows it.

    Raises BadInputError: one line with the origin, the line or JSON path, and what to do.
    """
    decoded = _decode(text, where)
    try:
        document: Json = _decoder().decode(decoded)
    except json.JSONDecodeError as error:
        found = f"line {error.lineno}, column {error.colno}: {error.msg}"
        raise BadInputError(f"{where} is not valid JSON: {found}; correct it there") from None
    except RecursionError:
        raise BadInputError(f"{where} is nested too deeply to be read; flatten it") from None
    except ValueError as error:
        raise BadInputError(f"{where} is not valid JSON: {error}; write an ordinary number") from None
    if not _is_sound(document, decoded):
        _check(document, where)
    return document


def format_path(path: JsonPath) -> str:
    """Return a path as people write it: ``packages[3].url``; the empty path is the document itself."""
    parts: list[str] = []
    for step in path:
        if isinstance(step, int):
            parts.append(f"[{step}]")
        elif _PLAIN_KEY.fullmatch(step):
            parts.append(f".{step}" if parts else step)
        else:
            parts.append(f"[{show_value(step)}]")
    return "".join(parts) or "the document"


def show_value(value: object) -> str:
    """Return a value for an error message: JSON in ASCII, one line, cut to 80 characters."""
    shown = json.dumps(value, ensure_ascii=True, default=repr)
    return shown if len(shown) <= _SHOWN_CHARACTERS else shown[: _SHOWN_CHARACTERS - 3] + "..."


def format_json(value: object) -> str:
    """Return ``value`` as a document with a final newline; what is not Unicode becomes U+FFFD.

    The two outer levels stand one element a line, everything deeper on its element's line. People can read
    that, a diff shows one line per case, and ten thousand cases cost no more than the C encoder does.
    """
    return _SURROGATE.sub("\ufffd", _spread(value, levels=2, indent="")) + "\n"


def format_json_line(value: object) -> str:
    """Return ``value`` as one line with its newline; what is not Unicode becomes U+FFFD."""
    text = _SURROGATE.sub(
        "\ufffd", json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    )
    return _LINE_ENDS.sub(lambda found: f"\\u{ord(found.group()):04x}", text) + "\n"


def _spread(value: object, *, levels: int, indent: str) -> str:
    if not levels or not value or not isinstance(value, dict | list | tuple):
        return _encode(value)
    inner = f"{indent}  "
    if isinstance(value, dict):
        parts = [
            f"{_encode(key)}: {_spread(item, levels=levels - 1, indent=inner)}" for key, item in value.items()
        ]
        return f"{{\n{inner}" + f",\n{inner}".join(parts) + f"\n{indent}}}"
    parts = [_spread(item, levels=levels - 1, indent=inner) for item in value]
    return f"[\n{inner}" + f",\n{inner}".join(parts) + f"\n{indent}]"


def _decode(text: str | bytes, where: str) -> str:
    if isinstance(text, str):
        return text.removeprefix("\ufeff")
    try:
        return text.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = text.count(b"\n", 0, error.start) + 1
        raise BadInputError(
            f"{where} is not UTF-8 (line {line}, byte {error.start}); save it as UTF-8"
        ) from None


def _pairs(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    built = dict(pairs)
    if len(built) == len(pairs):
        return built
    seen: set[str] = set()
    for key, _ in pairs:
        if key in seen:
            return _Duplicated(pairs, key)
        seen.add(key)
    return built


def _refuse(constant: str) -> Never:
    raise ValueError(f"{constant} is no JSON number")


def _float(digits: str) -> float:
    number = float(digits)
    if number in (float("inf"), float("-inf")):
        raise ValueError(f"{digits[:40]} is too large")
    return number


@functools.cache
def _decoder() -> json.JSONDecoder:
    return json.JSONDecoder(object_pairs_hook=_pairs, parse_constant=_refuse, parse_float=_float)


def _is_sound(document: Json, text: str) -> bool:
    """Say cheaply that there is certainly nothing to find for :func:`_check`."""
    if _SURROGATE.search(text) or _ESCAPED_SURROGATE.search(text):
        return False
    level, depth = [document], 0
    while level and depth <= _MAX_DEPTH:
        deeper: list[Json] = []
        for value in level:
            if isinstance(value, dict):
                if isinstance(value, _Duplicated):
                    return False
                deeper.extend(value.values())
            elif isinstance(value, list):
                deeper.extend(value)
        level, depth = deeper, depth + 1
    return not level


def _walk(value: Json, path: JsonPath) -> Iterator[tuple[JsonPath, Json]]:
    stack: list[tuple[JsonPath, Json]] = [(path, value)]
    while stack:
        here, current = stack.pop()
        yield here, current
        if isinstance(current, dict):
            stack.extend(((*here, key), item) for key, item in reversed(current.items()))
        elif isinstance(current, list):
            stack.extend(((*here, index), item) for index, item in reversed(list(enumerate(current))))


def _check(document: Json, where: str) -> None:
    for path, value in _walk(document, ()):
        if isinstance(value, _Duplicated):
            doubled = format_path((*path, value.key))
            raise BadInputError(f"{where}, {doubled}: the key stands twice in one object; remove one of them")
        texts = value.keys() if isinstance(value, dict) else (value,) if isinstance(value, str) else ()
        if any(_SURROGATE.search(text) for text in texts):
            raise BadInputError(
                f"{where}, {format_path(path)}: a lone surrogate is no Unicode text; correct it"
            )
        if len(path) > _MAX_DEPTH:
            raise BadInputError(f"{where} is nested more than {_MAX_DEPTH} deep; flatten it")
