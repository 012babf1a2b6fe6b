"""Which case runs next: the one expected to take longest, and never two of one derived package name at once.

Cases without a known duration count as the mean of the known ones and keep plan order among themselves. A
queue is plain data in memory: it never looks at a clock and costs O(log cases) per decision.
"""

import heapq
from collections.abc import Iterable, Mapping

from pytest_atesor.core.plan import Case

__all__ = ["CaseQueue", "order_cases"]


def order_cases(cases: Iterable[Case], expected_s: Mapping[str, float]) -> tuple[Case, ...]:
    """Return the cases longest expected first; ``expected_s`` maps case ids to seconds, where known."""
    listed = tuple(cases)
    known = [expected_s[case.case_id] for case in listed if case.case_id in expected_s]
    mean = sum(known) / len(known) if known else 0.0
    return tuple(sorted(listed, key=lambda case: -expected_s.get(case.case_id, mean)))


class CaseQueue:
    """The cases that wait to run, by priority.

    A derived name that is taken blocks its other cases until released.
    """

    __slots__ = ("_busy", "_cases", "_count", "_rank", "_ready", "_waiting")

    def __init__(self, cases: Iterable[Case], expected_s: Mapping[str, float] | None = None) -> None:
        ordered = order_cases(cases, expected_s or {})
        self._rank = {case.case_id: rank for rank, case in enumerate(ordered)}
        self._cases = {case.case_id: case for case in ordered}
        self._waiting: dict[str, list[tuple[int, str]]] = {}
        self._ready: list[tuple[int, str]] = []
        self._busy: set[str] = set()
        self._count = 0
        for case in ordered:
            self.put(case)

    def __len__(self) -> int:
        return self._count

    def put(self, case: Case) -> None:
        """Add a case, or put one back (a retry) at its old priority; a case never seen before comes last."""
        self._cases[case.case_id] = case
        rank = self._rank.setdefault(case.case_id, len(self._rank))
        group = self._waiting.setdefault(case.derived_name, [])
        heapq.heappush(group, (rank, case.case_id))
        self._count += 1
        heapq.heappush(self._ready, (group[0][0], case.derived_name))

    def take(self) -> Case | None:
        """Return the best case that may run now and mark its derived name busy.

        None when all are blocked or gone.
        """
        while self._ready:
            rank, name = heapq.heappop(self._ready)
            group = self._waiting.get(name)
            if name in self._busy or not group or group[0][0] != rank:
                continue  # blocked until its release, or served or given a better head since
            _, case_id = heapq.heappop(group)
            self._count -= 1
            self._busy.add(name)
            return self._cases[case_id]
        return None

    def release(self, derived_name: str) -> None:
        """Say that no case of that derived name runs any more."""
        self._busy.discard(derived_name)
        group = self._waiting.get(derived_name)
        if group:
            heapq.heappush(self._ready, (group[0][0], derived_name))
