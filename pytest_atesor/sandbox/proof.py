"""The proof of an image's native tools: what was compared, what came of it, and its file in the image store.

A proof belongs to one image, by the digest of its recipe and the time at which it was made. Every start of an
agent reads one, so nothing here imports what only making one needs.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple, cast

from pytest_atesor.core.jsontext import format_json, parse_json
from pytest_atesor.core.plan import Json
from pytest_atesor.core.text import sanitize_line
from pytest_atesor.errors import BadInputError

__all__ = [
    "MAY_DIFFER",
    "CanaryFile",
    "Likeness",
    "Proof",
    "describe_proof",
    "format_proof",
    "parse_proof",
    "read_proof",
]

MAY_DIFFER: Final[Mapping[str, str]] = {
    ".note.gnu.build-id": "a digest of the whole file, debug information included",
    ".comment": "names the compiler, which is another program of the same version",
    ".debug*": "names directories and options of the compiler; nothing of it is executed",
    ".symtab, .strtab, .shstrtab": "compared symbol by symbol and section by section instead of byte by byte",
}
"""The sections whose bytes may differ, and why; everything else must be the same."""

_SCHEMA: Final = "image_proof_v1"
_LARGEST_BYTES: Final = 1_000_000


class Likeness(NamedTuple):
    """How two files differ: a line for each part that matters, and the sections that may differ and do.

    Without differences the two agree; without both they are the same, byte for byte.
    """

    differences: tuple[str, ...] = ()
    allowed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CanaryFile:
    """One file that both builds made: its name, the native one's size and SHA-256, how the two compare."""

    name: str
    size_bytes: int
    sha256: str
    likeness: Likeness


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """What the canaries said of one image. ``reason`` is one line, "" when they passed.

    ``recipe`` and ``created`` are the image's labels, ``canaries`` the digest of the canaries' sources.
    ``native`` maps packages of native tools to versions, ``emulated`` the riscv64 tools that they were
    compared with.
    """

    image: str
    recipe: str
    created: str
    engine: str
    canaries: str
    reason: str
    duration_s: float
    files: tuple[CanaryFile, ...] = ()
    native: Mapping[str, str] = field(default_factory=dict)
    emulated: Mapping[str, str] = field(default_factory=dict)

    @property
    def has_passed(self) -> bool:
        """Say whether the native tools may be used."""
        return not self.reason


def describe_proof(proof: Proof) -> str:
    """Return one line for a person."""
    if not proof.has_passed:
        return f"native tools refused: {proof.reason}"
    same = sum(not file.likeness.allowed for file in proof.files)
    return (
        f"native tools proven: all {len(proof.files)} canary files agree with those of the emulated tools, "
        f"{same} byte for byte ({proof.engine}, {proof.duration_s:.0f} s)"
    )


def format_proof(proof: Proof) -> str:
    """Return the text of the proof's file."""
    return format_json({
        "schema_version": _SCHEMA,
        "image": proof.image,
        "recipe": proof.recipe,
        "created": proof.created,
        "engine": proof.engine,
        "canaries": proof.canaries,
        "passed": proof.has_passed,
        "reason": sanitize_line(proof.reason, 300),
        "duration_s": round(proof.duration_s, 1),
        "may_differ": dict(MAY_DIFFER),
        "files": [_format_file(file) for file in proof.files],
        "native_tools": dict(proof.native),
        "emulated_tools": dict(proof.emulated),
    })


def parse_proof(text: str | bytes, where: str) -> Proof:
    """Return the proof in ``text``. Raises BadInputError for what is none."""
    document = parse_json(text, where)
    if not isinstance(document, dict) or document.get("schema_version") != _SCHEMA:
        raise BadInputError(f"{where} is no {_SCHEMA}; atesor setup --rebuild writes it anew")
    try:
        return _parse(document)
    except (KeyError, TypeError) as error:
        raise BadInputError(
            f"{where} is damaged ({error!r}); atesor setup --rebuild writes it anew"
        ) from None


def _parse(document: Mapping[str, Json]) -> Proof:
    files = cast("list[dict[str, Json]]", document["files"])
    return Proof(
        image=str(document["image"]),
        recipe=str(document["recipe"]),
        created=str(document["created"]),
        engine=str(document["engine"]),
        canaries=str(document["canaries"]),
        reason=str(document["reason"]),
        duration_s=cast("float", document["duration_s"]),
        files=tuple(_parse_file(file) for file in files),
        native=cast("dict[str, str]", document["native_tools"]),
        emulated=cast("dict[str, str]", document["emulated_tools"]),
    )


def read_proof(path: Path) -> Proof | None:
    """Return the proof in that file; None when there is none, or none that can be read: then prove again."""
    try:
        with path.open("rb") as file:
            return parse_proof(file.read(_LARGEST_BYTES), str(path))
    except (OSError, BadInputError):
        return None


def _format_file(file: CanaryFile) -> dict[str, Json]:
    return {
        "name": file.name,
        "size_bytes": file.size_bytes,
        "sha256": file.sha256,
        "differences": [sanitize_line(line, 300) for line in file.likeness.differences[:20]],
        "allowed": list(file.likeness.allowed[:20]),
    }


def _parse_file(document: Mapping[str, Json]) -> CanaryFile:
    return CanaryFile(
        name=str(document["name"]),
        size_bytes=cast("int", document["size_bytes"]),
        sha256=str(document["sha256"]),
        likeness=Likeness(
            tuple(cast("list[str]", document["differences"])), tuple(cast("list[str]", document["allowed"]))
        ),
    )
