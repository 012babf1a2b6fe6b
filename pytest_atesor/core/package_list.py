"""Package lists: the JSON files that name what a batch ports.

Parsing promises entries that are safe to plan with: unique names fit for a path, URLs and refs that no
program takes for an option, marks that pytest can select by, and limits with the list's defaults filled in.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from pytest_atesor.core.jsontext import JsonPath, format_path, parse_json, show_value
from pytest_atesor.core.names import derive_marks, redact_text
from pytest_atesor.core.plan import DEFAULT_MAX_ATTEMPTS, DEFAULT_TIMEOUT_S, Json
from pytest_atesor.core.port_body import find_port_faults, list_mark_words
from pytest_atesor.core.schema import check_schema
from pytest_atesor.errors import BadInputError

__all__ = ["PackageEntry", "PackageList", "parse_package_list"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageEntry:
    """One package, with the list's defaults applied. ``timeout_s`` is seconds.

    ``marks`` are pytest mark names.
    """

    name: str
    url: str
    ref: str | None
    mirrors: tuple[str, ...]
    lang: str | None
    group: str | None
    tags: tuple[str, ...]
    marks: tuple[str, ...]
    max_attempts: int
    timeout_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageList:
    """The entries of one list file, in file order; their names differ."""

    entries: tuple[PackageEntry, ...]


def parse_package_list(text: str | bytes, where: str) -> PackageList:
    """Return the list in ``text``; ``where`` is the file as the user named it.

    Raises BadInputError: one line with ``where``, the JSON path, the value and what to do.
    """
    document = parse_json(text, where)
    check_schema(document, "package_list_v1", where)
    body = cast("dict[str, Json]", document)
    defaults = cast("Mapping[str, int]", body.get("defaults", {}))
    entries = tuple(
        _parse_entry(raw, defaults, ("packages", index), where)
        for index, raw in enumerate(cast("list[dict[str, Json]]", body["packages"]))
    )
    _refuse_duplicates(entries, where)
    return PackageList(entries=entries)


def _parse_entry(
    raw: Mapping[str, Json], defaults: Mapping[str, int], at: JsonPath, where: str
) -> PackageEntry:
    for fault in find_port_faults(raw):
        raise _refuse(raw, fault.path, fault.reason, at, where)
    marks: dict[str, None] = {}
    for path, word in list_mark_words(raw):
        try:
            marks.update(dict.fromkeys(derive_marks(word)))
        except ValueError as error:
            raise _refuse(raw, path, str(error), at, where) from None
    return PackageEntry(
        name=cast("str", raw["name"]),
        url=cast("str", raw["url"]),
        ref=cast("str | None", raw.get("ref")),
        mirrors=tuple(cast("list[str]", raw.get("mirrors", []))),
        lang=cast("str | None", raw.get("lang")),
        group=cast("str | None", raw.get("group")),
        tags=tuple(cast("list[str]", raw.get("tags", []))),
        marks=tuple(marks),
        max_attempts=int(
            cast("int", raw.get("max_attempts", defaults.get("max_attempts", DEFAULT_MAX_ATTEMPTS)))
        ),
        timeout_s=int(
            cast("int", raw.get("timeout_seconds", defaults.get("timeout_seconds", DEFAULT_TIMEOUT_S)))
        ),
    )


def _refuse(raw: Mapping[str, Json], path: JsonPath, reason: str, at: JsonPath, where: str) -> BadInputError:
    value: Json = dict(raw)
    for step in path:
        value = cast("Any", value)[step]
    shown = show_value(redact_text(cast("str", value)))
    return BadInputError(f"{where}, {format_path((*at, *path))}: {shown} is refused: {reason}")


def _refuse_duplicates(entries: tuple[PackageEntry, ...], where: str) -> None:
    first: dict[str, int] = {}
    for index, entry in enumerate(entries):
        earlier = first.setdefault(entry.name, index)
        if earlier != index:
            raise BadInputError(
                f"{where}, packages[{index}].name: {show_value(entry.name)} stands already in "
                f"packages[{earlier}]; rename or remove one of them"
            )
