"""What a package's own tests need beyond its build: found in what they say, and installed."""

from collections.abc import Callable, Mapping

from pytest_atesor.porter.builders.interface import BuildOptions, Candidate
from pytest_atesor.porter.installer import Installer
from pytest_atesor.porter.repair import Progress, Repair

__all__ = ["SuiteNeeds"]


class SuiteNeeds:
    """Answers test suites that could not be built.

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

    def supply(self, log: str, limit_s: float) -> bool:
        """Install what ``log`` says is missing, each call of the package manager within ``limit_s`` seconds.

        Say whether anything new is there. Raises SandboxError.
        """
        self._installer.patience_s = limit_s
        return self._repair.supply(log, self._candidate, self._progress)

    def list_packages(self) -> Mapping[str, str]:
        """Return the packages that were installed for the tests, with their versions. Raises SandboxError."""
        names = [one for one in self._installer.installed if one not in self._before]
        return self._read_versions(names) if names else {}
