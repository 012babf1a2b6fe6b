"""The scheduler moves indices: one case and the fence to an idle worker, and nothing else."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_atesor.control.scheduler import FenceScheduling, Node


@dataclass(eq=False)
class Worker:
    """A worker's queue as xdist's worker sees it."""

    name: str
    queue: deque[int] = field(default_factory=deque)
    shutting_down: bool = False
    is_gone: bool = False

    def send_runtest_some(self, indices: Sequence[int]) -> None:
        if self.is_gone:
            raise OSError("channel closed")
        self.queue.extend(indices)

    def shutdown(self) -> None:
        self.shutting_down = True


@dataclass
class Board:
    """First come, first served."""

    waiting: list[str] = field(default_factory=list)
    is_stopping: bool = False
    selection: tuple[str, ...] | None = None
    log: list[str] = field(default_factory=list)
    cut_off: list[str] = field(default_factory=list)
    all_rest: list[bool] = field(default_factory=list)

    def can_work(self, node: Node) -> bool:
        return node.name not in self.cut_off  # type: ignore[attr-defined]  # our own Worker

    def note_rest(self, *, is_all: bool) -> None:
        self.all_rest.append(is_all)

    def set_selection(self, nodeids: Sequence[str]) -> None:
        assert self.selection is None
        self.selection = tuple(nodeids)
        self.waiting = list(nodeids)

    def take(self) -> str | None:
        return self.waiting.pop(0) if self.waiting and not self.is_stopping else None

    def put_back(self, nodeid: str) -> None:
        self.waiting.insert(0, nodeid)

    def has_waiting(self) -> bool:
        return not self.is_stopping and (self.selection is None or bool(self.waiting))

    def case_sent(self, node: Node, nodeid: str) -> None:
        self.log.append(f"{node.name} got {nodeid}")  # type: ignore[attr-defined]  # our own Worker

    def case_done(self, node: Node, nodeid: str) -> None:
        self.log.append(f"{node.name} did {nodeid}")  # type: ignore[attr-defined]  # our own Worker

    def case_lost(self, node: Node, nodeid: str) -> None:
        self.log.append(f"{node.name} lost {nodeid}")  # type: ignore[attr-defined]  # our own Worker


CASES = ("a", "b", "c", "d")
FENCE = len(CASES)


@pytest.fixture
def board() -> Board:
    return Board()


@pytest.fixture
def scheduler(board: Board) -> FenceScheduling:
    return FenceScheduling(board)


def bring_up(scheduler: FenceScheduling, *workers: Worker, cases: Sequence[str] = CASES) -> None:
    for worker in workers:
        scheduler.add_node(worker)
    for worker in workers:
        scheduler.add_node_collection(worker, cases)
        scheduler.schedule()


def test_a_worker_gets_one_case_and_the_fence(scheduler: FenceScheduling) -> None:
    one, two = Worker("one"), Worker("two")
    bring_up(scheduler, one, two)
    assert (list(one.queue), list(two.queue)) == ([0, FENCE], [1, FENCE])


def test_the_first_worker_starts_before_the_others_are_up(scheduler: FenceScheduling) -> None:
    one, two = Worker("one"), Worker("two")
    scheduler.add_node(one)
    scheduler.add_node(two)
    assert not scheduler.collection_is_completed
    scheduler.add_node_collection(one, CASES)
    assert scheduler.collection_is_completed
    scheduler.schedule()
    assert list(one.queue) == [0, FENCE]
    assert not scheduler.tests_finished


def test_the_end_of_a_case_brings_the_next_and_the_fence_s_end_nothing(scheduler: FenceScheduling) -> None:
    one = Worker("one")
    bring_up(scheduler, one)
    scheduler.mark_test_complete(one, FENCE)
    assert list(one.queue) == [0, FENCE]
    scheduler.mark_test_complete(one, 0)
    assert list(one.queue) == [0, FENCE, 1, FENCE]


def test_a_worker_that_shuts_down_gets_nothing_more(scheduler: FenceScheduling) -> None:
    one = Worker("one")
    bring_up(scheduler, one)
    one.shutdown()
    scheduler.mark_test_complete(one, 0)
    assert list(one.queue) == [0, FENCE]


def test_it_is_finished_when_nothing_waits_and_nothing_runs(scheduler: FenceScheduling, board: Board) -> None:
    one = Worker("one")
    assert not scheduler.tests_finished
    bring_up(scheduler, one, cases=("a",))
    assert not board.waiting
    assert not scheduler.tests_finished
    scheduler.mark_test_complete(one, 0)
    assert scheduler.tests_finished


def test_a_stop_waits_for_what_runs_and_starts_nothing(scheduler: FenceScheduling, board: Board) -> None:
    one, two = Worker("one"), Worker("two")
    bring_up(scheduler, one, two)
    board.is_stopping = True
    scheduler.mark_test_complete(one, 0)
    assert not scheduler.tests_finished
    scheduler.mark_test_complete(two, 1)
    assert scheduler.tests_finished
    assert (len(one.queue), len(two.queue)) == (2, 2)


def test_a_stop_before_the_first_collection_is_the_end(scheduler: FenceScheduling, board: Board) -> None:
    scheduler.add_node(Worker("one"))
    board.is_stopping = True
    assert scheduler.tests_finished


def test_a_dead_worker_s_case_is_settled_by_the_board(scheduler: FenceScheduling, board: Board) -> None:
    one, two = Worker("one"), Worker("two")
    bring_up(scheduler, one, two)
    scheduler.remove_node(one)
    assert board.log[-1] == "one lost a"
    assert scheduler.nodes == [two]
    scheduler.remove_node(one)
    assert board.log.count("one lost a") == 1


def test_a_case_that_was_put_back_goes_to_an_idle_worker(scheduler: FenceScheduling) -> None:
    one, two = Worker("one"), Worker("two")
    bring_up(scheduler, one, two, cases=("a",))
    assert not two.queue
    scheduler.remove_node(one)
    scheduler.mark_test_pending("a")
    assert list(two.queue) == [0, 1]


def test_a_closed_channel_puts_the_case_back(scheduler: FenceScheduling, board: Board) -> None:
    one = Worker("one", is_gone=True)
    scheduler.add_node(one)
    scheduler.add_node_collection(one, CASES)
    scheduler.schedule()
    assert board.waiting == list(CASES)
    assert board.log == []


def test_every_event_is_told(board: Board) -> None:
    told: list[None] = []
    scheduler = FenceScheduling(board, after_event=lambda: told.append(None))
    assert not scheduler.tests_finished
    assert len(told) == 1


@given(data=st.data(), count=st.integers(0, 12), workers=st.integers(1, 4))
def test_in_any_order_of_ends_every_case_runs_once_and_one_at_a_time(
    data: st.DataObject, count: int, workers: int
) -> None:
    board = Board()
    scheduler = FenceScheduling(board)
    crew = [Worker(f"w{number}") for number in range(workers)]
    bring_up(scheduler, *crew, cases=[f"c{number}" for number in range(count)])
    ran: list[int] = []
    while not scheduler.tests_finished:
        busy = [worker for worker in crew if worker.queue]
        worker = data.draw(st.sampled_from(busy))
        item, fence = worker.queue.popleft(), worker.queue.popleft()
        assert fence == count
        assert not worker.queue, "something was queued behind a running case"
        ran.append(item)
        scheduler.mark_test_complete(worker, item)
    assert sorted(ran) == list(range(count))


def test_a_worker_whose_machine_is_cut_off_rests_at_the_fence_and_the_others_do_the_rest(
    scheduler: FenceScheduling, board: Board
) -> None:
    one, two = Worker("one"), Worker("two")
    board.cut_off.append("one")
    bring_up(scheduler, one, two)
    assert (list(one.queue), list(two.queue)) == ([FENCE, FENCE], [0, FENCE])
    assert not board.all_rest[-1]
    one.queue.popleft()
    scheduler.mark_test_complete(one, FENCE)
    assert list(one.queue) == [FENCE, FENCE]  # one of them was there
    for index in range(len(CASES)):
        two.queue.clear()
        scheduler.mark_test_complete(two, index)
    assert not one.shutting_down
    assert scheduler.tests_finished
    assert board.log.count("two got d") == 1
    one.queue.popleft()
    scheduler.mark_test_complete(one, FENCE)
    assert list(one.queue) == [FENCE]  # nothing waits, so there is nothing to rest for


def test_a_worker_whose_machine_is_back_gets_the_next_case(scheduler: FenceScheduling, board: Board) -> None:
    one = Worker("one")
    bring_up(scheduler, one)
    one.queue.popleft()
    board.cut_off.append("one")
    scheduler.mark_test_complete(one, 0)
    assert list(one.queue) == [FENCE, FENCE]
    assert board.all_rest[-1]
    assert not scheduler.tests_finished
    board.cut_off.clear()
    one.queue.popleft()
    scheduler.mark_test_complete(one, FENCE)
    assert list(one.queue) == [FENCE, 1, FENCE]
    assert not board.all_rest[-1]
