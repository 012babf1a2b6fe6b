"""The report page of a bundle on disk, beside its views."""

from pytest_atesor.bundle.excerpts import Excerpts
from pytest_atesor.bundle.files import write_atomic
from pytest_atesor.bundle.layout import BundleLayout
from pytest_atesor.core.ledger import Ledger
from pytest_atesor.reports.html.page import format_page

__all__ = ["PageWriter"]


class PageWriter:
    """Writes ``report.html`` of one bundle; files of attempts that it has seen are not read again."""

    def __init__(self, layout: BundleLayout) -> None:
        self._layout = layout
        self._excerpts = Excerpts(layout)

    def write(self, ledger: Ledger, updated_at: str) -> None:
        """Replace the page atomically. Raises BundleError when the disk does not let us."""
        page = format_page(ledger, self._excerpts.read(ledger), updated_at)
        write_atomic(self._layout.report, page, durable=False)
