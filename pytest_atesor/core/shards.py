"""Contiguous shards: shard I of N is the I-th run of ceil(packages / N) packages, counted from 0."""

from dataclasses import dataclass

from pytest_atesor.errors import UsageError

__all__ = ["Shard", "cut_shard", "parse_shard"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """One of ``total`` shards; 0 <= index < total and total > 1."""

    index: int
    total: int


def parse_shard(
    index: int | None, total: int | None, *, index_origin: str = "", total_origin: str = ""
) -> Shard | None:
    """Return the shard that two option values ask for, None for the whole list.

    A total of 1 turns sharding off. Raises UsageError when one is missing or a value is out of range; it says
    where the values came from.
    """
    if index is None and total is None:
        return None
    shown_index = f"shard index {index}{_from(index_origin)}"
    shown_total = f"shard total {total}{_from(total_origin)}"
    if total is None:
        raise UsageError(f"{shown_index} needs a shard total; add the total, or leave the index out")
    if total < 1:
        raise UsageError(f"{shown_total} is out of range; it must be at least 1")
    if index is None:
        if total == 1:
            return None
        raise UsageError(f"{shown_total} needs a shard index from 0 to {total - 1}; add it")
    if not 0 <= index < total:
        raise UsageError(
            f"{shown_index} is out of range; with {total} shards it must be from 0 to {total - 1}"
        )
    return None if total == 1 else Shard(index=index, total=total)


def cut_shard(count: int, shard: Shard | None) -> range:
    """Return the positions that a shard covers in a list of ``count``; trailing shards may be empty."""
    if shard is None:
        return range(count)
    size = -(-count // shard.total)
    return range(min(count, shard.index * size), min(count, (shard.index + 1) * size))


def _from(origin: str) -> str:
    return f" from {origin}" if origin else ""
