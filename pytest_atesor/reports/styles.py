"""The colours of the statuses on a terminal."""

from typing import Final

from pytest_atesor.core.outcome import Status

__all__ = ["STYLES"]

STYLES: Final = {
    Status.PASS: "green",
    Status.UNVERIFIED: "yellow",
    Status.FAIL: "red",
    Status.TIMEOUT: "magenta",
    Status.SKIPPED: "cyan",
}
