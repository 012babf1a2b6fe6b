"""Build attempts: each from a clean tree with the fixes so far.

Each failure is understood before the next attempt starts, so attempts are never burnt blindly: where no rule
matches, or none that was not tried yet, it ends with that reason.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pytest_atesor.core.outcome import Cause
from pytest_atesor.porter.builders import builder_named
from pytest_atesor.porter.builders.cargo import DISTRIBUTION_CRATES
from pytest_atesor.porter.builders.golang import GOPATH_MODE
from pytest_atesor.porter.builders.interface import BuildOptions, Candidate, Step, Tweak
from pytest_atesor.porter.diagnose import diagnose, render
from pytest_atesor.porter.fixes.interface import Install, Stop
from pytest_atesor.porter.installer import Installer
from pytest_atesor.porter.needs import Need, NeedKind
from pytest_atesor.porter.phases import Phases
from pytest_atesor.porter.reason import find_reason
from pytest_atesor.porter.recipe import Command
from pytest_atesor.porter.scan import Scan
from pytest_atesor.porter.shell import Capture, Shell
from pytest_atesor.porter.tree import Tree
from pytest_atesor.porter.verdict import EXIT_UNVERIFIED, EXIT_VERIFIED, Outcome, decide_verdict, failed
from pytest_atesor.porter.workplace import (
    BUILD_ROOT,
    attempt_environment,
    fresh_tree_script,
    prepare_script,
    with_wrappers,
    wrapper_script,
)

_BUILD_FILE = re.compile(
    r"(^|/)(CMakeLists\.txt|[^/]*\.cmake|meson\.build|configure\.(ac|in)|(GNU)?[Mm]akefile(\.(am|in))?|[^/]*\.mk)$"
)
_SPOKEN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_+.-]*[A-Za-z0-9+]")
_MOST_BUILD_FILES = 40
_SHOWN_NEEDS = 4
_FREE_ATTEMPTS = 8  # failures before anything was built, such as an unreachable registry
_GO_LIBRARY = "the Go packages compile for riscv64, but none of them is a program that leaves a file"

__all__ = ["Attempts", "Built", "Package", "build_file_words"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """What is built: its directory name, whether file times mean nothing (git), Debian's name for it.

    ``tree_names`` are its files' base names, ``spoken`` the words of its build files, ``absent`` the
    submodules that could not be fetched, each with the reason.
    """

    name: str
    same_times: bool
    debian_source: str
    tree_names: frozenset[str] = frozenset()
    spoken: frozenset[str] = frozenset()
    absent: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """How the attempts ended."""

    outcome: Outcome
    candidate: Candidate | None
    scan: Scan | None
    options: BuildOptions
    attempts: int
    commands: tuple[Command, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Failure:
    """One failed attempt: the step, what it printed."""

    step: str
    log: str
    is_attempt: bool = True


@dataclass(slots=True, kw_only=True)
class _Progress:
    """What is known so far about one candidate."""

    options: BuildOptions
    tried: set[Need] = field(default_factory=set)
    unknown: set[Need] = field(default_factory=set)
    asked_debian: bool = False


class Attempts:
    """Runs attempts for one package in one sandbox."""

    def __init__(
        self,
        shell: Shell,
        installer: Installer,
        phases: Phases,
        *,
        package: Package,
        scan: Callable[[], Scan],
    ) -> None:
        self._shell = shell
        self._installer = installer
        self._phases = phases
        self._package = package
        self._scan = scan
        self._commands: list[Command] = []

    def run(self, candidates: Sequence[Candidate], options: BuildOptions, most: int) -> Built:
        """Try the candidates, best first, in at most ``most`` attempts. Raises SandboxError."""
        left = list(candidates)
        candidate, progress = left.pop(0), _Progress(options=options)
        ends: list[Built] = []
        number, free = 1, _FREE_ATTEMPTS
        while number <= most:
            with self._phases.phase(f"attempt {number}/{most}", _describe(candidate, progress.options)):
                failure = self._attempt(candidate, progress.options)
                self._shell.end_builders()
                if failure is not None:
                    self._phases.fail()
            counts = failure is None or failure.is_attempt or not free
            last = number == most and counts
            built = self._judge(failure, candidate, progress, number, last=last)
            number, free = (number + 1, free) if counts else (number, free - 1)
            if built is None:
                continue
            if built.outcome.exit_code == EXIT_VERIFIED or built.outcome.cause is Cause.ENVIRONMENT:
                return built
            ends.append(built)
            following = _following(candidate, left, failed_build=failure is not None)
            if following is None:
                break
            self._phases.say(f"trying {following.builder} instead ({following.evidence})")
            left = left[left.index(following) + 1 :]
            candidate, progress = following, _Progress(options=options)
        return (
            min(ends, key=lambda one: one.outcome.exit_code != EXIT_UNVERIFIED)
            if ends
            else _out_of_attempts(candidate, progress, most)
        )

    def _judge(
        self,
        failure: _Failure | None,
        candidate: Candidate,
        progress: _Progress,
        number: int,
        *,
        last: bool,
    ) -> Built | None:
        """Return how the candidate ended; None when another attempt with new fixes follows."""
        scan: Scan | None = None
        if failure is None:
            with self._phases.phase("scan"):
                scan = self._scan()
            outcome = decide_verdict(scan)
            if outcome.exit_code == EXIT_UNVERIFIED and candidate.builder == "go":
                outcome = replace(outcome, reason=f"{_GO_LIBRARY}; {outcome.reason}")
        else:
            decided = self._decide(failure, candidate, progress, last=last)
            if decided is None:
                return None
            outcome = decided
        return Built(
            outcome=outcome,
            candidate=candidate,
            scan=scan,
            options=progress.options,
            attempts=number,
            commands=tuple(self._commands),
        )

    def _attempt(self, candidate: Candidate, options: BuildOptions) -> _Failure | None:
        """Build once from a clean tree; return what failed, None when all required steps passed."""
        plan = builder_named(candidate.builder).plan(candidate, options)
        environment = attempt_environment(options.tweak)
        fresh = fresh_tree_script(self._package.name, same_times=self._package.same_times)
        capture = Capture(self._shell.output)
        self._commands = [_record(Step(name="copy", script=fresh), "/workspace", environment)]
        done = self._shell.script(fresh, environment=environment, sink=capture.as_sink())
        if done.exit_code != 0 or done.timed_out:
            return _Failure(step="copy", log=capture.text())
        tree = f"{BUILD_ROOT}/{self._package.name}"
        edits = wrapper_script(options.tweak) + prepare_script(options.tweak.prepare)
        if edits:
            plan = (Step(name="prepare", script=edits), *plan)
        place = f"{tree}/{candidate.directory}" if candidate.directory else tree
        for step in plan:
            self._phases.say(f"--> {step.name}: {' '.join(step.script.split())[:200]}")
            self._shell.set_network(enabled=step.network)
            sink = Capture(self._shell.output)
            script, cwd = with_wrappers(step.script), place if step.name != "prepare" else tree
            self._commands.append(_record(replace(step, script=script), cwd, environment))
            done = self._shell.script(
                script,
                cwd=cwd,
                environment=environment,
                sink=sink.as_sink(),
            )
            if done.timed_out:
                return _Failure(
                    step=step.name, log=f"{sink.text()}\nerror: {step.name} did not end before the deadline\n"
                )
            if done.exit_code != 0 and step.required:
                self._phases.say(f"--> {step.name} failed with exit code {done.exit_code}")
                return _Failure(step=step.name, log=sink.text(), is_attempt=step.is_attempt)
            if done.exit_code != 0:
                self._phases.say(f"--> {step.name} failed with exit code {done.exit_code}; it is not needed")
        return None

    def _decide(
        self, failure: _Failure, candidate: Candidate, progress: _Progress, *, last: bool
    ) -> Outcome | None:
        """Apply the first rule that can still help and return None, or return why none can."""
        unresolved: list[Need] = []
        applied: list[str] = []
        is_missing = False
        for match in diagnose(failure.log, candidate.builder):
            fix = match.rule.fix
            if isinstance(fix, Stop):
                if not applied:
                    name = match.names[0] if match.names else "something"
                    return failed(fix.cause, fix.reason.replace("{name}", name))
            elif last:
                is_missing = is_missing or isinstance(fix, Install)
            elif not applied or match.rule.independent:
                change = render(fix.change or Tweak(), match.names)
                changed = progress.options.with_fix(match.rule.name, change)
                helps = changed.tweak != progress.options.tweak
                if isinstance(fix, Install):
                    needs = match.needs(failure.log) or _declared(candidate, fix.kind)
                    is_supplied = self._supply(needs, progress, unresolved)
                    helps = is_supplied or (helps and fix.kind is NeedKind.CRATE)
                if helps:
                    progress.options = changed
                    applied.append(match.rule.name)
        if applied:
            self._phases.say(f"--> {', '.join(applied)}: what the next attempt does about it")
            return None
        return self._explain(failure, unresolved, progress.options, is_missing=is_missing)

    def _supply(self, needs: Iterable[Need], progress: _Progress, unresolved: list[Need]) -> bool:
        """Install what ``needs`` asks for, once per need; say whether anything new is there."""
        asked = list(needs)
        fresh = [one for one in asked if one not in progress.tried and not self._is_own(one)]
        progress.tried.update(fresh)
        found, unknown = self._installer.resolve(fresh, self._package.spoken)
        progress.unknown.update(unknown)
        unresolved.extend(one for one in asked if one in progress.unknown)
        if not fresh:
            return False
        candidates: tuple[str, ...] = ()
        if not progress.asked_debian and any(one.kind not in {NeedKind.GO, NeedKind.CRATE} for one in fresh):
            progress.asked_debian = True
            candidates = self._installer.build_depends(self._package.debian_source)
        if found and all(one.kind is NeedKind.WORDS for one in fresh):
            found = found[:2]  # words are the weakest sign: the first one or two that name something real
        return self._installer.install(found, candidates)

    def _is_own(self, need: Need) -> bool:
        """Say whether a missing header is the tree's own: generated later, or not on the include path."""
        return need.kind is NeedKind.HEADER and need.name.rpartition("/")[2] in self._package.tree_names

    def _explain(
        self, failure: _Failure, unresolved: Sequence[Need], options: BuildOptions, *, is_missing: bool
    ) -> Outcome:
        reason = find_reason(failure.log) or f"{failure.step} failed without a word"
        for path, why in self._package.absent:
            if path.rpartition("/")[2] in failure.log:
                return failed(Cause.SOURCE, f"the submodule {path} could not be fetched ({why}): {reason}")
        named = [one for one in dict.fromkeys(unresolved) if one.kind is not NeedKind.WORDS]
        if named:
            shown = ", ".join(str(one) for one in named[:_SHOWN_NEEDS])
            more = f" and {len(named) - _SHOWN_NEEDS} more" if len(named) > _SHOWN_NEEDS else ""
            if named[0].kind in {NeedKind.GO, NeedKind.CRATE}:
                return failed(
                    Cause.DEPENDENCY,
                    f"neither a registry nor a package of this platform provides {shown}{more}",
                )
            return failed(Cause.DEPENDENCY, f"no package provides {shown}{more} ({failure.step}: {reason})")
        cause = Cause.DEPENDENCY if unresolved or is_missing else Cause.BUILD
        borrowed = {GOPATH_MODE, DISTRIBUTION_CRATES} & set(options.tweak.prepare)
        if borrowed and not unresolved:
            return failed(
                Cause.DEPENDENCY, f"does not build with this platform's packaged libraries: {reason}"
            )
        return failed(cause, f"{failure.step}: {reason}")


def build_file_words(tree: Tree) -> frozenset[str]:
    """Return the words, in lower case, of the build files in the first two levels of ``tree``."""
    names = [one for one in tree.files if one.count("/") <= 1 and _BUILD_FILE.search(one)]
    return frozenset(
        word.lower() for name in names[:_MOST_BUILD_FILES] for word in _SPOKEN.findall(tree.text(name))
    )


def _declared(candidate: Candidate, kind: NeedKind) -> tuple[Need, ...]:
    """Return what the tree's own metadata asks for, where a log names nothing."""
    if kind is not NeedKind.CRATE:
        return ()
    return tuple(Need(kind=kind, name=one) for one in candidate.facts.get("crates", "").split())


def _following(candidate: Candidate, left: Sequence[Candidate], *, failed_build: bool) -> Candidate | None:
    """Return the candidate to try next; None when none could prove the package.

    After a failure only another build system of the same directory builds the same thing; after a build that
    made nothing native any real build file may be the one.
    """
    for one in left:
        if one.builder == "plain-c" or (one.builder, one.directory) == (
            candidate.builder,
            candidate.directory,
        ):
            continue
        if not failed_build or one.directory == candidate.directory:
            return one
    return None


def _record(step: Step, cwd: str, environment: Mapping[str, str]) -> Command:
    return Command(
        name=step.name,
        argv=("sh", "-eu", "-c", step.script),
        cwd=cwd,
        environment=environment,
        network=step.network,
        required=step.required,
    )


def _describe(candidate: Candidate, options: BuildOptions) -> str:
    where = f" in {candidate.directory}/" if candidate.directory else ""
    fixes = f"; fixes: {', '.join(options.fixes)}" if options.fixes else ""
    return f"{candidate.builder}{where} ({candidate.evidence}){fixes}"


def _out_of_attempts(candidate: Candidate, progress: _Progress, most: int) -> Built:
    return Built(
        outcome=failed(Cause.BUILD, f"no build passed in {most} attempt(s)"),
        candidate=candidate,
        scan=None,
        options=progress.options,
        attempts=most,
    )
