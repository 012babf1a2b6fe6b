"""Installing packages with what any slot has downloaded before.

The package manager inside says which files it would download, with the digests of its signed lists. What the
pool has of them is put into a directory of ours in the workspace, from which root inside takes copies and
removes what it has copied, so that the disk holds a file twice for a moment only. There
the package manager's script checks each one by digest before it is used, as it checks what an earlier case
has left; so whatever pool, host or build did to a file, a wrong one is downloaded again. Afterwards what is
new among the downloaded files comes into the pool. They are a stranger's: read without following links,
bounded.
"""

import contextlib
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from pytest_atesor.porter.debian import HANDED_IN
from pytest_atesor.porter.download_pool import DownloadPool
from pytest_atesor.porter.platforms.interface import Profile
from pytest_atesor.porter.shell import Capture, Shell
from pytest_atesor.porter.sources.job import opening_incoming
from pytest_atesor.porter.tree import Entry, Limits, open_inside, read_tree
from pytest_atesor.sandbox.interface import Completed

__all__ = ["Download", "Downloads", "parse_downloads"]

_ARCHIVES: Final = "cache/apt/archives"
_LIMITS: Final = Limits(depth=4, entries=20_000)
_DESCRIBE_S: Final = 900.0
_SHORTEST_S: Final = 1.0
_MOST_BYTES: Final = 2 * 1024**3  # of one installation, each way
_MOST_FILES: Final = 5_000
_URI: Final = re.compile(
    r"^'[^']*' ([A-Za-z0-9][A-Za-z0-9.+~_%-]*\.deb) (\d{1,12}) SHA256:([0-9a-f]{64})$", re.MULTILINE
)


class Download(NamedTuple):
    """A file that the package manager would download: its name there, its size, its digest."""

    name: str
    size_bytes: int
    sha256: str


class Downloads:
    """Installs packages of one sandbox; None for ``pool`` shares nothing.

    A pool that cannot be used is said once and left alone: it is never the reason of a failure.
    """

    def __init__(
        self,
        shell: Shell,
        profile: Profile,
        *,
        pool: DownloadPool | None,
        workspace: Path,
        say: Callable[[str], None],
    ) -> None:
        self._shell = shell
        self._profile = profile
        self._pool = pool if profile.describe else None
        self._workspace = workspace
        self._say = say

    def install(
        self, packages: Iterable[str], optional: Iterable[str] = (), *, timeout_s: float | None = None
    ) -> Completed:
        """Install ``packages``, and ``optional`` ones as far as they can be had, with the platform's script.

        The network must be on. Raises SandboxError.
        """
        wanted, extra = tuple(packages), tuple(optional)
        end = time.monotonic() + (self._shell.remaining_s() if timeout_s is None else timeout_s)
        before = self._look()
        listed = self._list(wanted, extra, end)
        with contextlib.ExitStack() as held:
            handed = self._hand_in(listed, before, held)
            done = self._shell.script(
                self._profile.install(wanted, extra),
                user="root",
                environment=handed,
                sink=self._shell.output,
                timeout_s=max(_SHORTEST_S, end - time.monotonic()),
            )
        if not done.timed_out:
            self._keep(listed, before)
        return done

    def _list(self, wanted: tuple[str, ...], extra: tuple[str, ...], end: float) -> tuple[Download, ...]:
        """Return what would be downloaded now, () where nobody asks: an empty pool has nothing of it."""
        describe = self._profile.describe
        if self._pool is None or describe is None or self._pool.is_empty():
            return ()
        heard = Capture(None)
        self._shell.script(
            describe(wanted, extra),
            user="root",
            sink=heard.as_sink(),
            timeout_s=max(_SHORTEST_S, min(_DESCRIBE_S, (end - time.monotonic()) / 2)),
        )
        return parse_downloads(heard.text())

    def _hand_in(
        self, listed: tuple[Download, ...], before: Mapping[str, Entry], held: contextlib.ExitStack
    ) -> dict[str, str]:
        """Put copies of what the pool has into the workspace; return the variable that says where."""
        pool = self._pool
        if pool is None or not listed:
            return {}
        missing = [one for one in listed if before.get(one.name) != Entry(size_bytes=one.size_bytes)]
        try:
            here = tuple(_bounded(one for one in missing if pool.has(one.sha256)))
            pool.require_room(
                self._workspace, 2 * sum(one.size_bytes for one in here)
            )  # root copies them again
            incoming = held.enter_context(opening_incoming(self._workspace))
            sizes = [pool.hand_out(one.sha256, incoming.host / one.name) for one in here]
        except OSError as error:
            held.close()  # what is there may be half of it, on a disk that is full
            self._give_up(error)
            return {}
        had = [size for size in sizes if size is not None]
        if had:
            self._say(f"{len(had)} of {len(missing)} downloads are here already ({sum(had) / 1e6:.1f} MB)")
        return {HANDED_IN: incoming.inside}

    def _look(self) -> Mapping[str, Entry]:
        """Return the downloaded files that lie in the workspace, by name."""
        if self._pool is None:
            return {}
        try:
            tree = read_tree(self._workspace, _LIMITS, below=(_ARCHIVES,))
        except OSError as error:
            self._give_up(error)
            return {}
        names = (one for one in tree.below(_ARCHIVES) if one.endswith(".deb"))
        return {one.rpartition("/")[2]: tree.files[one] for one in names}

    def _keep(self, listed: tuple[Download, ...], before: Mapping[str, Entry]) -> None:
        """Take into the pool what was not in the workspace before, and what of the list it did not have."""
        after = self._look()
        pool = self._pool
        if pool is None:
            return
        try:
            known = {one.name: pool.has(one.sha256) for one in listed}
            left = _MOST_BYTES
            for name, entry in after.items():
                is_wanted = not known.get(name, name in before)
                if is_wanted and entry.size_bytes <= left:
                    left -= _keep_one(pool, self._workspace, name)
        except OSError as error:
            self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        self._pool = None
        self._say(f"downloads are not shared with other cases: {error}")


def parse_downloads(text: str) -> tuple[Download, ...]:
    """Return the files that apt's ``--print-uris`` names, each once; other lines are passed over."""
    found = {name: Download(name, int(size), digest) for name, size, digest in _URI.findall(text)}
    return tuple(found.values())[:_MOST_FILES]


def _bounded(downloads: Iterable[Download]) -> Iterator[Download]:
    left = _MOST_BYTES
    for one in downloads:
        left -= one.size_bytes
        if left >= 0:
            yield one


def _keep_one(pool: DownloadPool, workspace: Path, name: str) -> int:
    with contextlib.ExitStack() as held:
        try:
            source = held.enter_context(open_inside(workspace, f"{_ARCHIVES}/{name}"))
        except OSError:  # gone, or no regular file any more
            return 0
        return pool.keep(source)
