"""Everything that comes before the first case: read, check, plan, prepare the machine, write the frozen plan.

Checks come first and create nothing. Then the engine is asked, the image is made, the slots are leased, and
last the bundle is written. Each step raises the error that names what to do.
"""

from __future__ import annotations

import contextlib
import os
import platform as host_platform
import shutil
import sys
import time
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import psutil

from pytest_atesor import __version__
from pytest_atesor.bundle.clock import system_clock
from pytest_atesor.bundle.files import check_writable
from pytest_atesor.bundle.lock import Holder
from pytest_atesor.bundle.writer import Bundle
from pytest_atesor.core.names import check_name, make_batch_id
from pytest_atesor.core.package_list import parse_package_list
from pytest_atesor.core.plan import Target
from pytest_atesor.core.planning import describe_input, plan_package_list
from pytest_atesor.crew import Crew
from pytest_atesor.errors import BadInputError, SandboxError, SetupError, UsageError
from pytest_atesor.options import read_options
from pytest_atesor.request import find_list_file, find_request
from pytest_atesor.sandbox.slots import lease_slot, state_directory
from pytest_atesor.worker import Orders

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import pytest

    from pytest_atesor.core.clock import Clock
    from pytest_atesor.core.plan import Json, Plan
    from pytest_atesor.options import Options
    from pytest_atesor.request import ListFile
    from pytest_atesor.sandbox.interface import Engine
    from pytest_atesor.sandbox.slots import SlotLease
    from pytest_atesor.signals import ProcessBook

__all__ = ["LOG_DIRECTORY", "Batch", "Draft", "count_workers", "make_batch", "make_draft"]

LOG_DIRECTORY: Final = "output/batch_logs"
_LEAST_MEMORY_BYTES: Final = 512 * 1024**2


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A batch that was checked and planned; nothing is created yet. ``workers`` of 0: in this process."""

    plan: Plan
    options: Options
    workers: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A batch that is ready to run."""

    bundle: Bundle
    crew: Crew
    clock: Clock
    workers: int

    def close(self) -> None:
        """Give slots and bundle back; the second time does nothing."""
        self.crew.close()
        self.bundle.close()


def make_draft(config: pytest.Config, environ: Mapping[str, str]) -> Draft | None:
    """Read and check everything that the user gave; None when no batch was asked for.

    Raises UsageError, BadInputError or SetupError. Creates nothing.
    """
    request = find_request(config, environ)
    if request is None:
        return None
    options = read_options(config, environ)
    rootdir = config.rootpath
    list_file = request.list_file or find_list_file(
        options.package_list or "", rootdir=rootdir, directory=config.invocation_params.dir
    )
    names = (*request.names, *options.only)
    if names and options.shard is not None:
        raise UsageError("package names and a shard exclude each other; drop the names, or the shard")
    if config.getoption("setuponly", None) or config.getoption("setupplan", None):
        raise UsageError("--setup-only and --setup-plan run no case of a batch; use --collect-only")
    workers = count_workers(config)
    plan = _read_plan(list_file, names, options, workers)
    if not config.option.collectonly:
        _check_machine(config, options, plan)
    return Draft(plan=plan, options=options, workers=workers)


def make_batch(
    draft: Draft, config: pytest.Config, environ: Mapping[str, str], processes: ProcessBook
) -> Batch:
    """Prepare the machine and write the frozen plan. Raises SetupError or BundleError."""
    clock = system_clock()
    state = state_directory(environ)
    settings: dict[str, Json] = dict(draft.plan.settings)
    engine = _prepare_engine(draft, state, settings)
    slots = max(1, draft.workers)
    leases = _lease(draft.plan, state, engine, slots)
    try:
        bundle = Bundle.create(
            draft.options.output_root,
            replace(draft.plan, settings=settings),
            holder=Holder(host=host_platform.node(), pid=os.getpid(), started_at=clock.now()),
            clock=clock,
            exact=draft.options.batch_id is not None,
        )
    except BaseException:
        for lease in leases:
            lease.release()
        raise
    orders = Orders(
        plan=str(bundle.layout.plan),
        rootdir=str(config.rootpath),
        worker="",
        slot="",
        state=str(state),
        log_directory=str(config.rootpath / LOG_DIRECTORY),
        environment=dict(draft.options.dotenv),
    )
    crew = Crew(leases, orders, processes, partial(_clear_slot, engine))
    return Batch(bundle=bundle, crew=crew, clock=clock, workers=draft.workers)


def count_workers(config: pytest.Config) -> int:
    """Return how many worker processes xdist was told to start; 0 when cases run in this process.

    Raises UsageError for a distribution that a batch cannot have.
    """
    mode = config.getoption("dist", "no")
    specs: list[str] = config.getoption("tx", None) or []
    if mode == "no" or not specs:
        return 0
    if mode == "each":
        raise UsageError("--dist each would run every case on every worker; use -n alone")
    total = 0
    for spec in specs:
        number, star, rest = spec.partition("*")
        kind = rest if star and number.isdecimal() else spec
        if not kind.startswith("popen"):
            raise UsageError(f"--tx {spec}: the workers of a batch run on this machine; use -n, or popen")
        total += int(number) if star and number.isdecimal() else 1
    return total


def _read_plan(list_file: ListFile, names: tuple[str, ...], options: Options, workers: int) -> Plan:
    shown = list_file.source
    try:
        data = list_file.path.read_bytes()
    except OSError as error:
        raise BadInputError(f"cannot read the package list {list_file.path}: {error.strerror}") from error
    package_list = parse_package_list(data, shown)
    return plan_package_list(
        package_list,
        batch_id=_choose_batch_id(list_file, options),
        name=list_file.name,
        source=shown,
        platform=options.platform,
        target=options.target,
        only=names,
        shard=options.shard,
        inputs=(describe_input(shown, data),),
        settings={
            "engine": options.engine,
            "agent": list(options.agent) if options.agent is not None else None,
            "package": options.package,
            "workers": max(1, workers),
            "version": __version__,
        },
        created_at=system_clock().now(),
    )


def _choose_batch_id(list_file: ListFile, options: Options) -> str:
    if options.batch_id is None:
        return make_batch_id(list_file.name, time.strftime("%Y%m%d-%H%M%S"))
    try:
        batch_id = check_name(options.batch_id)
    except ValueError as error:
        raise UsageError(f"bad batch id {options.batch_id!r}: {error}") from None
    taken = options.output_root / batch_id
    if taken.exists():
        raise UsageError(f"batch id {batch_id!r} is taken: {taken} exists; choose another")
    return batch_id


def _check_machine(config: pytest.Config, options: Options, plan: Plan) -> None:
    if plan.target is Target.NATIVE:
        raise SetupError("native target: not available in this version; use --atesor-target qemu")
    if options.agent is not None and not _can_run(options.agent[0], config.rootpath):
        raise SetupError(f"the agent {options.agent[0]!r} is no program that can be run; check the path")
    check_writable(options.output_root, "the output root")
    check_writable(config.rootpath / LOG_DIRECTORY, "the log directory")
    junit: Any = config.getoption("xmlpath", None)
    if junit:
        check_writable((config.invocation_params.dir / str(junit)).parent, "the directory of the JUnit file")


def _can_run(program: str, rootdir: Path) -> bool:
    """Say whether an agent's program exists; a path with a slash counts from the rootdir."""
    return shutil.which(str(rootdir / program) if "/" in program else program) is not None


def _prepare_engine(draft: Draft, state: Path, settings: dict[str, Json]) -> Engine | None:
    """Choose and check the engine and make the image, and put down in ``settings`` what was found."""
    if draft.options.engine == "none":
        return None
    from pytest_atesor.sandbox.image import ensure_image  # noqa: PLC0415 - not needed without an engine
    from pytest_atesor.sandbox.preflight import run_preflight  # noqa: PLC0415 - the same
    from pytest_atesor.sandbox.select import select_engine  # noqa: PLC0415 - the same

    plan = draft.plan
    engine = select_engine(draft.options.engine)
    info = run_preflight(engine, plan.platform, plan.target, state=state)
    image = ensure_image(engine, plan.platform, state=state, progress=_show_progress)
    memory = max(_LEAST_MEMORY_BYTES, psutil.virtual_memory().total // max(1, draft.workers))
    settings.update(engine=engine.name, engine_version=info.version, image=image, memory_bytes=memory)
    return engine


def _lease(plan: Plan, state: Path, engine: Engine | None, count: int) -> list[SlotLease]:
    """Lease slots and clear them of what a killed batch may have left."""
    from pytest_atesor.sandbox.interface import Foreign  # noqa: PLC0415 - not needed without an engine

    def is_foreign(name: str) -> bool:
        return engine is not None and isinstance(engine.state(name), Foreign)

    leases: list[SlotLease] = []
    try:
        for _ in range(count):
            first = leases[-1].number + 1 if leases else 1
            leases.append(lease_slot(state, plan.platform, range(first, 1000), is_foreign=is_foreign))
            _clear_slot(engine, leases[-1].name)
    except BaseException:
        for lease in leases:
            lease.release()
        raise
    return leases


def _clear_slot(engine: Engine | None, name: str) -> None:
    """Remove the sandbox of a slot that is ours. What cannot be removed fails the next case there, loudly."""
    if engine is not None:
        with contextlib.suppress(SandboxError):
            engine.remove(name)


def _show_progress(line: str) -> None:
    print(f"atesor: {line}", file=sys.stderr, flush=True)  # noqa: T201 - pytest's reporter does not exist yet
