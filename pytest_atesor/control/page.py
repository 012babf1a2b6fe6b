"""The report page of a bundle on disk, beside its views."""

import os
from typing import Final

from pytest_atesor.bundle.excerpts import Excerpts
from pytest_atesor.bundle.files import write_atomic
from pytest_atesor.bundle.layout import BundleLayout
from pytest_atesor.core.ledger import Ledger
from pytest_atesor.reports.html.page import find_heartbeat, format_page

__all__ = ["PageWriter"]

_FLAGS: Final = os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class PageWriter:
    """Writes ``report.html`` of one bundle; files of attempts that it has seen are not read again."""

    def __init__(self, layout: BundleLayout) -> None:
        self._layout = layout
        self._excerpts = Excerpts(layout)
        self._identity: tuple[int, int, int] | None = None
        self._heartbeat = 0

    def write(self, ledger: Ledger, updated_at: str) -> None:
        """Replace the page atomically. Raises BundleError when the disk does not let us."""
        page = format_page(ledger, self._excerpts.read(ledger), updated_at)
        self._identity = None
        write_atomic(self._layout.report, page, durable=False)
        self._heartbeat = len(page[: find_heartbeat(page)].encode())
        self._identity = self._identify(self._layout.report.lstat())

    def beat(self, updated_at: str) -> bool:
        """Put a newer last sign of life into the page where the old one stands, which has its length.

        Writing a page of thousands of cases again for it would wear out a disk. False when the file is not
        the one that was written, or cannot be opened.
        """
        try:
            descriptor = os.open(self._layout.report, _FLAGS)
        except OSError:
            return False
        try:
            if self._identify(os.fstat(descriptor)) != self._identity:
                return False
            os.pwrite(descriptor, updated_at.encode(), self._heartbeat)
        except OSError:
            return False
        finally:
            os.close(descriptor)
        return True

    @staticmethod
    def _identify(status: os.stat_result) -> tuple[int, int, int]:
        return status.st_dev, status.st_ino, status.st_size
