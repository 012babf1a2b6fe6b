"""Two batches side by side: what changed for each case, and whether it can be compared at all."""

from dataclasses import dataclass
from enum import StrEnum, unique
from typing import Final

from pytest_atesor.core.ledger import Ledger
from pytest_atesor.core.outcome import Cause, Status
from pytest_atesor.core.plan import Case, Json, Plan
from pytest_atesor.core.summary import Outcome, describe_outcome
from pytest_atesor.core.text import sanitize_line

__all__ = ["Change", "Comparison", "ComparisonRow", "compare_batches"]

_NOISE_FACTOR: Final = 1.3
_NOISE_S: Final = 5.0


@unique
class Change(StrEnum):
    """What became of a case from the first batch to the second."""

    NEWLY_FAILING = "newly failing"
    STILL_FAILING = "still failing"
    FIXED = "fixed"
    SLOWER = "slower"
    FASTER = "faster"
    NEW = "new"
    GONE = "gone"
    UNKNOWN = "unknown"
    SAME = "same"


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonRow:
    """One case, matched by label; what a batch does not have is an empty status and None seconds.

    ``unlike`` has the keys of its RunSpec that differ (url, ref, timeout_seconds, …): another case, then.
    """

    label: str
    change: Change
    before: str
    after: str
    reason: str
    before_s: float | None
    after_s: float | None
    unlike: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """All cases of both batches, and in ``differences`` what makes the batches unlike, one line each.

    With differences nothing is called a regression, and no case that is another one in the second batch ever.
    """

    before: str
    after: str
    differences: tuple[str, ...]
    rows: tuple[ComparisonRow, ...]

    @property
    def regressions(self) -> tuple[ComparisonRow, ...]:
        """The newly failing cases of comparable batches that are the same in both."""
        if self.differences:
            return ()
        return tuple(row for row in self.select(Change.NEWLY_FAILING) if not row.unlike)

    @property
    def unlike(self) -> tuple[ComparisonRow, ...]:
        """The cases that both batches have and that are not the same in both."""
        return tuple(row for row in self.rows if row.unlike)

    def select(self, change: Change) -> tuple[ComparisonRow, ...]:
        """Return the rows of one kind."""
        return tuple(row for row in self.rows if row.change is change)


def compare_batches(before: Ledger, after: Ledger) -> Comparison:
    """Return what changed from one batch to another.

    Without a verdict in either (it never ran, was interrupted, or its environment failed) a case is unknown.
    A verdict stands until a new attempt begins. Slower and faster need a third and five seconds more than
    noise.
    """
    old, new = _by_label(before), _by_label(after)
    cases = {case.label: case for case in before.plan.cases}
    unlike = {case.label: _list_unlike(cases.get(case.label, case), case) for case in after.plan.cases}
    return Comparison(
        before=before.plan.batch_id,
        after=after.plan.batch_id,
        differences=_list_differences(before.plan, after.plan, (_name_images(before), _name_images(after))),
        rows=tuple(
            _compare(label, old.get(label), new.get(label), unlike.get(label, ())) for label in {**new, **old}
        ),
    )


def _by_label(ledger: Ledger) -> dict[str, Outcome]:
    states = ledger.states()
    return {case.label: describe_outcome(states[case.case_id]) for case in ledger.plan.cases}


def _compare(label: str, old: Outcome | None, new: Outcome | None, unlike: tuple[str, ...]) -> ComparisonRow:
    before_s = old.record.duration_s if old and old.record else None
    after_s = new.record.duration_s if new and new.record else None
    return ComparisonRow(
        label=label,
        change=_decide(old, new, before_s, after_s),
        before=_name(old),
        after=_name(new),
        reason=sanitize_line(new.reason) if new else "",
        before_s=before_s,
        after_s=after_s,
        unlike=unlike,
    )


def _decide(
    old: Outcome | None, new: Outcome | None, before_s: float | None, after_s: float | None
) -> Change:
    if old is None:
        return Change.NEW
    if new is None:
        return Change.GONE
    if not (_has_verdict(old) and _has_verdict(new)):
        return Change.UNKNOWN
    if new.status is not Status.PASS:
        return Change.NEWLY_FAILING if old.status is Status.PASS else Change.STILL_FAILING
    return Change.FIXED if old.status is not Status.PASS else _judge_pace(before_s, after_s)


def _judge_pace(before_s: float | None, after_s: float | None) -> Change:
    if before_s is None or after_s is None or abs(after_s - before_s) <= _NOISE_S:
        return Change.SAME
    if after_s > before_s * _NOISE_FACTOR:
        return Change.SLOWER
    return Change.FASTER if before_s > after_s * _NOISE_FACTOR else Change.SAME


def _has_verdict(outcome: Outcome) -> bool:
    return (
        outcome.record is not None
        and outcome.status not in {None, Status.SKIPPED}
        and outcome.cause not in {Cause.ENVIRONMENT, Cause.INTERRUPTED}
    )


def _name(outcome: Outcome | None) -> str:
    if outcome is None:
        return ""
    return outcome.status.value if outcome.status else outcome.state.replace("_", " ")


def _list_differences(before: Plan, after: Plan, images: tuple[str | None, str | None]) -> tuple[str, ...]:
    old, new = _describe(before), _describe(after)
    if None not in images:
        old["image"], new["image"] = images
    return tuple(
        f"{name}: {_show(old[name])} before, {_show(new[name])} after"
        for name in old
        if old[name] != new[name]
    )


def _list_unlike(old: Case, new: Case) -> tuple[str, ...]:
    """Return the keys of a case's RunSpec that differ; what else its list has is nothing to it."""
    one, other = ({**case.spec, "kind": case.kind, "timeout_seconds": case.timeout_s} for case in (old, new))
    return tuple(sorted(key for key in {**one, **other} if one.get(key) != other.get(key)))


def _name_images(ledger: Ledger) -> str | None:
    """Return the names of the images that the batch's sandboxes were made from, None where that is not known.

    A plan has none where the batch was only planned first: what its sessions used is what counts.
    """
    planned = ledger.plan.settings.get("image")
    used = [planned if started.image is None else started.image for started, _ in ledger.sessions]
    names = sorted({str(name) for name in used or [planned] if name is not None})
    return " and ".join(name or "none" for name in names) or None


def _describe(plan: Plan) -> dict[str, Json]:
    return {
        "platform": plan.platform.value,
        "target": plan.target.value,
        # a batch that was only planned has no image yet
        "plain image": plan.settings.get("no_acceleration") is True,
        "build network": plan.settings.get("build_network") is True,
        "agent": plan.settings.get("agent"),
    }


def _show(value: Json) -> str:
    return sanitize_line(" ".join(map(str, value)) if isinstance(value, list) else str(value))
