"""Batch manifests: the files that name the RunSpecs of a batch, and the plan that they become."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

from pytest_atesor.core.documents import Document, parse_document
from pytest_atesor.core.inputs import InputReader, InputText, check_relative, read_named
from pytest_atesor.core.jsontext import JsonPath, show_value
from pytest_atesor.core.names import derive_marks, make_case_ids
from pytest_atesor.core.plan import BatchKind, Case, InputFile, Plan
from pytest_atesor.core.planning import PlanFacts, describe_input
from pytest_atesor.core.runspec import Imports, Kind, RunSpec, parse_runspec
from pytest_atesor.core.schema import check_schema, locate
from pytest_atesor.errors import BadInputError

__all__ = ["Manifest", "ManifestCase", "parse_manifest", "plan_case", "plan_manifest"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestCase:
    """One line of a manifest.

    The label that the user gave and the RunSpec's path relative to the manifest.
    """

    label: str
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """A checked manifest. Labels differ, and so do paths as far as their text tells."""

    cases: tuple[ManifestCase, ...]
    summary_fields: tuple[str, ...]
    write_csv: bool
    document: Document


def parse_manifest(text: str | bytes, where: str) -> Manifest:
    """Return the manifest in ``text`` (JSON when ``where`` ends in .json, else YAML).

    Raises BadInputError: one line with the file, line, JSON path, value, and what to do.
    """
    document = parse_document(text, where)
    _refuse_others(document, where)
    check_schema(document.value, "batch_v1", where, document.marks)
    batch = cast("dict[str, Any]", cast("dict[str, Any]", document.value)["batch"])
    summary = batch.get("summary", {})
    labels: dict[str, int] = {}
    paths: dict[str, int] = {}
    cases: list[ManifestCase] = []
    for index, case in enumerate(batch["cases"]):
        at: JsonPath = ("batch", "cases", index)
        label = _check_label(case["label"], (*at, "label"), where, document)
        path = _check_path(case["runspec"], (*at, "runspec"), where, document)
        _refuse_twice(labels, label, (*at, "label"), where, document)
        _refuse_twice(paths, path, (*at, "runspec"), where, document)
        cases.append(ManifestCase(label=label, path=path))
    return Manifest(
        cases=tuple(cases),
        summary_fields=tuple(dict.fromkeys(summary.get("fields", ()))),
        write_csv=summary.get("write_csv", False),
        document=document,
    )


def plan_manifest(
    source: InputText, reader: InputReader, kinds: Mapping[str, Kind], facts: PlanFacts
) -> Plan:
    """Return the plan of a manifest: every RunSpec read, its imports merged, checked, in manifest order.

    Nothing is written or started. Raises BadInputError for the first input that is not right.
    """
    manifest = parse_manifest(source.data, source.path)
    imports = Imports(reader.read_import)
    case_ids = make_case_ids(case.label for case in manifest.cases)
    files: list[InputFile] = []
    cases: list[Case] = []
    seen: dict[str, int] = {}
    for index, (listed, case_id) in enumerate(zip(manifest.cases, case_ids, strict=True)):
        at: JsonPath = ("batch", "cases", index, "runspec")
        text = read_named(reader.read_case, listed.path, at, source.path, manifest.document)
        _refuse_twice(seen, text.identity, at, source.path, manifest.document)
        document = parse_document(text.data, text.path)
        file = replace(describe_input(text.path, text.data), role="runspec")
        files.append(replace(file, imports=imports.imports_of(document, text.path)))
        runspec = parse_runspec(imports.resolve(document, text.path), text.path, kinds)
        cases.append(plan_case(listed.label, case_id, runspec, text.path))
    return Plan(
        batch_id=facts.batch_id,
        kind=BatchKind.MANIFEST,
        name=facts.name,
        source=source.path,
        platform=facts.platform,
        target=facts.target,
        cases=tuple(cases),
        inputs=(replace(describe_input(source.path, source.data), role="manifest"), *files, *imports.files),
        settings=dict(facts.settings),
        created_at=facts.created_at,
        summary_fields=manifest.summary_fields,
        write_csv=manifest.write_csv,
    )


def plan_case(label: str, case_id: str, runspec: RunSpec, where: str) -> Case:
    """Return the case that a RunSpec becomes.

    Raises BadInputError for a word that cannot be a mark.
    """
    traits = runspec.kind.describe(runspec.body)
    words: list[tuple[JsonPath, str]] = [(("tags", index), tag) for index, tag in enumerate(runspec.tags)]
    words += [((runspec.kind.name, *path), word) for path, word in traits.mark_words]
    marks: dict[str, None] = {}
    for path, word in words:
        try:
            marks.update(dict.fromkeys(derive_marks(word)))
        except ValueError as error:
            place = locate(path, where, runspec.document.marks)
            raise BadInputError(f"{place}: {show_value(word)} is refused: {error}") from None
    return Case(
        case_id=case_id,
        label=label,
        kind=runspec.kind.name,
        spec=runspec.body,
        timeout_s=runspec.timeout_s,
        derived_name=traits.derived_name or case_id,
        marks=tuple(marks),
    )


def _refuse_others(document: Document, where: str) -> None:
    value = document.value
    if isinstance(value, dict) and "batch" not in value:
        if "sweep" in value:
            raise BadInputError(f"{where} is a sweep, not a batch manifest; run it with `atesor sweep run`")
        if "packages" in value:
            raise BadInputError(
                f"{where} is a package list, not a batch manifest; run it with --list or --atesor-list"
            )
        if "kind" in value:
            raise BadInputError(
                f"{where} is a single RunSpec, not a batch manifest; name it in a manifest's batch.cases"
            )


def _check_label(label: str, at: JsonPath, where: str, document: Document) -> str:
    if not label.strip() or not label.isprintable() or len(label) > 300:  # noqa: PLR2004 - the bound is told below
        place = locate(at, where, document.marks)
        raise BadInputError(
            f"{place}: {show_value(label)} is refused: a label is 1 to 300 printable characters"
        )
    return label


def _check_path(path: str, at: JsonPath, where: str, document: Document) -> str:
    try:
        return check_relative(path)
    except ValueError as error:
        place = locate(at, where, document.marks)
        raise BadInputError(f"{place}: {show_value(path)} is refused: {error}") from None


def _refuse_twice(seen: dict[str, int], value: str, at: JsonPath, where: str, document: Document) -> None:
    index = cast("int", at[2])
    earlier = seen.setdefault(value, index)
    if earlier != index:
        place = locate(at, where, document.marks)
        raise BadInputError(
            f"{place}: {show_value(value)} stands already in batch.cases[{earlier}]; each case needs its own"
        )
