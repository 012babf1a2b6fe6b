"""What the host knows about reaching things: git's URL rewriting, proxies, and who can see which address.

Reading the host's settings runs nothing but ``git config``, outside of any repository.
"""

import ipaddress
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from pytest_atesor.core.names import redact_text
from pytest_atesor.core.proxies import Proxy, check_proxies, parse_proxy
from pytest_atesor.core.urls import SourceUrl
from pytest_atesor.porter.sources.git_commands import plan_host_environment

__all__ = [
    "FromHost",
    "FromInside",
    "HostNetwork",
    "Way",
    "decide_way",
    "is_exempt",
    "is_loopback",
    "plan_inside_proxies",
    "read_git_proxy",
    "read_rewriting_rules",
    "rewrite_url",
]

_PROXY_NAMES: Final = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
_READ_S: Final = 30


@dataclass(frozen=True, slots=True)
class FromInside:
    """The sandbox fetches this itself; ``proxy`` is the one in the host's git configuration, "" for none."""

    proxy: str = ""


@dataclass(frozen=True, slots=True)
class FromHost:
    """The host fetches this, because of ``reason``."""

    reason: str


Way = FromInside | FromHost


@dataclass(frozen=True, slots=True)
class HostNetwork:
    """The proxies of the host's environment by scheme ("http", "https", "all"); "no" has the exceptions."""

    proxies: Mapping[str, str]

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> "HostNetwork":
        """Read them as curl does: lower case wins, and HTTP_PROXY is not read (a web server may set it).

        Raises SetupError for one that is no URL.
        """
        check_proxies(environ)
        found: dict[str, str] = {}
        for name in _PROXY_NAMES:
            upper = environ.get(name.upper(), "") if name != "http_proxy" else ""
            value = environ.get(name, upper)
            if value:
                found[name.removesuffix("_proxy")] = value
        return cls(found)

    def proxy_for(self, url: SourceUrl, git_proxy: str = "") -> str:
        """Return the proxy for a URL, "" for none. ``git_proxy`` is git's own setting, which comes first."""
        if url.scheme not in {"http", "https"} or is_exempt(url.host, self.proxies.get("no", "")):
            return ""
        return git_proxy or self.proxies.get(url.scheme) or self.proxies.get("all", "")


def is_exempt(host: str, exceptions: str) -> bool:
    """Say whether ``host`` is among the comma-separated domains of a ``no_proxy`` variable."""
    for exception in exceptions.replace(" ", ",").split(","):
        domain = exception.strip().lstrip(".").lower()
        if domain == "*" or (domain and (host == domain or host.endswith(f".{domain}"))):
            return True
    return False


def is_loopback(host: str) -> bool:
    """Say whether only this machine itself can reach ``host``."""
    name = host.strip("[]").rstrip(".").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified


def decide_way(url: SourceUrl, network: HostNetwork, git_proxy: str = "") -> Way:
    """Decide who fetches ``url``: the sandbox, unless that takes something that only the host has."""
    proxy = network.proxy_for(url, git_proxy)
    at = _read_proxy(proxy)
    shown = redact_text(proxy)
    reasons = (
        (url.scheme == "file", "it is on this machine's disk"),
        (url.scheme == "ssh", "ssh needs the keys of this machine's user"),
        (url.has_secret or redact_text(url.text) != url.text, "its credentials stay out of the sandbox"),
        (is_loopback(url.host), f"{url.host} is this machine itself"),
        (
            is_loopback(at.host),
            f"its proxy {shown} is on this machine's loopback, which the sandbox cannot see",
        ),
        (at.has_user, "the credentials of its proxy stay out of the sandbox"),
    )
    for applies, reason in reasons:
        if applies:
            return FromHost(reason)
    return FromInside(git_proxy if proxy else "")


def _read_proxy(text: str) -> Proxy:
    """Return what a proxy says, also "" for none; nonsense in git's configuration is git's to refuse."""
    try:
        return parse_proxy(text)
    except ValueError:
        return Proxy("", has_user="@" in text)


def plan_inside_proxies(network: HostNetwork) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the proxy variables that commands inside may have, and remarks about those they cannot have."""
    env: dict[str, str] = {}
    remarks: list[str] = []
    for name, value in network.proxies.items():
        if name == "no":
            env |= {"no_proxy": value, "NO_PROXY": value}
        elif is_loopback(parse_proxy(value).host):
            remarks.append(
                f"{name}_proxy={redact_text(value)} is on this machine's loopback: no way from the sandbox"
            )
        elif parse_proxy(value).has_user:
            remarks.append(f"{name}_proxy has credentials, which stay out of the sandbox")
        else:
            env |= {f"{name}_proxy": value} | ({f"{name.upper()}_PROXY": value} if name != "http" else {})
    return env, tuple(remarks)


def rewrite_url(url: str, rules: Iterable[tuple[str, str]]) -> str:
    """Return ``url`` with the longest matching prefix replaced, as git does; a rule is (base, prefix)."""
    best: tuple[str, str] | None = None
    for base, prefix in rules:
        if prefix and url.startswith(prefix) and (best is None or len(prefix) > len(best[1])):
            best = (base, prefix)
    return url if best is None else best[0] + url[len(best[1]) :]


def read_rewriting_rules(environ: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Return the host's ``url.BASE.insteadOf`` settings as (base, prefix); none when there is no git."""
    # `git ls-remote --get-url` would answer too, but shows a URL with a password in the process list.
    rules: list[tuple[str, str]] = []
    for entry in _ask_git(("config", "-z", "--get-regexp", r"^url\..*\.insteadof$"), environ).split("\0"):
        key, line_end, prefix = entry.partition("\n")
        if line_end:
            rules.append((key.removeprefix("url.").removesuffix(".insteadof"), prefix))
    return tuple(rules)


def read_git_proxy(url: SourceUrl, environ: Mapping[str, str]) -> str:
    """Return the proxy that the host's git configuration sets for ``url``, "" when it sets none."""
    if url.scheme not in {"http", "https"}:
        return ""
    port = urlsplit(url.text).port
    place = f"{url.scheme}://{url.host}{'' if port is None else f':{port}'}{url.path}"
    return _ask_git(("config", "--get-urlmatch", "http.proxy", place), environ).strip()


def _ask_git(args: tuple[str, ...], environ: Mapping[str, str]) -> str:
    env = plan_host_environment(environ) | {"GIT_CEILING_DIRECTORIES": "/", "GIT_DIR": "/nonexistent"}
    try:
        done = subprocess.run(
            ("git", *args),  # noqa: S607 - the user's own git, found as the user's shell finds it
            cwd="/",
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_READ_S,
            check=False,
        )
    except (FileNotFoundError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode("utf-8", "surrogateescape") if done.returncode == 0 else ""
