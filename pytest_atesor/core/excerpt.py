"""What a report shows of an attempt's files, and how the room for log tails is shared."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pytest_atesor.core.outcome import Status

__all__ = ["Excerpt", "plan_tails"]

_ALL_TAILS: Final = 500_000
_LONGEST: Final = 4000
_SHORTEST: Final = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Excerpt:
    """The sanitized end of a log, one line per phase and artifact, and one of the package's own tests.

    ``tests`` begins with their status; empty where nothing is known of any. ``native_tools`` names those of
    the sandbox with their versions, in one line; empty where every program was emulated.
    """

    tail: str
    phases: tuple[str, ...] = ()
    artifacts: tuple[str, ...] = ()
    tests: str = ""
    native_tools: str = ""


def plan_tails(statuses: Mapping[str, Status]) -> dict[str, int]:
    """Return how many characters of log each ended case may show, by case id.

    All tails together stay near half a megabyte: what did not pass is served first, and always with a few
    lines; passes share the rest, or show none.
    """
    failed = sum(status is not Status.PASS for status in statuses.values())
    passed = len(statuses) - failed
    per_failure = max(_SHORTEST, min(_LONGEST, _ALL_TAILS // max(1, failed)))
    rest = max(0, _ALL_TAILS - failed * per_failure) // max(1, passed)
    per_pass = min(_LONGEST, rest) if rest >= _SHORTEST else 0
    return {
        case_id: per_pass if status is Status.PASS else per_failure for case_id, status in statuses.items()
    }
