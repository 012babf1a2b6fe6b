"""Where a package's source comes from: URLs, mirrors and refs, checked before anything is started with them.

A list entry, a RunSpec and the porter's own command line all pass through here, so nothing that git or a
shell could take for an option or a remote helper gets further. Nothing here opens a connection or looks at a
disk.
"""

import re
from dataclasses import dataclass
from enum import StrEnum, unique
from typing import Final
from urllib.parse import SplitResult, urlsplit

__all__ = [
    "SECRET_QUERY",
    "DebianSource",
    "SourceKind",
    "SourceUrl",
    "SourceUrlError",
    "check_open_mirror",
    "check_open_url",
    "check_ref",
    "parse_mirror",
    "parse_source_url",
]

_SCHEMES: Final = frozenset({"https", "http", "ssh", "git", "file"})
_TARBALL: Final = re.compile(r"\.(?:tar(?:\.(?:gz|bz2|xz|zst|lz|lzma|Z))?|tgz|tbz2?|txz|tzst)$")
_SCP: Final = re.compile(
    r"(?:(?P<user>[A-Za-z0-9._][A-Za-z0-9._-]*)@)?(?P<host>[A-Za-z0-9][A-Za-z0-9.-]*):(?P<path>[^:].*)"
)
_HOST: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9.])?|\[[0-9A-Fa-f:.]+\]")
_USER: Final = re.compile(r"[A-Za-z0-9._][A-Za-z0-9._%+-]*")
_HELPER: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9+.-]*::")
_DEBIAN_SOURCE: Final = re.compile(r"[a-z0-9][a-z0-9+.-]+")
_REF_FORBIDDEN: Final = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//")
SECRET_QUERY: Final = re.compile(
    r"(?P<key>[?&](?:[A-Za-z_-]*token|[A-Za-z_-]*key|pass(?:word|wd)?|secret|sig(?:nature)?|auth)=)[^&#\s\"']+",
    re.IGNORECASE,
)
"""A token or password among the parameters of a URL; group ``key`` ends before it."""

_LONGEST_URL: Final = 2000
_LONGEST_REF: Final = 250
_LAST_PORT: Final = 65535


class SourceUrlError(ValueError):
    """What is wrong with a URL, mirror or ref, without the value itself: the caller shows it, redacted."""


@unique
class SourceKind(StrEnum):
    """How the source behind a URL is fetched."""

    GIT = "git"
    TARBALL = "tarball"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceUrl:
    """A URL that is safe to hand to git or to a downloader, and its parts.

    ``scheme`` is "https", "http", "ssh", "git" or "file" (an scp-like ``git@host:path`` counts as ssh);
    ``host`` is empty for files. ``has_secret`` says that the URL carries a password or token.
    """

    text: str
    scheme: str
    host: str
    path: str
    kind: SourceKind
    has_secret: bool


@dataclass(frozen=True, slots=True)
class DebianSource:
    """The mirror ``deb:NAME``: the upstream tarball of that Debian source package, fetched with apt."""

    name: str


def parse_source_url(text: str) -> SourceUrl:
    """Return the parts of a git or tarball URL. Raises SourceUrlError with the reason."""
    _refuse_strange(text)
    if "://" not in text:
        return _parse_scp(text)
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise SourceUrlError(f"it is no URL ({error})") from None
    scheme = parts.scheme.lower()
    if scheme not in _SCHEMES:
        raise SourceUrlError(f"the scheme must be one of {', '.join(sorted(_SCHEMES))}")
    if not parts.path.strip("/"):
        raise SourceUrlError("it names no repository or tarball")
    if scheme == "file":
        if parts.netloc not in {"", "localhost"}:
            raise SourceUrlError(
                "a file URL has three slashes and an absolute path, like file:///srv/zlib.git"
            )
    else:
        _check_authority(parts, port)
    is_tarball = _TARBALL.search(parts.path) or (parts.query and _TARBALL.search(parts.query))
    return SourceUrl(
        text=text,
        scheme=scheme,
        host=(parts.hostname or "") if scheme != "file" else "",
        path=parts.path,
        kind=SourceKind.TARBALL if is_tarball and scheme in {"https", "http", "file"} else SourceKind.GIT,
        has_secret=parts.password is not None or (scheme in {"https", "http"} and parts.username is not None),
    )


def parse_mirror(text: str) -> SourceUrl | DebianSource:
    """Return a mirror: a URL like the entry's own, or ``deb:NAME``. Raises SourceUrlError with the reason."""
    if not text.startswith("deb:"):
        return parse_source_url(text)
    name = text.removeprefix("deb:")
    if not _DEBIAN_SOURCE.fullmatch(name):
        raise SourceUrlError(
            "what follows deb: must be a Debian source package, like deb:zlib (a-z 0-9 + - .)"
        )
    return DebianSource(name)


def check_open_url(text: str) -> SourceUrl:
    """Return a source URL that may stand in a file: it has no secret.

    Raises SourceUrlError with the reason.
    """
    source = parse_source_url(text)
    if source.has_secret or SECRET_QUERY.search(text):
        raise SourceUrlError(
            "it carries a password or token; keep that in git's credential helper or in ~/.netrc"
        )
    return source


def check_open_mirror(text: str) -> str:
    """Return a mirror that may stand in a file. Raises SourceUrlError with the reason."""
    if isinstance(parse_mirror(text), SourceUrl):
        check_open_url(text)
    return text


def check_ref(text: str) -> str:
    """Return a tag, branch or commit that git accepts and nobody takes for an option.

    Raises SourceUrlError.
    """
    if not text:
        raise SourceUrlError("it is empty; leave it out to get the default branch")
    if len(text.encode("utf-8", "replace")) > _LONGEST_REF:
        raise SourceUrlError(f"it is longer than {_LONGEST_REF} bytes")
    if text.startswith("-"):
        raise SourceUrlError("it starts with '-', which git would take for an option")
    parts = text.split("/")
    if (
        _REF_FORBIDDEN.search(text)
        or text == "@"
        or text.endswith((".", "/"))
        or any(part.startswith(".") or part.endswith(".lock") or not part for part in parts)
    ):
        raise SourceUrlError("git allows no such ref name (see git check-ref-format)")
    return text


def _refuse_strange(text: str) -> None:
    if not text:
        raise SourceUrlError("it is empty")
    if len(text.encode("utf-8", "replace")) > _LONGEST_URL:
        raise SourceUrlError(f"it is longer than {_LONGEST_URL} bytes")
    if text.startswith("-"):
        raise SourceUrlError("it starts with '-', which git would take for an option")
    if not text.isprintable() or any(character.isspace() for character in text):
        raise SourceUrlError("it has white space or control characters")
    if "\\" in text:
        raise SourceUrlError("it has a backslash")
    if _HELPER.match(text):
        raise SourceUrlError("remote helpers such as ext:: and fd:: run programs and are refused")


def _parse_scp(text: str) -> SourceUrl:
    found = _SCP.fullmatch(text)
    if found is None:
        hint = (
            "local repositories are written file:///absolute/path"
            if "/" in text
            else "write https://host/owner/repo"
        )
        raise SourceUrlError(f"it is no URL; {hint}")
    if found["host"].lower() in _SCHEMES:
        raise SourceUrlError(f"it has no // after {found['host']}:")
    if found["path"].startswith("-") or not found["path"].strip("/"):
        raise SourceUrlError("it names no repository")
    return SourceUrl(
        text=text,
        scheme="ssh",
        host=found["host"].lower(),
        path=found["path"],
        kind=SourceKind.GIT,
        has_secret=False,
    )


def _check_authority(parts: SplitResult, port: int | None) -> None:
    authority = parts.netloc.rpartition("@")[2]
    host = (
        authority
        if authority.endswith("]")
        else authority.rpartition(":")[0]
        if port is not None
        else authority
    )
    if not host.rstrip(":"):
        raise SourceUrlError("it has no host")
    if not _HOST.fullmatch(host):
        raise SourceUrlError("its host is no host name")
    if port is not None and not 0 < port <= _LAST_PORT:
        raise SourceUrlError("its port is out of range")
    if parts.username is not None and parts.username and not _USER.fullmatch(parts.username):
        raise SourceUrlError("its user name is not one that is safe to pass on")
    if parts.path.startswith("/-") and parts.scheme == "ssh":
        raise SourceUrlError("its path starts with '-'")
