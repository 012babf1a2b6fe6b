"""The verdict on an attempt's products, and the exit code that says it. Pure."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_atesor.core.outcome import Cause, Verdict

if TYPE_CHECKING:  # the scan brings the ELF reader along, which a run needs only at its end
    from pytest_atesor.porter.scan import Scan

__all__ = ["EXIT_FAILED", "EXIT_UNVERIFIED", "EXIT_VERIFIED", "Outcome", "decide_verdict", "failed"]

EXIT_VERIFIED = 0
EXIT_FAILED = 1
EXIT_UNVERIFIED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a run ended. ``verdict`` is None when it failed; ``reason`` is one line, "" for verified."""

    verdict: Verdict | None
    cause: Cause | None
    reason: str
    exit_code: int


def failed(cause: Cause, reason: str) -> Outcome:
    """Return the outcome of a run that ended before anything could be proven."""
    return Outcome(verdict=None, cause=cause, reason=reason, exit_code=EXIT_FAILED)


def decide_verdict(scan: "Scan") -> Outcome:
    """Return verified when a product for riscv64 was found, else unverified with what exactly is missing.

    Files for another processor never count, nor do files that were there before the build, in the tree or
    in the sandbox's packages. Where not all of the source could be looked at, none of that is known.
    """
    if scan.products and not scan.gaps:
        return Outcome(verdict=Verdict.VERIFIED, cause=None, reason="", exit_code=EXIT_VERIFIED)
    return Outcome(
        verdict=Verdict.UNVERIFIED, cause=None, reason=_missing_proof(scan), exit_code=EXIT_UNVERIFIED
    )


def _missing_proof(scan: "Scan") -> str:
    """Return what was found instead; the first of these sentences that is true says the most."""
    foreign = " (".join(scan.foreign[0]) + ")" if scan.foreign else ""
    said = (
        (
            scan.products,
            f"{scan.gaps} entries of the source could not be read before the build: what it made is unknown",
        ),
        (
            scan.foreign,
            f"the build made {len(scan.foreign)} native file(s) for another processor only, e.g. {foreign}",
        ),
        (scan.broken, f"the build made native files that cannot be read, e.g. {_first(scan.broken)}"),
        (
            scan.prebuilt,
            f"the only native files were in the source tree before the build, e.g. {_first(scan.prebuilt)}",
        ),
        (
            scan.packaged,
            f"the only riscv64 files are copies of the sandbox's own packages, e.g. {_first(scan.packaged)}",
        ),
        (scan.objects, f"the build made {scan.objects} object file(s) for riscv64 and linked none"),
        (scan.empty, f"the build made only archives or objects without code, e.g. {_first(scan.empty)}"),
        (
            scan.unreadable,
            f"no native file; {len(scan.unreadable)} could not be read, e.g. {_first(scan.unreadable)}",
        ),
    )
    nothing = "the commands passed and made nothing native (headers, scripts or data only?)"
    found = next((sentence for applies, sentence in said if applies), nothing)
    return f"{found}; no riscv64 executable, shared object or archive with code"


def _first(names: tuple[str, ...]) -> str:
    return names[0] if names else ""
