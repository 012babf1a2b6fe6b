"""How long cases took in earlier batches: what is kept, what is expected of the next one, and its JSON form.

Durations are kept apart for each platform, target and agent (a :class:`Setting`), because a package that
takes a minute with one takes an hour with another. Of each package the last three durations are kept, and
their median is what is expected. The packages stand in the order of their last run, so that the ones that
nobody runs any more are dropped first when there are too many.
"""

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, cast

from pytest_atesor.core.attempt import AttemptRecord
from pytest_atesor.core.jsontext import format_json, parse_json
from pytest_atesor.core.outcome import Cause, Status
from pytest_atesor.core.plan import Case, Json, Plan
from pytest_atesor.errors import BadInputError

__all__ = [
    "MOST_PACKAGES",
    "Durations",
    "Setting",
    "add_duration",
    "expect_durations",
    "format_durations",
    "has_duration",
    "name_package",
    "parse_durations",
]

MOST_PACKAGES: Final = 20_000
_KEPT: Final = 3
_VERSION: Final = "durations_v1"

Durations = dict[str, tuple[float, ...]]
"""The last durations of each package in seconds, oldest first; the package run last comes last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What durations depend on beside the package; ``agent`` is its command line, or "built-in"."""

    platform: str
    target: str
    agent: str


def name_package(plan: Plan, case: Case) -> str:
    """Return the name under which a case's durations are kept.

    For a port it is the name derived from its source, whatever the lists call it; for other kinds the
    label, which means something only together with its manifest.
    """
    return case.derived_name if case.kind == "port" else f"{plan.name}::{case.label}"


def has_duration(record: AttemptRecord) -> bool:
    """Say whether an attempt's duration tells anything about the next one's."""
    return record.status is not Status.SKIPPED and record.cause not in {
        Cause.ENVIRONMENT,
        Cause.INTERRUPTED,
    }


def add_duration(durations: Durations, package: str, seconds: float) -> None:
    """Put down one more duration, and forget what is too old or too much."""
    durations[package] = (*durations.pop(package, ()), round(seconds, 3))[-_KEPT:]
    while len(durations) > MOST_PACKAGES:
        del durations[next(iter(durations))]


def expect_durations(plan: Plan, durations: Mapping[str, tuple[float, ...]]) -> dict[str, float]:
    """Return the expected seconds of the plan's cases, by case id, where something is known."""
    named = ((case.case_id, durations.get(name_package(plan, case))) for case in plan.cases)
    return {case_id: statistics.median(known) for case_id, known in named if known}


def format_durations(setting: Setting, durations: Mapping[str, Iterable[float]]) -> str:
    """Return the text of a history file."""
    packages: dict[str, Json] = {name: list(seconds) for name, seconds in durations.items()}
    return format_json({
        "schema_version": _VERSION,
        "platform": setting.platform,
        "target": setting.target,
        "agent": setting.agent,
        "packages": packages,
    })


def parse_durations(text: bytes, setting: Setting, where: str) -> Durations:
    """Return what a history file holds. Raises BadInputError for one that is broken, newer or another's."""
    document = parse_json(text, where)
    head: dict[str, Json] = {
        "schema_version": _VERSION,
        "platform": setting.platform,
        "target": setting.target,
        "agent": setting.agent,
    }
    if not isinstance(document, dict) or any(document.get(key) != value for key, value in head.items()):
        raise BadInputError(f"{where} is no {_VERSION} file of this platform, target and agent")
    packages = document.get("packages")
    if not isinstance(packages, dict):
        raise BadInputError(f"{where} has no packages")
    # By hand: twenty thousand entries would keep a schema validator busy for seconds.
    for name, seconds in packages.items():
        if not isinstance(seconds, list) or not seconds or not all(map(_is_duration, seconds)):
            raise BadInputError(f"{where}: the durations of {name!r} are no list of seconds")
    return {
        name: tuple(cast("list[float]", seconds))[-_KEPT:]
        for name, seconds in list(packages.items())[-MOST_PACKAGES:]
    }


def _is_duration(value: Json) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0
