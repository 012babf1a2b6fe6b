"""Bundles over time as text: one line each."""

from pytest_atesor.core.ledger import Ledger
from pytest_atesor.core.summary import describe_outcome
from pytest_atesor.core.text import sanitize_line
from pytest_atesor.reports.html.page import count_outcomes

__all__ = ["format_bundle_line", "format_package_line"]


def format_bundle_line(ledger: Ledger) -> str:
    """Return a batch's start, id and counts; every planned case is counted once."""
    counts = count_outcomes(ledger)
    shown = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
    plan = ledger.plan
    return f"{plan.created_at[:19]}  {sanitize_line(plan.batch_id)}  {len(plan.cases)} planned: {shown}"


def format_package_line(ledger: Ledger, label: str) -> str:
    """Return what became of one case, by label or id, in a batch; empty when the plan does not have it."""
    plan = ledger.plan
    named = [case for case in plan.cases if label in {case.label, case.case_id}]
    # What the user wrote comes before what was made of it: the id of one may be the label of another.
    case = max(named, key=lambda case: case.label == label, default=None)
    if case is None:
        return ""
    outcome = describe_outcome(ledger.state(case.case_id))
    status = outcome.status.value if outcome.status else outcome.state.replace("_", " ")
    seconds = f"{outcome.record.duration_s:.1f} s" if outcome.record else "-"
    reason = sanitize_line(outcome.reason)
    return f"{plan.created_at[:19]}  {sanitize_line(plan.batch_id)}  {status}  {seconds}  {reason}".rstrip()
