"""How an xdist worker of a batch takes up its work, and how the one process of a run without xdist does.

A worker loads the frozen plan by the path in its orders, and takes everything else from the plan and the
orders.
"""

from __future__ import annotations

import signal
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_atesor.bundle.clock import system_clock
from pytest_atesor.bundle.layout import BundleLayout
from pytest_atesor.bundle.lock import WorkerPresence
from pytest_atesor.bundle.writer import read_plan
from pytest_atesor.core.native import SESSION_VARIABLE
from pytest_atesor.runners.stop import KILL_NOW, TERMINATE, StopFlag
from pytest_atesor.work.bench import Bench, NoBench, SandboxBench
from pytest_atesor.work.collection import WORKER_KEY
from pytest_atesor.work.kinds import gather_runners
from pytest_atesor.work.tree import TreeHooks, WorkerHooks
from pytest_atesor.work.worker import KILL_CHILDREN, STOP_WORKER, Orders, Worker

if TYPE_CHECKING:
    from types import FrameType

    import pytest

    from pytest_atesor.core.plan import Json, Plan

__all__ = ["join_batch", "register_tree", "register_worker"]


def join_batch(config: pytest.Config, raw: dict[str, Any]) -> None:
    """Make this xdist worker a worker of the batch. ``raw`` is what the controller put into its input."""
    orders = Orders(**raw)
    flag = StopFlag()

    def stop(number: int, _frame: FrameType | None) -> None:
        flag.raise_to(KILL_NOW if number == KILL_CHILDREN else TERMINATE)

    for number in (STOP_WORKER, KILL_CHILDREN):
        signal.signal(number, stop)
    layout = BundleLayout(Path(orders.plan).parent)
    presence = WorkerPresence(layout.workers)
    presence.take()
    config.add_cleanup(presence.release)
    plan = read_plan(layout)
    if orders.case_ids is not None:
        chosen = set(orders.case_ids)
        plan = replace(plan, cases=tuple(case for case in plan.cases if case.case_id in chosen))
    register_worker(config, plan, orders, flag, is_remote=True)


def register_tree(config: pytest.Config, plan: Plan) -> None:
    """Let pytest collect the plan and nothing else, whatever paths the user or ini's testpaths named."""
    config.args[:] = [str(config.rootpath)]
    config.args_source = config.ArgsSource.ARGS
    config.pluginmanager.register(TreeHooks(plan), "atesor-tree")


def register_worker(
    config: pytest.Config, plan: Plan, orders: Orders, flag: StopFlag, *, is_remote: bool
) -> None:
    """Let this process run the plan's cases in the slot of its orders."""
    retries: Json = orders.retry_environment
    plan = replace(plan, settings={**plan.settings, "retry_environment": retries})
    register_tree(config, plan)
    worker = Worker(plan, orders, gather_runners(config), _make_bench(orders), flag, system_clock())
    config.stash[WORKER_KEY] = worker
    config.pluginmanager.register(WorkerHooks(worker, is_remote=is_remote), "atesor-worker")


def _make_bench(orders: Orders) -> Bench:
    if orders.engine == "none":
        return NoBench()
    from pytest_atesor.sandbox.sandbox import Limits  # noqa: PLC0415 - the same
    from pytest_atesor.sandbox.select import select_engine  # noqa: PLC0415 - not needed without an engine

    limits = Limits(memory_bytes=orders.memory_bytes, pids=orders.pids, cpu_weight=orders.cpu_weight)
    if session := orders.environment.get(SESSION_VARIABLE):
        from pytest_atesor.work.native_bench import NativeBench  # noqa: PLC0415 - only for this target

        return NativeBench(session, orders.slot, orders.image, Path(orders.state), limits)
    engine = select_engine(orders.engine, state=Path(orders.state))
    return SandboxBench(engine, orders.slot, orders.image, Path(orders.state), limits)
