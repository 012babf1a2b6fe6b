"""What an agent says of its attempt (``result.json``): a stranger's words, checked and cleaned before use.

The agent's exit code decides the status; this file only adds the cause, the reason and the evidence.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from pytest_atesor.core.jsontext import parse_json
from pytest_atesor.core.outcome import Cause, Verdict
from pytest_atesor.core.plan import Json
from pytest_atesor.core.schema import check_schema
from pytest_atesor.core.text import sanitize_line

__all__ = ["AgentResult", "Artifact", "Phase", "parse_result"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """One step of the agent's work, in seconds."""

    name: str
    duration_s: float
    status: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """One output; ``path`` is as the agent wrote it and must not be followed unchecked."""

    path: str
    size_bytes: int
    type: str
    abi: str
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentResult:
    """The parts of a result that the harness uses; every text is one sanitized line."""

    verdict: Verdict | None
    cause: Cause | None
    reason: str
    source: Mapping[str, str]
    build_system: str
    phases: tuple[Phase, ...]
    artifacts: tuple[Artifact, ...]
    metrics: Mapping[str, Json]
    notes: tuple[str, ...]


def parse_result(text: str | bytes, where: str) -> AgentResult:
    """Return the result in the text of a ``result.json``. Raises BadInputError: one line with the place."""
    document = parse_json(text, where)
    check_schema(document, "result_v1", where)
    body = cast("dict[str, Json]", document)
    source = cast("Mapping[str, str | None]", body.get("source") or {})
    verdict, cause = cast("str | None", body.get("verdict")), cast("str | None", body.get("cause"))
    return AgentResult(
        verdict=None if verdict is None else Verdict(verdict),
        cause=None if cause is None else Cause(cause),
        reason=_line(body.get("reason")),
        source={key: _line(value) for key, value in source.items() if isinstance(value, str)},
        build_system=_line(body.get("build_system")),
        phases=tuple(_phase(phase) for phase in cast("list[dict[str, Json]]", body.get("phases", []))),
        artifacts=tuple(
            _artifact(found) for found in cast("list[dict[str, Json]]", body.get("artifacts", []))
        ),
        metrics=cast("Mapping[str, Json]", body.get("metrics", {})),
        notes=tuple(_line(note) for note in cast("list[str]", body.get("notes", []))),
    )


def _phase(value: Mapping[str, Json]) -> Phase:
    duration_s = float(cast("float", value["duration_s"]))
    return Phase(name=_line(value["name"]), duration_s=duration_s, status=_line(value["status"]))


def _artifact(value: Mapping[str, Json]) -> Artifact:
    return Artifact(
        path=_line(value["path"], 4096),
        size_bytes=int(cast("int", value["size_bytes"])),
        type=_line(value.get("type")),
        abi=_line(value.get("abi")),
        sha256=cast("str", value["sha256"]),
    )


def _line(value: Json, limit: int = 500) -> str:
    return sanitize_line(value, limit) if isinstance(value, str) else ""
