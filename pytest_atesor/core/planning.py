"""From parsed input to a frozen plan: names selected, shard cut, cases built.

Nothing is written or started here.
"""

import hashlib
from collections.abc import Collection, Mapping, Sequence

from pytest_atesor.core.names import derive_package_name, make_case_ids
from pytest_atesor.core.package_list import PackageEntry, PackageList
from pytest_atesor.core.plan import BatchKind, Case, InputFile, Json, Plan, Platform, Target
from pytest_atesor.core.selection import select_names
from pytest_atesor.core.shards import Shard, cut_shard
from pytest_atesor.errors import UsageError

__all__ = ["describe_input", "plan_package_list"]


def describe_input(path: str, data: bytes) -> InputFile:
    """Return the record of one input file: its path as shown to the user and the SHA-256 of its bytes."""
    return InputFile(path=path, sha256=hashlib.sha256(data).hexdigest())


def plan_package_list(  # noqa: PLR0913 - keyword-only facts of one batch, each a field of the plan
    package_list: PackageList,
    *,
    batch_id: str,
    name: str,
    source: str,
    platform: Platform,
    target: Target,
    only: Collection[str] = (),
    shard: Shard | None = None,
    inputs: Sequence[InputFile] = (),
    settings: Mapping[str, Json] | None = None,
    created_at: str,
) -> Plan:
    """Return the plan of a package list: the ``only`` names or the shard's packages, in list order.

    Case ids depend on the whole list, not on the selection. Raises UsageError for an unknown name, or for
    names together with a shard. An empty trailing shard gives a plan without cases.
    """
    if only and shard is not None:
        raise UsageError(
            "package names and a shard exclude each other; give the names, or the shard index and total"
        )
    entries = package_list.entries
    case_ids = make_case_ids(entry.name for entry in entries)
    selected = select_names([entry.name for entry in entries], only, source)
    cut = cut_shard(len(selected), shard)
    return Plan(
        batch_id=batch_id,
        kind=BatchKind.PACKAGE_LIST,
        name=name,
        source=source,
        platform=platform,
        target=target,
        cases=tuple(_plan_entry(entries[index], case_ids[index]) for index in selected[cut.start : cut.stop]),
        inputs=tuple(inputs),
        settings=dict(settings or {}),
        created_at=created_at,
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
