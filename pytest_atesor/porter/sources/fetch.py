"""Fetch a package's source: the URL first, then its mirrors in order, until one can be had.

A mirror is tried when what stands before it cannot be reached; a source that answers and is broken (no such
ref, a corrupt archive, a member that leads out) ends the search with its reason.
"""

import os
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO, Final, assert_never

from pytest_atesor.core.names import derive_package_name, redact_text
from pytest_atesor.core.urls import (
    DebianSource,
    SourceUrl,
    SourceUrlError,
    check_ref,
    parse_mirror,
    parse_source_url,
)
from pytest_atesor.porter.download_pool import DownloadPool
from pytest_atesor.porter.sources.archives import fetch_tarball
from pytest_atesor.porter.sources.debian import fetch_deb
from pytest_atesor.porter.sources.git_source import fetch_git
from pytest_atesor.porter.sources.host_network import read_rewriting_rules
from pytest_atesor.porter.sources.interface import (
    Fetched,
    Kind,
    RunsCommands,
    SourceError,
    SourceRequest,
    Trouble,
)
from pytest_atesor.porter.sources.job import SOURCE_ROOT, Job
from pytest_atesor.porter.sources.places import decide_kind

__all__ = ["fetch_source"]

_CLEAR: Final = """
mkdir -p -- "$1"
cd -- "$1"
for old in ..?* .[!.]* *; do
  if [ -e "$old" ] || [ -L "$old" ]; then
    rm -rf -- "$old" 2>/dev/null || { chmod -R u+rwX -- "$old"; rm -rf -- "$old"; }
  fi
done
"""
_CLEAR_S: Final = 600.0
_LEAST_SHARE_S: Final = 120.0


def _check_request(request: SourceRequest) -> tuple[SourceUrl | DebianSource, ...]:
    """Return the URL and the mirrors in the order in which they are tried. Raises SourceError (BROKEN)."""
    shown = redact_text(request.url)
    try:
        candidates: list[SourceUrl | DebianSource] = [parse_source_url(request.url)]
        if request.ref is not None:
            shown = request.ref
            check_ref(request.ref)
        for mirror in request.mirrors:
            shown = redact_text(mirror)
            candidates.append(parse_mirror(mirror))
    except SourceUrlError as error:
        raise SourceError(Trouble.BROKEN, f"{shown} is refused as a source: {error}") from None
    return tuple(candidates)


def fetch_source(  # noqa: PLR0913 - keyword-only facts of one fetch
    request: SourceRequest,
    *,
    sandbox: RunsCommands,
    workspace: Path,
    sink: BinaryIO | None,
    deadline: float,
    environ: Mapping[str, str] | None = None,
    pool: DownloadPool | None = None,
) -> Fetched:
    """Put the package's source into the sandbox at ``/workspace/src/<name>``, owned by the builder.

    ``workspace`` is the host directory that the sandbox sees as ``/workspace``; everything in its ``src`` is
    removed first. ``deadline`` is in seconds of ``time.monotonic()``. ``environ`` is the host's environment,
    by default this process's; ``pool`` what the slots share of their downloads, of which Debian's source
    packages are a part. Raises SourceError with a redacted line for the user, and SandboxError.
    """
    candidates = _check_request(request)
    job = Job(
        sandbox=sandbox,
        workspace=workspace,
        sink=sink,
        deadline=deadline,
        clock=time.monotonic,
        environ=os.environ if environ is None else environ,
        pool=pool,
    )
    directory = f"{SOURCE_ROOT}/{request.name or derive_package_name(request.url)}"
    job.remove_stale()
    failures: list[str] = []
    for number, candidate in enumerate(candidates):
        share = job.until(_share(job, len(candidates) - number - 1))
        job.must(_CLEAR, SOURCE_ROOT, limit_s=_CLEAR_S, user="builder")
        try:
            return _with_failures(_fetch_one(share, candidate, request.ref, directory), failures)
        except SourceError as error:
            job.limit_s(1)  # raises when the whole time is over, and not only this candidate's share
            failures.append(f"{_show(candidate)}: {error}")
            job.say(
                f"{'cannot be reached' if error.trouble is not Trouble.BROKEN else 'broken'}: {failures[-1]}"
            )
            if error.trouble is Trouble.BROKEN:
                raise SourceError(
                    Trouble.BROKEN, f"the source is broken: {'; before that, '.join(reversed(failures))}"
                ) from None
    raise SourceError(Trouble.UNREACHABLE, f"the source cannot be reached: {'; '.join(failures)}")


def _share(job: Job, left: int) -> float:
    """Return the deadline of one candidate, so that one that hangs leaves time for the ``left`` others."""
    now = job.clock()
    whole = job.deadline - now
    return job.deadline if not left else now + min(whole, max(_LEAST_SHARE_S, whole / 2))


def _fetch_one(job: Job, candidate: SourceUrl | DebianSource, ref: str | None, directory: str) -> Fetched:
    if isinstance(candidate, DebianSource):
        return fetch_deb(job, candidate.name, ref, directory)
    kind = decide_kind(candidate)
    match kind:
        case Kind.GIT:
            return fetch_git(job, candidate.text, ref, directory, rules=read_rewriting_rules(job.environ))
        case Kind.TARBALL:
            return fetch_tarball(job, candidate.text, ref, directory)
        case Kind.DEB:
            raise AssertionError("a URL is never a Debian source package")
        case _:
            assert_never(kind)


def _with_failures(fetched: Fetched, failures: list[str]) -> Fetched:
    if not failures:
        return fetched
    notes = (*(f"not used: {failure}" for failure in failures), *fetched.notes)
    return replace(fetched, notes=notes)


def _show(candidate: SourceUrl | DebianSource) -> str:
    return f"deb:{candidate.name}" if isinstance(candidate, DebianSource) else redact_text(candidate.text)
