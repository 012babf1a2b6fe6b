"""The part of a platform that dependencies need: its package manager's scripts and its names. Pure."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

__all__ = ["FileOwner", "Profile", "TableIndex"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """One platform.

    ``install`` returns root's script for packages that are needed and others that may be left out, ``pinned``
    the word that asks for one version, ``plan_by_hand`` the command line for a person, ``refresh`` what comes
    before it. ``versions`` returns the builder's script that prints ``name=version`` lines, ``build_depends``
    root's script that prints what a source package of that name is built with (None: nobody tells).
    ``describe`` returns root's script that prints what ``install`` would download for the same packages, as
    apt's ``--print-uris`` does (None: downloads are not shared between slots). ``files`` names the owner of
    files where the platform has no index of its own; ``names`` are its names of packages that rules call by
    Debian's.
    """

    install: Callable[[Iterable[str], Iterable[str]], str]
    pinned: Callable[[str, str], str]
    plan_by_hand: Callable[[Iterable[str]], str]
    versions: Callable[[Iterable[str]], str]
    refresh: str
    build_depends: Callable[[str], str] | None = None
    describe: Callable[[Iterable[str], Iterable[str]], str] | None = None
    has_index: bool = False
    files: Mapping[str, str] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)

    def name_of(self, package: str) -> str:
        """Return this platform's name of a package that a rule calls by Debian's."""
        return self.names.get(package, package)


class FileOwner(NamedTuple):
    """A file and the packages that have it."""

    path: str
    packages: tuple[str, ...]


class TableIndex:
    """A file index from a table; files of an architecture's own directory are found without it."""

    def __init__(self, files: Mapping[str, str], triplet: str = "riscv64-linux-gnu") -> None:
        self._files = files
        self._part = f"/{triplet}/"

    def ending_with(self, suffix: str) -> Iterator[FileOwner]:
        """Yield the files whose path ends with ``suffix``, under the name that was asked for."""
        plain = suffix.replace(self._part, "/")
        for path, package in self._files.items():
            if path == plain or (path.endswith(plain) and not suffix.startswith("usr/")):
                yield FileOwner(suffix if path == plain else path, (package,))
