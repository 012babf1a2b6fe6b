"""What git's answers mean: which ref to fetch, and whether a failure is "not reachable" or "broken". Pure."""

import re
from dataclasses import dataclass
from typing import Final

from pytest_atesor.core.text import sanitize_line
from pytest_atesor.porter.sources.interface import SourceError, Trouble

__all__ = [
    "Everything",
    "Missing",
    "OneRef",
    "decide_git_failure",
    "decide_wanted",
    "is_commit_id",
    "is_passing_fault",
    "is_refused_commit",
    "is_shallow_refused",
    "is_silence",
    "object_format_of",
    "plan_listing",
]

_SHA256_DIGITS: Final = 64
_COMMIT: Final = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_SHORT_COMMIT: Final = re.compile(r"[0-9a-f]{4,64}")
_LISTED: Final = re.compile(r"^([0-9a-f]{40}|[0-9a-f]{64})\t(\S+)$", re.MULTILINE)

_NO_SHALLOW: Final = re.compile(
    r"does not support shallow|shallow capabilities|dumb http transport", re.IGNORECASE
)
_NO_SUCH_COMMIT: Final = re.compile(
    r"not our ref|unadvertised object|Server does not allow request|couldn't find remote ref"
    r"|no such remote ref",
    re.IGNORECASE,
)
_NEEDS_KEY: Final = re.compile(
    r"could not read (?:Username|Password)|Authentication failed|Permission denied|prompts disabled"
    r"|returned error: 40[13]|Host key verification failed|(?:server|SSL) certificate|certificate verif",
    re.IGNORECASE,
)
_UNREACHABLE: Final = re.compile(
    r"could ?n[o']t (?:resolve|connect|read from remote)|name or service not known|temporary failure in name"
    r"|failed to connect|unable to (?:connect|access|look up)|connection (?:refused|timed out|reset|closed)"
    r"|timed out|network is unreachable|no route to host|too slow|early eof|disconnect"
    r"|rpc failed|remote end hung up|returned error: [45]\d\d|not found|not appear to be a git repository"
    r"|proxy connect|ssl|tls|empty reply|no such file or directory|access denied or repository not exported",
    re.IGNORECASE,
)
_SILENCE: Final = re.compile(
    r"could ?n[o']t (?:resolve|connect)|name or service not known|temporary failure in name|unable to look up"
    r"|(?:failed|unable) to connect|connection (?:refused|timed out)|no answer|timed out|no route to host"
    r"|network is unreachable",
    re.IGNORECASE,
)
_PLACE: Final = re.compile(r"'[^']*'|\b[a-z][a-z0-9+.-]*://\S+", re.IGNORECASE)
_PASSING: Final = re.compile(
    r"early eof|disconnect|rpc failed|connection reset|hung up unexpectedly|returned error: (?:429|5\d\d)",
    re.IGNORECASE,
)
_TELLING: Final = re.compile(
    r"^(?:fatal|error|ssh|remote|curl): .*|^.*(?:Permission denied|Host key verif).*$", re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class OneRef:
    """Fetch this refspec, shallowly; ``note`` is a remark, "" for none."""

    refspec: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Everything:
    """The ref may be a shortened commit id: only the whole history can tell."""


@dataclass(frozen=True, slots=True)
class Missing:
    """There is no such ref; ``reason`` says what is there instead."""

    reason: str


def is_commit_id(ref: str) -> bool:
    """Say whether ``ref`` is a full commit id (SHA-1 or SHA-256)."""
    return _COMMIT.fullmatch(ref) is not None


def object_format_of(commit: str) -> str:
    """Return git's name of the hash that a full commit id belongs to; anything else counts as "sha1"."""
    return "sha256" if is_commit_id(commit) and len(commit) == _SHA256_DIGITS else "sha1"


def plan_listing(ref: str | None) -> tuple[str, ...]:
    """Return the patterns for ``git ls-remote`` that tell which refs ``ref`` can mean."""
    if ref is None:
        return ("HEAD",)
    full = (ref,) if ref.startswith("refs/") else (f"refs/tags/{ref}", f"refs/heads/{ref}")
    return ("HEAD", *full)


def decide_wanted(listing: str, ref: str | None) -> OneRef | Everything | Missing:
    """Choose what to fetch from ls-remote's answer: a tag before a branch before a commit, as git does."""
    names = {name for _, name in _LISTED.findall(listing)}
    if ref is None:
        there = "HEAD" in names
        empty = Missing("the repository is empty or has no default branch; give a ref")
        return OneRef("+HEAD:refs/remotes/origin/HEAD") if there else empty
    tag, branch = f"refs/tags/{ref}", f"refs/heads/{ref}"
    if tag in names:
        note = f"{ref} is a tag and a branch; the tag was used" if branch in names else ""
        return OneRef(f"+{tag}:{tag}", note)
    if branch in names:
        return OneRef(f"+{branch}:refs/remotes/origin/{ref}")
    if ref.startswith("refs/") and ref in names:
        return OneRef(f"+{ref}:{ref}")
    return _decide_commit(ref)


def _decide_commit(ref: str) -> OneRef | Everything | Missing:
    if is_commit_id(ref):
        return OneRef(f"+{ref}:refs/atesor/commit")
    return Everything() if _SHORT_COMMIT.fullmatch(ref) else Missing(f"it has no tag or branch {ref}")


def is_passing_fault(output: str) -> bool:
    """Say whether a transfer broke in a way that the next try may not."""
    return _PASSING.search(output) is not None


def is_silence(reason: str) -> bool:
    """Say whether a failure means that the server itself did not answer, whatever words its URL has."""
    return _SILENCE.search(_PLACE.sub("", reason)) is not None


def is_shallow_refused(output: str) -> bool:
    """Say whether the server cannot serve part of a history."""
    return _NO_SHALLOW.search(output) is not None


def is_refused_commit(output: str) -> bool:
    """Say whether the server refused a commit because no ref points at it (or it has none such)."""
    return _NO_SUCH_COMMIT.search(output) is not None


def decide_git_failure(output: str, *, timed_out: bool, limit_s: float) -> SourceError:
    """Turn a failed ls-remote or fetch into the error that it means."""
    if timed_out:
        return SourceError(Trouble.UNREACHABLE, f"no answer within {limit_s:.0f} s")
    reason = _telling_line(output)
    if _NEEDS_KEY.search(output):
        return SourceError(Trouble.UNREACHABLE, reason, host_may_help=True)
    if is_refused_commit(output):
        return SourceError(Trouble.BROKEN, reason)
    if _UNREACHABLE.search(output):
        return SourceError(Trouble.UNREACHABLE, reason)
    return SourceError(Trouble.BROKEN, reason)


def _telling_line(output: str) -> str:
    lines = [found.group().strip() for found in _TELLING.finditer(output)]
    # git's own last words are often "Could not read from remote repository": the first line has the cause.
    text = lines[0] if lines else output.strip()[-300:] or "git gave no reason"
    return sanitize_line(text.removeprefix("fatal: ").removeprefix("error: "), 300)
