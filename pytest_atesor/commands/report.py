"""``atesor report``, ``compare`` and ``history``: what bundles say, without running anything."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from pytest_atesor.errors import AtesorError, UsageError

if TYPE_CHECKING:
    from pytest_atesor.bundle.writer import BundleReading

__all__ = ["compare", "history", "rebuild_report", "report"]

_OUTPUT_ROOTS: Final = (Path("runs/batches"), Path("runs/sweeps"))


@click.command(
    help="""Rebuild the derived files of BUNDLE: its views, its CSV if it has one, and report.html.

    Nothing else is touched; a bundle whose batch runs may be rebuilt too. """,
)
@click.argument("bundle", type=click.Path(path_type=Path))
def report(bundle: Path) -> int:
    """Rebuild and say where the page is."""
    click.echo(f"wrote {rebuild_report(bundle)}")
    return 0


@click.command(
    help="""Compare the bundles BEFORE and AFTER, case by case.

    Exit code: 0 without regressions; 1 with, that is a PASS that became anything else. Nothing is called
    one when image (by name), platform, target, agent or network while building differ, and no case whose
    own RunSpec (url, ref, timeout_seconds, …) differs; then it says what differs. """,
)
@click.argument("before", type=click.Path(path_type=Path))
@click.argument("after", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--html", "page", metavar="FILE", type=click.Path(path_type=Path), help="Write a page too.")
@click.option("--names", is_flag=True, help="Print only the newly failing names, for --atesor-only=@FILE.")
def compare(before: Path, after: Path, *, as_json: bool, page: Path | None, names: bool) -> int:
    """Print the comparison."""
    from pytest_atesor.bundle.files import check_file_writable, write_atomic  # noqa: PLC0415 - only here
    from pytest_atesor.core.comparison import compare_batches  # noqa: PLC0415 - only for this command
    from pytest_atesor.reports.compare import (  # noqa: PLC0415 - the same
        format_comparison,
        format_comparison_json,
        format_names,
    )
    from pytest_atesor.reports.html.compare import format_comparison_page  # noqa: PLC0415 - the same

    if as_json and names:
        raise UsageError("--json and --names exclude each other; give one of them")
    if page is not None:
        if not page.parent.is_dir():
            raise UsageError(f"cannot write {page}: {page.parent} is no directory; choose another place")
        check_file_writable(page, "the page")
    comparison = compare_batches(_read(before).ledger, _read(after).ledger)
    if page is not None:
        write_atomic(page, format_comparison_page(comparison), durable=False)
    if names or as_json:  # for programs, which read UTF-8 whatever the terminal shows
        text = format_names(comparison) if names else format_comparison_json(comparison).rstrip("\n") + "\n"
        click.echo(text.encode(), nl=False)
    else:
        click.echo(format_comparison(comparison))
    return 1 if comparison.regressions else 0


@click.command(
    help="""List the bundles of batches and sweeps, oldest first, each with its counts.

    With PACKAGE, or the label of another case: its outcome and seconds in each. A directory that is no
    readable bundle is named on standard error. """,
)
@click.argument("package", required=False)
@click.option(
    "--output-root",
    metavar="DIRECTORY",
    help="Directory of the bundles.  [default: runs/batches and runs/sweeps]",
)
def history(package: str | None, output_root: str | None) -> int:
    """Print one line per bundle."""
    from pytest_atesor.reports.history import (  # noqa: PLC0415 - only for this command
        format_bundle_line,
        format_package_line,
    )

    if output_root is not None and not output_root.strip():
        raise UsageError("empty output root from --output-root; name a directory")
    wanted = _OUTPUT_ROOTS if output_root is None else (Path(output_root),)
    roots = [root for root in wanted if root.is_dir()]
    if not roots:
        shown = " or ".join(map(str, wanted))
        raise UsageError(f"no directory {shown}; give the bundles' place with --output-root")
    readings = []
    for directory in chain.from_iterable(root.iterdir() for root in roots):
        if not (directory / "batch_plan.json").is_file():
            continue
        try:
            readings.append(_read(directory))
        except AtesorError as error:
            click.echo(f"atesor: warning: {error}", err=True)
    readings.sort(key=lambda reading: (reading.plan.created_at, reading.plan.batch_id))
    lines = [
        format_bundle_line(reading.ledger)
        if package is None
        else format_package_line(reading.ledger, package)
        for reading in readings
    ]
    told = [line for line in lines if line]
    if package is not None and not told:
        shown = " or ".join(map(str, roots))
        raise UsageError(f"no bundle below {shown} has a case {package!r}; check the name")
    for line in told:
        click.echo(line)
    return 0


def rebuild_report(root: Path) -> Path:
    """Write the views and the page of a bundle anew and return the page's path. Raises BundleError.

    The page's last heartbeat is the journal's last change, not this moment.
    """
    from pytest_atesor.bundle.views import Views  # noqa: PLC0415 - `atesor --help` must not wait for it
    from pytest_atesor.control.page import PageWriter  # noqa: PLC0415 - the same

    reading = _read(root)
    layout = reading.layout
    plan = replace(reading.plan, write_csv=reading.plan.write_csv or layout.summary_csv.exists())
    changed = (layout.journal if layout.journal.exists() else layout.plan).stat().st_mtime
    at = datetime.fromtimestamp(changed, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    Views(layout, plan).write(reading.ledger, at, durable=True)
    PageWriter(layout).write(reading.ledger, at)
    return layout.report


def _read(root: Path) -> BundleReading:
    from pytest_atesor.bundle.writer import read_bundle  # noqa: PLC0415 - `atesor --help` must not wait for it

    return read_bundle(root)
