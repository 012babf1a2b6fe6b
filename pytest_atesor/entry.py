"""How a batch enters a pytest run, in the process that the user started.

Everything that can be refused is refused here, before pytest's session begins: one line on stderr and the
exit code of the error. What is accepted becomes plugin objects that do the rest.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING

import pytest

from pytest_atesor.controller import Controller, XdistHooks
from pytest_atesor.errors import AtesorError
from pytest_atesor.join import register_tree, register_worker
from pytest_atesor.prepare import make_batch, make_draft
from pytest_atesor.runners.stop import StopFlag
from pytest_atesor.signals import ProcessBook, SetupInterrupted, StopSignals
from pytest_atesor.tree import ListingHooks

if TYPE_CHECKING:
    from pytest_atesor.prepare import Batch

__all__ = ["say", "start_batch"]


def start_batch(config: pytest.Config) -> int | None:
    """Turn this pytest run into the batch that was asked for. Returns the exit code when it cannot start.

    None lets pytest go on: with the batch, or as ever when none was asked for after all.
    """
    flag = StopFlag()
    processes = ProcessBook()
    signals = StopSignals(flag, processes)
    signals.__enter__()
    started = False
    try:
        draft = make_draft(config, os.environ)
        if draft is None:
            return None
        if not draft.plan.cases:
            say(f"{draft.plan.source}: this shard has no packages; nothing to do")
            return 0
        if config.option.collectonly:
            register_tree(config, draft.plan)
            config.pluginmanager.register(ListingHooks(draft.plan), "atesor-listing")
            return None
        _warn_of_many(draft.workers)
        batch = make_batch(draft, config, os.environ, processes)
        _start(config, batch, flag, signals)
        started = True
    except AtesorError as error:
        say(f"error: {error}")
        return error.exit_code
    except SetupInterrupted as interrupt:
        say(f"stopped by {signal.Signals(interrupt.number).name} before the first case")
        return 128 + interrupt.number
    finally:
        if not started:
            signals.__exit__(None, None, None)
            flag.close()
    return None


def _start(config: pytest.Config, batch: Batch, flag: StopFlag, signals: StopSignals) -> None:
    controller = Controller(config, batch)
    session = controller.session
    manager = config.pluginmanager
    manager.register(controller, "atesor-controller")
    manager.register(_Closing(batch, flag, signals), "atesor-closing")
    if batch.workers > 0:
        if config.option.maxworkerrestart is None:
            # Stock xdist gives up after four crashes per worker and drops what never ran.
            config.option.maxworkerrestart = str(len(session.plan.cases) + 4 * batch.workers)
        register_tree(config, session.plan)
        manager.register(XdistHooks(batch, session), "atesor-xdist")
    else:
        register_worker(config, session.plan, batch.crew.give_orders("main"), flag, is_remote=False)

    def on_stop(number: int) -> None:
        session.stop(f"stopped by {signal.Signals(number).name}", signal=number)

    signals.watch(on_stop)


class _Closing:
    """Gives back what the batch holds when pytest is through."""

    def __init__(self, batch: Batch, flag: StopFlag, signals: StopSignals) -> None:
        self._batch = batch
        self._flag = flag
        self._signals = signals

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self) -> None:
        """Restore the signals and give slots and bundle back."""
        self._signals.__exit__(None, None, None)
        self._batch.close()
        self._flag.close()


def _warn_of_many(workers: int) -> None:
    count = os.cpu_count() or 1
    if workers > count:
        say(f"warning: {workers} workers on {count} CPUs; builds will wait for each other")


def say(line: str) -> None:
    """Print one line of this program's own."""
    print(f"atesor: {line}", file=sys.stderr, flush=True)  # noqa: T201 - pytest's reporter does not exist yet
