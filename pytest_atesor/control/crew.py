"""The worker processes of a batch and their slots, from the controller's side.

Slots are leased before the first worker starts and stay leased until the batch ends; a worker that dies
gives its slot to its replacement.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import psutil

from pytest_atesor.control import watch
from pytest_atesor.runners.birth_mark import kill_marked_by
from pytest_atesor.runners.descendants import child_pids
from pytest_atesor.work import takeover

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_atesor.control.signals import ProcessBook
    from pytest_atesor.control.site import Berth, Site
    from pytest_atesor.sandbox.interface import Engine
    from pytest_atesor.work.worker import Orders

__all__ = ["ORDERS_KEY", "Crew"]

ORDERS_KEY: Final = "atesor"
"""The entry of xdist's workerinput that holds the orders."""

_STARTS: Final = 3
_BOOTSTRAP: Final = "import sys;exec(eval(sys.stdin.readline()))"
"""By this argument execnet's new processes are known from any other child of ours."""


class Crew:
    """Who works in which slot.

    ``orders`` are those of a worker, but for its name, its slot and what its slot's machine decides.
    ``clear_slot`` removes what runs in a slot.
    """

    def __init__(
        self,
        berths: list[Berth],
        orders: Orders,
        processes: ProcessBook,
        clear_slot: Callable[[Engine | None, str], None],
    ) -> None:
        self._clear_slot = clear_slot
        self._free = list(reversed(berths))
        self._berths = berths
        self._taken: dict[str, Berth] = {}
        self._gateways: dict[str, Any] = {}
        self._orders = orders
        self.processes = processes

    def start_patiently(self, group: Any) -> None:  # noqa: ANN401 - execnet's Group has no types of its own
        """Let the group of xdist's processes try again when one dies before it can say a word."""
        # There is no hook around the start itself, and an error there would end the whole session.
        group.makegateway = functools.partial(_start_process, group.makegateway)

    def enlist(self, node: Any) -> str:  # noqa: ANN401 - xdist's WorkerController has no public type
        """Take over a new worker process, give it a slot, put its orders into its input; return its name.

        One that dies before it can say a word is replaced here and now; it has no case to lose. Raises
        EOFError when that happens again and again.
        """
        for _ in range(_STARTS):
            try:
                pid = self._take_over(node)
                break
            except (EOFError, OSError):
                _replace_process(node)
        else:
            raise EOFError(f"{_STARTS} processes in a row")
        worker = str(node.gateway.id)
        self._gateways[worker] = node.gateway
        self.processes.add(worker, pid)
        node.workerinput[ORDERS_KEY] = self.give_orders(worker).dump()
        return worker

    def _take_over(self, node: Any) -> int:  # noqa: ANN401 - the same
        channel = node.gateway.remote_exec(takeover)
        pid = int(channel.receive(watch.PATIENCE.answer_s))
        channel.waitclose(watch.PATIENCE.answer_s)
        return pid

    def give_orders(self, worker: str) -> Orders:
        """Return the orders of a worker, with a slot of its own."""
        berth = self._free.pop()
        self._taken[worker] = berth
        site = berth.site
        return replace(
            self._orders,
            worker=worker,
            slot=berth.lease.name,
            machine=site.machine,
            image=site.image,
            memory_bytes=site.memory_bytes,
            environment={**self._orders.environment, **site.environment},
        )

    def can_work(self, worker: str) -> bool:
        """Say whether the machine of the worker's slot can be reached; nobody else's is asked."""
        berth = self._taken.get(worker)
        return berth is None or berth.site.is_reachable()

    def find_site(self, slot: str) -> Site | None:
        """Return where a slot is, None for one that is not of this batch."""
        return next((berth.site for berth in self._berths if berth.lease.name == slot), None)

    def discharge(self, worker: str, *, has_died: bool) -> None:
        """Take the slot of a worker that ended back; a dead one leaves its sandbox behind, so clear that."""
        pid = self.processes.remove(worker)
        if has_died and pid is not None:
            kill_marked_by(pid)
        if has_died:
            self._gateways.pop(worker, None)
        berth = self._taken.pop(worker, None)
        if berth is not None:
            if has_died and berth.site.is_reachable():  # else the slot's next case finds it, or a keeper does
                self._clear_slot(berth.site.engine, berth.lease.name)
            self._free.append(berth)

    def bad_ends(self) -> list[str]:
        """Return, once all workers have ended, which of them said that all was well and then failed."""
        ends = []
        for worker, gateway in self._gateways.items():
            # execnet offers no public way to the exit code of a process that it started and waited for
            process = getattr(getattr(gateway, "_io", None), "popen", None)
            code = getattr(process, "returncode", None)
            if isinstance(code, int) and code > 0:
                ends.append(f"worker {worker} ended with exit code {code} after its last report")
        return ends

    def close(self) -> None:
        """Give all slots back."""
        for berth in self._berths:
            berth.lease.release()


def _start_process(start: Callable[[Any], Any], spec: Any) -> Any:  # noqa: ANN401 - execnet's gateway
    for _ in range(_STARTS - 1):
        with contextlib.suppress(EOFError, OSError), _killing_the_silent():
            return start(spec)
    with _killing_the_silent():
        return start(spec)


@contextlib.contextmanager
def _killing_the_silent() -> Iterator[None]:
    """Kill the process that the block starts when it says nothing: execnet waits for its word for ever."""
    timer = threading.Timer(watch.PATIENCE.answer_s, _kill_new, [child_pids()])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _kill_new(before: frozenset[int]) -> None:
    for pid in child_pids() - before:
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(pid)
            if _BOOTSTRAP in process.cmdline():
                process.kill()


def _replace_process(node: Any) -> None:  # noqa: ANN401 - xdist's WorkerController has no public type
    """Give a node another process, as xdist itself does for a node that broke down."""
    group, spec = node.nodemanager.group, node.gateway.spec
    with contextlib.suppress(EOFError, OSError):
        node.gateway.exit()
    spec.id = None
    group.allocate_id(spec)
    node.gateway = group.makegateway(spec)
    node.gateway.node = node
    node.workerinput["workerid"] = node.gateway.id
