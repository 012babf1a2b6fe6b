"""Documents that users write, in YAML or JSON: the value, and for each place in it file, line and spelling.

YAML is read as strictly as JSON: duplicate keys, keys that are no text, and words that YAML 1.1 reads as
something else than they look like (``no``, ``010``, ``1:30``) are refused with a hint; aliases may expand to
a limited number of nodes. Dates stay text.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, Never

import yaml

from pytest_atesor.core.jsontext import JsonPath, format_path, parse_json, show_value
from pytest_atesor.core.plan import Json
from pytest_atesor.errors import BadInputError

__all__ = ["Document", "Mark", "find_marks", "parse_document", "parse_yaml"]

ALIAS_BUDGET: Final = 100_000
_DEEPEST: Final = 100
_TAG: Final = "tag:yaml.org,2002:"
_INTEGER: Final = re.compile(r"[-+]?(?:0|[1-9][0-9]*)")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_LONGEST_INTEGER: Final = 100
_FLOAT: Final = re.compile(r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
_Loader: Final[type[Any]] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """Where a value stands.

    The file as the user knows it, the line from 1 (None: not known), how an unquoted scalar is written, and
    what makes the value a text where quotes do not.
    """

    where: str
    line: int | None
    written: str | None = None
    as_text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A parsed document. ``marks`` has the places that are known; a JSON document has none, but its file."""

    value: Json
    marks: Mapping[JsonPath, Mark] = field(default_factory=dict)
    where: str = ""


@lru_cache(maxsize=1)  # one input is asked what it is, by several, before it is planned
def parse_document(text: str | bytes, where: str) -> Document:
    """Return the document in ``text``: JSON when ``where`` ends in .json, else YAML. Raises BadInputError.

    The document is shared between callers; nobody changes its values.
    """
    if where.lower().endswith(".json"):
        return Document(value=parse_json(text, where), where=where)
    return parse_yaml(text, where)


def find_marks(document: Document) -> Mapping[JsonPath, Mark]:
    """Return a mark for each place of a document, so that it keeps its file among the values of others."""
    if document.marks or not document.where:
        return document.marks
    return dict.fromkeys(_list_places(document.value, ()), Mark(where=document.where, line=None))


def _list_places(value: Json, path: JsonPath) -> Iterator[JsonPath]:
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from _list_places(item, (*path, key))


def parse_yaml(text: str | bytes, where: str) -> Document:
    """Return the one YAML document in ``text``. Raises BadInputError.

    One line with ``where``, line and hint.
    """
    try:
        decoded = text.decode("utf-8-sig") if isinstance(text, bytes) else text.removeprefix("\ufeff")
        node = _Loader(decoded).get_single_node()
    except UnicodeDecodeError as error:
        raise BadInputError(f"{where} is not UTF-8 (byte {error.start}); save it as UTF-8") from None
    except yaml.YAMLError as error:
        raise BadInputError(f"{where} is not valid YAML: {_explain(error)}; correct it there") from None
    except RecursionError:
        raise BadInputError(f"{where} is nested too deeply to be read; flatten it") from None
    if node is None:
        raise BadInputError(f"{where} is empty; write a document")
    builder = _Builder(where)
    return Document(value=builder.build(node, ()), marks=builder.marks, where=where)


class _Builder:
    """Turns nodes into values and remembers where they stand."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._seen: set[int] = set()
        self._open: set[int] = set()
        self._expanded = 0
        self.marks: dict[JsonPath, Mark] = {}

    def build(self, node: yaml.Node, path: JsonPath) -> Json:
        self._count(node, path)
        plain = isinstance(node, yaml.ScalarNode) and not node.style
        written = node.value if plain else None
        self.marks[path] = Mark(where=self._where, line=_line(node), written=written)
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, path)
        self._open.add(id(node))
        try:
            if isinstance(node, yaml.SequenceNode):
                self._check_tag(node, "seq", path)
                return [self.build(item, (*path, index)) for index, item in enumerate(node.value)]
            self._check_tag(node, "map", path)
            return self._mapping(node, path)
        finally:
            self._open.discard(id(node))

    def _mapping(self, node: yaml.Node, path: JsonPath) -> dict[str, Json]:
        merged: dict[str, Json] = {}
        own: dict[str, tuple[int, yaml.Node]] = {}
        for key_node, value_node in node.value:
            if key_node.tag == f"{_TAG}merge":
                merged = {**self._merge(value_node, path), **merged}
                continue
            key = self._key(key_node, path)
            if key in own:
                lines = f"lines {own[key][0]} and {_line(key_node)}"
                self._fail(key_node, (*path, key), f"the key stands twice, in {lines}; remove one of them")
            own[key] = (_line(key_node), value_node)
        return merged | {key: self.build(value_node, (*path, key)) for key, (_, value_node) in own.items()}

    def _merge(self, node: yaml.Node, path: JsonPath) -> dict[str, Json]:
        parts = node.value if isinstance(node, yaml.SequenceNode) else [node]
        merged: dict[str, Json] = {}
        for part in parts:
            value = self.build(part, path)
            if not isinstance(value, dict):
                self._fail(part, path, "<< takes a mapping or a list of mappings")
            merged = {**value, **merged}
        return merged

    def _key(self, node: yaml.Node, path: JsonPath) -> str:
        if not isinstance(node, yaml.ScalarNode):
            self._fail(node, path, "a key must be text")
        value = self._scalar(node, path)
        if not isinstance(value, str):
            self._fail(node, path, f"the key {node.value} is not text; quote it: {show_value(node.value)}")
        return value

    def _scalar(self, node: yaml.ScalarNode, path: JsonPath) -> Json:
        text: str = node.value
        tag = node.tag.removeprefix(_TAG)
        if tag in {"str", "timestamp", "value"}:
            return self._text(node, text, path)
        read = _SCALARS.get(tag)
        if read is None:
            self._fail(node, path, f"the tag {node.tag} is not supported; remove it")
        try:
            return read(text)
        except (ValueError, KeyError):
            look = f"{text} without quotes is not what it looks like in YAML"
            self._fail(
                node, path, f"{look}; quote it for text: {show_value(text)}, or write a plain {_NAMES[tag]}"
            )

    def _text(self, node: yaml.Node, text: str, path: JsonPath) -> str:
        if not text.isascii() and _SURROGATE.search(text):
            self._fail(node, path, "a lone surrogate is no Unicode text; correct it")
        return text

    def _count(self, node: yaml.Node, path: JsonPath) -> None:
        if id(node) in self._open:
            self._fail(node, path, "an alias contains itself; write it out")
        if id(node) in self._seen:
            self._expanded += 1
            if self._expanded > ALIAS_BUDGET:
                self._fail(node, path, f"its aliases expand to more than {ALIAS_BUDGET} values; write fewer")
        self._seen.add(id(node))
        if len(path) > _DEEPEST:
            self._fail(node, (), f"it is nested more than {_DEEPEST} deep; flatten it")

    def _check_tag(self, node: yaml.Node, tag: str, path: JsonPath) -> None:
        if node.tag != f"{_TAG}{tag}":
            self._fail(node, path, f"the tag {node.tag} is not supported; remove it")

    def _fail(self, node: yaml.Node, path: JsonPath, what: str) -> Never:
        raise BadInputError(f"{self._where}, line {_line(node)}, {format_path(path)}: {what}")


_NAMES: Final = {"int": "number", "float": "number", "bool": "true or false", "null": "null"}


def _read_int(text: str) -> Json:
    if not _INTEGER.fullmatch(text) or len(text) > _LONGEST_INTEGER:
        raise ValueError(text)
    return int(text)


def _read_float(text: str) -> Json:
    if not _FLOAT.fullmatch(text) or abs(float(text)) == float("inf"):
        raise ValueError(text)
    return float(text)


_SCALARS: Final[Mapping[str, Callable[[str], Json]]] = {
    "int": _read_int,
    "float": _read_float,
    "bool": lambda text: {"true": True, "false": False}[text.lower()],
    "null": lambda _: None,
}


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


def _explain(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "it cannot be read"
    context = getattr(error, "context", None)
    said = f"{context}: {problem}" if context and context not in problem else str(problem)
    return f"line {mark.line + 1}, column {mark.column + 1}: {said}" if mark else said
