"""What the values of proxy variables say. Nothing is reached here."""

from collections.abc import Mapping
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from pytest_atesor.core.names import redact_text
from pytest_atesor.errors import SetupError

__all__ = ["Proxy", "check_proxies", "parse_proxy"]

# HTTP_PROXY is not among them: a web server may set it, and curl does not read it.
_VARIABLES: Final = ("http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY")


class Proxy(NamedTuple):
    """Where a proxy is, and whether its URL has credentials."""

    host: str
    has_user: bool


def parse_proxy(value: str) -> Proxy:
    """Return what the URL of a proxy says; the scheme may be missing. Raises ValueError for no URL."""
    parts = urlsplit(value if "://" in value else f"http://{value}")
    if not parts.hostname or parts.port == 0:  # asking for a port that is no number raises
        raise ValueError("no host")
    return Proxy(parts.hostname, parts.username is not None)


def check_proxies(environ: Mapping[str, str]) -> None:
    """Raise SetupError for a proxy variable whose value is no URL: nothing could be fetched."""
    for name in _VARIABLES:
        value = environ.get(name)
        try:
            if value:
                parse_proxy(value)
        except ValueError:
            raise SetupError(
                f"{name}={redact_text(value or '')[:200]!r} is no URL of a proxy; correct or unset it"
            ) from None
