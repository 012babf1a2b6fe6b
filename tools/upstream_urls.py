"""Where a package's upstream keeps its source, derived from what Debian says about it.

Each rule stands for a host whose addresses follow from one another; what follows from nothing is in the
tables of ``catalogue.toml``. Nothing here opens a connection.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from debian_index import Source

from pytest_atesor.core.names import derive_owner_repo

__all__ = ["derive_project", "derive_url"]

_FORGES: Final = frozenset({
    "github.com",
    "gitlab.com",
    "codeberg.org",
    "git.sr.ht",
    "sourceforge.net",
    "pagure.io",
})
_NOT_UPSTREAM: Final = re.compile(
    r"https://github\.com/(?:orgs|features|debian[\w-]*)/.*"
    r"|.*\.(?:github|gitlab)\.io(?:\.git)?",
    re.IGNORECASE,
)
_GITLAB: Final = r"(?:gitlab\.(?:com|[\w-]+\.[\w.-]+)|(?:invent\.kde|code\.videolan|framagit|0xacab)\.org)"

# Homepage without its scheme -> clone URL: hosts where one address follows from the other.
_REPOSITORY_PAGES: Final = (
    (
        r"github\.com/([\w.-]+)/([\w.-]+?)(?:\.git)?(?:/(?:releases|wiki|issues)?)?",
        r"https://github.com/\1/\2",
    ),
    (r"codeberg\.org/([\w.-]+)/([\w.-]+?)(?:\.git)?/?", r"https://codeberg.org/\1/\2"),
    (rf"({_GITLAB}(?:/(?!-/)[\w.+-]+?){{2,4}})(?:\.git)?(?:/(?:-/.*)?)?", r"https://\1.git"),
    (r"git\.sr\.ht/(~[\w.-]+)/([\w.-]+)/?", r"https://git.sr.ht/\1/\2"),
    (r"pagure\.io/([\w.-]+)/?", r"https://pagure.io/\1.git"),
    (r"git\.kernel\.org/(?:cgit|pub/scm)/([\w./-]+?\.git)(?:/.*)?", r"https://git.kernel.org/pub/scm/\1"),
    (r"(?:www\.)?netfilter\.org/projects/([\w-]+)(?:/.*)?", r"https://git.netfilter.org/\1"),
    (r"developers\.yubico\.com/([\w-]+)/?", r"https://github.com/Yubico/\1"),
    (r"drobilla\.net/software/([\w-]+?)(?:\.html|/)?", r"https://gitlab.com/drobilla/\1.git"),
    (r"skarnet\.org/software/([\w-]+)/?", r"https://github.com/skarnet/\1"),
    (r"docs\.xfce\.org/((?:apps|xfce|panel-plugins)/[\w-]+)(?:/.*)?", r"https://gitlab.xfce.org/\1.git"),
)
# The same for pages served from a repository that may hold nothing else: its name must fit the source's.
_PROJECT_PAGES: Final = (
    (r"([\w-]+)\.github\.io/([\w.-]+)(?:/.*)?", r"https://github.com/\1/\2"),
    (r"([\w-]+)\.gitlab\.io/([\w.-]+)(?:/.*)?", r"https://gitlab.com/\1/\2.git"),
    (r"([\w-]+)\.codeberg\.page/([\w.-]+)(?:/.*)?", r"https://codeberg.org/\1/\2"),
)
_GO_IMPORT_PATHS: Final = (
    (r"(github\.com|codeberg\.org)/([\w.-]+)/([\w.-]+)(?:/.*)?", r"https://\1/\2/\3"),
    (r"gitlab\.com/([\w.-]+)/([\w.-]+)(?:/v\d+)?", r"https://gitlab.com/\1/\2.git"),
    (r"git\.sr\.ht/(~[\w.-]+)/([\w.-]+)(?:/.*)?", r"https://git.sr.ht/\1/\2"),
    (r"golang\.org/x/([\w-]+)", r"https://go.googlesource.com/\1"),
    (r"k8s\.io/([\w-]+)", r"https://github.com/kubernetes/\1"),
)
_GNU_PAGE: Final = re.compile(r"(?:www\.)?gnu\.org/(?:software|s)/([\w-]+)(?:/.*)?")


def derive_url(source: Source, urls: Mapping[str, str], gnu: Mapping[str, str]) -> str | None:
    """Return where upstream keeps its source, or None when the metadata does not say so for certain.

    ``urls`` and ``gnu`` are the tables of that name, by source package.
    """
    if source.name in urls:
        return urls[source.name]
    homepage = re.sub(r"^(?:git\+)?https?://|[?#].*$", "", source.homepage)
    pages = _rewrite(homepage, _PROJECT_PAGES)
    found = (
        _rewrite(homepage, _REPOSITORY_PAGES)
        or (pages if pages and _is_alike(source.name, pages) else None)
        or _rewrite(source.import_path, _GO_IMPORT_PATHS)
    )
    if found and not _NOT_UPSTREAM.fullmatch(found):
        return found
    return _derive_gnu_release(source, homepage, gnu)


def _rewrite(text: str, rules: Iterable[tuple[str, str]]) -> str | None:
    return next((match.expand(to) for pattern, to in rules if (match := re.fullmatch(pattern, text))), None)


def _is_alike(source: str, url: str) -> bool:
    ours, theirs = (re.sub(r"[^a-z]", "", name.lower()) for name in (source, derive_owner_repo(url).repo))
    return ours in theirs or theirs in ours


def _derive_gnu_release(source: Source, homepage: str, gnu: Mapping[str, str]) -> str | None:
    """Return a GNU program's release: its repository builds only with gnulib and GNU's maintainers' tools.

    Where the source package has upstream's signature, the tarball is upstream's own file with its own name.
    """
    project, _, suffix = gnu.get(source.name, "").partition(".tar.")
    page = _GNU_PAGE.fullmatch(homepage)
    if not project and source.is_signed and page is not None and page[1] == source.name:
        project, suffix = source.name, source.suffix
    version = re.sub(r"\+(?:dfsg|ds)\d*$", "", source.version)
    if not project or not re.fullmatch(r"\d+(?:\.\d+)*", version):
        return None
    return f"https://ftp.gnu.org/gnu/{project}/{project}-{version}.tar.{suffix}"


def derive_project(source: Source) -> str:
    """Return what the packages of one upstream project share: the owner on a forge, else the web site."""
    host, _, path = re.sub(r"^\w+://", "", source.homepage).lower().partition("/")
    if host in _FORGES:
        return f"{host}/{path.split('/')[0]}"
    return ".".join(host.split(".")[-2:]) or source.name
