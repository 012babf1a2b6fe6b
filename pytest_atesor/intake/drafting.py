"""From the input that the user named to a plan: read, check, plan. Nothing is created or started."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from pytest_atesor import __version__
from pytest_atesor.bundle.clock import system_clock
from pytest_atesor.bundle.inputs import TreeReader, read_input
from pytest_atesor.core.manifest import plan_manifest
from pytest_atesor.core.names import check_name, make_batch_id
from pytest_atesor.core.package_list import parse_package_list
from pytest_atesor.core.plan import Platform, Target
from pytest_atesor.core.planning import PlanFacts, describe_input, plan_package_list
from pytest_atesor.core.selection import select_cases
from pytest_atesor.core.sweep import has_sweep, plan_sweep
from pytest_atesor.errors import BadInputError, UsageError
from pytest_atesor.work.kinds import gather_kinds
from pytest_atesor.work.worker import show_path

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pytest

    from pytest_atesor.core.plan import Case, InputFile, Json, Plan
    from pytest_atesor.intake.request import ListFile
    from pytest_atesor.options import Options

__all__ = ["plan_input", "settle_output_root"]

# Some forty thousand entries; a larger one would keep the parser busy for many seconds.
_LARGEST_LIST_BYTES: Final = 8 * 1024 * 1024

_SWEEPS: Final = "runs/sweeps"
_Choice = TypeVar("_Choice", Platform, Target)


def plan_input(
    file: ListFile, names: tuple[str, ...], options: Options, config: pytest.Config, workers: int
) -> Plan:
    """Return the plan of a package list or manifest: the named cases, or the shard's, or all.

    Raises BadInputError or UsageError.
    """
    settings: dict[str, Json] = {
        "engine": options.engine,
        "no_acceleration": not options.is_accelerated,
        "build_network": options.has_build_network,
        "agent": list(options.agent) if options.agent is not None else None,
        "package": options.package,
        "workers": max(1, workers),
        "version": __version__,
        "rootdir": str(config.rootpath),
    }
    facts = PlanFacts(
        batch_id=_choose_batch_id(file, options),
        name=file.name,
        platform=options.platform,
        target=options.target,
        settings=settings,
        created_at=system_clock().now(),
    )
    plan_file = _plan_manifest if file.is_manifest else _plan_list
    plan = plan_file(file, names, options, config, facts)
    return replace(plan, write_csv=plan.write_csv or options.write_csv)


def settle_output_root(file: ListFile, options: Options, rootdir: Path) -> Options:
    """Return the options with the directory of sweeps' bundles where a sweep runs and no other was given.

    Raises BadInputError when the input cannot be read.
    """
    is_default = "output-root" not in options.origins
    if not (is_default and file.is_manifest and has_sweep(read_input(Path(show_path(file.path))))):
        return options
    return replace(options, output_root=rootdir / _SWEEPS)


def _plan_list(
    file: ListFile,
    names: tuple[str, ...],
    options: Options,
    config: pytest.Config,
    facts: PlanFacts,
) -> Plan:
    if "profile-root" in options.given:
        raise UsageError(
            f"--atesor-profile-root is for manifests, and {file.called} is a package list; drop the option"
        )
    data = read_input(file.path, _LARGEST_LIST_BYTES).data
    plan = plan_package_list(
        parse_package_list(data, file.source),
        facts,
        source=file.source,
        called=file.called,
        only=names,
        shard=options.shard,
    )
    return replace(plan, inputs=(describe_input(_place(file.path, config.rootpath), data),))


def _plan_manifest(
    file: ListFile,
    names: tuple[str, ...],
    options: Options,
    config: pytest.Config,
    facts: PlanFacts,
) -> Plan:
    shown = Path(show_path(file.path))
    profiles = shown.parent if options.profile_root is None else Path(show_path(options.profile_root))
    if not profiles.is_dir():
        origin = options.origins.get("profile-root", "the manifest's path")
        raise UsageError(f"the profile root {profiles}, from {origin}, is no directory; correct it there")
    source = read_input(shown)
    parse = plan_sweep if has_sweep(source) else plan_manifest
    whole = parse(source, TreeReader(shown, profiles), gather_kinds(config), facts)
    chosen = select_cases([case.label for case in whole.cases], names, options.shard, file.source, "case")
    cases = tuple(whole.cases[index] for index in chosen)
    return replace(
        whole,
        source=file.source,
        cases=cases,
        platform=_agree("platform", cases, options.platform, is_given="platform" in options.given),
        target=_agree("target", cases, options.target, is_given="target" in options.given),
        inputs=tuple(_place_input(found, config.rootpath) for found in whole.inputs),
    )


def _agree(key: str, cases: Iterable[Case], default: _Choice, *, is_given: bool) -> _Choice:
    """Return the platform or target that the cases ask for, the default when none does."""
    asked = {str(case.spec[key]): case.label for case in cases if case.kind == "port" and key in case.spec}
    if is_given:
        asked.setdefault(default.value, f"--atesor-{key}")
    if len(asked) > 1:
        shown = ", ".join(f"{value} ({label})" for value, label in asked.items())
        raise BadInputError(
            f"one batch has one {key}, and its cases ask for several: {shown}; make two batches"
        )
    return type(default)(next(iter(asked), default.value))


def _choose_batch_id(file: ListFile, options: Options) -> str:
    if options.batch_id is None:
        return make_batch_id(file.name, time.strftime("%Y%m%d-%H%M%S"))
    try:
        batch_id = check_name(options.batch_id)
    except ValueError as error:
        origin = options.origins["batch-id"]
        raise UsageError(f"bad batch id {options.batch_id!r} from {origin}: {error}") from None
    taken = options.output_root / batch_id
    if taken.exists():
        raise UsageError(f"batch id {batch_id!r} is taken: {taken} exists; choose another, or resume it")
    return batch_id


def _place_input(file: InputFile, rootdir: Path) -> InputFile:
    imports = tuple(_place(Path(path), rootdir) for path in file.imports)
    return replace(file, path=_place(Path(file.path), rootdir), imports=imports)


def _place(path: Path, rootdir: Path) -> str:
    """Return where an input is found again: relative to the rootdir below it, else absolute."""
    absolute = Path(os.path.abspath(path))  # noqa: PTH100 - resolve() would rename what a link was called
    return absolute.relative_to(rootdir).as_posix() if absolute.is_relative_to(rootdir) else str(absolute)
