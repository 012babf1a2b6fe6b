"""Sweeps: one base RunSpec and axes of values, expanded to the same frozen plan as a manifest."""

import hashlib
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Final, cast

from pytest_atesor.core.documents import Document, Mark, parse_document
from pytest_atesor.core.inputs import InputReader, InputText, read_named
from pytest_atesor.core.jsontext import JsonPath, format_json_line, show_value
from pytest_atesor.core.manifest import plan_case
from pytest_atesor.core.names import LONGEST_NAME_BYTES, make_case_ids, redact_text
from pytest_atesor.core.plan import BatchKind, Json, Plan
from pytest_atesor.core.planning import PlanFacts, describe_input
from pytest_atesor.core.runspec import Imports, Kind, parse_runspec
from pytest_atesor.core.schema import check_schema, locate, near_matches
from pytest_atesor.errors import BadInputError

__all__ = ["MOST_CASES", "has_sweep", "plan_sweep"]

MOST_CASES: Final = 10_000
_LONGEST_INDEX: Final = 9
_LARGEST_LIMIT: Final = 10**15
_FIXED: Final = ("schema_version", "kind", "imports")
_LABEL_CHARACTERS: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.+-_")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Axis:
    """A parameter as the user wrote it, where it stands in the base, its values, and its place.

    ``lines`` are the values as JSON, which is how they are told apart.
    """

    parameter: str
    path: JsonPath
    values: tuple[Json, ...]
    lines: tuple[str, ...]
    at: JsonPath


def has_sweep(source: InputText) -> bool:
    """Say whether an input is a sweep. Raises BadInputError when it looks like one and cannot be read."""
    if b"sweep" not in source.data:
        return False
    value = parse_document(source.data, source.path).value
    return isinstance(value, dict) and (
        "sweep" in value or str(value.get("schema_version", "")).startswith("sweep")
    )


def plan_sweep(source: InputText, reader: InputReader, kinds: Mapping[str, Kind], facts: PlanFacts) -> Plan:
    """Return the plan of a sweep: one case per combination that is not excluded, the last axis fastest.

    Nothing is written or started. Raises BadInputError for the first input that is not right, and for more
    than MOST_CASES combinations.
    """
    document = parse_document(source.data, source.path)
    check_schema(document.value, "sweep_v1", source.path, document.marks)
    sweep = cast("dict[str, Any]", cast("dict[str, Any]", document.value)["sweep"])
    text = read_named(reader.read_case, sweep["base"], ("sweep", "base"), source.path, document)
    imports = Imports(reader.read_import)
    written = parse_document(text.data, text.path)
    base = imports.resolve(written, text.path)
    parse_runspec(base, text.path, kinds)
    axes = _read_axes(sweep["axes"], base, source.path, document)
    combinations = _combine(axes, sweep, source.path, document)
    labels = _make_labels(axes, combinations, source.path)
    cases = []
    for label, case_id, values in zip(labels, make_case_ids(labels), combinations, strict=True):
        variant = _vary(base, axes, values, document)
        case = plan_case(label, case_id, parse_runspec(variant, text.path, kinds), text.path)
        named = {axis.parameter: _redact(value) for axis, value in zip(axes, values, strict=True)}
        cases.append(replace(case, parameters=named))
    summary = sweep.get("summary", {})
    base_file = replace(describe_input(text.path, text.data), role="runspec")
    return Plan(
        batch_id=facts.batch_id,
        kind=BatchKind.SWEEP,
        name=facts.name,
        source=source.path,
        platform=facts.platform,
        target=facts.target,
        cases=tuple(cases),
        inputs=(
            replace(describe_input(source.path, source.data), role="sweep"),
            replace(base_file, imports=imports.imports_of(written, text.path)),
            *imports.files,
        ),
        settings=dict(facts.settings),
        created_at=facts.created_at,
        summary_fields=tuple(dict.fromkeys([*(axis.parameter for axis in axes), *summary.get("fields", ())])),
        write_csv=summary.get("write_csv", False),
    )


def _read_axes(
    listed: Sequence[dict[str, Any]], base: Document, where: str, document: Document
) -> tuple[_Axis, ...]:
    axes: list[_Axis] = []
    for index, axis in enumerate(listed):
        at: JsonPath = ("sweep", "axes", index)
        place = locate((*at, "parameter"), where, document.marks)
        path = _find_parameter(axis["parameter"], base.value, place)
        for other in axes:
            width = min(len(path), len(other.path))
            if path[:width] == other.path[:width]:
                raise BadInputError(
                    f"{place}: {show_value(axis['parameter'])} and {show_value(other.parameter)} set the same"
                    " value; drop one axis"
                )
        if ("values" in axis) == ("range" in axis):
            raise BadInputError(
                f"{locate(at, where, document.marks)}: an axis has values or a range; give one"
            )
        values = axis["values"] if "values" in axis else _expand_range(axis["range"], at, where, document)
        if axis.get("as_text", False):
            values = [
                value if isinstance(value, str) else format_json_line(value).strip() for value in values
            ]
        lines = tuple(map(format_json_line, values))
        if len(set(lines)) < len(lines):
            raise BadInputError(
                f"{locate(at, where, document.marks)}: a value of"
                f" {show_value(axis['parameter'])} stands twice; remove one"
            )
        axes.append(_Axis(parameter=axis["parameter"], path=path, values=tuple(values), lines=lines, at=at))
    return tuple(axes)


def _find_parameter(parameter: str, base: Json, place: str) -> JsonPath:
    """Return the path of a value; a key that has dots itself is found, the longest first."""
    steps, value = parameter.split("."), base
    path: list[str | int] = []
    while steps:
        if isinstance(value, list):
            fits = (
                steps[0].isascii()
                and steps[0].isdigit()
                and len(steps[0]) <= _LONGEST_INDEX
                and int(steps[0]) < len(value)
            )
            if not fits:
                raise BadInputError(
                    f"{place}: unknown parameter {show_value(parameter)}: {steps[0]!a} is no index of a list"
                    f" of {len(value)}; correct the path"
                )
            path.append(int(steps[0]))
            value, steps = value[int(steps[0])], steps[1:]
            continue
        known = value if isinstance(value, dict) else {}
        widths = [n for n in range(len(steps), 0, -1) if ".".join(steps[:n]) in known]
        if not widths:
            hint = near_matches(steps[0], list(known)) or f"; known there: {', '.join(known) or 'nothing'}"
            raise BadInputError(
                f"{place}: unknown parameter {show_value(parameter)}: the base RunSpec has no {steps[0]!a}"
                f" there{hint}"
            )
        key = ".".join(steps[: widths[0]])
        path.append(key)
        value, steps = known[key], steps[widths[0] :]
    if path[0] in _FIXED:
        raise BadInputError(f"{place}: {show_value(parameter)} cannot be swept; use several sweeps")
    return tuple(path)


def _expand_range(limits: Mapping[str, Any], at: JsonPath, where: str, document: Document) -> list[Json]:
    for key in ("start", "stop", "step"):
        if abs(limits[key]) > _LARGEST_LIMIT:
            place = locate((*at, "range", key), where, document.marks)
            raise BadInputError(
                f"{place}: {show_value(limits[key])} is beyond 1e15, where a range ends to be exact; list the"
                " values"
            )
    start, stop, step = (Decimal(str(limits[key])) for key in ("start", "stop", "step"))
    place = locate((*at, "range"), where, document.marks)
    if step == 0 or (stop - start) / step < 0:
        raise BadInputError(f"{place}: step {limits['step']} does not lead from start to stop; correct it")
    if (stop - start) / step >= MOST_CASES:
        raise BadInputError(f"{place}: more than {MOST_CASES} values; use a larger step")
    count = int((stop - start) / step) + 1
    is_whole = all(isinstance(limits[key], int) for key in ("start", "step"))
    found = [start + index * step for index in range(count)]
    return [int(value) if is_whole else float(value) for value in found]


def _combine(
    axes: Sequence[_Axis], sweep: Mapping[str, Any], where: str, document: Document
) -> list[tuple[Json, ...]]:
    place = locate(("sweep", "axes"), where, document.marks)
    lengths = [len(axis.values) for axis in axes]
    is_zip = sweep.get("mode", "product") == "zip"
    if is_zip and len(set(lengths)) > 1:
        raise BadInputError(f"{place}: zip needs axes of one length, and they have {lengths}; correct them")
    count = lengths[0] if is_zip else math.prod(lengths)
    if count > MOST_CASES:
        raise BadInputError(
            f"{place}: {count} combinations; a sweep has at most {MOST_CASES}, use fewer values"
        )
    columns = [range(length) for length in lengths]
    every = zip(*columns, strict=True) if is_zip else itertools.product(*columns)
    excluded: dict[tuple[int, ...], set[tuple[str, ...]]] = {}  # by the axes that a rule speaks of
    for rule in _read_exclusions(axes, sweep.get("exclude", ()), where, document):
        excluded.setdefault(tuple(rule), set()).add(tuple(rule.values()))
    kept = [
        tuple(axis.values[at] for axis, at in zip(axes, places, strict=True))
        for places in every
        if not any(
            tuple(axes[index].lines[places[index]] for index in speaks_of) in rules
            for speaks_of, rules in excluded.items()
        )
    ]
    if not kept:
        raise BadInputError(f"{place}: every combination is excluded; remove an exclusion")
    return kept


def _read_exclusions(
    axes: Sequence[_Axis], rules: Sequence[Mapping[str, Json]], where: str, document: Document
) -> Iterator[dict[int, str]]:
    """Yield each rule as the values, in JSON, that it names, by the axes' numbers in order."""
    known = [axis.parameter for axis in axes]
    lines = [frozenset(axis.lines) for axis in axes]
    for index, rule in enumerate(rules):
        wanted: dict[int, str] = {}
        for parameter, value in rule.items():
            place = locate(("sweep", "exclude", index, parameter), where, document.marks)
            if parameter not in known:
                hint = near_matches(parameter, known) or f"; axes are {', '.join(known)}"
                raise BadInputError(f"{place}: {show_value(parameter)} is no axis{hint}")
            line = format_json_line(value)
            if line not in lines[known.index(parameter)]:
                raise BadInputError(f"{place}: {show_value(value)} is no value of that axis; correct it")
            wanted[known.index(parameter)] = line
        yield dict(sorted(wanted.items()))


def _make_labels(axes: Sequence[_Axis], combinations: Sequence[tuple[Json, ...]], where: str) -> list[str]:
    """Return labels such as ``size-10_level-2``; where cut or ambiguous, with a digest of the values."""
    lasts = [str(axis.path[-1]) for axis in axes]
    names = lasts if len(set(lasts)) == len(lasts) else [axis.parameter for axis in axes]
    plain = ["_".join(_say(n, v) for n, v in zip(names, values, strict=True)) for values in combinations]
    seen: dict[str, int] = {}
    for label in plain:
        seen[label.casefold()] = seen.get(label.casefold(), 0) + 1
    labels = [
        label
        if seen[label.casefold()] == 1 and len(label) <= LONGEST_NAME_BYTES and label[0].isalnum()
        else _add_digest(label, values)
        for label, values in zip(plain, combinations, strict=True)
    ]
    if len({label.casefold() for label in labels}) < len(labels):
        raise BadInputError(f"{where}: two combinations get one label; change a value")
    return labels


def _say(name: str, value: Json) -> str:
    text = redact_text(value) if isinstance(value, str) else format_json_line(value).strip()
    return "".join(c if c in _LABEL_CHARACTERS else "-" for c in f"{name}-{text}")


def _add_digest(label: str, values: Sequence[Json]) -> str:
    digest = hashlib.sha256(format_json_line(list(values)).encode()).hexdigest()[:12]
    return f"{label.lstrip('.+-_')[: LONGEST_NAME_BYTES - 13] or 'case'}-{digest}"


def _vary(base: Document, axes: Sequence[_Axis], values: Sequence[Json], document: Document) -> Document:
    """Return the base with the values set; a wrong one is then told with its place in the sweep."""
    value, marks = base.value, dict(base.marks)
    unknown = Mark(where=document.where, line=None)
    for axis, chosen in zip(axes, values, strict=True):
        value = _set(value, axis.path, chosen)
        known = (document.marks.get(axis.at[:length]) for length in range(len(axis.at), -1, -1))
        mark = next((mark for mark in known if mark is not None), unknown)
        marks[axis.path] = replace(mark, as_text="add as_text: true to its axis")
    return Document(value=value, marks=marks, where=base.where)


def _set(value: Any, path: JsonPath, chosen: Json) -> Json:  # noqa: ANN401 - an object or array, by the path
    if not path:
        return chosen
    copy = value.copy()
    copy[path[0]] = _set(value[path[0]], path[1:], chosen)
    return cast("Json", copy)


def _redact(value: Json) -> Json:
    return redact_text(value) if isinstance(value, str) else value
