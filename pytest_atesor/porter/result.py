"""``result.json`` and the copies of the artifacts, written into the attempt's directory.

Names come from a stranger's tree: copies are made of what was kept when it was scanned, to paths that are
made safe here, and their number and bytes are bounded.
"""

import contextlib
import errno
import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_atesor.core.plan import Target
from pytest_atesor.core.text import sanitize, sanitize_line
from pytest_atesor.porter.phases import Phase
from pytest_atesor.porter.verdict import Outcome

if TYPE_CHECKING:  # a run that failed early needs no ELF reader
    from pytest_atesor.porter.package_tests import SuiteResult
    from pytest_atesor.porter.proofs import Proof
    from pytest_atesor.porter.scan import Artifact

__all__ = ["Report", "copy_artifacts", "format_result", "safe_path", "write_documents", "write_result"]

_MOST_LISTED = 500
_MOST_COPIES = 200
_LARGEST_COPY = 128 * 1024 * 1024
_ALL_COPIES = 512 * 1024 * 1024
_UNSAFE = re.compile(r"[^A-Za-z0-9._+=@~,-]")
_LONGEST_NAME = 120
_MOST_PARTS = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Everything that ``result.json`` says, and the ``documents`` beside it: file name to text.

    ``machine`` is the name of the one that it was built on, "" for this one.
    """

    outcome: Outcome
    source: Mapping[str, str | None]
    target: Target = Target.QEMU
    machine: str = ""
    build_system: str | None = None
    phases: Sequence[Phase] = ()
    artifacts: "Sequence[Artifact]" = ()
    copies: Mapping[str, str] = field(default_factory=dict)
    metrics: Mapping[str, object] = field(default_factory=dict)
    notes: Sequence[str] = ()
    package_tests: "SuiteResult | None" = None
    native_tools: Mapping[str, str] = field(default_factory=dict)
    proofs: "Mapping[str, Proof]" = field(default_factory=dict)
    documents: Mapping[str, str] = field(default_factory=dict)


def format_result(report: Report) -> str:
    """Return the JSON text; every string that came from outside is sanitized."""
    outcome = report.outcome
    notes = [sanitize_line(one, 500) for one in report.notes]
    if len(report.artifacts) > _MOST_LISTED:
        notes.append(f"{len(report.artifacts) - _MOST_LISTED} more artifacts are not listed")
    document = {
        "schema_version": "result_v1",
        "target": report.target.value,
        "machine": sanitize_line(report.machine, 300),
        "verdict": outcome.verdict.value if outcome.verdict else None,
        "cause": outcome.cause.value if outcome.cause else None,
        "reason": sanitize_line(outcome.reason, 300),
        "source": {key: None if value is None else sanitize(value) for key, value in report.source.items()},
        "build_system": report.build_system,
        "phases": [
            {"name": one.name, "duration_s": one.duration_s, "status": one.status} for one in report.phases
        ],
        "artifacts": [
            _artifact(one, report.copies) | _proof(report.proofs.get(one.sha256))
            for one in report.artifacts[:_MOST_LISTED]
        ],
        "package_tests": _package_tests(report.package_tests) if report.package_tests else None,
        "native_tools": {
            sanitize_line(name, 100): sanitize_line(version, 100)
            for name, version in report.native_tools.items()
        },
        "metrics": dict(report.metrics),
        "notes": notes[:1000],
    }
    return json.dumps(document, indent=1, ensure_ascii=True) + "\n"


def write_result(directory: Path, text: str) -> None:
    """Replace ``result.json`` in ``directory`` atomically. Raises OSError."""
    temporary = directory / f".result.json.{os.getpid()}"
    try:
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(directory / "result.json")
    finally:
        temporary.unlink(missing_ok=True)


def write_documents(directory: Path, documents: Mapping[str, str]) -> None:
    """Write each of ``documents`` into ``directory``, which is made. Raises OSError."""
    for name, text in documents.items():
        directory.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(text, encoding="utf-8", errors="surrogateescape")


def copy_artifacts(artifacts: "Iterable[Artifact]", kept: Path, target: Path) -> dict[str, str]:
    """Copy artifacts from where they were kept into ``target``.

    Return what was copied: path in the tree to path in ``target``. What was not kept or goes beyond the
    bounds is left out.
    """
    copied: dict[str, str] = {}
    used = 0
    for one in artifacts:
        if (
            len(copied) >= _MOST_COPIES
            or one.size_bytes > _LARGEST_COPY
            or used + one.size_bytes > _ALL_COPIES
        ):
            continue
        name = safe_path(one.path)
        if name in copied.values():
            name = f"{name}-{one.sha256[:8]}"
        with contextlib.suppress(OSError):
            _copy(kept / one.sha256, target / name)
            copied[one.path] = name
            used += one.size_bytes
    return copied


def safe_path(path: str) -> str:
    """Return a relative path with nothing but harmless ASCII in it; what had to change gets a digest."""
    parts = [_safe_name(part) for part in path.split("/") if part not in {"", ".", ".."}]
    if len(parts) > _MOST_PARTS:
        parts = [hashlib.sha256(path.encode("utf-8", "surrogateescape")).hexdigest()[:16], parts[-1]]
    return "/".join(parts) or "artifact"


def _safe_name(name: str) -> str:
    plain = _UNSAFE.sub("_", name)
    if plain == name and len(plain) <= _LONGEST_NAME and not plain.startswith("-"):
        return plain
    digest = hashlib.sha256(name.encode("utf-8", "surrogateescape")).hexdigest()[:8]
    return f"{plain.lstrip('-')[: _LONGEST_NAME - 9]}~{digest}"


def _copy(kept: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(kept, target)
    except OSError as error:
        if error.errno not in {errno.EXDEV, errno.EPERM, errno.EMLINK}:
            raise
        shutil.copy(kept, target)


def _package_tests(one: "SuiteResult") -> dict[str, object]:
    counts = one.counts
    return {
        "status": one.status.value,
        "framework": one.suite.framework if one.suite else None,
        "command": one.suite.command if one.suite else None,
        "exit_code": one.exit_code,
        "duration_s": one.duration_s,
        "counts": counts and {"passed": counts.passed, "failed": counts.failed, "skipped": counts.skipped},
        "reason": sanitize_line(one.reason, 300),
    }


def _proof(one: "Proof | None") -> dict[str, object]:
    start = one.start if one is not None else None
    return {
        "missing_libraries": None if one is None or one.missing is None else list(one.missing),
        "start": start
        and {
            "argument": start.argument,
            "status": start.status.value,
            "exit_code": start.exit_code,
            "said": start.said,
        },
    }


def _artifact(one: "Artifact", copies: Mapping[str, str]) -> dict[str, object]:
    facts = one.facts
    return {
        "path": sanitize_line(one.path, 1000),
        "size_bytes": one.size_bytes,
        "type": one.type,
        "abi": facts.abi,
        "sha256": one.sha256,
        "class": f"ELF{facts.bits}",
        "machine": "riscv64",
        "float_abi": facts.float_abi,
        "compressed": facts.compressed,
        "architecture": sanitize_line(facts.architecture, 300),
        "interpreter": sanitize_line(facts.interpreter, 300),
        "needed": [sanitize_line(name, 200) for name in facts.needed],
        "stripped": facts.stripped,
        "members": one.members,
        "test": one.is_test,
        "copy": copies.get(one.path),
    }
