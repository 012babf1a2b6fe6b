"""Which of a list's names a batch takes: exactly those that were asked for, in the list's order."""

from collections.abc import Collection, Sequence

from pytest_atesor.core.jsontext import show_value
from pytest_atesor.core.schema import near_matches
from pytest_atesor.core.shards import Shard, cut_shard
from pytest_atesor.errors import UsageError

__all__ = ["select_cases", "select_names"]


def select_cases(
    known: Sequence[str], wanted: Collection[str], shard: Shard | None, where: str, noun: str = "package"
) -> tuple[int, ...]:
    """Return the indexes of the wanted names in ``known``, or of the shard's, or all of them.

    An empty trailing shard has none. Raises UsageError for names together with a shard, or for a name that
    ``where`` does not have; errors call a name's bearer ``noun``.
    """
    if wanted and shard is not None:
        raise UsageError("case names and a shard exclude each other; drop the names, or the shard")
    chosen = select_names(known, wanted, where, noun)
    cut = cut_shard(len(chosen), shard)
    return chosen[cut.start : cut.stop]


def select_names(
    known: Sequence[str], wanted: Collection[str], where: str, noun: str = "package"
) -> tuple[int, ...]:
    """Return the indexes of the wanted names in ``known``; all of them when nothing is wanted in particular.

    Names match exactly and a repeated one counts once. Raises UsageError for a name that ``where`` does not
    have.
    """
    if not wanted:
        return tuple(range(len(known)))
    names = set(known)
    unknown = [name for name in dict.fromkeys(wanted) if name not in names]
    if unknown:
        # A sweep's cases have no names in its file.
        listed = f"see the names in {where}" if noun == "package" else "--collect-only lists them"
        hint = near_matches(unknown[0], list(known)) or f"; {listed}"
        others = len(unknown) - 1
        more = f" (and {others} more unknown name{'s' if others > 1 else ''})" if others else ""
        raise UsageError(f"{where} has no {noun} {show_value(unknown[0])}{hint}{more}")
    chosen = set(wanted)
    return tuple(index for index, name in enumerate(known) if name in chosen)
