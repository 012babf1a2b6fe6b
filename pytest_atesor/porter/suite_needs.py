"""What a package's own tests need beyond its build: found in what they say, or known of a recipe."""

import time
from collections.abc import Callable, Mapping

from pytest_atesor.errors import SandboxError
from pytest_atesor.porter.builders.interface import BuildOptions, Candidate
from pytest_atesor.porter.downloads import Downloads
from pytest_atesor.porter.installer import Installer
from pytest_atesor.porter.platforms import profile_of
from pytest_atesor.porter.repair import Progress, Repair
from pytest_atesor.porter.shell import Shell

__all__ = ["FoundNeeds", "KnownNeeds"]


class FoundNeeds:
    """Answers test suites that could not be built; what it installs comes out of what they say.

    ``read_versions`` asks the sandbox for the versions of packages.
    """

    def __init__(
        self,
        installer: Installer,
        repair: Repair,
        candidate: Candidate,
        options: BuildOptions,
        read_versions: Callable[[list[str]], Mapping[str, str]],
    ) -> None:
        self._installer = installer
        self._repair = repair
        self._candidate = candidate
        # What Debian's package of this name builds with is a lot, and its build has passed without.
        self._progress = Progress(options=options, asked_debian=True)
        self._before = frozenset(installer.installed)
        self._read_versions = read_versions

    def bring(self, limit_s: float) -> bool:
        """Install within ``limit_s`` seconds what the tree names and can be had; True in any case."""
        needs = self._candidate.project.test_needs(self._progress.options)
        if needs:
            self._installer.deadline = time.monotonic() + limit_s
            found, _ = self._installer.resolve(needs)
            packages = dict.fromkeys(one.package for one in found)
            self._installer.install((), packages, origin="what the tests ask for")
        return True

    def supply(self, log: str, limit_s: float) -> bool:
        """Install within ``limit_s`` seconds what ``log`` says is missing; say whether that is new."""
        self._installer.deadline = time.monotonic() + limit_s
        return self._repair.supply(log, self._candidate, self._progress)

    def list_packages(self) -> Mapping[str, str]:
        """Return the packages that were installed for the tests, with versions; {} if nobody can say."""
        names = [one for one in self._installer.installed if one not in self._before]
        try:
            return self._read_versions(names) if names else {}
        except SandboxError:
            return {}


class KnownNeeds:
    """Installs what a recipe says that its tests had, in those versions, and nothing else."""

    def __init__(
        self, shell: Shell, platform: str, packages: Mapping[str, str], downloads: Downloads
    ) -> None:
        self._shell = shell
        self._downloads = downloads
        self._profile = profile_of(platform)
        self._packages = packages

    def bring(self, limit_s: float) -> bool:
        """Install them within ``limit_s`` seconds; say whether they are there."""
        if not self._packages:
            return True
        pinned = [self._profile.pinned(name, version) for name, version in self._packages.items()]
        self._shell.end_builders()  # they must not see the network
        self._shell.set_network(enabled=True)
        done = self._downloads.install(pinned, timeout_s=limit_s)
        return done.exit_code == 0 and not done.timed_out

    def supply(self, log: str, limit_s: float) -> bool:  # noqa: ARG002 - the protocol's
        """Bring nothing more: a recipe is carried out as it stands."""
        return False

    def list_packages(self) -> Mapping[str, str]:
        """Return what the recipe has."""
        return self._packages
