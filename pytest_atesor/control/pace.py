"""How long a running batch will take, by earlier batches and by what it has done so far."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_atesor.core.outcome import Status
from pytest_atesor.reports.terminal import bound_remaining

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_atesor.core.attempt import AttemptRecord
    from pytest_atesor.reports.terminal import SlotLine

__all__ = ["Pace"]


class Pace:
    """What earlier batches, and the cases that ended in this one, say of the time left."""

    def __init__(self, expected: Mapping[str, float], workers: int) -> None:
        self.expected = expected
        self._workers = workers
        self._sum_s = sum(expected.values())
        self._count = len(expected)
        self._of: frozenset[str] = frozenset()
        self._waiting = (0.0, 0.0, 0)

    def note(self, record: AttemptRecord) -> None:
        """Learn from a case that ended by itself."""
        if record.status is not Status.SKIPPED:
            self._sum_s, self._count = self._sum_s + record.duration_s, self._count + 1

    def judge(self, slots: Sequence[SlotLine], waiting: frozenset[str]) -> tuple[float | None, float | None]:
        """Return estimate and lower bound of the seconds left, None where nothing is known."""
        if not self._count:
            return None, None
        if waiting is not self._of:  # the sums of thousands of cases change only when one starts
            known = [self.expected[case_id] for case_id in waiting if case_id in self.expected]
            self._of = waiting
            self._waiting = (sum(known), max(known, default=0.0), len(waiting) - len(known))
        sum_s, longest_s, unknown = self._waiting
        typical_s = self._sum_s / self._count
        left = [max(0.0, slot.expected_s - slot.elapsed_s) for slot in slots if slot.expected_s is not None]
        bound_s = (
            bound_remaining(sum_s + sum(left), max([longest_s, *left]), self._workers)
            if left or longest_s
            else None
        )
        left += [max(0.0, typical_s - slot.elapsed_s) for slot in slots if slot.expected_s is None]
        if unknown:
            longest_s = max(longest_s, typical_s)
        estimate_s = bound_remaining(
            sum_s + unknown * typical_s + sum(left), max([longest_s, *left]), self._workers
        )
        return estimate_s, bound_s
