"""Where things are: the kind of a source, its URL as git will use it, and what a submodule's URL may lead to.

A submodule's URL was written by strangers. It may not make the host hand over what the user did not list:
files outside the parent's own neighbourhood, repositories behind the user's ssh keys, servers on this
machine's loopback.
"""

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from pytest_atesor.core.names import redact_text
from pytest_atesor.core.urls import SourceKind, SourceUrl, SourceUrlError, parse_source_url
from pytest_atesor.porter.sources.host_network import is_loopback, rewrite_url
from pytest_atesor.porter.sources.interface import Kind, SourceError, Trouble

__all__ = [
    "Place",
    "Refused",
    "decide_kind",
    "decide_submodule_place",
    "find_local_path",
    "make_place",
    "resolve_relative_url",
]

_ZIP: Final = re.compile(r"\.(?:zip|tar\.(?:gz|bz2|xz|zst|lz|lzma|Z)|tgz|tbz2?|txz|tzst|tar)$")
_DOWNLOAD_PAGES: Final = re.compile(r"/download/?$")
# Their port of git's own protocol is closed or silent by now; over https they have the same repositories.
_NO_GIT_PROTOCOL: Final = frozenset({"github.com", "gitlab.com", "bitbucket.org"})
_CODELOAD: Final = re.compile(r"/(?:tar\.gz|zip)/")


@dataclass(frozen=True, slots=True)
class Place:
    """A repository's URL as it was listed and as git will use it after the host's rewriting."""

    listed: SourceUrl
    used: SourceUrl

    @property
    def shown(self) -> str:
        """The place in words, without credentials; both URLs when they differ."""
        listed = redact_text(self.listed.text)
        used = redact_text(self.used.text)
        return listed if listed == used else f"{listed} (git on this machine rewrites it to {used})"


@dataclass(frozen=True, slots=True)
class Refused:
    """A submodule that is not fetched, and why."""

    reason: str


def decide_kind(url: SourceUrl) -> Kind:
    """Say how a URL is fetched: by git, or as an archive."""
    if url.kind is SourceKind.TARBALL:
        return Kind.TARBALL
    if url.scheme not in {"https", "http", "file"}:
        return Kind.GIT
    path = _DOWNLOAD_PAGES.sub("", url.path)
    archive = _ZIP.search(path) or (url.host.startswith("codeload.") and _CODELOAD.search(path))
    return Kind.TARBALL if archive else Kind.GIT


def make_place(url: str, rules: Iterable[tuple[str, str]]) -> Place:
    """Return the place of a repository. Raises SourceError (BROKEN) when a URL is refused.

    A public host that no longer speaks git's own protocol is asked over https.
    """
    rules = tuple(rules)
    listed = _parse(url)
    used = _parse(_as_file_url(rewrite_url(url, rules)))
    if used.text == listed.text and listed.scheme == "git" and listed.host in _NO_GIT_PROTOCOL:
        return make_place(f"https://{listed.host}/{listed.path.lstrip('/')}", rules)
    return Place(listed, used)


def find_local_path(url: SourceUrl) -> Path:
    """Return the path of a ``file`` URL."""
    # git takes the path of a file URL as it stands; a user may have quoted it as browsers do.
    plain = Path(urlsplit(url.text)._replace(scheme="", netloc="").geturl())
    return plain if os.path.lexists(plain) else Path(unquote(url.path))


def resolve_relative_url(parent: str, url: str) -> str:
    """Return a submodule's URL; one that starts with ``./`` or ``../`` is resolved as git does."""
    if not url.startswith(("./", "../")):
        return url
    base, separator = parent.rstrip("/"), "/"
    while url.startswith(("./", "../")):
        if url.startswith("./"):
            url = url[2:]
            continue
        url = url[3:]
        head, slash, _ = base.rpartition("/")
        if slash:
            base, separator = head, "/"
        else:
            base, separator = base.rpartition(":")[0], ":"
    return f"{base}{separator}{url}".rstrip("/")


def decide_submodule_place(parent: Place, url: str, rules: Iterable[tuple[str, str]]) -> Place | Refused:
    """Decide where a submodule is fetched from, or why it is not."""
    resolved = _as_file_url(resolve_relative_url(parent.listed.text, url))
    try:
        place = make_place(resolved, rules)
    except SourceError as error:
        return Refused(str(error))
    if ".." in unquote(place.listed.path).split("/"):
        return Refused("its URL climbs with .. where no repository is")
    # Where the user's own rewriting leads is the user's own choice.
    return place if place.listed.text != place.used.text else _decide_unwritten(parent, place)


def _decide_unwritten(parent: Place, place: Place) -> Place | Refused:
    if place.used.scheme == "file":
        return _decide_local(parent, place)
    if place.used.scheme == "ssh" and (parent.listed.scheme, parent.listed.host) != ("ssh", place.used.host):
        return _over_https(place.used)
    if is_loopback(place.used.host) and _authority(place.used) != _authority(parent.listed):
        return Refused("it names a server on this machine")
    return place


def _decide_local(parent: Place, place: Place) -> Place | Refused:
    if parent.listed.scheme != "file":
        return Refused("it names a path of this machine")
    around = find_local_path(parent.used).resolve().parent
    inside = find_local_path(place.used).resolve().is_relative_to(around)
    return place if inside else Refused(f"it names a path outside {around}")


def _authority(url: SourceUrl) -> str:
    return urlsplit(url.text).netloc


def _over_https(url: SourceUrl) -> Place | Refused:
    # The user's keys are for what the user listed; public hosts serve the same repository over https.
    try:
        public = parse_source_url(f"https://{url.host}/{url.path.lstrip('/')}")
    except SourceUrlError as error:
        return Refused(f"it needs ssh ({error})")
    return Refused("it names a server on this machine") if is_loopback(public.host) else Place(public, public)


def _as_file_url(url: str) -> str:
    return f"file://{url}" if url.startswith("/") else url


def _parse(url: str) -> SourceUrl:
    try:
        return parse_source_url(url)
    except SourceUrlError as error:
        raise SourceError(Trouble.BROKEN, f"the URL {redact_text(url)} is refused: {error}") from None
