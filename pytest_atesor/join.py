"""How an xdist worker of a batch takes up its work, and how the one process of a run without xdist does.

A worker loads the frozen plan by the path in its orders, and takes everything else from the plan and the
orders.
"""

from __future__ import annotations

import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_atesor.bundle.clock import system_clock
from pytest_atesor.bundle.layout import BundleLayout
from pytest_atesor.bundle.writer import read_plan
from pytest_atesor.collection import WORKER_KEY
from pytest_atesor.runners.port import PortRunner
from pytest_atesor.runners.stop import KILL_NOW, TERMINATE, StopFlag
from pytest_atesor.tree import TreeHooks, WorkerHooks
from pytest_atesor.worker import KILL_CHILDREN, STOP_WORKER, Bench, NoBench, Orders, SandboxBench, Worker

if TYPE_CHECKING:
    from types import FrameType

    import pytest

    from pytest_atesor.core.plan import Plan
    from pytest_atesor.runners.interface import Runner

__all__ = ["join_batch", "register_tree", "register_worker"]


def join_batch(config: pytest.Config, raw: dict[str, Any]) -> None:
    """Make this xdist worker a worker of the batch. ``raw`` is what the controller put into its input."""
    orders = Orders(**raw)
    flag = StopFlag()

    def stop(number: int, _frame: FrameType | None) -> None:
        flag.raise_to(KILL_NOW if number == KILL_CHILDREN else TERMINATE)

    for number in (STOP_WORKER, KILL_CHILDREN):
        signal.signal(number, stop)
    plan = read_plan(BundleLayout(Path(orders.plan).parent))
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
    register_tree(config, plan)
    worker = Worker(plan, orders, _gather_runners(config), _make_bench(plan, orders), flag, system_clock())
    config.stash[WORKER_KEY] = worker
    config.pluginmanager.register(WorkerHooks(worker, is_remote=is_remote), "atesor-worker")


def _gather_runners(config: pytest.Config) -> dict[str, Runner]:
    runners: list[Runner] = [PortRunner()]
    for more in reversed(config.hook.pytest_atesor_runners(config=config)):
        runners.extend(more)
    return {runner.kind: runner for runner in runners}


def _make_bench(plan: Plan, orders: Orders) -> Bench:
    engine = str(plan.settings.get("engine", "none"))
    if engine == "none":
        return NoBench()
    from pytest_atesor.sandbox.select import select_engine  # noqa: PLC0415 - not needed without an engine

    memory = plan.settings.get("memory_bytes")
    return SandboxBench(
        select_engine(engine),
        orders.slot,
        str(plan.settings["image"]),
        Path(orders.state),
        memory if isinstance(memory, int) else None,
    )
