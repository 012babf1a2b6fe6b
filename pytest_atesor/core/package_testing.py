"""What becomes of a package's own tests, and the variable that tells the built-in agent."""

from enum import StrEnum, unique
from typing import Final

from pytest_atesor.errors import UsageError

__all__ = ["TESTS_VARIABLE", "PackageTesting", "parse_package_testing"]

TESTS_VARIABLE: Final = "ATESOR_TESTS"


@unique
class PackageTesting(StrEnum):
    """The package's tests are run and recorded, required to pass, or not run."""

    RUN = "run"
    REQUIRE = "require"
    SKIP = "skip"


def parse_package_testing(text: str, origin: str) -> PackageTesting:
    """Return what a value of the variable says. Raises UsageError, naming the ``origin``."""
    known = [one.value for one in PackageTesting]
    if text not in known:
        raise UsageError(f"unknown value {text[:80]!r} from {origin}; use one of: {', '.join(known)}")
    return PackageTesting(text)
