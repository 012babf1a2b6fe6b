"""Get one commit of a remote repository into one of ours, with as little history as the server lets us.

The same steps serve inside the sandbox and on the host; only the :class:`Git` that runs them differs.
"""

from typing import Final, NamedTuple, assert_never

from pytest_atesor.porter.sources.git_answers import (
    Everything,
    Missing,
    OneRef,
    decide_git_failure,
    decide_wanted,
    is_commit_id,
    is_passing_fault,
    is_refused_commit,
    is_shallow_refused,
    plan_listing,
)
from pytest_atesor.porter.sources.git_commands import Git
from pytest_atesor.porter.sources.interface import SourceError, Trouble
from pytest_atesor.porter.sources.job import CommandEnd

__all__ = ["Located", "fetch_commit", "read_commit"]

_ANSWER_S: Final = 60.0
_QUICK_S: Final = 60.0
_EVERYTHING: Final = ("+refs/heads/*:refs/remotes/origin/*", "+refs/tags/*:refs/tags/*")


class Located(NamedTuple):
    """A commit that is now in our repository, and remarks about how it was found."""

    commit: str
    notes: tuple[str, ...]


def fetch_commit(git: Git, url: str, ref: str | None, *, limit_s: float) -> Located:
    """Fetch what ``ref`` means at ``url``. Raises SourceError: nothing answers, or it has no such ref."""
    answer_s = min(_ANSWER_S, limit_s)
    listing = git.git("ls-remote", "--", url, *plan_listing(ref), limit_s=answer_s)
    if listing.code != 0:
        raise decide_git_failure(listing.text, timed_out=listing.timed_out, limit_s=answer_s)
    wanted = decide_wanted(listing.text, ref)
    match wanted:
        case Missing(reason):
            raise SourceError(Trouble.BROKEN, reason)
        case Everything():
            return _fetch_everything(git, url, ref or "HEAD", limit_s=limit_s)
        case OneRef(refspec, note):
            located = _fetch_one(git, url, ref, refspec, limit_s=limit_s)
            return located._replace(notes=(*located.notes, *([note] if note else [])))
        case _:
            assert_never(wanted)


def _fetch_one(git: Git, url: str, ref: str | None, refspec: str, *, limit_s: float) -> Located:
    got = _transfer(git, "--depth=1", "--no-tags", "--force", "--", url, refspec, limit_s=limit_s)
    whole = False
    if (
        got.code != 0
        and ref is not None
        and is_commit_id(ref)
        and (is_refused_commit(got.text) or is_shallow_refused(got.text))
    ):
        return _fetch_everything(git, url, ref, limit_s=limit_s)
    if got.code != 0 and is_shallow_refused(got.text):
        got = _transfer(git, "--no-tags", "--force", "--", url, refspec, limit_s=limit_s)
        whole = True
    if got.code != 0:
        raise decide_git_failure(got.text, timed_out=got.timed_out, limit_s=limit_s)
    notes = ("the server serves no shallow history: the whole branch was fetched",) if whole else ()
    return Located(read_commit(git, "FETCH_HEAD"), notes)


def _fetch_everything(git: Git, url: str, ref: str, *, limit_s: float) -> Located:
    got = _transfer(git, "--no-tags", "--force", "--", url, *_EVERYTHING, limit_s=limit_s)
    if got.code != 0:
        raise decide_git_failure(got.text, timed_out=got.timed_out, limit_s=limit_s)
    try:
        commit = read_commit(git, ref)
    except SourceError:
        raise SourceError(Trouble.BROKEN, f"it has no tag, branch or commit {ref}") from None
    return Located(commit, ("the commit could not be had alone: the whole history was fetched",))


def _transfer(git: Git, *args: str, limit_s: float) -> CommandEnd:
    """Run git fetch, once more when the connection broke in the middle."""
    end = git.git("fetch", *args, limit_s=limit_s)
    if end.code != 0 and not end.timed_out and is_passing_fault(end.text):
        end = git.git("fetch", *args, limit_s=limit_s)
    return end


def read_commit(git: Git, name: str) -> str:
    """Return the commit that ``name`` leads to in our repository. Raises SourceError (BROKEN)."""
    end = git.git(
        "rev-parse",
        "--verify",
        "--quiet",
        "--end-of-options",
        f"{name}^{{commit}}",
        limit_s=_QUICK_S,
        quiet=True,
    )
    lines = [line for line in end.text.split() if is_commit_id(line)]
    if end.code != 0 or not lines:
        raise SourceError(Trouble.BROKEN, f"{name} leads to no commit")
    return lines[-1]
