"""From parsed input to a frozen plan: names selected, shard cut, cases built.

Nothing is written or started here.
"""

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from pytest_atesor.core.names import derive_package_name, make_case_ids
from pytest_atesor.core.package_list import PackageEntry, PackageList
from pytest_atesor.core.plan import BatchKind, Case, InputFile, Json, Plan, Platform, Target
from pytest_atesor.core.selection import select_cases
from pytest_atesor.core.shards import Shard

__all__ = ["PlanFacts", "describe_input", "plan_package_list"]


def describe_input(path: str, data: bytes) -> InputFile:
    """Return the record of one input file: its path as shown to the user and the SHA-256 of its bytes."""
    return InputFile(path=path, sha256=hashlib.sha256(data).hexdigest())


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanFacts:
    """What a plan says beside its cases; see :class:`~pytest_atesor.core.plan.Plan`."""

    batch_id: str
    name: str
    platform: Platform
    target: Target
    settings: Mapping[str, Json]
    created_at: str


def plan_package_list(
    package_list: PackageList,
    facts: PlanFacts,
    *,
    source: str,
    called: str | None = None,
    only: Collection[str] = (),
    shard: Shard | None = None,
) -> Plan:
    """Return the plan of a package list: the ``only`` names or the shard's packages, in list order.

    ``source`` is the list as node ids show it, and errors too unless it is ``called`` something else there.
    Case ids depend on the whole list, not on the selection. Raises UsageError as ``select_cases``.
    """
    entries = package_list.entries
    case_ids = make_case_ids(entry.name for entry in entries)
    chosen = select_cases([entry.name for entry in entries], only, shard, called or source)
    return Plan(
        batch_id=facts.batch_id,
        kind=BatchKind.PACKAGE_LIST,
        name=facts.name,
        source=source,
        platform=facts.platform,
        target=facts.target,
        cases=tuple(_plan_entry(entries[index], case_ids[index]) for index in chosen),
        inputs=(),
        settings=dict(facts.settings),
        created_at=facts.created_at,
    )


def _plan_entry(entry: PackageEntry, case_id: str) -> Case:
    spec: dict[str, Json] = {"name": entry.name, "url": entry.url, "max_attempts": entry.max_attempts}
    if entry.ref is not None:
        spec["ref"] = entry.ref
    if entry.mirrors:
        spec["mirrors"] = list(entry.mirrors)
    return Case(
        case_id=case_id,
        label=entry.name,
        kind="port",
        spec=spec,
        timeout_s=entry.timeout_s,
        derived_name=derive_package_name(entry.url),
        marks=entry.marks,
    )
