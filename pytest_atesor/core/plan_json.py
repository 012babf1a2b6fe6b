"""The frozen plan as text: ``batch_plan.json``. Formatting and parsing are each other's inverse."""

import re
from collections.abc import Mapping
from typing import Final, NamedTuple, cast

from pytest_atesor.core.fields import read_number, read_text, read_texts
from pytest_atesor.core.jsontext import format_json, parse_json
from pytest_atesor.core.plan import BatchKind, Case, InputFile, Json, Plan, Platform, Target
from pytest_atesor.core.schema import check_schema
from pytest_atesor.core.versions import read_version
from pytest_atesor.errors import BadInputError, BundleError

__all__ = ["VersionedPlan", "format_plan", "format_runspec", "parse_versioned_plan"]

_CASE_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+@~-]{0,99}")


class VersionedPlan(NamedTuple):
    """A plan and the number of the schema that it was written in."""

    plan: Plan
    version: int


def format_plan(plan: Plan) -> str:
    """Return the text of ``batch_plan.json``."""
    summary: dict[str, Json] = {"fields": list(plan.summary_fields), "write_csv": plan.write_csv}
    return format_json({
        "schema_version": "batch_plan_v1",
        "batch_id": plan.batch_id,
        "kind": plan.kind.value,
        "name": plan.name,
        "source": plan.source,
        "platform": plan.platform.value,
        "target": plan.target.value,
        "created_at": plan.created_at,
        "inputs": [_dump_input(file) for file in plan.inputs],
        "settings": dict(plan.settings),
        "summary": summary,
        "cases": [_dump_case(case) for case in plan.cases],
    })


def parse_versioned_plan(text: str | bytes, where: str) -> VersionedPlan:
    """Return the plan in the text of a ``batch_plan.json``, and its schema's number.

    Of a newer schema, what is known of it. Raises BundleError, naming ``where`` and the place.
    """
    try:
        document = parse_json(text, where)
    except BadInputError as error:
        raise BundleError(str(error)) from None
    version = read_version(document, "batch_plan", where)
    try:
        # A plan has thousands of cases: the schema only speaks when something is wrong.
        return VersionedPlan(_build(cast("Mapping[str, Json]", document)), version)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        fault = error
    if version > 1:
        raise BundleError(f"{where} was written by a newer version and cannot be read ({fault!r}); update")
    try:
        check_schema(document, "batch_plan_v1", where)
    except BadInputError as error:
        raise BundleError(str(error)) from None
    raise BundleError(f"{where} is no plan: {fault}; restore the bundle from a copy")


def format_runspec(case: Case) -> str:
    """Return the text of a case's ``runspec.json``: the RunSpec that its runner gets, whole."""
    return format_json({
        "schema_version": "runspec_v1",
        "kind": case.kind,
        "timeout_seconds": case.timeout_s,
        case.kind: dict(case.spec),
    })


def _dump_input(file: InputFile) -> dict[str, Json]:
    return {"path": file.path, "sha256": file.sha256, "role": file.role, "imports": list(file.imports)}


def _build_input(value: Mapping[str, Json]) -> InputFile:
    return InputFile(
        path=read_text(value, "path"),
        sha256=read_text(value, "sha256"),
        role=read_text(value, "role"),
        imports=read_texts(value, "imports"),
    )


def _dump_case(case: Case) -> dict[str, Json]:
    return {
        "case_id": case.case_id,
        "label": case.label,
        "kind": case.kind,
        "timeout_s": case.timeout_s,
        "derived_name": case.derived_name,
        "marks": list(case.marks),
        "runspec": f"cases/{case.case_id}/runspec.json",
        "spec": dict(case.spec),
        **({"parameters": dict(case.parameters)} if case.parameters else {}),
    }


def _build(document: Mapping[str, Json]) -> Plan:
    summary = _read_object(document["summary"])
    write_csv = summary["write_csv"]
    if not isinstance(write_csv, bool):
        raise TypeError("write_csv is neither true nor false")
    return Plan(
        batch_id=read_text(document, "batch_id"),
        kind=BatchKind(read_text(document, "kind")),
        name=read_text(document, "name"),
        source=read_text(document, "source"),
        platform=Platform(read_text(document, "platform")),
        target=Target(read_text(document, "target")),
        cases=tuple(_build_case(case) for case in _read_objects(document, "cases")),
        inputs=tuple(_build_input(file) for file in _read_objects(document, "inputs")),
        settings=_read_object(document["settings"]),
        created_at=read_text(document, "created_at"),
        summary_fields=read_texts(summary, "fields"),
        write_csv=write_csv,
    )


def _build_case(value: Mapping[str, Json]) -> Case:
    case_id = read_text(value, "case_id")
    if _CASE_ID.fullmatch(case_id) is None:
        raise ValueError("a case_id is no name of a directory")
    timeout_s = read_number(value, "timeout_s")
    if timeout_s < 1:
        raise ValueError("a timeout_s is not positive")
    return Case(
        case_id=case_id,
        label=read_text(value, "label"),
        kind=read_text(value, "kind"),
        spec=_read_object(value["spec"]),
        timeout_s=timeout_s,
        derived_name=read_text(value, "derived_name"),
        marks=read_texts(value, "marks"),
        parameters=_read_object(value.get("parameters", {})),
    )


def _read_object(value: Json) -> Mapping[str, Json]:
    if not isinstance(value, dict):
        raise TypeError("an object is none")
    return value


def _read_objects(document: Mapping[str, Json], key: str) -> list[Mapping[str, Json]]:
    found = document[key]
    if not isinstance(found, list):
        raise TypeError(f"{key} is no array")
    return [_read_object(item) for item in found]
