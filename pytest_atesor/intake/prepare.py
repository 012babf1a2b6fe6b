"""Everything that comes before the first case: read, check, plan, prepare the machine, write the frozen plan.

Checks come first and create nothing. Then the engine is asked, the image is made, the slots are leased, and
last the bundle is written. Each step raises the error that names what to do.
"""

from __future__ import annotations

import os
import platform as host_platform
import shutil
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

import psutil

from pytest_atesor.bundle.clock import system_clock
from pytest_atesor.bundle.files import check_file_writable, check_writable
from pytest_atesor.bundle.lock import Holder
from pytest_atesor.bundle.writer import Bundle
from pytest_atesor.control.batch import Batch
from pytest_atesor.control.crew import Crew
from pytest_atesor.control.history import History
from pytest_atesor.control.page import PageWriter
from pytest_atesor.control.site import Site
from pytest_atesor.core.dotenv import add_dotenv, is_set
from pytest_atesor.core.limits import share_memory
from pytest_atesor.core.package_testing import TESTS_VARIABLE, parse_package_testing
from pytest_atesor.core.plan import Target
from pytest_atesor.core.proxies import check_proxies
from pytest_atesor.errors import SetupError, UsageError
from pytest_atesor.intake.drafting import plan_input, settle_output_root
from pytest_atesor.intake.encoding import check_file_names, check_told
from pytest_atesor.intake.flags import check_expressions, count_workers, refuse_flags, refuse_taken_marks
from pytest_atesor.intake.leasing import clear_slot, lease_slots, reap_strays
from pytest_atesor.intake.reopening import (
    find_image,
    freeze_options,
    list_cases,
    read_frozen,
    refuse_options,
    reopen,
    settled_options,
)
from pytest_atesor.intake.request import find_list_file, find_request
from pytest_atesor.intake.voice import say
from pytest_atesor.options import ENGINES, LIST, find_given, find_reopen, read_options, refuse_strays
from pytest_atesor.sandbox.kernel import check_kernel
from pytest_atesor.sandbox.slots import state_directory
from pytest_atesor.work.kinds import gather_kinds
from pytest_atesor.work.worker import Orders

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import pytest

    from pytest_atesor.control.signals import ProcessBook
    from pytest_atesor.core.clock import Clock
    from pytest_atesor.core.plan import Json, Plan
    from pytest_atesor.intake.reopening import Reopened
    from pytest_atesor.intake.request import ListFile
    from pytest_atesor.options import Options, ReopenOptions

__all__ = ["LOG_DIRECTORY", "Draft", "make_batch", "make_draft", "write_plan"]

LOG_DIRECTORY: Final = "output/batch_logs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A batch that was checked and planned; nothing is created yet. ``workers`` of 0: in this process.

    ``plan`` has the cases that are to run. ``going_on`` is the directory of a batch that goes on, and
    ``reopened`` its bundle, locked, None where cases are only listed; ``sandboxed`` names the kinds of cases
    that need a sandbox.
    """

    plan: Plan
    options: Options
    workers: int
    sandboxed: tuple[str, ...]
    going_on: Path | None = None
    reopened: Reopened | None = None

    def close(self) -> None:
        """Give a reopened bundle back; the second time does nothing."""
        if self.reopened is not None:
            self.reopened.bundle.close()


def make_draft(config: pytest.Config, environ: Mapping[str, str]) -> Draft | None:
    """Read and check everything that the user gave; None when neither a batch was asked for nor an option.

    Raises UsageError, BadInputError or SetupError. Creates nothing; a bundle that goes on is locked, and what
    was left behind in it put right.
    """
    wish = find_reopen(config)
    if wish is not None:
        return _draft_again(wish, config, environ)
    request = find_request(config, environ)
    if request is None:
        refuse_strays(config)
        return None
    check_file_names()
    options = read_options(config, environ)
    file = request.list_file or _find_list(options, config)
    refuse_flags(config)
    if options.target is Target.NATIVE:
        from pytest_atesor.intake.native import spread_over_machines  # noqa: PLC0415 - only for this target

        spread_over_machines(config, options, environ)
    workers = count_workers(config)
    options = settle_output_root(file, options, config.rootpath)
    plan = plan_input(file, (*request.names, *options.only), options, config, workers)
    draft = _make_draft(plan, options, workers, config)
    if not config.option.collectonly:
        _check_machine(config, draft, environ)
    return draft


def _find_list(options: Options, config: pytest.Config) -> ListFile:
    """Return the list that the options name: a path of a setting counts from the rootdir."""
    is_flag = LIST.name in options.given
    directory = config.invocation_params.dir if is_flag else config.rootpath
    return find_list_file(options.package_list or "", rootdir=config.rootpath, directory=directory)


def _draft_again(wish: ReopenOptions, config: pytest.Config, environ: Mapping[str, str]) -> Draft:
    if config.args_source is config.ArgsSource.ARGS:
        raise UsageError(
            f"a bundle that goes on has its own cases, and {config.args[0]!r} is none; drop it, or use -k"
        )
    refuse_flags(config)
    check_file_names()
    plan = read_frozen(wish)
    refuse_options(find_given(config), wish)
    options = read_options(config, environ, settled=settled_options(plan))
    options = freeze_options(options, plan, wish, config.rootpath)
    draft = replace(_make_draft(plan, options, count_workers(config), config), going_on=wish.root)
    if config.option.collectonly:
        return replace(draft, plan=replace(plan, cases=list_cases(wish)))
    _check_machine(config, draft, environ)
    clock = system_clock()
    wait = partial(say, "waiting for the workers of a killed run to end")
    reopened = reopen(wish, _make_holder(clock), clock, config.rootpath, wait)
    return replace(draft, plan=replace(plan, cases=reopened.cases), reopened=reopened)


def _make_draft(plan: Plan, options: Options, workers: int, config: pytest.Config) -> Draft:
    refuse_taken_marks(config, plan)
    check_expressions(config, plan)
    kinds = gather_kinds(config)
    used = sorted({case.kind for case in plan.cases})
    for name in used:
        if name not in kinds:
            raise SetupError(f"the plan has cases of kind {name!r}, which no plugin here brings; install it")
    sandboxed = tuple(name for name in used if kinds[name].needs_sandbox)
    if used and not sandboxed:
        options = replace(options, engine="none")
        plan = replace(plan, settings={**plan.settings, "engine": "none"})
    return Draft(plan=plan, options=options, workers=workers, sandboxed=sandboxed)


def write_plan(draft: Draft) -> Bundle:
    """Write the bundle of a batch that is only planned, and close it. Raises BundleError."""
    bundle = _create_bundle(draft, draft.plan)
    bundle.close()
    return bundle


def make_batch(
    draft: Draft, config: pytest.Config, environ: Mapping[str, str], processes: ProcessBook
) -> Batch:
    """Prepare the machine and write the frozen plan. Raises SetupError or BundleError."""
    with ExitStack() as stack:
        batch = _make_batch(draft, config, environ, processes, stack)
        return replace(batch, held=stack.pop_all())


def _make_batch(
    draft: Draft,
    config: pytest.Config,
    environ: Mapping[str, str],
    processes: ProcessBook,
    stack: ExitStack,
) -> Batch:
    clock = system_clock()
    settings: dict[str, Json] = dict(draft.plan.settings)
    state, sites = _prepare_sites(draft, environ, settings, stack)
    history = History(state, draft.plan)
    settings["expected_s"] = cast("Json", history.expect())
    settings["retry_environment"] = draft.options.retry_environment
    for warning in history.warnings:
        say(warning)
    berths = lease_slots(state, draft.plan.platform, sites)
    for site in sites:
        for name in reap_strays(site.engine):
            say(f"removed {name}, the sandbox of a batch that was killed")
    try:
        bundle = (
            _create_bundle(draft, replace(draft.plan, settings=settings))
            if draft.reopened is None
            else draft.reopened.bundle
        )
    except BaseException:
        for berth in berths:
            berth.lease.release()
        raise
    bundle.add_view(PageWriter(bundle.layout))
    orders = _make_orders(draft, bundle, str(settings["engine"]), state, config.rootpath)
    crew = Crew(berths, orders, processes, clear_slot)
    return Batch(
        bundle=bundle,
        crew=crew,
        clock=clock,
        workers=draft.workers,
        sites=sites,
        image=str(settings.get("image", "")) if sites[0].image else "",
        history=history,
        has_breaker=draft.options.has_breaker,
    )


def _prepare_sites(
    draft: Draft, environ: Mapping[str, str], settings: dict[str, Json], stack: ExitStack
) -> tuple[Path, tuple[Site, ...]]:
    """Return the state directory and where the slots are; ``settings`` gets what was found there."""
    environ = add_dotenv(draft.options.dotenv, environ)
    state = state_directory(environ)
    if draft.plan.target is not Target.NATIVE or draft.options.engine == "none":
        return state, (_prepare_site(draft, state, settings, environ, stack),)
    from pytest_atesor.intake.native import hold_machines  # noqa: PLC0415 - only for this target

    state = state / "native"  # nothing of it is shared with emulated batches
    sites = hold_machines(
        stack,
        settings,
        platform=draft.plan.platform,
        options=draft.options,
        workers=draft.workers,
        environ=environ,
        state=state,
        say=say,
    )
    return state, sites


def _make_orders(draft: Draft, bundle: Bundle, engine: str, state: Path, rootdir: Path) -> Orders:
    """Return what every worker is told; its name, its slot and that one's machine are added later."""
    return Orders(
        plan=str(bundle.layout.plan),
        rootdir=str(rootdir),
        worker="",
        slot="",
        state=str(state),
        log_directory=str(rootdir / LOG_DIRECTORY),
        environment=dict(draft.options.dotenv),
        case_ids=None if draft.reopened is None else [case.case_id for case in draft.plan.cases],
        sandboxed=list(draft.sandboxed),
        engine=engine,
        image="",
        memory_bytes=None,
        pids=draft.options.limits.pids,
        cpu_weight=draft.options.limits.cpu_weight,
        retry_environment=draft.options.retry_environment,
    )


def _create_bundle(draft: Draft, plan: Plan) -> Bundle:
    clock = system_clock()
    return Bundle.create(
        draft.options.output_root,
        plan,
        holder=_make_holder(clock),
        clock=clock,
        exact=draft.options.batch_id is not None,
    )


def _make_holder(clock: Clock) -> Holder:
    return Holder(host=host_platform.node(), pid=os.getpid(), started_at=clock.now())


def _check_machine(config: pytest.Config, draft: Draft, environ: Mapping[str, str]) -> None:
    options = draft.options
    if draft.workers:
        check_told(config)
    if draft.going_on is None:
        check_writable(options.output_root, "the output root")
    if options.is_plan_only:
        return
    check_kernel()
    if draft.sandboxed and options.engine == "none" and options.agent is None:
        raise UsageError(
            "the built-in agent needs a sandbox, and the engine is 'none'; "
            f"choose one of {', '.join(ENGINES[:-1])}, or give an agent that brings its own (--atesor-agent)"
        )
    if draft.plan.target is Target.NATIVE and not draft.sandboxed and options.agent is None:
        raise SetupError(
            "the target native builds packages on a riscv64 machine, and the plan has no such case; "
            "use --atesor-target qemu"
        )
    if draft.sandboxed and options.agent is not None and not _can_run(options.agent[0], config.rootpath):
        origin = options.origins.get("agent", "the plan")
        raise SetupError(
            f"the agent {options.agent[0]!r}, from {origin}, is no program that can be run; check the path"
        )
    if draft.sandboxed and options.agent is None:
        _check_built_in_agent(config, options, environ)
    check_writable(config.rootpath / LOG_DIRECTORY, "the log directory")
    junit: Any = config.getoption("xmlpath", None)
    if junit:
        check_file_writable(config.invocation_params.dir / str(junit), "the JUnit file")


def _check_built_in_agent(config: pytest.Config, options: Options, environ: Mapping[str, str]) -> None:
    """Refuse at the start what the built-in agent would refuse, or could not write, in each case."""
    given = add_dotenv(options.dotenv, environ)
    if text := given.get(TESTS_VARIABLE):
        where = "the environment" if is_set(TESTS_VARIABLE, environ) else str(config.rootpath / ".env")
        parse_package_testing(text, f"{TESTS_VARIABLE} in {where}")
    check_proxies(given)
    if options.package:
        check_writable(config.rootpath / "workspace" / "packages", "the directory of the zips")


def _can_run(program: str, rootdir: Path) -> bool:
    """Say whether an agent's program exists; a path with a slash counts from the rootdir."""
    return shutil.which(str(rootdir / program) if "/" in program else program) is not None


def _prepare_site(
    draft: Draft, state: Path, settings: dict[str, Json], environ: Mapping[str, str], stack: ExitStack
) -> Site:
    """Choose and check the engine and make the image, and put down in ``settings`` what was found.

    That very image stays there until the ``stack`` is closed.
    """
    slots = max(1, draft.workers)
    if draft.options.engine == "none":
        settings["engine"] = "none"
        return Site(engine=None, slots=slots)
    from pytest_atesor.sandbox.pinning import pinning_image  # noqa: PLC0415 - not needed without an engine
    from pytest_atesor.sandbox.preflight import run_preflight  # noqa: PLC0415 - the same
    from pytest_atesor.sandbox.select import select_engine  # noqa: PLC0415 - the same

    plan = draft.plan
    engine = select_engine(draft.options.engine, state=state)
    accelerated = draft.options.is_accelerated
    info = run_preflight(engine, plan.platform, plan.target, state=state, accelerated=accelerated)
    if info.unenforced:
        say(f"warning: {engine.name} cannot enforce here: {', '.join(info.unenforced)}")
    former = find_image(draft.reopened.bundle.ledger) if draft.reopened is not None else None
    image = stack.enter_context(
        pinning_image(
            engine,
            plan.platform,
            state=state,
            progress=say,
            accelerated=accelerated,
            environ=environ,
            former=former,
        )
    )
    limits = draft.options.limits
    memory = limits.memory_bytes or share_memory(psutil.virtual_memory().total, draft.workers)
    settings.update(engine=engine.name, engine_version=info.version, memory_bytes=memory)
    settings.update(image=image.name, image_id=image.id)
    settings.update(pids=limits.pids, cpu_weight=limits.cpu_weight)
    return Site(engine=engine, slots=slots, image=image.id, memory_bytes=memory)
