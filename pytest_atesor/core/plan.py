"""The frozen plan of a batch: what will run, from which inputs, decided before anything runs.

A package list and a manifest differ only in the parser; both become a :class:`Plan` of :class:`Case` values
and everything after that is shared. Timeouts are seconds.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum, unique
from typing import Final

__all__ = [
    "DEFAULT_MAX_ATTEMPTS",
    "DEFAULT_TIMEOUT_S",
    "BatchKind",
    "Case",
    "InputFile",
    "Json",
    "Plan",
    "Platform",
    "Target",
]

DEFAULT_MAX_ATTEMPTS: Final = 5
"""How many builds an agent may try where the input does not say."""

DEFAULT_TIMEOUT_S: Final = 3600

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]


@unique
class Platform(StrEnum):
    """The distribution of the sandbox image."""

    ALPINE = "alpine"
    DEBIAN = "debian"
    UBUNTU = "ubuntu"


@unique
class Target(StrEnum):
    """Where the builds run: emulated on this machine, or on a riscv64 machine."""

    QEMU = "qemu"
    NATIVE = "native"


@unique
class BatchKind(StrEnum):
    """Which parser made the plan; it decides the exit codes (4 for mixed manifests)."""

    PACKAGE_LIST = "package_list"
    MANIFEST = "manifest"
    SWEEP = "sweep"


@dataclass(frozen=True, slots=True, kw_only=True)
class InputFile:
    """One file that the plan was made from: the path as shown to the user and the SHA-256 of its bytes.

    ``role`` is "package_list", "manifest", "sweep", "runspec" or "import"; ``imports`` are the fragments
    (their paths) that the file itself asks for.
    """

    path: str
    sha256: str
    role: str = "package_list"
    imports: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One unit of work.

    ``case_id`` is unique in the plan and safe as one path component; ``label`` is what the user wrote and
    what the item is called. ``kind`` names the runner ("port", "command", …) and ``spec`` is that kind's
    RunSpec body. ``derived_name`` excludes: two cases that share it never run at the same time. ``marks``
    become pytest marks; ``parameters`` are the values that a sweep gave it, by dotted path.
    """

    case_id: str
    label: str
    kind: str
    spec: Mapping[str, Json]
    timeout_s: int
    derived_name: str
    marks: tuple[str, ...] = ()
    parameters: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A whole batch, in the order in which the user listed its cases.

    ``name`` is the input's short name ("smoke"); ``source`` the input as shown in node ids
    ("packages/smoke.json"). ``settings`` holds what else shaped the batch (agent, engine, limits), for the
    record only. ``summary_fields`` are the dotted paths that the summary picks from each case's evidence;
    ``write_csv`` asks for it as a table too.
    """

    batch_id: str
    kind: BatchKind
    name: str
    source: str
    platform: Platform
    target: Target
    cases: tuple[Case, ...]
    inputs: tuple[InputFile, ...]
    settings: Mapping[str, Json]
    created_at: str
    summary_fields: tuple[str, ...] = ()
    write_csv: bool = False
