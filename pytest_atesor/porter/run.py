"""One port from the sandbox to the verdict: the phases in their order, values handed from one to the next."""

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pytest_atesor.core.names import derive_package_name
from pytest_atesor.core.outcome import Cause
from pytest_atesor.core.urls import SourceUrlError
from pytest_atesor.porter.builders.interface import Candidate
from pytest_atesor.porter.context import Place, Run
from pytest_atesor.porter.phases import Phases
from pytest_atesor.porter.readable import read_products, read_source
from pytest_atesor.porter.settings import Settings
from pytest_atesor.porter.shell import Shell
from pytest_atesor.porter.sources.interface import Fetched, Kind, SourceError
from pytest_atesor.porter.stages import fetch, lay_out, note_scan, open_shell
from pytest_atesor.porter.tree import Tree
from pytest_atesor.porter.verdict import failed
from pytest_atesor.porter.workplace import (
    attempt_environment,
    build_directory,
    with_wrappers,
)

if TYPE_CHECKING:
    from pytest_atesor.porter.attempts import Built
    from pytest_atesor.porter.installer import Installer
    from pytest_atesor.porter.repair import Repair

__all__ = ["port"]


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
            tree = read_source(place, shell, fetched.name)
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


@dataclass(frozen=True, slots=True)
class _Work:
    """What the build phases work on."""

    fetched: Fetched
    tree: Tree
    candidates: tuple[Candidate, ...]
    jobs: int


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
        return set_packaged_aside(scan_tree(read_products(place, shell, name), before), shell)

    package = Package(
        name=name,
        same_times=work.fetched.kind is Kind.GIT,
        debian_source=_debian_source(work.fetched, settings.url),
        tree_files=work.tree.files,
        spoken=build_file_words(work.tree),
        absent=tuple(one for one in work.fetched.submodules if not one.fetched),
        left_out=work.fetched.left_out,
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
    keep_products(settings, place, run, bench.shell)
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
