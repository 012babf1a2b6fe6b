"""Documents checked against our JSON Schemas, with errors that a person can act on.

The schemas are package data of :mod:`pytest_atesor.core.schemas` (Draft 2020-12); each is read and compiled
once.
"""

import difflib
import functools
import json
from collections.abc import Callable, Mapping
from importlib import resources
from typing import Any, Final, cast

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError

from pytest_atesor.core.acceptance import Acceptance, compile_acceptance
from pytest_atesor.core.documents import Mark
from pytest_atesor.core.jsontext import JsonPath, format_path, show_value
from pytest_atesor.core.plan import Json
from pytest_atesor.errors import BadInputError

__all__ = ["check_schema", "load_schema", "locate", "near_matches"]

_KINDS: Final = {
    "array": "an array",
    "boolean": "true or false",
    "integer": "a whole number",
    "null": "null",
    "number": "a number",
    "object": "an object",
    "string": "a string",
}


@functools.cache
def load_schema(name: str) -> Mapping[str, Any]:
    """Return one of our schemas by its short name, such as "package_list_v1"."""
    file = resources.files("pytest_atesor.core.schemas").joinpath(f"{name}.schema.json")
    return cast("Mapping[str, Any]", json.loads(file.read_text("utf-8")))


def check_schema(
    document: Json,
    schema: str | Mapping[str, Any],
    where: str,
    marks: Mapping[JsonPath, Mark] | None = None,
    *,
    below: JsonPath = (),
) -> None:
    """Check ``document`` against a schema: one of ours by its short name, or another as a mapping.

    ``where`` is its file, in which it stands at ``below``. Raises BadInputError for the first fault in
    document order: one line with ``where`` (or the file and line that ``marks`` knows for the place), the
    JSON path in the file, the value, what is wanted, and how many more faults there are.
    """
    if isinstance(schema, str) and _acceptance(schema)(document):
        return
    validator = _validator(schema) if isinstance(schema, str) else Draft202012Validator(schema)
    found = sorted(validator.iter_errors(document), key=lambda error: _place(document, error))
    if not found:
        return
    others = len(found) - 1
    more = f" (and {others} more fault{'s' if others > 1 else ''})" if others else ""
    fault = _leaf(found[0])
    path = (*below, *fault.absolute_path)
    known = marks or {}
    raise BadInputError(
        f"{locate(path, where, known)}: {_describe(fault)}{_hint(fault, known.get(path))}{more}"
    )


def locate(path: JsonPath, where: str, marks: Mapping[JsonPath, Mark]) -> str:
    """Return a place in words: the file, the line when it is known, and the JSON path."""
    for length in range(len(path), -1, -1):
        if (mark := marks.get(path[:length])) is not None:
            line = "" if mark.line is None else f", line {mark.line}"
            return f"{mark.where}{line}, {format_path(path)}"
    return f"{where}, {format_path(path)}"


def near_matches(word: str, known: list[str]) -> str:
    """Return a hint such as ``; did you mean "zlib" or "zlib-ng"?``, empty when nothing is near."""
    folded: dict[str, list[str]] = {}
    for candidate in dict.fromkeys(known):
        folded.setdefault(candidate.casefold(), []).append(candidate)
    close = difflib.get_close_matches(word.casefold(), list(folded), n=3, cutoff=0.6)
    names = [candidate for match in close for candidate in folded[match]][:3]
    return f"; did you mean {' or '.join(show_value(name) for name in names)}?" if names else ""


@functools.cache
def _validator(name: str) -> Draft202012Validator:
    return Draft202012Validator(load_schema(name))


@functools.cache
def _acceptance(name: str) -> Acceptance:
    return compile_acceptance(load_schema(name))


def _place(document: Json, error: ValidationError) -> list[int]:
    """Return where an error stands in document order: the position of each step among its siblings."""
    place: list[int] = []
    for step in error.absolute_path:
        if isinstance(document, dict):
            place.append(list(document).index(str(step)))
            document = document[str(step)]
        elif isinstance(document, list):
            place.append(int(step))
            document = document[int(step)]
    return place


def _leaf(error: ValidationError) -> ValidationError:
    """Return the most telling error inside an anyOf/oneOf: the one that got deepest into the document."""
    while error.context:
        error = max(error.context, key=lambda inner: len(inner.absolute_path))
    return error


def _hint(error: ValidationError, mark: Mark | None) -> str:
    """Say how what is a number or a truth value becomes text where text is wanted."""
    if error.validator != "type" or "string" not in str(error.validator_value) or mark is None:
        return ""
    if mark.as_text:
        return f"; {mark.as_text}"
    return f"; quote it: {show_value(mark.written)}" if mark.written else ""


def _describe(error: ValidationError) -> str:
    keyword = str(error.validator)
    if keyword == "required":
        missing = next(key for key in cast("list[str]", error.validator_value) if key not in _keys(error))
        return f"the key {show_value(missing)} is missing; add it"
    if keyword in {"additionalProperties", "unevaluatedProperties"}:
        known = list(cast("dict[str, Any]", error.schema).get("properties", {}))
        unknown = next(key for key in _keys(error) if key not in known)
        hint = near_matches(unknown, known) or f"; known keys are {', '.join(known)}"
        return f"unknown key {show_value(unknown)}{hint}"
    wanted = _WANTED.get(keyword)
    return (
        error.message
        if wanted is None
        else f"{show_value(error.instance)} must {wanted(error.validator_value)}"
    )


def _keys(error: ValidationError) -> list[str]:
    return list(cast("dict[str, Json]", error.instance))


def _say_type(kinds: str | list[str]) -> str:
    return f"be {' or '.join(_KINDS[kind] for kind in ([kinds] if isinstance(kinds, str) else kinds))}"


_WANTED: Final[Mapping[str, Callable[[Any], str]]] = {
    "type": _say_type,
    "const": lambda value: f"be {show_value(value)}",
    "enum": lambda values: f"be one of {', '.join(show_value(value) for value in values)}",
    "minimum": lambda limit: f"be at least {limit}",
    "exclusiveMinimum": lambda limit: f"be more than {limit}",
    "maximum": lambda limit: f"be at most {limit}",
    "exclusiveMaximum": lambda limit: f"be less than {limit}",
    "minItems": lambda limit: f"have at least {limit} element{'s' if limit > 1 else ''}",
    "maxItems": lambda limit: f"have at most {limit} elements",
    "minLength": lambda limit: f"have at least {limit} character{'s' if limit > 1 else ''}",
    "maxLength": lambda limit: f"have at most {limit} characters",
    "minProperties": lambda limit: f"have at least {limit} key{'s' if limit > 1 else ''}",
    "maxProperties": lambda limit: f"have at most {limit} keys",
    "uniqueItems": lambda _: "have no element twice",
    "pattern": lambda pattern: f"match {pattern}",
}
