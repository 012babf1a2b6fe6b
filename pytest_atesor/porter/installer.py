"""Installs what builds need, inside the sandbox, as root, and remembers why."""

import time
from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from pathlib import Path

from pytest_atesor.porter.contents import INDEX_SCRIPT, KEPT_S, ContentsIndex, adopt_index, index_age_s
from pytest_atesor.porter.debian import parse_build_depends
from pytest_atesor.porter.dependencies import FileIndex, Resolution, resolve_need
from pytest_atesor.porter.download_pool import DownloadPool
from pytest_atesor.porter.downloads import Downloads
from pytest_atesor.porter.needs import Need, NeedKind
from pytest_atesor.porter.platforms.debian import DEBIAN
from pytest_atesor.porter.platforms.interface import Profile, TableIndex
from pytest_atesor.porter.shell import Shell

__all__ = ["Installer"]

_APT_S = 1800.0
_INDEX_S = 600.0


class Installer:
    """Finds and installs packages.

    ``index`` is where the file index is kept, ``workspace`` the host's side of it, ``profile`` the platform,
    ``pool`` what slots share of their downloads (None: nothing).
    ``deadline``, on the monotonic clock, is when the package manager must have come back.
    """

    def __init__(  # noqa: PLR0913 - keyword-only facts of one sandbox
        self,
        shell: Shell,
        *,
        index: Path,
        workspace: Path,
        say: Callable[[str], None],
        bring: Callable[[tuple[str, ...]], None] = lambda _paths: None,
        profile: Profile = DEBIAN,
        pool: DownloadPool | None = None,
    ) -> None:
        self._shell = shell
        self._index = index
        self._workspace = workspace
        self._bring = bring
        self._say = say
        self._profile = profile
        self._downloads = Downloads(shell, profile, pool=pool, workspace=workspace, say=say)
        self.deadline = float("inf")
        self.installed: dict[str, str] = {}
        self.refused: dict[str, None] = {}

    def resolve(
        self, needs: Iterable[Need], spoken: AbstractSet[str] = frozenset()
    ) -> tuple[list[Resolution], list[Need]]:
        """Return the packages for ``needs``, and the needs that no package answers. Raises SandboxError.

        ``spoken`` are words of the tree's build files, which settle between packages.
        """
        wanted = [self._named_here(one) for one in needs]
        if not wanted:
            return [], []
        if not self._profile.has_index:
            return _look_up(wanted, TableIndex(self._profile.files), spoken)
        if not self._ensure_index():
            return [], wanted
        with ContentsIndex(self._index) as index:
            return _look_up(wanted, index, spoken)

    def _named_here(self, need: Need) -> Need:
        """Return ``need`` with the platform's name, where a rule names a package by Debian's."""
        is_named = need.kind is NeedKind.PACKAGE
        return Need(kind=need.kind, name=self._profile.name_of(need.name)) if is_named else need

    def install(
        self,
        found: Iterable[Resolution],
        candidates: Iterable[str] = (),
        *,
        origin: str = "build dependency of the Debian source of this name",
    ) -> bool:
        """Install the packages of ``found`` and, as far as they can be had, ``candidates``.

        Say whether any is new.

        Candidates come from ``origin`` and are recorded as such. Raises SandboxError.
        """
        wanted: dict[str, str] = {}
        for one in found:
            if one.package not in self.installed and one.package not in self.refused:
                wanted[one.package] = f"{one.need}: {one.evidence}"
        extra = [
            one
            for one in candidates
            if one not in self.installed and one not in wanted and one not in self.refused
        ]
        if (not wanted and not extra) or self._is_late():
            return False
        for package, reason in wanted.items():
            self._say(f"installing {package} ({reason})")
        if extra:
            self._say(f"installing what can be had ({origin}): {' '.join(extra)}")
        self._shell.set_network(enabled=True)
        done = self._downloads.install(wanted, extra, timeout_s=self._limit_s(_APT_S))
        if done.exit_code != 0 or done.timed_out:
            self._say(f"the package manager could not install {' '.join(wanted)}")
            self.refused.update(dict.fromkeys(wanted))
            wanted = {}
        self.installed.update(wanted)
        self.installed.update(dict.fromkeys(extra, origin))
        return bool(wanted or extra)

    def build_depends(self, source: str) -> tuple[str, ...]:
        """Return what the Debian source package ``source`` builds with, () without one of that name."""
        if self._profile.build_depends is None:
            return ()
        self._shell.set_network(enabled=True)
        done = self._shell.script(
            self._profile.build_depends(source), user="root", timeout_s=self._limit_s(_APT_S)
        )
        return parse_build_depends(done.tail.decode("utf-8", "replace"), source)

    def _is_late(self) -> bool:
        return time.monotonic() >= self.deadline

    def _limit_s(self, most_s: float) -> float:
        return max(1.0, min(most_s, self.deadline - time.monotonic()))

    def _ensure_index(self) -> bool:
        age = index_age_s(self._index)
        if age is not None and (age < KEPT_S or self._is_late()):
            return True
        self._say("downloading the distribution's file index")
        self._shell.set_network(enabled=True)
        done = self._shell.script(INDEX_SCRIPT, user="root", timeout_s=self._limit_s(_INDEX_S))
        if done.exit_code == 0:
            try:
                self._bring(("cache/contents/index",))
                adopt_index(self._workspace, self._index)
            except OSError as error:
                self._say(f"the file index cannot be kept: {error}")
        if index_age_s(self._index) is None:
            self._say("there is no file index, so missing things cannot be looked up")
            return False
        return True


def _look_up(
    needs: Iterable[Need], index: FileIndex, spoken: AbstractSet[str]
) -> tuple[list[Resolution], list[Need]]:
    found: list[Resolution] = []
    unknown: list[Need] = []
    for need in needs:
        one = resolve_need(need, index, spoken)
        if one is None:
            unknown.append(need)
        else:
            found.append(one)
    return found, unknown
