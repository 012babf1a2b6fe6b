"""The pytest-xdist scheduler of a batch: a case goes only to a worker that has nothing else to do.

A worker's loop fetches the index of its next item before it runs the current one, so every stock scheduler
keeps one real item pinned behind each running one. Here each worker's collection ends with a no-op item,
the fence, and indices go out as pairs ``[case, fence]``: the worker runs the case knowing that the fence is
next, reports its end, makes the fence current and blocks for one more index. So the best case is chosen
when a worker is free, and not before. A worker whose machine cannot be reached gets a fence alone, at
which it rests a little: the end of that is the time to look again. What to choose, and what a lost case
means, is the board's business; this module only moves indices.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["Board", "FenceScheduling", "Node"]


class Node(Protocol):
    """The part of xdist's WorkerController that the scheduler uses."""

    @property
    def shutting_down(self) -> bool:
        """True once the worker was told to end, or died."""

    def send_runtest_some(self, indices: Sequence[int]) -> None:
        """Append item indices to the worker's queue. Raises OSError when its channel is gone."""

    def shutdown(self) -> None:
        """Tell the worker to end after what it has."""


class Board(Protocol):
    """What the scheduler asks the batch. Cases are named by node id."""

    def set_selection(self, nodeids: Sequence[str]) -> None:
        """Learn which cases pytest selected, in its order; called once, with the first collection."""

    def take(self) -> str | None:
        """Take the case to start now; None when none waits, or none of the waiting ones may start yet."""

    def put_back(self, nodeid: str) -> None:
        """Let a case wait again that was taken and did not start."""

    def has_waiting(self) -> bool:
        """Say whether cases wait that may still start in this run."""

    def can_work(self, node: Node) -> bool:
        """Say whether a case that this worker gets now would find its machine."""

    def note_rest(self, *, is_all: bool) -> None:
        """Take note of whether cases wait, none runs, and no worker's machine can be reached."""

    def case_sent(self, node: Node, nodeid: str) -> None:
        """Note that a worker got the case."""

    def case_done(self, node: Node, nodeid: str) -> None:
        """Note that the worker is through with the case."""

    def case_lost(self, node: Node, nodeid: str) -> None:
        """Settle a case whose worker died: charge an attempt, or put it back when it never started."""


class FenceScheduling:
    """xdist's Scheduling protocol, for the nodes of one batch; ``after_event`` is called after each event."""

    def __init__(self, board: Board, after_event: Callable[[], None] = lambda: None) -> None:
        self._board = board
        self._after_event = after_event
        self._indices: dict[Node, dict[str, int] | None] = {}
        self._running: dict[Node, str] = {}
        self._resting: set[Node] = set()
        self._fenced: set[Node] = set()
        self._is_selected = False

    @property
    def nodes(self) -> list[Node]:
        """The workers that came up and did not end."""
        return list(self._indices)

    @property
    def collection_is_completed(self) -> bool:
        """True from the first collection on: workers load one frozen plan, so no other can differ."""
        return self._is_selected

    @property
    def has_pending(self) -> bool:
        """True. xdist asks when a worker has collected, to write of it while nothing runs: here cases do."""
        return True

    @property
    def tests_finished(self) -> bool:
        """Whether nothing runs and nothing more will start. xdist asks after each event."""
        self._after_event()
        return not self._running and not self._board.has_waiting()

    def add_node(self, node: Node) -> None:
        """Add a worker that came up; it will collect next."""
        self._indices[node] = None

    def add_node_collection(self, node: Node, collection: Sequence[str]) -> None:
        """Take what a worker collected, without the fence, whose index is the collection's length."""
        self._indices[node] = {nodeid: index for index, nodeid in enumerate(collection)}
        if not self._is_selected:
            self._is_selected = True
            self._board.set_selection(collection)

    def schedule(self) -> None:
        """Give every idle worker whose machine can be reached a case, while there are any that may start."""
        for node, indices in list(self._indices.items()):
            if indices is None or node in self._running or node in self._resting or node.shutting_down:
                continue
            if not self._board.can_work(node):
                self._rest(node, len(indices))
                continue
            nodeid = self._board.take()
            if nodeid is None:
                break
            self._send(node, indices, nodeid)
        idle = [node for node in self._indices if not node.shutting_down]
        self._board.note_rest(is_all=bool(idle) and all(node in self._resting for node in idle))

    def mark_test_complete(self, node: Node, item_index: int, duration: float = 0) -> None:  # noqa: ARG002 - xdist's signature
        """Note that an item ended: a case frees its worker and perhaps its name, a fence ends a rest."""
        indices = self._indices.get(node)
        if node in self._resting:
            self._resting.discard(node)
            self.schedule()
            return
        nodeid = self._running.get(node)
        if indices is None or nodeid is None or item_index == len(indices):
            return
        del self._running[node]
        self._board.case_done(node, nodeid)
        self.schedule()

    def mark_test_pending(self, item: str) -> None:
        """Run a case again (for plugins that repeat crashed items)."""
        self._board.put_back(item)
        self.schedule()

    def remove_pending_tests_from_node(self, node: Node, indices: Sequence[int]) -> None:
        """Never happens: there is nothing to steal in a queue that holds no real item."""
        raise NotImplementedError

    def remove_node(self, node: Node) -> None:
        """Drop a worker that ended. Returns None, "no crashed item": the board reports a lost case itself."""
        self._indices.pop(node, None)
        self._resting.discard(node)
        nodeid = self._running.pop(node, None)
        if nodeid is not None:
            self._board.case_lost(node, nodeid)
            self.schedule()

    def _send(self, node: Node, indices: dict[str, int], nodeid: str) -> None:
        try:
            node.send_runtest_some([indices[nodeid], len(indices)])
        except OSError:
            # The channel closed under us; xdist's own "worker down" event is on its way.
            self._board.put_back(nodeid)
            return
        self._fenced.add(node)
        self._running[node] = nodeid
        self._board.case_sent(node, nodeid)

    def _rest(self, node: Node, fence: int) -> None:
        """Have an idle worker run one fence, while something waits; another one stays behind it."""
        if not self._board.has_waiting():
            return
        try:
            node.send_runtest_some([fence] if node in self._fenced else [fence, fence])
        except OSError:
            return  # as above
        self._fenced.add(node)
        self._resting.add(node)
