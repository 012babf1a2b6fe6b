"""A bundle that goes on: which of its cases run, with the settings of its frozen plan.

What the plan fixed is taken from the plan. An option on the command line that says otherwise is refused;
environment and ini files, which speak of batches in general, are not asked.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from pytest_atesor.bundle.files import check_writable
from pytest_atesor.bundle.layout import BundleLayout
from pytest_atesor.bundle.writer import Bundle, read_bundle, read_plan
from pytest_atesor.core.recovery import decide_rerun, decide_resume
from pytest_atesor.errors import UsageError
from pytest_atesor.work.worker import show_path

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from pytest_atesor.bundle.lock import Holder
    from pytest_atesor.core.clock import Clock
    from pytest_atesor.core.ledger import Ledger
    from pytest_atesor.core.plan import Case, Json, Plan
    from pytest_atesor.options import Options, ReopenOptions
    from pytest_atesor.sandbox.pinning import PinnedImage

__all__ = [
    "Reopened",
    "choose_cases",
    "describe_changes",
    "find_image",
    "freeze_options",
    "list_cases",
    "read_frozen",
    "refuse_options",
    "reopen",
    "settled_options",
]

_OF_NEW_BATCHES: Final = (
    "list",
    "manifest",
    "batch-id",
    "output-root",
    "profile-root",
    "max-cases",
    "write-summary-csv",
    "shard-index",
    "shard-total",
    "only",
    "plan-only",
)
_FIXED: Final = ("platform", "target", "engine", "no-acceleration", "build-network", "agent", "package")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reopened:
    """A bundle that is ours now, what runs of it, and lines for the user about its state."""

    bundle: Bundle
    cases: tuple[Case, ...]
    notices: tuple[str, ...]


def read_frozen(wish: ReopenOptions) -> Plan:
    """Return the plan of the bundle. Raises BundleError when it is none."""
    return read_plan(BundleLayout(wish.root))


def list_cases(wish: ReopenOptions) -> tuple[Case, ...]:
    """Return the cases that would run as the bundle stands, without touching it. Raises BundleError."""
    return choose_cases(read_bundle(wish.root).ledger, wish)


def refuse_options(given: Collection[str], wish: ReopenOptions) -> None:
    """Raise UsageError for an option on the command line that only a new batch can have."""
    for name in _OF_NEW_BATCHES:
        if name in given:
            raise UsageError(
                f"--atesor-{name} is for a new batch, and the plan of {show_path(wish.root)} is frozen;"
                " drop it, or start a new batch"
            )


def settled_options(plan: Plan) -> frozenset[str]:
    """Return the options that the plan has settled: of them only the command line is to be asked."""
    settled = frozenset((*_OF_NEW_BATCHES, *_FIXED))
    return settled - {"engine"} if _leaves_engine_open(plan) else settled


def freeze_options(options: Options, plan: Plan, wish: ReopenOptions, rootdir: Path) -> Options:
    """Return the options with what the plan fixed in them.

    Raises UsageError for one on the command line that contradicts, or another rootdir.
    """
    where = show_path(wish.root)
    planned = Path(str(plan.settings.get("rootdir", rootdir)))
    if planned.is_dir() and planned.resolve() != rootdir.resolve():
        raise UsageError(f"{where} belongs to the rootdir {planned}; add --rootdir={planned}")
    agent = cast("list[str] | None", plan.settings.get("agent"))
    engine = str(plan.settings.get("engine", "auto"))
    frozen = replace(
        options,
        platform=plan.platform,
        target=plan.target,
        engine=options.engine if _leaves_engine_open(plan) else engine,
        is_accelerated=plan.settings.get("no_acceleration") is not True,
        has_build_network=plan.settings.get("build_network") is True,
        agent=tuple(agent) if agent is not None else None,
        package=plan.settings.get("package") is True,
        shard=None,
        only=(),
        output_root=wish.root.parent,
    )
    fixed: dict[str, tuple[Json, Json]] = {  # of each in _FIXED
        "platform": (options.platform.value, frozen.platform.value),
        "target": (options.target.value, frozen.target.value),
        "engine": (frozen.engine if options.engine == "auto" else options.engine, frozen.engine),
        "no-acceleration": (not options.is_accelerated, not frozen.is_accelerated),
        "build-network": (options.has_build_network, frozen.has_build_network),
        "agent": (list(options.agent or ()), list(frozen.agent or ())),
        "package": (options.package, frozen.package),
    }
    for name, (asked, known) in fixed.items():
        if name in options.given and asked != known:
            raise UsageError(
                f"--atesor-{name} {asked} contradicts the plan of {where}, which has {known};"
                " drop it, or start a new batch"
            )
    return frozen


def find_image(ledger: Ledger) -> PinnedImage | None:
    """Return the image that the batch was built in last, else the one that its plan names.

    None where there were no sandboxes, or several images, as on several machines.
    """
    from pytest_atesor.sandbox.pinning import PinnedImage  # noqa: PLC0415 - not needed without an engine

    for started, _ in reversed(ledger.sessions):
        if started.image and len(started.image_ids) == 1:
            return PinnedImage(started.image, started.image_ids[0])
    name, identifier = (ledger.plan.settings.get(key) for key in ("image", "image_id"))
    if isinstance(name, str) and isinstance(identifier, str):
        return PinnedImage(name, identifier)
    return None


def _leaves_engine_open(plan: Plan) -> bool:
    """Say whether the batch was only planned, for whatever engine there would be."""
    return plan.settings.get("engine", "auto") == "auto"


def choose_cases(ledger: Ledger, wish: ReopenOptions) -> tuple[Case, ...]:
    """Return the cases to run, in plan order. Raises UsageError for a case that the plan does not have."""
    if wish.is_rerun:
        ids = decide_rerun(ledger, failed=wish.with_failed, names=wish.cases, everything=wish.everything)
    else:
        ids = decide_resume(ledger, retry_failed=wish.with_failed)
    chosen = set(ids)
    return tuple(case for case in ledger.plan.cases if case.case_id in chosen)


def reopen(
    wish: ReopenOptions, holder: Holder, clock: Clock, rootdir: Path, on_wait: Callable[[], None]
) -> Reopened:
    """Take the bundle over, put right what was left behind, and choose the cases.

    ``on_wait`` is called when workers of a killed run must be waited for.
    Raises BundleError when it is in use, damaged, newer or not writable.
    """
    where = show_path(wish.root)
    check_writable(wish.root, "the bundle")
    bundle = Bundle.open(wish.root, holder=holder, clock=clock, on_wait=on_wait)
    try:
        cases = choose_cases(bundle.ledger, wish)
        notices = [str(bundle.ledger.tally())]
        recovery = bundle.recovery
        if recovery.torn_bytes:
            notices.append(f"dropped a torn last line of {recovery.torn_bytes} bytes from the journal")
        if recovery.adopted:
            notices.append(f"adopted {_count(recovery.adopted)} that had ended unseen")
        if recovery.interrupted:
            notices.append(f"gave up {_count(recovery.interrupted)} that had been cut short")
        notices += describe_changes(bundle.plan, rootdir)
        verb = "rerunning" if wish.is_rerun else "resuming"
        left = "" if wish.is_rerun or cases else _explain_rest(bundle.ledger)
        notices.append(f"{verb} {where}: {len(cases)} case{'s' * (len(cases) != 1)} to run{left}")
    except BaseException:
        bundle.close()
        raise
    return Reopened(bundle=bundle, cases=cases, notices=tuple(notices))


def _explain_rest(ledger: Ledger) -> str:
    """Say why a resume leaves cases out that have no outcome."""
    unselected = ledger.tally().unselected
    return f"; {unselected} never selected, which rerun --case runs" if unselected else ""


def describe_changes(plan: Plan, rootdir: Path) -> Iterator[str]:
    """Yield a line for each input file that is not what the plan was made from."""
    for file in plan.inputs:
        path = rootdir / file.path
        try:
            found = hashlib.sha256(path.read_bytes()).hexdigest()
        except OSError:
            yield f"{file.path} is not there any more; the frozen plan goes on"
            continue
        if found != file.sha256:
            yield f"{file.path} changed since planning; the frozen plan goes on"


def _count(attempts: tuple[tuple[str, str], ...]) -> str:
    return f"{len(attempts)} attempt{'s' * (len(attempts) != 1)}"
