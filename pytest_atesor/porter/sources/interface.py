"""What is asked for, what came of it, and how it can fail: the values that every kind of source shares."""

from dataclasses import dataclass
from enum import StrEnum, unique
from typing import BinaryIO, ClassVar, Protocol

from pytest_atesor.core.outcome import Cause
from pytest_atesor.errors import AtesorError
from pytest_atesor.sandbox.interface import Completed, ExecSpec

__all__ = ["Fetched", "Kind", "RunsCommands", "SourceError", "SourceRequest", "Submodule", "Trouble"]


@unique
class Kind(StrEnum):
    """How a source is fetched."""

    GIT = "git"
    TARBALL = "tarball"
    DEB = "deb"


@unique
class Trouble(StrEnum):
    """Why a source could not be had.

    UNREACHABLE sends us to the next mirror: no answer, no permission, nothing there (404 counts). BROKEN ends
    the search: what answered has no such ref, is corrupt, or is hostile, and a mirror would only hide that.
    TIMEOUT means that the attempt's own deadline is over.
    """

    UNREACHABLE = "unreachable"
    BROKEN = "broken"
    TIMEOUT = "timeout"


class SourceError(AtesorError):
    """A source could not be had; the text is one redacted line."""

    cause: ClassVar[Cause] = Cause.SOURCE

    def __init__(self, trouble: Trouble, reason: str, *, host_may_help: bool = False) -> None:
        """Keep what went wrong; ``host_may_help`` says that the host may have the key that was missing."""
        super().__init__(reason)
        self.trouble = trouble
        self.host_may_help = host_may_help


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRequest:
    """A package's source as its list entry gives it.

    ``ref`` is a tag, branch or commit, None for the default branch. ``mirrors`` are URLs or ``deb:NAME``, in
    the order in which they are tried. ``name`` is the directory below ``/workspace/src``, None for the URL's
    derived name.
    """

    url: str
    ref: str | None = None
    mirrors: tuple[str, ...] = ()
    name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Submodule:
    """One submodule: where it belongs, the commit that the parent wants, and whether it is there.

    ``reason`` is one line, empty when it was fetched. ``path`` is relative to the top directory.
    """

    path: str
    url: str
    commit: str
    fetched: bool
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """A source that lies in the sandbox, owned by the builder, and its identity. URLs are redacted.

    ``directory`` is the path inside. ``commit`` belongs to git; ``sha256`` (of the main upstream archive) to
    tarballs and Debian sources; ``version`` is Debian's. ``left_out`` are the paths, from the directory, of
    files whose content the repository lacks. ``notes`` are single lines about what a reader might not expect.
    """

    url_used: str
    kind: Kind
    name: str
    directory: str
    commit: str | None = None
    ref: str | None = None
    sha256: str | None = None
    version: str | None = None
    submodules: tuple[Submodule, ...] = ()
    left_out: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class RunsCommands(Protocol):
    """The part of a sandbox that fetching needs."""

    def run(
        self, command: ExecSpec, *, timeout_s: float, sink: BinaryIO | None, tail_bytes: int = 65536
    ) -> Completed:
        """Run a command inside and wait; its output goes to ``sink``. Raises SandboxError."""
