"""What a case can end as, and why: closed sets that every room shares."""

from enum import StrEnum, unique

__all__ = ["Cause", "Status", "Verdict"]


@unique
class Status(StrEnum):
    """The final state of an attempt or a case, spelled as the package-list contract spells it."""

    PASS = "PASS"  # noqa: S105 - a status, not a password
    UNVERIFIED = "UNVERIFIED"
    FAIL = "FAIL"
    TIMEOUT = "TIMEOUT"
    SKIPPED = "SKIPPED"


@unique
class Cause(StrEnum):
    """Why a case is not PASS."""

    SOURCE = "source"
    UNSUPPORTED = "unsupported"
    DEPENDENCY = "dependency"
    BUILD = "build"
    TESTS = "tests"
    ENVIRONMENT = "environment"
    OUTPUT_LIMIT = "output-limit"
    AGENT = "agent"
    INTERRUPTED = "interrupted"


@unique
class Verdict(StrEnum):
    """What was proven of an attempt's artifacts."""

    VERIFIED = "verified"
    UNVERIFIED = "unverified"
