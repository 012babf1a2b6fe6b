"""A comparison of two batches as text, JSON or a list of names."""

from typing import Final

from pytest_atesor.core.comparison import Change, Comparison, ComparisonRow
from pytest_atesor.core.jsontext import format_json
from pytest_atesor.core.text import count_of, sanitize_line

__all__ = [
    "describe_unlike",
    "format_comparison",
    "format_comparison_json",
    "format_names",
    "name_unlike",
]

_SHOWN: Final = tuple(change for change in Change if change is not Change.SAME)


def format_comparison(comparison: Comparison) -> str:
    """Return the comparison for a person: what differs, each kind of change with its cases, the verdict."""
    lines = [f"{comparison.before} -> {comparison.after}"]
    if comparison.differences:
        lines.append("not comparable, so nothing is called a regression:")
        lines += [f"  {difference}" for difference in comparison.differences]
    elif comparison.unlike:
        lines.append(describe_unlike(comparison))
    for change in _SHOWN:
        rows = comparison.select(change)
        if not rows:
            continue
        lines.append(f"{change.value} ({len(rows)}):")
        for row in rows:
            shown = " -> ".join(part for part in (row.before, row.after) if part)
            if change in {Change.SLOWER, Change.FASTER}:
                shown = f"{row.before_s:.1f} s -> {row.after_s:.1f} s"
            reason = f": {row.reason}" if row.reason and change is Change.NEWLY_FAILING else ""
            other = f" ({name_unlike(row)})" if row.unlike else ""
            lines.append(f"  {sanitize_line(row.label)}  {shown}{other}{reason}")
    count = len(comparison.regressions)
    same = len(comparison.select(Change.SAME))
    lines.append(
        f"{count_of('case', len(comparison.rows))}: {count_of('regression', count)}, {same} the same"
    )
    return "\n".join(lines)


def describe_unlike(comparison: Comparison) -> str:
    """Return in one line how many cases are not the same in both batches, and what becomes of them."""
    first = comparison.unlike[0]
    return (
        f"not the same in both, so not called a regression: {count_of('case', len(comparison.unlike))}, "
        f"for example {sanitize_line(first.label)} ({name_unlike(first)})"
    )


def name_unlike(row: ComparisonRow) -> str:
    """Return what of a case's RunSpec is not the same in both batches."""
    return sanitize_line(f"another {', '.join(row.unlike)}")


def format_comparison_json(comparison: Comparison) -> str:
    """Return the comparison as JSON (``comparison_v1``)."""
    return format_json({
        "schema_version": "comparison_v1",
        "before": comparison.before,
        "after": comparison.after,
        "comparable": not comparison.differences,
        "differences": list(comparison.differences),
        "regressions": [row.label for row in comparison.regressions],
        "cases": [
            {
                "label": row.label,
                "change": row.change.value,
                "before": row.before,
                "after": row.after,
                "reason": row.reason,
                "before_s": row.before_s,
                "after_s": row.after_s,
                "unlike": list(row.unlike),
            }
            for row in comparison.rows
        ],
    })


def format_names(comparison: Comparison) -> str:
    """Return the names of the newly failing cases, one a line: valid input of ``--atesor-only=@FILE``."""
    return "".join(f"{row.label}\n" for row in comparison.select(Change.NEWLY_FAILING))
