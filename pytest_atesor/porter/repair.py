"""What a failed attempt asks for: the first rule that can still help, applied, or the reason why none can.

Packages are installed here; builds are not run here.
"""

import posixpath
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field

from pytest_atesor.core.outcome import Cause
from pytest_atesor.porter.absent import find_named_absence, find_named_file
from pytest_atesor.porter.builders import builder_named
from pytest_atesor.porter.builders.interface import BuildOptions, Candidate, Tweak
from pytest_atesor.porter.diagnose import Match, diagnose, render
from pytest_atesor.porter.fixes import OVERLOOKED
from pytest_atesor.porter.fixes.interface import Install, Stop
from pytest_atesor.porter.installer import Installer
from pytest_atesor.porter.needs import Need, NeedKind
from pytest_atesor.porter.reason import find_reason
from pytest_atesor.porter.sources.interface import Submodule
from pytest_atesor.porter.verdict import Outcome, failed

__all__ = ["Failure", "Package", "Progress", "Repair"]

_SHOWN_NEEDS = 4
_LONGEST_NAME = 200
_MOST_OVERLOOKED = 10
_ABOVE = re.compile(r"^(?:\.\./|/)+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """What is built: its directory name, whether file times mean nothing (git), Debian's name for it.

    ``tree_files`` are the paths of its files, ``spoken`` the words of its build files, ``absent`` the
    submodules that could not be fetched, ``left_out`` the files whose content the repository lacks.
    """

    name: str
    same_times: bool
    debian_source: str
    tree_files: Collection[str] = ()
    spoken: frozenset[str] = frozenset()
    absent: tuple[Submodule, ...] = ()
    left_out: tuple[str, ...] = ()

    def has(self, path: str) -> bool:
        """Say whether a file of it has this path, from its root or from a directory below."""
        name = _ABOVE.sub("", posixpath.normpath(path))
        return any(one == name or one.endswith(f"/{name}") for one in self.tree_files)


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """One failed attempt: the step, what it printed, and what the steps before it did."""

    step: str
    log: str
    is_attempt: bool = True
    before: str = ""


@dataclass(slots=True, kw_only=True)
class Progress:
    """What is known so far about one candidate."""

    options: BuildOptions
    tried: set[Need] = field(default_factory=set)
    unknown: set[Need] = field(default_factory=set)
    asked_debian: bool = False
    looked_back: bool = False


class Repair:
    """Answers failures of one package's attempts. With ``is_online`` builds have the network."""

    def __init__(
        self, installer: Installer, package: Package, *, say: Callable[[str], None], is_online: bool = False
    ) -> None:
        self._installer = installer
        self._package = package
        self._say = say
        self._is_online = is_online

    def decide(
        self, failure: Failure, candidate: Candidate, progress: Progress, *, last: bool
    ) -> Outcome | None:
        """Apply the first rule that can still help and return None, or return why none can.

        What a build survived is no reason for its end: where something that can still be brought is missing
        later in the log, a rule that knows no help waits for that. Where no rule knows anything, or only that
        something is missing, what the attempt did without before is brought, once.
        """
        unresolved: list[Need] = []
        applied: list[str] = []
        is_missing = is_settled = False
        matches = tuple(diagnose(failure.log, candidate.builder))
        survived = self._find_survived(matches, failure.log, progress)
        for match in matches:
            fix = match.rule.fix
            if isinstance(fix, Stop):
                if not applied and (match, fix) not in survived:
                    is_helped = (
                        fix.cause is Cause.DEPENDENCY
                        and not last
                        and self._supply_overlooked(failure, candidate, progress)
                    )
                    return None if is_helped else self._stop(failure, match, fix)
                is_settled = True
            elif last:
                is_missing = is_missing or isinstance(fix, Install)
            elif (not is_settled or match.rule.independent) and self._helps(
                match, failure.log, candidate, progress, unresolved
            ):
                applied.append(match.rule.name)
                is_settled = True
        if applied:
            self._say(f"--> {', '.join(applied)}: what the next attempt does about it")
            return None
        if survived and not last:
            return self._stop(failure, *survived[0])
        if not last and self._supply_overlooked(failure, candidate, progress):
            return None
        return self._explain(failure, candidate, unresolved, progress.options, is_missing=is_missing)

    def supply(self, log: str, candidate: Candidate, progress: Progress) -> bool:
        """Install what ``log`` says is missing, where a package has it; say whether anything new is there.

        Nothing else is changed. Raises SandboxError.
        """
        is_new = False
        for match in diagnose(log, candidate.builder):
            fix = match.rule.fix
            is_here = isinstance(fix, Install) and not fix.kind.is_of_registry
            if is_here and (match.rule.independent or not is_new):
                is_new = self._supply(match.needs(log), progress, []) or is_new
        return is_new

    def _helps(
        self, match: Match, log: str, candidate: Candidate, progress: Progress, unresolved: list[Need]
    ) -> bool:
        """Apply what a rule asks for; say whether the next attempt is any different."""
        fix = match.rule.fix
        if isinstance(fix, Stop):
            return False
        change = render(fix.change or Tweak(), match.names)
        changed = progress.options.with_fix(match.rule.name, change)
        helps = changed.tweak != progress.options.tweak and _is_heeded(change, candidate)
        if isinstance(fix, Install):
            needs = match.needs(log) or _declared(candidate, fix.kind)
            is_supplied = self._supply(needs, progress, unresolved)
            helps = is_supplied or (helps and fix.kind.is_of_registry)
        if helps:
            progress.options = changed
        return helps

    def _find_survived(
        self, matches: Iterable[Match], log: str, progress: Progress
    ) -> list[tuple[Match, Stop]]:
        """Return the rules without help whose signs come before something missing that was not asked for."""
        missing = [
            one
            for one in matches
            if one.rule.independent
            and any(need not in progress.tried and not self._is_own(need) for need in one.needs(log))
        ]
        return [
            (one, one.rule.fix)
            for one in matches
            if isinstance(one.rule.fix, Stop)
            and one.rule.fix.cause is not Cause.ENVIRONMENT
            and any(later.follows(one) for later in missing)
        ]

    def _stop(self, failure: Failure, match: Match, fix: Stop) -> Outcome:
        name = " ".join(match.names[0].split())[:_LONGEST_NAME] if match.names else "something"
        reason = ((self._is_online and fix.reason_online) or fix.reason).replace("{name}", name)
        absent = fix.cause is Cause.SOURCE and self._blame_absent(failure, reason, f"'{name}'")
        return absent or self._blame_download(name, reason) or failed(fix.cause, reason)

    def _supply(self, needs: Iterable[Need], progress: Progress, unresolved: list[Need]) -> bool:
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
        if not progress.asked_debian and any(not one.kind.is_of_registry for one in fresh):
            progress.asked_debian = True
            candidates = self._installer.build_depends(self._package.debian_source)
        if found and all(one.kind is NeedKind.WORDS for one in fresh):
            found = found[:2]  # words are the weakest sign: the first one or two that name something real
        return self._installer.install(found, candidates)

    def _supply_overlooked(self, failure: Failure, candidate: Candidate, progress: Progress) -> bool:
        """Install what the attempt missed at first and went on without; say whether any is new."""
        if progress.looked_back:
            return False
        progress.looked_back = True
        said = failure.before + failure.log
        matches = tuple(diagnose(said, candidate.builder, OVERLOOKED))
        needs = [need for match in matches for need in match.needs(said)]
        if not self._supply(needs[:_MOST_OVERLOOKED], progress, []):
            return False
        for match in matches:
            progress.options = progress.options.with_fix(match.rule.name, Tweak())
        self._say("--> no rule knows help: the next attempt has what this one went on without")
        return True

    def _is_own(self, need: Need) -> bool:
        """Say whether a missing header is the tree's own: not on the include path, or copied there later."""
        return need.kind is NeedKind.HEADER and self._package.has(need.name)

    def _explain(
        self,
        failure: Failure,
        candidate: Candidate,
        unresolved: Sequence[Need],
        options: BuildOptions,
        *,
        is_missing: bool,
    ) -> Outcome:
        reason = find_reason(failure.log) or f"{failure.step} failed without a word"
        absent = self._blame_absent(failure, reason)
        if absent:
            return absent
        named = [one for one in dict.fromkeys(unresolved) if one.kind is not NeedKind.WORDS]
        if named:
            shown = ", ".join(str(one) for one in named[:_SHOWN_NEEDS])
            more = f" and {len(named) - _SHOWN_NEEDS} more" if len(named) > _SHOWN_NEEDS else ""
            if named[0].kind.is_of_registry:
                return failed(
                    Cause.DEPENDENCY,
                    f"neither a registry nor a package of this platform provides {shown}{more}",
                )
            return failed(Cause.DEPENDENCY, f"no package provides {shown}{more} ({failure.step}: {reason})")
        cause = Cause.DEPENDENCY if unresolved or is_missing else Cause.BUILD
        borrowed = set(builder_named(candidate.builder).borrowing) & set(options.tweak.prepare)
        if borrowed and not unresolved:
            return failed(
                Cause.DEPENDENCY, f"does not build with this platform's packaged libraries: {reason}"
            )
        return failed(cause, f"{failure.step}: {reason}")

    def _blame_absent(self, failure: Failure, reason: str, *said: str) -> Outcome | None:
        """Return the failure of what could not be fetched and is named by the error, if anything is."""
        absent = {one.path: one for one in self._package.absent}
        named = (reason, *said)
        path = find_named_absence(absent, named, failure.log, is_there=self._package.has)
        if path is not None:
            return _blame(absent[path], reason)
        file = find_named_file(self._package.left_out, named, failure.log, is_there=self._package.has)
        if file is None:
            return None
        return failed(Cause.SOURCE, f"the repository lacks the content of {file}: {reason}")

    def _blame_download(self, address: str, reason: str) -> Outcome | None:
        """Return the failure of a submodule that the build then tried to fetch by itself, if it is one."""
        wanted = _strip_address(address)
        absent = (one for one in self._package.absent if _strip_address(one.url) == wanted)
        return next((_blame(one, reason) for one in absent), None)


def _blame(absent: Submodule, reason: str) -> Outcome:
    return failed(
        Cause.SOURCE, f"the submodule {absent.path} could not be fetched ({absent.reason}): {reason}"
    )


def _strip_address(url: str) -> str:
    return url.rstrip("/").removesuffix(".git")


def _is_heeded(change: Tweak, candidate: Candidate) -> bool:
    """Say whether a change can do anything for this project: one of words alone may find nothing to do."""
    is_of_words = change == Tweak(prepare=change.prepare)
    return not is_of_words or any(map(candidate.project.heeds, change.prepare))


def _declared(candidate: Candidate, kind: NeedKind) -> tuple[Need, ...]:
    """Return what the tree's own metadata asks for, where a log names nothing."""
    return tuple(one for one in candidate.project.declared if one.kind is kind)
