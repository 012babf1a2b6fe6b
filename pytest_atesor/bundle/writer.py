"""A bundle as its one writer and its readers see it: plan, journal, lock and views as one thing.

The writer records events; each is durable in the journal before the ledger knows it. Readers take no lock and
write nothing.
"""

import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from pytest_atesor.bundle.attempts import scan_attempts
from pytest_atesor.bundle.files import guard, sync_directory, write_atomic
from pytest_atesor.bundle.journal import Journal, JournalContent, read_journal
from pytest_atesor.bundle.layout import BundleLayout
from pytest_atesor.bundle.lock import BundleLock, Holder, wait_for_workers
from pytest_atesor.bundle.views import ViewLimiter, Views
from pytest_atesor.core.clock import Clock
from pytest_atesor.core.events import AttemptEnded, AttemptLost, Event
from pytest_atesor.core.ledger import Ledger, fold_events
from pytest_atesor.core.plan import Plan
from pytest_atesor.core.plan_json import VersionedPlan, format_plan, format_runspec, parse_versioned_plan
from pytest_atesor.core.recovery import decide_recovery
from pytest_atesor.errors import BundleError, UsageError

__all__ = ["Bundle", "BundleReading", "Recovery", "View", "read_bundle", "read_plan"]


class View(Protocol):
    """A derived file that is written with the views."""

    def write(self, ledger: Ledger, updated_at: str) -> None:
        """Replace it by what the ledger says now. Raises BundleError."""

    def beat(self, updated_at: str) -> bool:
        """Renew only its last sign of life; False when it must be written instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """What opening a bundle put right: bytes of a torn last line dropped, attempts adopted or given up."""

    torn_bytes: int
    adopted: tuple[tuple[str, str], ...]
    interrupted: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleReading:
    """A bundle as it was when it was read; ``newer`` says that a newer version wrote some of it."""

    layout: BundleLayout
    plan: Plan
    ledger: Ledger
    newer: bool
    torn_bytes: int


class Bundle:
    """The open bundle of the one controller.

    Made by :meth:`create` or :meth:`open`, given back by :meth:`close`.
    """

    def __init__(
        self, layout: BundleLayout, plan: Plan, content: JournalContent, lock: BundleLock, clock: Clock
    ) -> None:
        self.layout = layout
        self.plan = plan
        self.recovery = Recovery(torn_bytes=content.torn_bytes, adopted=(), interrupted=())
        self.ledger = fold_events(plan, content.events)
        self._clock = clock
        self._lock = lock
        self._journal = Journal(layout.journal, content)
        self._views = Views(layout, plan)
        self._more_views: list[View] = []
        self._limiter = ViewLimiter(clock.monotonic)
        self._turn = threading.RLock()  # the heart beats in a thread of its own
        self._is_closed = False
        self._is_refused = False  # the disk refused an event, which only the ledger has
        self._has_news = True  # since the views were last written durably
        self._is_stale = True  # since the views were last written at all

    @classmethod
    def create(
        cls, output_root: Path, plan: Plan, *, holder: Holder, clock: Clock, exact: bool = False
    ) -> Self:
        """Write a new bundle for ``plan`` below ``output_root`` and open it.

        The directory is created exclusively; when the plan's batch id is taken, a counter is added to it
        (``.plan`` has the final id), or with ``exact`` UsageError is raised. Raises BundleError when the disk
        does not let us.
        """
        layout = BundleLayout(_reserve(output_root, plan.batch_id, exact=exact))
        final = replace(plan, batch_id=layout.root.name)
        with ExitStack() as undo:
            undo.callback(shutil.rmtree, layout.root, ignore_errors=True)
            lock = undo.enter_context(BundleLock(layout.lock, holder))
            _write_cases(layout, final)
            write_atomic(layout.plan, format_plan(final))
            bundle = cls(layout, final, read_journal(layout.journal), lock, clock)
            undo.callback(bundle._journal.close)
            bundle.refresh(force=True)
            undo.pop_all()
        return bundle

    @classmethod
    def open(
        cls, root: Path, *, holder: Holder, clock: Clock, on_wait: Callable[[], None] = lambda: None
    ) -> Self:
        """Open an existing bundle to go on with it: lock it, drop a torn line, recover what was left behind.

        Waits for workers that outlived their controller, and calls ``on_wait`` when there are any. Raises
        BundleError when it is none, is in use, is damaged, or was written by a newer version.
        """
        layout = BundleLayout(root)
        plan, version = _read_versioned(layout)
        if version > 1:
            raise BundleError(
                f"{layout.plan} was written by a newer version; it can be read, not continued; update"
            )
        with ExitStack() as undo:
            lock = undo.enter_context(BundleLock(layout.lock, holder))
            wait_for_workers(layout.workers, on_wait)
            bundle = cls(layout, plan, read_journal(layout.journal), lock, clock)
            undo.callback(bundle._journal.close)
            bundle._recover()
            undo.pop_all()
        return bundle

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def add_view(self, view: View) -> None:
        """Have one more file written whenever the views are."""
        self._more_views.append(view)
        self._has_news = self._is_stale = True

    def record(self, event: Event) -> None:
        """Make an event true: durable in the journal, then in the ledger, in time in the views."""
        with self._turn:
            self._has_news = self._is_stale = True
            try:
                self._journal.append(event)
                self.ledger.apply(event)
                self.refresh()
            except BundleError:
                self._is_refused = True
                raise

    def refresh(self, *, force: bool = False) -> None:
        """Write the views when they are due; with ``force`` whenever there is news, and then durably."""
        with self._turn:
            if not (self._has_news if force else self._limiter.is_due()):
                return
            started_s = self._clock.monotonic()
            now = self._clock.now()
            with guard("write the views of", self.layout.root):
                self._views.write(self.ledger, now, durable=force)
                for view in self._more_views:
                    view.write(self.ledger, now)
            self._limiter.wrote(started_s)
            self._has_news = self._has_news and not force
            self._is_stale = False

    def beat(self) -> None:
        """Show that the controller lives; for a thread of its own, every few seconds. Raises BundleError.

        Views that were not due at the last event are written now; else only the heartbeats of the added ones
        change.
        """
        with self._turn:
            if self._is_closed or self._is_refused:
                return
            if self._is_stale:
                self.refresh()
            now = self._clock.now()
            for view in self._more_views:
                self._is_stale = not view.beat(now) or self._is_stale

    def close(self) -> None:
        """Write the final views and give the lock back, also when the disk refuses the views.

        A second call does nothing.
        """
        with self._turn:
            if self._is_closed:
                return
            self._is_closed = True
            try:
                self.refresh(force=True)
            finally:
                self._journal.close()
                self._lock.release()

    def _recover(self) -> None:
        found = scan_attempts(self.layout, self.ledger)
        events = decide_recovery(self.ledger, found, self._clock.now())
        self._journal.append(*events)  # at once: what is on disk says it again if this is cut short
        for event in events:
            self.ledger.apply(event)
        self.recovery = Recovery(
            torn_bytes=self.recovery.torn_bytes,
            adopted=tuple(
                (event.record.case_id, event.record.attempt_id)
                for event in events
                if isinstance(event, AttemptEnded)
            ),
            interrupted=tuple(
                (event.case_id, event.attempt_id) for event in events if isinstance(event, AttemptLost)
            ),
        )


def read_plan(layout: BundleLayout) -> Plan:
    """Return a bundle's frozen plan. Raises BundleError when there is none or it is damaged."""
    return _read_versioned(layout).plan


def read_bundle(root: Path) -> BundleReading:
    """Return a bundle as it stands, without taking its lock or writing anything. Raises BundleError."""
    layout = BundleLayout(root)
    plan, version = _read_versioned(layout)
    content = read_journal(layout.journal)
    return BundleReading(
        layout=layout,
        plan=plan,
        ledger=fold_events(plan, content.events),
        newer=content.newer or version > 1,
        torn_bytes=content.torn_bytes,
    )


def _read_versioned(layout: BundleLayout) -> VersionedPlan:
    with guard("read", layout.plan):
        try:
            data = layout.plan.read_bytes()
        except FileNotFoundError:
            raise BundleError(
                f"{layout.root} is no bundle: it has no {layout.plan.name}; check the path"
            ) from None
        except NotADirectoryError:
            places = (*reversed(layout.root.parents), layout.root)
            wrong = next((one for one in places if one.exists() and not one.is_dir()), layout.root)
            named = "it" if wrong == layout.root else str(wrong)
            raise BundleError(
                f"{layout.root} is no bundle: {named} is no directory; name one below runs/batches"
            ) from None
    return parse_versioned_plan(data, str(layout.plan))


def _candidates(batch_id: str) -> Iterator[str]:
    yield batch_id
    number = 2
    while True:
        yield f"{batch_id}-{number}"
        number += 1


def _reserve(output_root: Path, batch_id: str, *, exact: bool) -> Path:
    with guard("create a bundle in", output_root):
        output_root.mkdir(parents=True, exist_ok=True)
        for name in _candidates(batch_id):
            try:
                (output_root / name).mkdir()
            except FileExistsError:
                if exact:
                    taken = output_root / name
                    raise UsageError(
                        f"batch id {name} is taken: {taken} exists; resume it, or choose another"
                    ) from None
                continue
            return output_root / name
    raise AssertionError("the candidates never end")


def _write_cases(layout: BundleLayout, plan: Plan) -> None:
    # Not durable one by one: the plan, written last and durably, has everything that is in these files.
    with guard("create the cases of", layout.root):
        (layout.root / "cases").mkdir()
        for case in plan.cases:
            path = layout.runspec(case.case_id)
            path.parent.mkdir()
            path.write_text(format_runspec(case), encoding="utf-8")
        sync_directory(layout.root)
