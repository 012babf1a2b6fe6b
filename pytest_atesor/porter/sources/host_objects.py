"""Bring a repository that only the host can reach into the sandbox: as objects, never as files.

A local repository's own configuration, hooks and attributes can run programs, so git never works in it. A
bare repository of ours borrows its object store and gets copies of its refs; configuration stays behind. That
copes with what a real mirror can be: bare or with a work tree, a linked work tree, owned by somebody else,
without configuration, with packed refs only, shallow, in SHA-256, or with objects missing.
"""

import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from pytest_atesor.core.text import sanitize_line
from pytest_atesor.porter.sources.git_answers import is_commit_id, object_format_of
from pytest_atesor.porter.sources.git_commands import HostGit, plan_bare_environment
from pytest_atesor.porter.sources.git_fetch import Located, read_commit
from pytest_atesor.porter.sources.interface import SourceError, Trouble
from pytest_atesor.porter.sources.job import Incoming, Job

__all__ = [
    "Pack",
    "Repository",
    "borrow_repository",
    "find_repository",
    "make_bare",
    "pack_commit",
    "resolve_ref",
]

_LONGEST_REFS_BYTES: Final = 256 * 1024 * 1024
_MOST_LOOSE_REFS: Final = 200_000
_LOCAL_S: Final = 900.0
_QUICK_S: Final = 60.0
_ASIDE: Final = re.compile(r"test|spec|fixture|sample|corpus|corpora|fuzz|bench|^docs?$|example")
_CODE: Final = re.compile(
    r"\.(?:[ch](?:pp|xx|c|h|\+\+)?|cc|hh|inc|inl|tcc|m|mm|s|asm|rs|go|py|pl|sh|js|java|y|l|in|am|ac|m4|cmake|def|a|so)$"
)


class Repository(NamedTuple):
    """A repository on the host: where HEAD is, and where objects and refs are; a linked work tree has two."""

    head: Path
    common: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Pack:
    """One commit as a pack file, as the sandbox sees it.

    ``path``, ``missing`` and ``hollow`` are paths inside. The latter two, "" for none, are NUL-separated
    lists of the files whose content the source does not have: all of them, and those that may stand empty
    (test data, which no output is made from). ``tags`` are the tags on the commit as (name, object id).
    """

    path: str
    commit: str
    object_format: str
    truncated: bool
    tags: tuple[tuple[str, str], ...]
    missing: str
    hollow: str
    missing_paths: tuple[str, ...]


def find_repository(path: Path) -> Repository | None:
    """Return the repository at ``path``, looked for where git looks; None when there is none."""
    # The last two are for a forge's URL with .git that was rewritten to a mirror: forges take both forms.
    bare = path.with_name(path.name.removesuffix(".git") or path.name)
    for candidate in (path / ".git", path, path.with_name(f"{path.name}.git"), bare / ".git", bare):
        directory = _follow_git_file(candidate) if candidate.is_file() else candidate
        if directory is None or not os.path.lexists(directory / "HEAD"):
            continue
        common = _common_directory(directory)
        if (common / "objects").is_dir():
            return Repository(directory, common)
    return None


def make_bare(job: Job, directory: Path, *, object_format: str = "sha1", ref_format: str = "") -> HostGit:
    """Create an empty bare repository of ours; the git for it is safe among other people's objects."""
    directory.mkdir(mode=0o700)
    git = HostGit(job, directory, plan_bare_environment(job.environ))
    extra = (f"--ref-format={ref_format}",) if ref_format else ()
    end = git.git(
        "init",
        "--bare",
        "--quiet",
        "--template=",
        f"--object-format={object_format}",
        *extra,
        limit_s=_QUICK_S,
        quiet=True,
    )
    if end.code != 0:
        raise SourceError(
            Trouble.BROKEN, f"git cannot read this repository's format: {sanitize_line(end.text)}"
        )
    return git


def borrow_repository(job: Job, source: Repository, directory: Path) -> HostGit:
    """Make a bare repository of ours at ``directory`` that sees the objects and refs of ``source``."""
    if "\n" in str(source.common):
        raise SourceError(Trouble.BROKEN, "its path has a line end")
    probe = HostGit(job, Path("/"), plan_bare_environment(job.environ))
    git = make_bare(
        job,
        directory,
        object_format=_read_setting(probe, source.common, "extensions.objectformat") or "sha1",
        ref_format=_read_setting(probe, source.common, "extensions.refstorage"),
    )
    (directory / "objects" / "info").mkdir(exist_ok=True)
    (directory / "objects" / "info" / "alternates").write_text(
        f"{source.common.resolve()}/objects\n", encoding="utf-8"
    )
    try:
        _copy_refs(source, directory)
    except OSError as error:
        raise SourceError(Trouble.UNREACHABLE, f"its refs cannot be read: {error.strerror}") from None
    return git


def resolve_ref(git: HostGit, ref: str | None) -> Located:
    """Return the commit that ``ref`` (None: the default branch) means in a borrowed repository."""
    if ref is None:
        return _resolve_default(git)
    names = (
        [ref]
        if ref.startswith("refs/")
        else [f"refs/tags/{ref}", f"refs/heads/{ref}", f"refs/remotes/origin/{ref}"]
    )
    for name in names:
        if _has(git, name):
            return Located(read_commit(git, name), ())
    try:
        return Located(read_commit(git, ref), ()) if _is_hexadecimal(ref) else _refuse(ref)
    except SourceError:
        return _refuse(ref)


def pack_commit(git: HostGit, commit: str, incoming: Incoming) -> Pack:
    """Write everything that a checkout of ``commit`` needs into one pack in ``incoming``."""
    tags = _tags_on(git, commit)
    objects, absent = _list_objects(git, commit)
    wanted = "".join(f"{line}\n" for line in (*objects, *(oid for _, oid in tags))).encode(
        "utf-8", "surrogateescape"
    )
    path = incoming.host / "objects.pack"
    end = git.run(
        ("pack-objects", "--stdout", "--quiet", "--delta-base-offset", "--window=0", "--threads=1"),
        limit_s=_LOCAL_S,
        feed=wanted,
        out=path,
    )
    if end.code != 0:
        raise SourceError(Trouble.BROKEN, f"its objects cannot be read: {_first_line(end.text)}")
    path.chmod(0o644)
    missing = _list_missing_paths(git, commit, absent) if absent else []
    hollow = [name for name in missing if is_test_data(name.decode("utf-8", "replace"))]
    return Pack(
        path=f"{incoming.inside}/{path.name}",
        commit=commit,
        object_format=object_format_of(commit),
        truncated=_has_parents(git, commit),
        tags=tags,
        missing=incoming.hand_in("missing", _join(missing)) if missing else "",
        hollow=incoming.hand_in("hollow", _join(hollow)) if hollow else "",
        missing_paths=tuple(name.decode("utf-8", "replace") for name in missing),
    )


def is_test_data(path: str) -> bool:
    """Say whether a file is data of tests or documentation, so that a build can do with an empty one."""
    *directories, name = path.lower().split("/")
    return any(_ASIDE.search(part) for part in directories) and not _CODE.search(name)


def _join(names: list[bytes]) -> bytes:
    return b"".join(b"%s\0" % name for name in names)


def _follow_git_file(path: Path) -> Path | None:
    text = _read_line(path)
    if not text.startswith("gitdir: "):
        return None
    return path.parent / text.removeprefix("gitdir: ")


def _common_directory(directory: Path) -> Path:
    text = _read_line(directory / "commondir")
    return directory / text if text else directory


def _read_line(path: Path) -> str:
    """Return the one line of a small file, "" for anything else; nothing is waited for."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        data = os.read(handle, 4096) if stat.S_ISREG(os.fstat(handle).st_mode) else b""
    finally:
        os.close(handle)
    return data.decode("utf-8", "surrogateescape").rstrip("\n")


def _read_setting(git: HostGit, common: Path, key: str) -> str:
    if not (common / "config").is_file():
        return ""
    # The file is only parsed, without its includes; nothing in it takes effect.
    end = git.run(
        ("config", "--file", str(common / "config"), "--no-includes", "--get", key),
        limit_s=_QUICK_S,
        apart=True,
    )
    return end.text.strip().lower() if end.code == 0 else ""


def _copy_refs(source: Repository, directory: Path) -> None:
    budget = _LONGEST_REFS_BYTES
    for name, place in (("HEAD", source.head), ("packed-refs", source.common), ("shallow", source.common)):
        data = _read_plain(place / name, budget)
        if data is not None:
            (directory / name).write_bytes(data)
    for path in _walk(source.common / "refs"):
        data = _read_plain(path, 4096)
        target = directory / "refs" / path.relative_to(source.common / "refs")
        if data is not None:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
    for path in _walk(source.common / "reftable"):
        data = _read_plain(path, budget)
        if data is not None:
            (directory / "reftable").mkdir(exist_ok=True)
            (directory / "reftable" / path.name).write_bytes(data)


def _walk(top: Path) -> Iterator[Path]:
    seen = 0
    for directory, _, names in os.walk(top):
        for name in names:
            seen += 1
            if seen > _MOST_LOOSE_REFS:
                raise SourceError(
                    Trouble.BROKEN, f"it has more than {_MOST_LOOSE_REFS} loose refs; pack them"
                )
            yield Path(directory, name)


def _read_plain(path: Path, limit: int) -> bytes | None:
    if path.name == "HEAD" and path.is_symlink():  # how git wrote HEAD long ago
        return f"ref: {path.readlink()}\n".encode()
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError:
        if path.is_symlink():
            return None
        raise
    with os.fdopen(handle, "rb") as stream:
        return stream.read(limit) if stat.S_ISREG(os.fstat(handle).st_mode) else None


def _resolve_default(git: HostGit) -> Located:
    try:
        return Located(read_commit(git, "HEAD"), ())
    except SourceError:
        end = git.git("for-each-ref", "--format=%(refname)", "refs/heads", limit_s=_QUICK_S, quiet=True)
        branches = [name for name in end.text.split() if name.startswith("refs/heads/")]
    likely = [name for name in ("refs/heads/main", "refs/heads/master") if name in branches]
    if len(branches) == 1 or likely:
        chosen = (likely or branches)[0]
        return Located(
            read_commit(git, chosen), (f"HEAD leads nowhere; {chosen.removeprefix('refs/heads/')} was used",)
        )
    raise SourceError(Trouble.BROKEN, "the repository is empty or has no default branch; give a ref")


def _has(git: HostGit, name: str) -> bool:
    return (
        git.git(
            "rev-parse", "--verify", "--quiet", "--end-of-options", name, limit_s=_QUICK_S, quiet=True
        ).code
        == 0
    )


def _is_hexadecimal(ref: str) -> bool:
    return 4 <= len(ref) <= 64 and all(character in "0123456789abcdef" for character in ref)  # noqa: PLR2004 - id lengths


def _refuse(ref: str) -> Located:
    raise SourceError(Trouble.BROKEN, f"it has no tag, branch or commit {ref}")


def _tags_on(git: HostGit, commit: str) -> tuple[tuple[str, str], ...]:
    end = git.git(
        "for-each-ref",
        "--format=%(objectname) %(refname)",
        "--points-at",
        commit,
        "refs/tags",
        limit_s=_QUICK_S,
        quiet=True,
    )
    pairs = (
        [line.split(" ", 1) for line in end.text.splitlines() if " refs/tags/" in line]
        if end.code == 0
        else []
    )
    return tuple((name, oid) for oid, name in pairs if is_commit_id(oid))


def _list_objects(git: HostGit, commit: str) -> tuple[list[str], set[str]]:
    end = git.run(
        ("rev-list", "--objects", "--no-walk", "--missing=print", commit, "--"), limit_s=_LOCAL_S, apart=True
    )
    if end.code != 0:
        raise SourceError(Trouble.BROKEN, f"the tree of {commit} cannot be read: {_first_line(end.text)}")
    lines = end.output.decode("utf-8", "surrogateescape").split("\n")
    absent = {line[1:] for line in lines if line.startswith("?")}
    return [line for line in lines if line and not line.startswith("?")], absent


def _list_missing_paths(git: HostGit, commit: str, absent: set[str]) -> list[bytes]:
    end = git.run(("ls-tree", "-r", "-z", "--full-tree", commit, "--"), limit_s=_LOCAL_S, apart=True)
    if end.code != 0:
        raise SourceError(Trouble.BROKEN, f"the tree of {commit} is incomplete: {_first_line(end.text)}")
    found: list[bytes] = []
    for entry in end.output.split(b"\0"):
        head, _, name = entry.partition(b"\t")
        if head.split(b" ")[-1].decode("ascii", "replace") in absent:
            found.append(name)
    return found


def _has_parents(git: HostGit, commit: str) -> bool:
    end = git.run(("cat-file", "commit", commit), limit_s=_QUICK_S, apart=True)
    return any(line.startswith(b"parent ") for line in end.output.split(b"\n\n", 1)[0].split(b"\n"))


def _first_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.startswith(("fatal:", "error:"))]
    return sanitize_line(lines[0] if lines else text)
