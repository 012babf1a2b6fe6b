"""The comparison of two batches as one HTML file without a script."""

import jinja2
from markupsafe import Markup

from pytest_atesor.core.comparison import Change, Comparison
from pytest_atesor.core.text import sanitize_line
from pytest_atesor.reports.compare import describe_unlike, name_unlike
from pytest_atesor.reports.html.page import digest_part, read_part

__all__ = ["format_comparison_page"]


def format_comparison_page(comparison: Comparison) -> str:
    """Return the page; what stayed the same is counted and not listed."""
    style = read_part("page.css")
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader(__package__, "."), autoescape=True, undefined=jinja2.StrictUndefined
    )
    environment.filters |= {"line": sanitize_line, "seconds": _show_seconds, "unlike": name_unlike}
    groups = [(change.value, comparison.select(change)) for change in Change if change is not Change.SAME]
    return environment.get_template("compare.html.j2").render(
        comparison=comparison,
        unlike=describe_unlike(comparison) if comparison.unlike else "",
        groups=[(name, rows) for name, rows in groups if rows],
        style=Markup(style),  # noqa: S704 - the package's own file
        style_hash=digest_part(style),
    )


def _show_seconds(seconds: float | None) -> str:
    return "–" if seconds is None else f"{seconds:.1f}"  # noqa: RUF001 - a dash in the place of a figure
