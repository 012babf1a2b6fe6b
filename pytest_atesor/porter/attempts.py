"""Build attempts: each from a clean tree with the fixes so far.

Each failure is understood before the next attempt starts, so attempts are never burnt blindly: where no rule
matches, or none that was not tried yet, it ends with that reason.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from pytest_atesor.core.outcome import Cause
from pytest_atesor.porter.builders import builder_named
from pytest_atesor.porter.builders.interface import BuildOptions, Candidate, Step
from pytest_atesor.porter.edits import prepare_script
from pytest_atesor.porter.phases import Phases
from pytest_atesor.porter.recipe import Command
from pytest_atesor.porter.repair import Failure, Package, Progress, Repair
from pytest_atesor.porter.scan import Scan
from pytest_atesor.porter.shell import Capture, Shell
from pytest_atesor.porter.verdict import EXIT_UNVERIFIED, EXIT_VERIFIED, Outcome, decide_verdict, failed
from pytest_atesor.porter.workplace import (
    attempt_environment,
    build_directory,
    fresh_tree_script,
    with_wrappers,
    wrapper_script,
)

_STALL_S = 600.0
_FREE_ATTEMPTS = 8  # failures before anything was built, such as an unreachable registry

__all__ = ["Attempts", "Built"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """How the attempts ended.

    ``is_current`` says whether what lies in the build directory is its own tree and not a later candidate's.
    """

    outcome: Outcome
    candidate: Candidate | None
    scan: Scan | None
    options: BuildOptions
    attempts: int
    commands: tuple[Command, ...] = ()
    is_current: bool = True


class Attempts:
    """Runs attempts for one package in one sandbox."""

    def __init__(
        self,
        shell: Shell,
        repair: Repair,
        phases: Phases,
        *,
        package: Package,
        scan: Callable[[], Scan],
    ) -> None:
        self._shell = shell
        self._repair = repair
        self._phases = phases
        self._package = package
        self._scan = scan
        self._commands: list[Command] = []

    def run(self, candidates: Sequence[Candidate], options: BuildOptions, most: int) -> Built:
        """Try the candidates, best first, in at most ``most`` attempts. Raises SandboxError."""
        left = list(candidates)
        candidate, progress = left.pop(0), Progress(options=options)
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
            candidate, progress = following, Progress(options=options)
        if not ends:
            return _out_of_attempts(candidate, progress, most)
        # A later candidate that made nothing is no better than the failure of a likelier one.
        unverified = (end for end in ends if end.outcome.exit_code == EXIT_UNVERIFIED)
        best = next((end for end in unverified if end is ends[0] or _has_made(end)), ends[0])
        return replace(best, is_current=best is ends[-1])

    def _judge(
        self,
        failure: Failure | None,
        candidate: Candidate,
        progress: Progress,
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
            meaning = builder_named(candidate.builder).no_product
            if outcome.exit_code == EXIT_UNVERIFIED and meaning:
                outcome = replace(outcome, reason=f"{meaning}; {outcome.reason}")
        else:
            decided = self._repair.decide(failure, candidate, progress, last=last)
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

    def _attempt(self, candidate: Candidate, options: BuildOptions) -> Failure | None:
        """Build once from a clean tree; return what failed, None when all required steps passed."""
        plan = candidate.project.plan(options)
        environment = attempt_environment(options.tweak)
        fresh = fresh_tree_script(self._package.name, same_times=self._package.same_times)
        capture = Capture(self._shell.output)
        self._commands = [_record(Step(name="copy", script=fresh), "/workspace", environment)]
        done = self._shell.script(fresh, environment=environment, sink=capture.as_sink())
        if done.exit_code != 0 or done.timed_out:
            return Failure(step="copy", log=capture.text())
        tree = build_directory(self._package.name)
        edits = wrapper_script(options.tweak) + prepare_script(options.tweak.prepare)
        if edits:
            plan = (Step(name="prepare", script=edits), *plan)
        place = build_directory(self._package.name, candidate.directory)
        before: list[str] = []
        for step in plan:
            self._phases.say(f"--> {step.name}: {' '.join(step.script.split())[:200]}")
            is_online = self._shell.set_network(enabled=step.network)
            sink = Capture(self._shell.output)
            script, cwd = with_wrappers(step.script), place if step.name != "prepare" else tree
            self._commands.append(_record(replace(step, script=script, network=is_online), cwd, environment))
            done = self._shell.script(
                script,
                cwd=cwd,
                environment=environment,
                sink=sink.as_sink(),
                stall_s=None if step.network else _STALL_S,  # a download may have to wait
            )
            if done.timed_out:
                said = (
                    f"has used no processor for {_STALL_S / 60:.0f} minutes: it hangs"
                    if done.is_stalled
                    else "did not end before the deadline"
                )
                return Failure(step=step.name, log=f"{sink.text()}\nerror: {step.name} {said}\n")
            if done.exit_code != 0 and step.required:
                self._phases.say(f"--> {step.name} failed with exit code {done.exit_code}")
                return Failure(
                    step=step.name, log=sink.text(), is_attempt=step.is_attempt, before="".join(before)
                )
            before.append(sink.text())
            if done.exit_code != 0:
                self._phases.say(f"--> {step.name} failed with exit code {done.exit_code}; it is not needed")
        return None


def _following(candidate: Candidate, left: Sequence[Candidate], *, failed_build: bool) -> Candidate | None:
    """Return the candidate to try next; None when none could prove the package.

    After a failure only another build system of the same directory builds the same thing; after a build that
    made nothing native any real build file may be the one.
    """
    for one in left:
        is_same = (one.builder, one.directory) == (candidate.builder, candidate.directory)
        if is_same or builder_named(one.builder).is_stopgap:
            continue
        if not failed_build or one.directory == candidate.directory:
            return one
    return None


def _has_made(end: Built) -> bool:
    return end.scan is not None and bool(end.scan.products or end.scan.objects)


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


def _out_of_attempts(candidate: Candidate, progress: Progress, most: int) -> Built:
    return Built(
        outcome=failed(Cause.BUILD, f"no build passed in {most} attempt(s)"),
        candidate=candidate,
        scan=None,
        options=progress.options,
        attempts=most,
    )
