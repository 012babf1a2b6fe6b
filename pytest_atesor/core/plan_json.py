"""The frozen plan as text: ``batch_plan.json``. Formatting and parsing are each other's inverse."""

from collections.abc import Mapping
from typing import NamedTuple, cast

from pytest_atesor.core.jsontext import format_json, parse_json
from pytest_atesor.core.plan import BatchKind, Case, InputFile, Json, Plan, Platform, Target
from pytest_atesor.core.schema import check_schema
from pytest_atesor.core.versions import read_version
from pytest_atesor.errors import BadInputError, BundleError

__all__ = ["VersionedPlan", "format_plan", "format_runspec", "parse_plan", "parse_versioned_plan"]


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


def parse_plan(text: str | bytes, where: str) -> Plan:
    """Return the plan in the text of a ``batch_plan.json``.

    Raises BundleError, naming ``where`` and the place.
    """
    return parse_versioned_plan(text, where).plan


def parse_versioned_plan(text: str | bytes, where: str) -> VersionedPlan:
    """Return the plan and its schema's number; of a newer schema, what is known of it. Raises BundleError."""
    try:
        document = parse_json(text, where)
        version = read_version(document, "batch_plan", where)
        if version == 1:
            check_schema(document, "batch_plan_v1", where)
        return VersionedPlan(_build(cast("Mapping[str, Json]", document)), version)
    except BadInputError as error:
        raise BundleError(str(error)) from None
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BundleError(
            f"{where} was written by a newer version and cannot be read ({error!r}); update"
        ) from None


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
        path=cast("str", value["path"]),
        sha256=cast("str", value["sha256"]),
        role=cast("str", value["role"]),
        imports=tuple(cast("list[str]", value["imports"])),
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
    }


def _build(document: Mapping[str, Json]) -> Plan:
    inputs = cast("list[Mapping[str, Json]]", document["inputs"])
    cases = cast("list[Mapping[str, Json]]", document["cases"])
    summary = cast("Mapping[str, Json]", document["summary"])
    return Plan(
        batch_id=cast("str", document["batch_id"]),
        kind=BatchKind(cast("str", document["kind"])),
        name=cast("str", document["name"]),
        source=cast("str", document["source"]),
        platform=Platform(cast("str", document["platform"])),
        target=Target(cast("str", document["target"])),
        cases=tuple(_build_case(case) for case in cases),
        inputs=tuple(_build_input(file) for file in inputs),
        settings=cast("Mapping[str, Json]", document["settings"]),
        created_at=cast("str", document["created_at"]),
        summary_fields=tuple(cast("list[str]", summary["fields"])),
        write_csv=cast("bool", summary["write_csv"]),
    )


def _build_case(value: Mapping[str, Json]) -> Case:
    return Case(
        case_id=cast("str", value["case_id"]),
        label=cast("str", value["label"]),
        kind=cast("str", value["kind"]),
        spec=cast("Mapping[str, Json]", value["spec"]),
        timeout_s=cast("int", value["timeout_s"]),
        derived_name=cast("str", value["derived_name"]),
        marks=tuple(cast("list[str]", value["marks"])),
    )
