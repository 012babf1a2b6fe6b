"""Keeping a recipe from a run that built something, and replaying one to the same kind of verdict."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto, unique
from typing import TYPE_CHECKING

from pytest_atesor.core.outcome import Cause
from pytest_atesor.core.package_testing import PackageTesting
from pytest_atesor.errors import AtesorError
from pytest_atesor.porter.builders.interface import Suite
from pytest_atesor.porter.builders.shared import quote
from pytest_atesor.porter.context import Place, Run
from pytest_atesor.porter.downloads import Downloads
from pytest_atesor.porter.package_tests import SuiteStatus
from pytest_atesor.porter.packaged import set_packaged_aside
from pytest_atesor.porter.phases import Phases
from pytest_atesor.porter.platforms import profile_of
from pytest_atesor.porter.readable import read_products, read_source
from pytest_atesor.porter.recipe import PackageTests, Recipe, parse_versions
from pytest_atesor.porter.recipe_cache import Source, Unknown
from pytest_atesor.porter.scan import digest_natives, scan_tree
from pytest_atesor.porter.settings import Settings
from pytest_atesor.porter.shell import Shell
from pytest_atesor.porter.sources.interface import Fetched, SourceError
from pytest_atesor.porter.stages import fetch, lay_out, note_scan, open_shell
from pytest_atesor.porter.suite_needs import KnownNeeds
from pytest_atesor.porter.tools import read_native_tools
from pytest_atesor.porter.trial import Trial, add_proofs, keep_products, run_package_tests
from pytest_atesor.porter.verdict import EXIT_VERIFIED, decide_verdict, failed
from pytest_atesor.sandbox.interface import ExecSpec

if TYPE_CHECKING:
    from pytest_atesor.porter.attempts import Built

__all__ = ["Rebuild", "keep_in_cache", "keep_recipe", "read_versions", "rebuild_from_cache", "replay"]

_LARGEST_PATCH = 1_000_000  # bytes; a longer one is left out, half a patch helps nobody
_PATCH_S = 120.0


def keep_recipe(settings: Settings, shell: Shell, run: Run, fetched: Fetched, built: "Built") -> None:
    """Leave the recipe of a build that passed, and the patch of the files it changed, in ``run``.

    Raises SandboxError.
    """
    installed = run.metrics.get("packages")
    names = list(installed) if isinstance(installed, dict) else []
    run.recipe = Recipe(
        url=run.source.get("url") or settings.url,
        url_used=fetched.url_used,
        platform=settings.platform.value,
        build_system=run.build_system or "",
        ref=settings.ref,
        commit=fetched.commit,
        sha256=fetched.sha256,
        fixes=built.options.fixes,
        packages=read_versions(settings, shell, names),
        commands=built.commands,
        name=fetched.name,
        version=fetched.version or "",
    )
    run.patch = _read_patch(shell, fetched.name) if built.is_current else ""


def read_versions(settings: Settings, shell: Shell, names: list[str]) -> dict[str, str]:
    """Return the installed versions of these packages. Raises SandboxError."""
    if not names:
        return {}
    asked = shell.script(profile_of(settings.platform).versions(names))
    return parse_versions(asked.tail.decode("utf-8", "replace"))


def replay(
    recipe: Recipe, settings: Settings, place: Place, run: Run, phases: Phases, environ: Mapping[str, str]
) -> None:
    """Carry out ``recipe`` in an empty sandbox and leave the outcome in ``run``.

    Raises SandboxError and SetupError.
    """
    shell = open_shell(settings, place, phases)
    with phases.phase("prepare"):
        lay_out(shell)
    try:
        with phases.phase("fetch", recipe.url_used):
            fetched = fetch(settings, place, shell, run, environ)
    except SourceError as error:
        run.outcome = failed(error.cause, str(error))
        return
    if (fetched.commit, fetched.sha256) != (recipe.commit, recipe.sha256):
        got, wanted = (one.commit or one.sha256 for one in (fetched, recipe))
        run.outcome = failed(Cause.SOURCE, f"{fetched.url_used} is {got} now, the recipe wants {wanted}")
        return
    bench = _Bench(settings=settings, place=place, shell=shell, phases=phases)
    if _rebuild(recipe, bench, run, fetched.name):
        _conclude(recipe, bench, run)


@unique
class Rebuild(Enum):
    """What became of the recipe cache: no entry that holds, rebuilt, or the sandbox is used up in vain."""

    UNKNOWN = auto()
    DONE = auto()
    SPOILT = auto()


def rebuild_from_cache(
    settings: Settings, place: Place, shell: Shell, run: Run, phases: Phases, fetched: Fetched
) -> Rebuild:
    """Carry out the cached recipe of the fetched source, where one holds, and leave the outcome in ``run``.

    One that does not lead to a verified product is forgotten, and ``run`` stays as it was.

    Raises SandboxError.
    """
    cache = place.recipes()
    if cache is None:
        return Rebuild.UNKNOWN
    source = Source(
        url=run.source.get("url") or settings.url,
        ref=settings.ref,
        commit=fetched.commit,
        sha256=fetched.sha256,
    )
    found = cache.find(source, wants_tests=settings.tests is not PackageTesting.SKIP)
    if isinstance(found, Unknown):
        if found.reason:
            phases.say(f"recipe cache: {found.reason}; removed")
        return Rebuild.UNKNOWN
    recipe = found.recipe
    bench = _Bench(settings=settings, place=place, shell=shell, phases=phases)
    again = Run(outcome=run.outcome, source=dict(run.source), notes=list(run.notes))
    with phases.phase("recipe cache", f"{len(recipe.commands)} commands of an earlier port"):
        is_proven = _rebuild(recipe, bench, again, fetched.name) and again.outcome.exit_code == EXIT_VERIFIED
        if not is_proven:
            phases.fail()
    if not is_proven:
        cache.drop(source)
        phases.say(f"recipe cache: its entry proves nothing ({again.outcome.reason}); removed")
        return Rebuild.SPOILT
    again.notes.extend(f"fix: {one}" for one in recipe.fixes)
    again.metrics.update(attempts=0, recipe="cache", packages=dict.fromkeys(recipe.packages, "the recipe"))
    again.patch = _read_patch(shell, fetched.name)
    _conclude(recipe, bench, again)
    if again.package_tests is not None and again.package_tests.status is SuiteStatus.ERROR:
        cache.drop(source)  # the next port finds out anew what the tests need
    run.take(again)
    return Rebuild.DONE


def keep_in_cache(place: Place, run: Run) -> None:
    """Keep the recipe of a verified port for the next one; a cache that cannot be written is only noted."""
    cache = place.recipes()
    if cache is None or run.recipe is None or run.outcome.exit_code != EXIT_VERIFIED:
        return
    try:
        unknown = {SuiteStatus.SKIPPED, SuiteStatus.ERROR}  # what was not to be had today may be tomorrow
        tests = run.package_tests
        cache.keep(run.recipe, knows_tests=tests is not None and tests.status not in unknown)
    except (OSError, AtesorError) as error:
        run.notes.append(f"the recipe cannot be kept for the next port: {error}")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bench:
    """What a rebuild works with."""

    settings: Settings
    place: Place
    shell: Shell
    phases: Phases


def _rebuild(recipe: Recipe, bench: _Bench, run: Run, name: str) -> bool:
    """Install, build and scan; say whether it came to a verdict. The outcome is in ``run`` in any case."""
    place, shell = bench.place, bench.shell
    before = digest_natives(read_source(place, shell, name))
    run.build_system = recipe.build_system
    if not (_install(recipe, bench, run) and _carry_out(recipe, shell, run, bench.phases)):
        return False
    with bench.phases.phase("scan"):
        scan = set_packaged_aside(scan_tree(read_products(place, shell, name), before), shell)
    run.outcome = decide_verdict(scan)
    note_scan(scan, run)
    return True


def _conclude(recipe: Recipe, bench: _Bench, run: Run) -> None:
    """Keep the products and run the package's tests as the recipe has them."""
    run.recipe = recipe
    keep_products(bench.settings, bench.place, run, bench.shell)
    add_proofs(bench.settings, run, bench.shell, bench.phases)
    tests = recipe.package_tests
    suites = [] if tests is None else [_suite(tests)]
    trial = Trial(
        bench.shell,
        bench.phases,
        cwd=tests.cwd if tests else "/workspace",
        environment=tests.environment if tests else {},
        network=tests is not None and tests.network,
        needs=(
            KnownNeeds(bench.shell, recipe.platform, tests.packages, _downloads(recipe, bench))
            if tests
            else None
        ),
    )
    run_package_tests(bench.settings, run, trial, suites)


def _suite(tests: PackageTests) -> Suite:
    return Suite(framework=tests.framework, command=tests.command, prepare=tests.prepare, script=tests.script)


def _downloads(recipe: Recipe, bench: _Bench) -> Downloads:
    return Downloads(
        bench.shell,
        profile_of(recipe.platform),
        pool=bench.place.downloads,
        workspace=bench.place.workspace,
        say=bench.phases.say,
    )


def _install(recipe: Recipe, bench: _Bench, run: Run) -> bool:
    if not recipe.packages:
        return True
    profile = profile_of(recipe.platform)
    pinned = [profile.pinned(name, version) for name, version in recipe.packages.items()]
    with bench.phases.phase("dependencies", " ".join(pinned)):
        done = _downloads(recipe, bench).install(pinned)
        if done.exit_code != 0:
            bench.phases.fail()
            run.outcome = failed(Cause.DEPENDENCY, f"these could not be installed: {' '.join(pinned)}")
    return done.exit_code == 0


def _carry_out(recipe: Recipe, shell: Shell, run: Run, phases: Phases) -> bool:
    is_done = True
    for one in recipe.commands:
        with phases.phase(one.name):
            shell.set_network(enabled=one.network)
            done = shell.run(one.argv, cwd=one.cwd, environment=one.environment, sink=shell.output)
            is_done = (done.exit_code == 0 and not done.timed_out) or not one.required
            if not is_done:
                phases.fail()
                run.outcome = failed(Cause.BUILD, f"{one.name} failed with exit code {done.exit_code}")
        if not is_done:
            break
    shell.end_builders()
    run.native_tools = read_native_tools(shell)
    return is_done


def _read_patch(shell: Shell, name: str) -> str:
    """Return how the built tree's files differ from the source's; "" when not at all or without bounds."""
    script = (
        f"diff -ru --no-dereference --exclude=.git {quote(f'src/{name}')} {quote(f'build/{name}')} "
        "2>/dev/null | grep -avE '^(Only in|Binary files|Symbolic links|File|diff: )' "
        f"| head -c {_LARGEST_PATCH + 1} || :"
    )
    done = shell.sandbox.run(
        ExecSpec(argv=["sh", "-c", script]),
        timeout_s=min(_PATCH_S, shell.remaining_s()),
        tail_bytes=_LARGEST_PATCH + 1,
    )
    is_whole = not done.timed_out and len(done.tail) <= _LARGEST_PATCH
    return done.tail.decode("utf-8", "surrogateescape") if is_whole else ""
