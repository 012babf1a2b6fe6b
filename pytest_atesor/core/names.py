"""Names derived from what users and strangers wrote, each safe as one path component, one mark, one line.

A package name starts with a letter or digit and has only ``A-Z a-z 0-9 . _ + @ ~ -``, at most 100 bytes. That
covers real upstream names (``libsigc++``, ``c-ares``, ``7zip``, ``node.js``) and leaves nothing for a path, a
shell, an option parser or a node id to misread.
"""

import re
import unicodedata
from collections.abc import Container, Iterable
from typing import Final, NamedTuple
from urllib.parse import unquote

from pytest_atesor.core.urls import SECRET_QUERY, parse_source_url

__all__ = [
    "LONGEST_NAME_BYTES",
    "OwnerRepo",
    "check_name",
    "derive_marks",
    "derive_owner_repo",
    "derive_package_name",
    "make_batch_id",
    "make_case_id",
    "make_case_ids",
    "redact_text",
]

LONGEST_NAME_BYTES: Final = 100
_SAFE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+@~-]*")
_UNSAFE_RUN: Final = re.compile(r"[^A-Za-z0-9._+@~-]+")
_DIGEST_CHARACTERS: Final = 8

GENERIC_NAMES: Final = frozenset({
    "api",
    "app",
    "apps",
    "backend",
    "cli",
    "client",
    "code",
    "core",
    "daemon",
    "desktop",
    "engine",
    "framework",
    "frontend",
    "lib",
    "library",
    "libs",
    "main",
    "master",
    "mirror",
    "monorepo",
    "node",
    "platform",
    "plugin",
    "project",
    "public",
    "release",
    "repo",
    "runtime",
    "sdk",
    "server",
    "service",
    "shell",
    "site",
    "source",
    "sources",
    "src",
    "tool",
    "toolkit",
    "tools",
    "trunk",
    "upstream",
    "util",
    "utils",
})
"""Repository names that say nothing by themselves; they take the owner's name in front."""

_ARCHIVE_SUFFIX: Final = re.compile(r"(?:\.orig)?\.(?:tar(?:\.[A-Za-z0-9]+)?|tgz|tbz2?|txz|tzst|zip|git)$")
_VERSION_SUFFIX: Final = re.compile(r"[-_.]v?\d+(?:[._]\d+)*(?:[-_.]?(?:rc|beta|alpha|pre|p)\.?\d*)?$")
_FORGE_MARKERS: Final = frozenset({"archive", "releases", "tarball", "-", "get", "downloads"})

_EXPRESSION_WORD: Final = re.compile(r"\w(?:\w|\+|-|\.)*")
_RESERVED_MARKS: Final = frozenset({
    "and",
    "filterwarnings",
    "hookwrapper",
    "no_cover",
    "not",
    "or",
    "parametrize",
    "skip",
    "skipif",
    "timeout",
    "tryfirst",
    "trylast",
    "usefixtures",
    "xdist_group",
    "xfail",
})
# A scheme is short: without the bound a long run of letters would be looked at again from each of them.
_SECRET_AUTHORITY: Final = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]{0,30}://)(?P<userinfo>[^/\s?#]*)@")


class OwnerRepo(NamedTuple):
    """Who owns a repository and what it is called, both safe as a path component.

    The owner may be the host.
    """

    owner: str
    repo: str


def check_name(name: str) -> str:
    """Return a package name that is safe everywhere. Raises ValueError with the reason, without the name."""
    if not name:
        raise ValueError("a name is empty")
    if len(name.encode("utf-8", "replace")) > LONGEST_NAME_BYTES:
        raise ValueError(f"a name has at most {LONGEST_NAME_BYTES} bytes")
    if not _SAFE.fullmatch(name):
        raise ValueError("a name starts with a letter or digit and has only letters, digits and . _ + @ ~ -")
    return name


def derive_owner_repo(url: str) -> OwnerRepo:
    """Return owner and repository of a git or tarball URL, in the case they are written in.

    Raises SourceUrlError when ``url`` is not one.
    """
    source = parse_source_url(url)
    segments = [
        segment for segment in unquote(source.path).strip("/").split("/") if segment not in {"", ".", ".."}
    ]
    for index, segment in enumerate(segments):
        if segment in _FORGE_MARKERS and index >= 2:  # noqa: PLR2004 - owner and repository stand before it
            segments = segments[:index]
            break
    repo = _strip_version(segments[-1]) if segments else ""
    owner = segments[-2] if len(segments) > 1 else source.host
    return OwnerRepo(_slug(owner.lstrip("~")) or "unknown", _slug(repo) or "unknown")


def derive_package_name(url: str) -> str:
    """Return the short name under which a URL's builds exclude each other: the repository's, in lower case.

    A repository called ``cli`` or the like (GENERIC_NAMES) becomes ``owner-cli``. Raises SourceUrlError.
    """
    owner, repo = (part.lower() for part in derive_owner_repo(url))
    return _fit(f"{owner}-{repo}") if repo in GENERIC_NAMES else _fit(repo)


def make_case_id(label: str, taken: Container[str]) -> str:
    """Return a case id for ``label``: the label itself where it is safe and free, else with a digest added.

    ``taken`` holds the ids given so far, case-folded: some file systems do not tell ``Zlib`` from ``zlib``.
    """
    slug = _slug(label)
    plain = slug or "case"
    if slug and len(plain) <= LONGEST_NAME_BYTES and plain.casefold() not in taken:
        return plain
    digest = _sha256(label)
    for width in range(_DIGEST_CHARACTERS, len(digest) + 1):
        case_id = f"{plain[: LONGEST_NAME_BYTES - width - 1]}-{digest[:width]}"
        if case_id.casefold() not in taken:
            return case_id
    raise ValueError(f"no free case id for {label!r}: the label stands twice")


def make_case_ids(labels: Iterable[str]) -> tuple[str, ...]:
    """Return one case id per label, in order; the labels must differ."""
    taken: set[str] = set()
    made: list[str] = []
    for label in labels:
        case_id = make_case_id(label, taken)
        taken.add(case_id.casefold())
        made.append(case_id)
    return tuple(made)


def make_batch_id(name: str, stamp: str) -> str:
    """Return the default batch id ``<name>-<stamp>``, safe as a path component; the stamp is never cut."""
    slug = _slug(name)[: LONGEST_NAME_BYTES - len(stamp) - 1] or "batch"
    return f"{slug}-{stamp}"


def derive_marks(text: str) -> tuple[str, ...]:
    """Return the pytest marks for a language, group or tag: what was written, and its identifier form.

    Both are in lower case: ``C++`` gives ``c++`` and ``cpp``, ``Objective-C`` gives ``objective-c`` and
    ``objective_c``, ``C#`` gives ``csharp``. Raises ValueError, with the reason, when nothing is left or the
    mark would mean something to pytest or to a plugin that comes with this one.
    """
    written = unicodedata.normalize("NFKC", text).strip().lower()
    spelled = written.replace("++", "pp").replace("#", "sharp").replace("+", "plus")
    identifier = re.sub(r"\W+", "_", spelled).strip("_")
    if not identifier:
        raise ValueError("it has no letter or digit to make a mark of")
    if len(identifier.encode()) > LONGEST_NAME_BYTES:
        raise ValueError(f"it has more than {LONGEST_NAME_BYTES} bytes")
    if identifier in _RESERVED_MARKS:
        raise ValueError("pytest or a plugin gives that mark a meaning of its own; choose another word")
    sayable = _EXPRESSION_WORD.fullmatch(written) and not written.startswith("_")
    return (written, identifier) if sayable and written != identifier else (identifier,)


def redact_text(text: str) -> str:
    """Return ``text`` with the passwords and tokens of every URL in it replaced by ``***``.

    The user of an ssh URL stays.
    """
    return SECRET_QUERY.sub(r"\g<key>***", _SECRET_AUTHORITY.sub(_redact_authority, text))


def _redact_authority(found: re.Match[str]) -> str:
    user, colon, _ = found["userinfo"].partition(":")
    if "ssh" in found["scheme"].lower():
        return f"{found['scheme']}{user}:***@" if colon else found.group()
    return f"{found['scheme']}***@"


def _slug(text: str) -> str:
    plain = (
        unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode() if not text.isascii() else text
    )
    return _UNSAFE_RUN.sub("-", plain).lstrip("._+@~-").rstrip("-")


def _strip_version(name: str) -> str:
    bare = _ARCHIVE_SUFFIX.sub("", name)
    if bare == name.removesuffix(".git"):
        return bare
    return _VERSION_SUFFIX.sub("", bare) or bare


def _fit(name: str) -> str:
    if len(name) <= LONGEST_NAME_BYTES:
        return name
    digest = _sha256(name)[:_DIGEST_CHARACTERS]
    return f"{name[: LONGEST_NAME_BYTES - _DIGEST_CHARACTERS - 1]}-{digest}"


def _sha256(text: str) -> str:
    import hashlib  # noqa: PLC0415 - few names need it, and loading OpenSSL costs each start of the agent 5 ms

    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
