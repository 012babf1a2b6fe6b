"""One port from the sandbox to the verdict: the phases in their order, values handed from one to the next."""

import contextlib
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_atesor.core.names import derive_package_name
from pytest_atesor.core.outcome import Cause
from pytest_atesor.core.urls import SourceUrlError
from pytest_atesor.errors import SandboxError
from pytest_atesor.porter.builders.interface import Candidate
from pytest_atesor.porter.phases import Phases
from pytest_atesor.porter.settings import Settings
from pytest_atesor.porter.shell import SandboxLike, Shell
from pytest_atesor.porter.sources.fetch import fetch_source
from pytest_atesor.porter.sources.interface import Fetched, Kind, SourceError, SourceRequest
from pytest_atesor.porter.tree import Tree, read_tree
from pytest_atesor.porter.verdict import Outcome, failed
from pytest_atesor.porter.workplace import (
    BUILD_ROOT,
    HOME,
    STAGE_ROOT,
    attempt_environment,
    build_directory,
    with_wrappers,
)

if TYPE_CHECKING:
    from pytest_atesor.porter.attempts import Built
    from pytest_atesor.porter.download_pool import DownloadPool
    from pytest_atesor.porter.installer import Installer
    from pytest_atesor.porter.package_tests import SuiteResult
    from pytest_atesor.porter.proofs import Proof
    from pytest_atesor.porter.recipe import Recipe
    from pytest_atesor.porter.recipe_cache import RecipeCache
    from pytest_atesor.porter.repair import Repair
    from pytest_atesor.porter.scan import Artifact, Scan

__all__ = ["Place", "Run", "decide_jobs", "fetch", "is_here", "lay_out", "note_scan", "open_shell", "port"]

_LARGEST_CACHE_MIB = 4096
_LAYOUT = f"""
rm -rf {BUILD_ROOT} {STAGE_ROOT} {HOME}
install -d -o builder -g builder {BUILD_ROOT} {STAGE_ROOT} {HOME} /workspace/src
install -d /workspace/cache
[ "$(du -sm /workspace/cache | cut -f1)" -lt {_LARGEST_CACHE_MIB} ] || rm -rf /workspace/cache/apt
cat /sys/fs/cgroup/memory.max /sys/fs/cgroup/memory/memory.limit_in_bytes 2>/dev/null | head -n 1
nproc
"""
_BYTES_PER_JOB = 768 * 1024 * 1024
# The harness ends us at the deadline, which is a TIMEOUT; our own limit only serves where nobody does.
_AFTER_KILL_S = 60.0
_MOST_ODDITIES = 10


def is_here(_paths: tuple[str, ...]) -> None:
    """Do nothing: the host's side of the workspace is the workspace."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a port happens: sandbox, the host's side of its workspace, the index that all slots share.

    ``bring`` makes paths of the workspace on the host what they are in the sandbox, where that is not one
    directory. ``downloads`` is what the slots share of them, None for nothing. ``recipes`` opens the cache,
    None where there is none; ``renew`` makes the sandbox anew, empty.
    """

    sandbox: SandboxLike
    workspace: Path
    index: Path
    bring: Callable[[tuple[str, ...]], None] = is_here
    downloads: "DownloadPool | None" = None
    recipes: "Callable[[], RecipeCache | None]" = lambda: None
    renew: Callable[[], object] = lambda: None

    @property
    def kept(self) -> Path:
        """The directory of kept artifacts, beside the workspace: the sandbox does not see it."""
        return self.workspace.parent / "kept"


@dataclass(slots=True)
class Run:
    """What a run has learnt; the result is written from it however the run ends."""

    outcome: Outcome
    source: dict[str, str | None] = field(default_factory=dict)
    build_system: str | None = None
    artifacts: "tuple[Artifact, ...]" = ()
    metrics: dict[str, object] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    recipe: "Recipe | None" = None
    patch: str = ""
    package_tests: "SuiteResult | None" = None
    native_tools: Mapping[str, str] = field(default_factory=dict)
    proofs: "Mapping[str, Proof]" = field(default_factory=dict)
    kept_bytes: int = 0

    def take(self, other: "Run") -> None:
        """Become what ``other`` is."""
        for one in fields(self):
            setattr(self, one.name, getattr(other, one.name))


def port(settings: Settings, place: Place, run: Run, phases: Phases, environ: Mapping[str, str]) -> None:
    """Carry out all phases and leave the outcome in ``run``.

    A failed package is an outcome, not an error. Raises SandboxError and SetupError.
    """
    try:
        shell, fetched, jobs = _begin(settings, place, run, phases, environ)
        if not settings.force:
            from pytest_atesor.porter.records import Rebuild, rebuild_from_cache  # noqa: PLC0415 - never in a batch

            again = rebuild_from_cache(settings, place, shell, run, phases, fetched)
            if again is Rebuild.DONE:
                return
            if again is Rebuild.SPOILT:
                place.renew()
                run.notes.clear()  # the source's, which come again
                shell, fetched, jobs = _begin(settings, place, run, phases, environ)
        with phases.phase("detect"):
            place.bring((f"src/{fetched.name}",))
            tree = read_tree(place.workspace / "src" / fetched.name)
            candidates = _detect(tree, run, phases)
        if candidates:
            _build(settings, place, shell, run, phases, _Work(fetched, tree, candidates, jobs))
    except SourceError as error:
        run.outcome = failed(error.cause, str(error))


def _begin(
    settings: Settings, place: Place, run: Run, phases: Phases, environ: Mapping[str, str]
) -> tuple[Shell, Fetched, int]:
    """Lay the workspace out and fetch the source; return the shell, the source, how many jobs may run."""
    shell = open_shell(settings, place, phases)
    if settings.has_build_network:
        run.notes.append("the build and its tests had the network (--build-network)")
    with phases.phase("prepare"):
        jobs = lay_out(shell)
    with phases.phase("fetch", run.source.get("url") or ""):
        return shell, fetch(settings, place, shell, run, environ), jobs


def open_shell(settings: Settings, place: Place, phases: Phases) -> Shell:
    """Return the shell of a run, bounded by its deadline."""
    deadline = None
    if settings.kill_at is not None:
        deadline = time.monotonic() + max(0.0, settings.kill_at - time.time()) + _AFTER_KILL_S
    return Shell(
        place.sandbox,
        deadline=deadline,
        output=phases.output,
        keeps_network=settings.has_build_network,
    )


@dataclass(frozen=True, slots=True)
class _Work:
    """What the build phases work on."""

    fetched: Fetched
    tree: Tree
    candidates: tuple[Candidate, ...]
    jobs: int


def lay_out(shell: Shell) -> int:
    """Make the workspace's directories; return how many jobs a build may run at once."""
    shell.set_network(enabled=True)
    done = shell.script(_LAYOUT, user="root")
    lines = done.tail.decode("utf-8", "replace").split()
    if done.exit_code != 0 or not lines:
        raise SandboxError(f"the workspace cannot be laid out: {' '.join(lines)[-300:]}")
    return decide_jobs(lines, os.cpu_count() or 1)


def decide_jobs(lines: Sequence[str], processors: int) -> int:
    """Return how many compilers may run at once, from the sandbox's memory limit in bytes and its processors.

    The last of ``lines`` is the number of processors, the one before it the limit, where there is one.
    """
    count = int(lines[-1]) if lines and lines[-1].isdigit() else processors
    limit = lines[-2] if len(lines) > 1 else ""
    most = max(1, int(limit) // _BYTES_PER_JOB) if limit.isdigit() else count
    return max(1, min(count, most))


def fetch(settings: Settings, place: Place, shell: Shell, run: Run, environ: Mapping[str, str]) -> Fetched:
    """Fetch the source and keep its identity in ``run``. Raises SourceError and SandboxError."""
    request = SourceRequest(url=settings.url, ref=settings.ref, mirrors=settings.mirrors)
    fetched = fetch_source(
        request,
        sandbox=place.sandbox,
        workspace=place.workspace,
        sink=shell.output,
        deadline=time.monotonic() + shell.remaining_s(),
        environ=environ,
        pool=place.downloads,
    )
    run.source.update(
        url_used=fetched.url_used, kind=fetched.kind.value, commit=fetched.commit, sha256=fetched.sha256
    )
    run.notes.extend(fetched.notes)
    return fetched


def _detect(tree: Tree, run: Run, phases: Phases) -> tuple[Candidate, ...]:
    from pytest_atesor.porter.detect import detect, explain_unknown  # noqa: PLC0415 - keeps the agent's start cheap

    candidates = detect(tree)
    for one in candidates[:8]:
        phases.say(f"{one.rank:4} {one.builder}: {one.evidence}")
    if tree.cut:
        run.notes.append(f"{tree.cut} entries of the source tree were not looked at (limits)")
    if not candidates:
        run.outcome = failed(Cause.UNSUPPORTED, explain_unknown(tree))
        phases.fail()
    return candidates


def _build(settings: Settings, place: Place, shell: Shell, run: Run, phases: Phases, work: _Work) -> None:
    from pytest_atesor.porter.attempts import Attempts  # noqa: PLC0415 - keeps the agent's start cheap
    from pytest_atesor.porter.builders.interface import BuildOptions  # noqa: PLC0415 - the same
    from pytest_atesor.porter.installer import Installer  # noqa: PLC0415 - the same
    from pytest_atesor.porter.packaged import set_packaged_aside  # noqa: PLC0415 - the same
    from pytest_atesor.porter.platforms import profile_of  # noqa: PLC0415 - the same
    from pytest_atesor.porter.repair import Package, Repair  # noqa: PLC0415 - the same
    from pytest_atesor.porter.scan import Scan, digest_natives, scan_tree  # noqa: PLC0415 - the same
    from pytest_atesor.porter.spoken import build_file_words  # noqa: PLC0415 - the same
    from pytest_atesor.porter.tools import read_native_tools  # noqa: PLC0415 - the same

    name = work.fetched.name
    before = digest_natives(work.tree)
    installer = Installer(
        shell,
        index=place.index,
        workspace=place.workspace,
        say=phases.say,
        bring=place.bring,
        profile=profile_of(settings.platform),
        pool=place.downloads,
    )
    with phases.phase("dependencies"):
        _install_commands(shell, installer, work.candidates[0])

    def scan() -> Scan:
        products = ("stage", f"build/{name}")
        place.bring(products)
        found = scan_tree(read_tree(place.workspace, below=products), before)
        return set_packaged_aside(found, place.workspace, shell)

    package = Package(
        name=name,
        same_times=work.fetched.kind is Kind.GIT,
        debian_source=_debian_source(work.fetched, settings.url),
        tree_files=work.tree.files,
        spoken=build_file_words(work.tree),
        absent=tuple((one.path, one.reason) for one in work.fetched.submodules if not one.fetched),
    )
    repair = Repair(installer, package, say=phases.say, is_online=shell.keeps_network)
    attempts = Attempts(shell, repair, phases, package=package, scan=scan)
    built = attempts.run(
        work.candidates, BuildOptions(jobs=work.jobs, source_url=settings.url), settings.max_attempts
    )
    run.outcome = built.outcome
    run.build_system = built.candidate.builder if built.candidate else None
    run.notes.extend(f"fix: {one}" for one in built.options.fixes)
    run.native_tools = read_native_tools(shell)
    run.metrics.update(
        attempts=built.attempts, jobs=work.jobs, packages=dict(sorted(installer.installed.items()))
    )
    if built.scan is not None:
        note_scan(built.scan, run)
        _conclude(settings, place, run, _Bench(shell, phases, installer, repair), work.fetched, built)


@dataclass(frozen=True, slots=True)
class _Bench:
    """What the phases after a build work with."""

    shell: Shell
    phases: Phases
    installer: "Installer"
    repair: "Repair"


def _conclude(
    settings: Settings, place: Place, run: Run, bench: _Bench, fetched: Fetched, built: "Built"
) -> None:
    """Keep recipe and products of a build that passed, ask for evidence and run the package's tests."""
    from pytest_atesor.porter.records import keep_in_cache, keep_recipe, read_versions  # noqa: PLC0415 - keeps the agent's start cheap
    from pytest_atesor.porter.suite_needs import FoundNeeds  # noqa: PLC0415 - the same
    from pytest_atesor.porter.trial import Trial, add_proofs, keep_products, run_package_tests  # noqa: PLC0415 - the same

    keep_recipe(settings, bench.shell, run, fetched, built)
    keep_products(settings, place, run)
    candidate = built.candidate
    if built.is_current and candidate is not None:
        add_proofs(settings, run, bench.shell, bench.phases)
        needs = FoundNeeds(
            bench.installer,
            bench.repair,
            candidate,
            built.options,
            read_versions=lambda names: read_versions(settings, bench.shell, names),
        )
        trial = Trial(
            bench.shell,
            bench.phases,
            cwd=build_directory(fetched.name, candidate.directory),
            environment=attempt_environment(built.options.tweak),
            needs=needs,
        )
        suites = [
            replace(one, prepare=one.prepare and with_wrappers(one.prepare), script=with_wrappers(one.script))
            for one in candidate.project.plan_suites(built.options)
        ]
        run_package_tests(settings, run, trial, suites)
    keep_in_cache(place, run)


def _install_commands(shell: Shell, installer: "Installer", candidate: Candidate) -> None:
    from pytest_atesor.porter.builders import builder_named  # noqa: PLC0415 - keeps the agent's start cheap
    from pytest_atesor.porter.needs import Need, NeedKind  # noqa: PLC0415 - the same

    names = builder_named(candidate.builder).commands
    asked = shell.script(f"for one in {' '.join(names)}; do command -v $one >/dev/null || echo $one; done")
    missing = asked.tail.decode("utf-8", "replace").split()
    if missing:
        found, _ = installer.resolve(Need(kind=NeedKind.COMMAND, name=one) for one in missing)
        installer.install(found)


def _debian_source(fetched: Fetched, url: str) -> str:
    if fetched.kind is Kind.DEB:
        return fetched.url_used.removeprefix("deb:")
    with contextlib.suppress(SourceUrlError):
        return derive_package_name(url).lower()
    return fetched.name.lower()


def note_scan(scan: "Scan", run: Run) -> None:
    """Keep in ``run`` what a scan found, and what of it is no proof."""
    from pytest_atesor.porter.abi import describe_abi  # noqa: PLC0415 - only after a build

    products = sorted(scan.products, key=lambda one: (one.is_test, not one.path.startswith("stage/")))
    seen: set[str] = set()
    kept = []
    for one in products:
        if one.sha256 not in seen:
            seen.add(one.sha256)
            kept.append(one)
    run.artifacts = tuple(kept)
    run.metrics.update(native_files=len(kept), objects=scan.objects, foreign_files=len(scan.foreign))
    for path, machine in scan.foreign[:5]:
        run.notes.append(f"for another processor ({machine}), no proof: {path}")
    for path in scan.prebuilt[:5]:
        run.notes.append(f"in the source tree before the build, no proof: {path}")
    for path in scan.packaged[:5]:
        run.notes.append(f"a copy of a file of the sandbox's packages, no proof: {path}")
    run.notes.extend(describe_abi(kept)[:_MOST_ODDITIES])
