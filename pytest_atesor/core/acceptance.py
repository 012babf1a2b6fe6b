"""A quick yes for documents that certainly obey a JSON Schema; whatever is not certain is a no.

Ten thousand RunSpecs go through two schemas each, and the general validator takes most of their planning. A
yes here means that Draft 2020-12 accepts the document too; after a no the general validator decides and
explains. Keywords that are not known here make a no wherever they apply.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from pytest_atesor.core.plan import Json

__all__ = ["Acceptance", "compile_acceptance"]

Acceptance = Callable[[Json], bool]
"""Says whether a document certainly obeys a schema."""


def compile_acceptance(schema: Any) -> Acceptance:  # noqa: ANN401 - a schema is any JSON value, a wrong one too
    """Return the quick yes of a schema."""
    if schema is True:
        return _accept
    if not isinstance(schema, dict):
        return _decline
    checks = [_compile(keyword, value, schema) for keyword, value in schema.items() if keyword not in _SILENT]
    if len(checks) == 1:
        return checks[0]

    def accepts(value: Json) -> bool:
        for check in checks:  # noqa: SIM110 - all() with a generator takes twice the time
            if not check(value):
                return False
        return True

    return accepts


def _accept(_: Json) -> bool:
    return True


def _decline(_: Json) -> bool:
    return False


def _compile(keyword: str, wanted: Any, schema: Mapping[str, Any]) -> Acceptance:  # noqa: ANN401 - any JSON
    make = _CHECKS.get(keyword)
    return _decline if make is None else make(wanted, schema)


def _type(wanted: Any, _: Mapping[str, Any]) -> Acceptance:  # noqa: ANN401 - any JSON
    names = wanted if isinstance(wanted, list) else [wanted]
    # By the exact type: true is no number. A float that is whole is left to the general validator.
    types = frozenset(one for name in names for one in _TYPES.get(name, ()))
    return lambda value: type(value) in types


def _strings(wanted: Any, _: Mapping[str, Any]) -> Acceptance:  # noqa: ANN401 - any JSON
    # Of other values JSON has its own idea of what is equal: 1 and 1.0 are, 1 and true are not.
    allowed = frozenset(one for one in wanted if isinstance(one, str))
    return lambda value: type(value) is str and value in allowed


def _properties(wanted: Any, _: Mapping[str, Any]) -> Acceptance:  # noqa: ANN401 - any JSON
    checks = {key: compile_acceptance(schema) for key, schema in wanted.items()}

    def accepts(value: Json) -> bool:
        if not isinstance(value, dict):
            return True
        return all(checks[key](item) for key, item in value.items() if key in checks)

    return accepts


def _additional(wanted: Any, schema: Mapping[str, Any]) -> Acceptance:  # noqa: ANN401 - any JSON
    known = frozenset(schema.get("properties", ()))
    if wanted is False:
        return lambda value: not isinstance(value, dict) or known.issuperset(value)
    check = compile_acceptance(wanted)

    def accepts(value: Json) -> bool:
        if not isinstance(value, dict):
            return True
        return all(check(item) for key, item in value.items() if key not in known)

    return accepts


def _items(wanted: Any, _: Mapping[str, Any]) -> Acceptance:  # noqa: ANN401 - any JSON
    check = compile_acceptance(wanted)
    return lambda value: not isinstance(value, list) or all(map(check, value))


def _names(wanted: Any, _: Mapping[str, Any]) -> Acceptance:  # noqa: ANN401 - any JSON
    check = compile_acceptance(wanted)
    return lambda value: not isinstance(value, dict) or all(map(check, value))


def _required(wanted: Any, _: Mapping[str, Any]) -> Acceptance:  # noqa: ANN401 - any JSON
    keys = frozenset(wanted)
    return lambda value: not isinstance(value, dict) or keys <= value.keys()


def _pattern(wanted: Any, _: Mapping[str, Any]) -> Acceptance:  # noqa: ANN401 - any JSON
    search = re.compile(wanted).search
    return lambda value: not isinstance(value, str) or search(value) is not None


def _minimum(wanted: Any, _: Mapping[str, Any]) -> Acceptance:  # noqa: ANN401 - any JSON
    return lambda value: not isinstance(value, int | float) or value >= wanted


def _maximum(wanted: Any, _: Mapping[str, Any]) -> Acceptance:  # noqa: ANN401 - any JSON
    return lambda value: not isinstance(value, int | float) or value <= wanted


def _min_length(wanted: Any, _: Mapping[str, Any]) -> Acceptance:  # noqa: ANN401 - any JSON
    return lambda value: not isinstance(value, str) or len(value) >= wanted


def _min_items(wanted: Any, _: Mapping[str, Any]) -> Acceptance:  # noqa: ANN401 - any JSON
    return lambda value: not isinstance(value, list) or len(value) >= wanted


def _max_items(wanted: Any, _: Mapping[str, Any]) -> Acceptance:  # noqa: ANN401 - any JSON
    return lambda value: not isinstance(value, list) or len(value) <= wanted


_SILENT: Final = frozenset({"$schema", "$id", "title", "description"})
_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "array": (list,),
    "boolean": (bool,),
    "integer": (int,),
    "null": (type(None),),
    "number": (int, float),
    "object": (dict,),
    "string": (str,),
}
_CHECKS: Final[Mapping[str, Callable[[Any, Mapping[str, Any]], Acceptance]]] = {
    "type": _type,
    "const": lambda wanted, schema: _strings([wanted], schema),
    "enum": _strings,
    "properties": _properties,
    "additionalProperties": _additional,
    "items": _items,
    "propertyNames": _names,
    "required": _required,
    "pattern": _pattern,
    "minimum": _minimum,
    "maximum": _maximum,
    "minLength": _min_length,
    "minItems": _min_items,
    "maxItems": _max_items,
}
