"""RunSpecs: what one case does, by kind, after its imports are merged in.

A kind brings the JSON Schema of its body; ``port`` and ``command`` are built in (:mod:`runspec_kinds`),
others come from plugins and are nothing special here.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple, cast

from pytest_atesor.core.documents import Document, parse_document
from pytest_atesor.core.inputs import InputText, read_named
from pytest_atesor.core.jsontext import JsonPath, show_value
from pytest_atesor.core.merge import merge_documents
from pytest_atesor.core.names import redact_text
from pytest_atesor.core.plan import DEFAULT_TIMEOUT_S, InputFile, Json
from pytest_atesor.core.planning import describe_input
from pytest_atesor.core.port_body import Fault
from pytest_atesor.core.schema import check_schema, locate, near_matches
from pytest_atesor.errors import BadInputError

__all__ = ["Fault", "Imports", "Kind", "RunSpec", "Traits", "parse_runspec"]

_OWN_KEYS: Final = ("schema_version", "imports", "kind", "timeout_seconds", "tags")


class Traits(NamedTuple):
    """What planning needs to know of a body.

    What excludes it from running beside others, and words for marks.
    """

    derived_name: str | None = None
    mark_words: tuple[tuple[JsonPath, str], ...] = ()


def _no_faults(_: Mapping[str, Json]) -> Iterable[Fault]:
    return ()


def _no_traits(_: Mapping[str, Json]) -> Traits:
    return Traits()


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of RunSpec: the key of its body, the body's schema, and what the schema cannot say.

    Cases of a kind that ``needs_sandbox`` get one from the engine, new for each case.
    """

    name: str
    schema: str | Mapping[str, Any]
    find_faults: Callable[[Mapping[str, Json]], Iterable[Fault]] = _no_faults
    describe: Callable[[Mapping[str, Json]], Traits] = _no_traits
    needs_sandbox: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSpec:
    """A checked RunSpec, its imports merged in. ``document`` keeps the origin of every value."""

    kind: Kind
    body: Mapping[str, Json]
    timeout_s: int
    tags: tuple[str, ...]
    document: Document


class Imports:
    """Merges fragments into documents, reading and parsing each fragment once."""

    def __init__(self, read: Callable[[str], InputText]) -> None:
        self._read = read
        self._resolved: dict[str, Document] = {}
        self._texts: dict[str, InputText] = {}
        self._files: dict[str, InputFile] = {}

    @property
    def files(self) -> tuple[InputFile, ...]:
        """All fragments that were merged anywhere, in the order in which they were first needed."""
        return tuple(self._files.values())

    def resolve(self, document: Document, where: str) -> Document:
        """Return ``document`` on top of its imports, in order.

        Raises BadInputError for cycles and bad paths.
        """
        return self._resolve(document, where, ())

    def imports_of(self, document: Document, where: str) -> tuple[str, ...]:
        """Return the paths that a document imports itself, as they are shown."""
        return tuple(
            self._fetch(path, index, document, where).path for index, path in _list_imports(document, where)
        )

    def _resolve(self, document: Document, where: str, chain: tuple[str, ...]) -> Document:
        listed = tuple(_list_imports(document, where))
        if not listed:
            return document
        merged = Document(value={})
        for index, path in listed:
            text = self._fetch(path, index, document, where)
            if text.identity in chain:
                place = locate(("imports", index), where, document.marks)
                raise BadInputError(
                    f"{place}: {show_value(path)} imports itself in a circle; remove one import"
                )
            merged = merge_documents(merged, self._fragment(text, (*chain, text.identity)))
        return merge_documents(merged, document)

    def _fetch(self, path: str, index: int, document: Document, where: str) -> InputText:
        if path not in self._texts:
            self._texts[path] = read_named(self._read, path, ("imports", index), where, document)
        return self._texts[path]

    def _fragment(self, text: InputText, chain: tuple[str, ...]) -> Document:
        if text.identity not in self._resolved:
            document = parse_document(text.data, text.path)
            if not isinstance(document.value, dict):
                raise BadInputError(f"{text.path} must be an object of RunSpec keys; correct it")
            file = replace(describe_input(text.path, text.data), role="import")
            self._files[text.identity] = replace(file, imports=self.imports_of(document, text.path))
            self._resolved[text.identity] = self._resolve(document, text.path, chain)
        return self._resolved[text.identity]


def parse_runspec(document: Document, where: str, kinds: Mapping[str, Kind]) -> RunSpec:
    """Return the RunSpec in a document whose imports are merged in.

    Raises BadInputError, with the file and line that a value came from, for anything but a single-run
    RunSpec.
    """
    _refuse_groups(document, where)
    check_schema(document.value, "runspec_v1", where, document.marks)
    value = cast("Mapping[str, Json]", document.value)
    name = cast("str", value["kind"])
    kind = kinds.get(name)
    if kind is None:
        hint = near_matches(name, list(kinds)) or f"; known kinds are {', '.join(sorted(kinds))}"
        raise BadInputError(
            f"{locate(('kind',), where, document.marks)}: unknown kind {show_value(name)}{hint}"
        )
    _check_keys(value, kind, where, document)
    body = cast("Mapping[str, Json]", value[kind.name])
    check_schema(cast("Json", body), kind.schema, where, document.marks, below=(kind.name,))
    for fault in kind.find_faults(body):
        path = (kind.name, *fault.path)
        value_there = _value_at(document.value, path)
        shown = show_value(redact_text(value_there) if isinstance(value_there, str) else value_there)
        raise BadInputError(f"{locate(path, where, document.marks)}: {shown} is refused: {fault.reason}")
    return RunSpec(
        kind=kind,
        body=body,
        timeout_s=int(cast("int", value.get("timeout_seconds", DEFAULT_TIMEOUT_S))),
        tags=tuple(cast("Sequence[str]", value.get("tags", ()))),
        document=document,
    )


def _refuse_groups(document: Document, where: str) -> None:
    value = document.value
    if not isinstance(value, dict):
        return
    version = str(value.get("schema_version", ""))
    if "sweep" in value or version.startswith("sweep"):
        raise BadInputError(
            f"{where} is a sweep: a batch takes single-run RunSpecs; "
            "run it by itself with `atesor sweep run`, or list its variants"
        )
    if "batch" in value or version.startswith("batch"):
        raise BadInputError(
            f"{where} is a batch manifest: a batch takes single-run RunSpecs; list its cases instead"
        )


def _check_keys(value: Mapping[str, Json], kind: Kind, where: str, document: Document) -> None:
    known = [*_OWN_KEYS, kind.name]
    for key in value:
        if key not in known:
            hint = near_matches(key, known) or f"; known keys are {', '.join(known)}"
            raise BadInputError(
                f"{locate((key,), where, document.marks)}: unknown key {show_value(key)}{hint}"
            )
    if not isinstance(value.get(kind.name), dict):
        raise BadInputError(
            f"{locate(('kind',), where, document.marks)}: a RunSpec of kind {kind.name} needs an object "
            f"{show_value(kind.name)}; add it"
        )


def _value_at(value: Json, path: JsonPath) -> Json:
    for step in path:
        value = cast("Any", value)[step]
    return value


def _list_imports(document: Document, where: str) -> list[tuple[int, str]]:
    imports = document.value.get("imports", []) if isinstance(document.value, dict) else []
    if not isinstance(imports, list) or not all(isinstance(path, str) for path in imports):
        place = locate(("imports",), where, document.marks)
        raise BadInputError(
            f"{place}: {show_value(imports)} must be an array of paths below the profile root"
        )
    return list(enumerate(cast("list[str]", imports)))
