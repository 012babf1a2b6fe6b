"""A package's tree as the host may see it: names, kinds and sizes, read without following a symlink.

The tree belongs to strangers and may change while it is read, so every directory is opened relative to its
parent with ``O_NOFOLLOW``, and depth, number of entries and bytes read are bounded. What the bounds cut is
counted, never hidden. A symbolic link is kept as what it says, and looked up only inside the tree.
"""

import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

__all__ = ["Entry", "Limits", "Tree", "open_inside", "read_tree"]

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_EVERYBODY = 0o444
_MOST_HOPS = 40  # as many as Linux follows
_MOST_STEPS = 500  # components on the way, those of links included


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much of a tree is looked at."""

    depth: int = 40
    entries: int = 300_000
    text_bytes: int = 512 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One regular file and its size in bytes."""

    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """The regular files below ``root`` (``.git`` left out) and the names of its directories.

    ``cut`` says how many entries the limits left out, ``links`` where symbolic links point, as they say it.
    ``denied`` is how many this process may not read; directories among them are also ``cut``.
    """

    root: Path
    files: Mapping[str, Entry]
    directories: frozenset[str]
    links: Mapping[str, str] = field(default_factory=dict)
    cut: int = 0
    denied: int = 0
    limits: Limits = field(default_factory=Limits)

    def has(self, *names: str) -> bool:
        """Say whether any of these relative paths is a regular file, or leads to one inside the tree."""
        return any(name in self.files or (self.links and self.real(name) in self.files) for name in names)

    def real(self, name: str) -> str:
        """Return the path that ``name`` leads to through the tree's links.

        It is "" for one outside, a loop, and a way that is longer than any that people make.
        """
        left, path, hops = name.split("/")[::-1], "", 0
        for _ in range(_MOST_STEPS):
            if not left:
                return path
            part = left.pop()
            if part in {"", "."}:
                continue
            if part == "..":
                if not path:
                    return ""
                path = path.rpartition("/")[0]
                continue
            inner = f"{path}/{part}" if path else part
            target = self.links.get(inner)
            if target is None:
                path = inner
                continue
            hops += 1
            if target.startswith("/") or hops > _MOST_HOPS or len(left) > _MOST_STEPS:
                return ""
            left.extend(reversed(target.split("/")))
        return "" if left else path

    def at(self, directory: str) -> "Tree":
        """Return the part of the tree below ``directory``; links that lead out of it lead nowhere there."""
        prefix = f"{directory}/"
        return replace(
            self,
            root=self.root / directory,
            files={k.removeprefix(prefix): v for k, v in self.files.items() if k.startswith(prefix)},
            directories=frozenset(k.removeprefix(prefix) for k in self.directories if k.startswith(prefix)),
            links={k.removeprefix(prefix): v for k, v in self.links.items() if k.startswith(prefix)},
        )

    def below(self, directory: str) -> Iterator[str]:
        """Yield the paths of the files directly in ``directory``."""
        for name in self.files:
            if name.rpartition("/")[0] == directory:
                yield name

    def text(self, name: str) -> str:
        """Return the first bytes of a file as text, "" when it cannot be read.

        Links are looked up in the list that was read; the disk is never asked to follow one.
        """
        try:
            with (
                open_inside(self.root, self.real(name) if self.links else name) as handle,
                os.fdopen(os.dup(handle), "rb") as stream,
            ):
                return stream.read(self.limits.text_bytes).decode("utf-8", "replace")
        except OSError:
            return ""


@contextmanager
def open_inside(root: Path, name: str) -> Iterator[int]:
    """Open the regular file ``name`` below ``root`` for reading, each component without following symlinks.

    Yields a file descriptor. Raises OSError for anything that is no regular file or not inside.
    """
    parts = name.split("/")
    if any(part in {"", ".", ".."} for part in parts):
        raise OSError(f"not a plain relative path: {name!r}")
    held: list[int] = []
    try:
        held.append(os.open(root, _DIRECTORY))
        for part in parts[:-1]:
            held.append(os.open(part, _DIRECTORY, dir_fd=held[-1]))
        held.append(os.open(parts[-1], _FILE, dir_fd=held[-1]))
        if not stat.S_ISREG(os.fstat(held[-1]).st_mode):
            raise OSError(f"not a regular file: {name!r}")
        yield held[-1]
    finally:
        for handle in held:
            os.close(handle)


class _Walk:
    """One bounded walk; collects files and directories."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.files: dict[str, Entry] = {}
        self.directories: set[str] = set()
        self.links: dict[str, str] = {}
        self.cut = 0
        self.denied = 0

    def enter(self, handle: int, parts: list[str], prefix: str = "") -> None:
        """Visit the directory ``parts`` below ``handle``, if it is one."""
        if not parts:
            self.visit(handle, prefix, prefix.count("/"))
            return
        try:
            child = os.open(parts[0], _DIRECTORY, dir_fd=handle)
        except OSError as error:
            self.denied += isinstance(error, PermissionError)
            return
        try:
            self.enter(child, parts[1:], f"{prefix}{parts[0]}/")
        finally:
            os.close(child)

    def visit(self, handle: int, prefix: str, depth: int) -> None:
        """Record the directory open as ``handle``; a directory that cannot be opened is skipped."""
        children: list[str] = []
        with os.scandir(handle) as found:
            for entry in found:
                if len(self.files) + len(self.directories) + len(self.links) >= self.limits.entries:
                    self.cut += 1
                    continue
                self._record(handle, entry, prefix, children)
        for name in sorted(children):
            if depth >= self.limits.depth:
                self.cut += 1
                continue
            try:
                child = os.open(name, _DIRECTORY, dir_fd=handle)
            except OSError as error:
                self._leave_out(error)
                continue
            try:
                self.visit(child, f"{prefix}{name}/", depth + 1)
            finally:
                os.close(child)

    def _record(self, handle: int, entry: "os.DirEntry[str]", prefix: str, children: list[str]) -> None:
        try:
            facts = entry.stat(follow_symlinks=False)
            if stat.S_ISLNK(facts.st_mode):
                self.links[prefix + entry.name] = os.readlink(entry.name, dir_fd=handle)
        except OSError as error:
            self._leave_out(error)
            return
        if stat.S_ISDIR(facts.st_mode):
            if entry.name != ".git":
                self.directories.add(prefix + entry.name)
                children.append(entry.name)
        elif stat.S_ISREG(facts.st_mode):
            self.files[prefix + entry.name] = Entry(size_bytes=facts.st_size)
            self.denied += not (
                facts.st_mode & _EVERYBODY == _EVERYBODY
                or os.access(entry.name, os.R_OK, dir_fd=handle, effective_ids=True)
            )

    def _leave_out(self, error: OSError) -> None:
        self.cut += 1
        self.denied += isinstance(error, PermissionError)


def read_tree(root: Path, limits: Limits | None = None, *, below: Iterable[str] = ("",)) -> Tree:
    """List the tree below ``root``, or only its directories ``below``; names stay relative to ``root``.

    Of ``below`` what is not there is left out. Raises OSError when ``root`` itself is no readable directory.
    """
    walk = _Walk(limits or Limits())
    handle = os.open(root, _DIRECTORY)
    try:
        for place in below:
            walk.enter(handle, [part for part in place.split("/") if part])
    finally:
        os.close(handle)
    return Tree(
        root=root,
        files=walk.files,
        directories=frozenset(walk.directories),
        links=walk.links,
        cut=walk.cut,
        denied=walk.denied,
        limits=walk.limits,
    )
