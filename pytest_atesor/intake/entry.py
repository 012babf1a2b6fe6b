"""How a batch enters a pytest run, in the process that the user started.

Everything that can be refused is refused here, before pytest's session begins: one line on stderr and the
exit code of the error. What is accepted becomes plugin objects that do the rest.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from pytest_atesor.control.controller import Controller, XdistHooks
from pytest_atesor.control.idle import IdleHooks, leave_out_workers
from pytest_atesor.control.signals import ProcessBook, SetupInterrupted, StopSignals
from pytest_atesor.core.dotenv import describe_mistyped
from pytest_atesor.core.plan import BatchKind, Target
from pytest_atesor.core.text import LONGEST_LINE, count_of, sanitize_line
from pytest_atesor.errors import AtesorError, explaining_paths
from pytest_atesor.intake.prepare import make_batch, make_draft, write_plan
from pytest_atesor.intake.voice import say
from pytest_atesor.options import INTERNAL_VARIABLES, VARIABLES
from pytest_atesor.runners.stop import StopFlag
from pytest_atesor.spelling import spell_as_typed
from pytest_atesor.work.join import register_tree, register_worker
from pytest_atesor.work.tree import ListingHooks
from pytest_atesor.work.worker import show_path

if TYPE_CHECKING:
    from pytest_atesor.control.batch import Batch
    from pytest_atesor.core.plan import Case
    from pytest_atesor.intake.prepare import Draft

__all__ = ["start_batch"]


def start_batch(config: pytest.Config) -> int | None:
    """Turn this pytest run into the batch that was asked for. Returns the exit code when it cannot start.

    None lets pytest go on: with the batch, or as ever when none was asked for after all.
    """
    flag = StopFlag()
    processes = ProcessBook()
    signals = StopSignals(flag, processes)
    signals.__enter__()
    draft: Draft | None = None
    started = False
    try:
        with explaining_paths():
            draft = make_draft(config, os.environ)
        if draft is None:
            return None
        for line in describe_mistyped(draft.options.dotenv, VARIABLES, INTERNAL_VARIABLES):
            say(f"warning: {line}")
        code = _begin(config, draft)
        if code is not None or config.option.collectonly:
            return code
        if not draft.plan.cases:
            _start_idle(config, draft)
            return None
        batch = make_batch(draft, config, os.environ, processes)
        _start(config, batch, draft.plan.cases, flag, signals)
        started = True
    except AtesorError as error:
        say(f"error: {spell_as_typed(str(error), config)}")
        return error.exit_code
    except SetupInterrupted as interrupt:
        say(f"stopped by {signal.Signals(interrupt.number).name} before the first case")
        return 128 + interrupt.number
    finally:
        if not started:
            if draft is not None:
                draft.close()
            signals.__exit__(None, None, None)
            flag.close()
    return None


def _begin(config: pytest.Config, draft: Draft) -> int | None:
    """Say what there is to say before the machine is prepared; return the exit code when that is all."""
    plan, options = draft.plan, draft.options
    for notice in draft.reopened.notices if draft.reopened is not None else ():
        with contextlib.suppress(OSError):  # the session finds out for itself, and goes on
            _answer(notice)
    if not plan.cases:
        if draft.reopened is None:
            say(_explain_nothing(draft))
        return 0 if config.option.collectonly or options.is_plan_only else None
    if options.max_cases is not None and len(plan.cases) > options.max_cases:
        count = count_of("case", len(plan.cases))
        say(f"warning: {plan.source} has {count}, more than the {options.max_cases} expected")
    if config.option.collectonly:
        register_tree(config, plan)
        config.pluginmanager.register(ListingHooks(plan), "atesor-listing")
        return None
    if options.is_plan_only:
        root = show_path(write_plan(draft).layout.root)
        _answer(f"planned {count_of('case', len(plan.cases))} of {plan.source} in {root}")
        return 0
    if plan.target is not Target.NATIVE:
        _warn_of_many(draft.workers)
    return None


def _explain_nothing(draft: Draft) -> str:
    if draft.going_on is not None:
        return f"{show_path(draft.going_on)}: 0 cases to run"
    noun = "packages" if draft.plan.kind is BatchKind.PACKAGE_LIST else "cases"
    return f"{draft.plan.source}: this shard has no {noun}; nothing to do"


def _start_idle(config: pytest.Config, draft: Draft) -> None:
    """Register what shows that nothing is to run."""
    leave_out_workers(config)
    register_tree(config, draft.plan)
    bundle = draft.reopened.bundle if draft.reopened is not None else None
    config.pluginmanager.register(IdleHooks(config, bundle), "atesor-idle")


def _start(
    config: pytest.Config, batch: Batch, cases: tuple[Case, ...], flag: StopFlag, signals: StopSignals
) -> None:
    """Register what runs these cases of the batch."""
    controller = Controller(config, batch)
    session = controller.session
    session.offer(cases)
    manager = config.pluginmanager
    manager.register(controller, "atesor-controller")
    manager.register(_Closing(batch, flag, signals), "atesor-closing")
    tree = replace(session.plan, cases=cases)
    if batch.workers > 0:
        if config.option.maxworkerrestart is None:
            # Stock xdist gives up after four crashes per worker and drops what never ran.
            config.option.maxworkerrestart = str(len(session.plan.cases) + 4 * batch.workers)
        register_tree(config, tree)
        manager.register(XdistHooks(batch, session, controller.watch, controller.show), "atesor-xdist")
    else:
        register_worker(config, tree, batch.crew.give_orders("main"), flag, is_remote=False)

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


def _answer(line: str) -> None:
    """Print one line that was asked for; what stdout cannot encode is spelled out, as stderr always does."""
    encoding = sys.stdout.encoding or "utf-8"
    shown = f"atesor: {sanitize_line(line, LONGEST_LINE)}".encode(encoding, "backslashreplace").decode(
        encoding
    )
    print(shown, flush=True)  # noqa: T201 - pytest's reporter does not exist yet
