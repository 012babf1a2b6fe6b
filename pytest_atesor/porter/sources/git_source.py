"""The kind ``git``: one commit of a repository, with its submodules, checked out in the sandbox."""

import base64
import posixpath
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote, urlsplit

from pytest_atesor.core.names import redact_text
from pytest_atesor.core.urls import SourceUrl
from pytest_atesor.porter.sources.git_answers import is_silence, object_format_of
from pytest_atesor.porter.sources.git_commands import (
    HostGit,
    InsideGit,
    plan_host_environment,
    plan_inside_environment,
)
from pytest_atesor.porter.sources.git_fetch import Located, fetch_commit, read_commit
from pytest_atesor.porter.sources.host_network import (
    FromHost,
    FromInside,
    HostNetwork,
    decide_way,
    plan_inside_proxies,
    read_git_proxy,
)
from pytest_atesor.porter.sources.host_objects import (
    Pack,
    borrow_repository,
    find_repository,
    make_bare,
    pack_commit,
    resolve_ref,
)
from pytest_atesor.porter.sources.interface import Fetched, Kind, SourceError, Submodule, Trouble
from pytest_atesor.porter.sources.job import Incoming, Job
from pytest_atesor.porter.sources.places import (
    Place,
    Refused,
    decide_submodule_place,
    find_local_path,
    make_place,
)
from pytest_atesor.porter.sources.submodules import Wanted, parse_gitlinks, parse_gitmodules, plan_submodules

__all__ = ["fetch_git"]

_TRANSFER_S: Final = 3600.0
_SUBMODULE_S: Final = 600.0
_QUICK_S: Final = 60.0
_DEEPEST: Final = 6
_MOST_SUBMODULES: Final = 150
_SHOWN_PATHS: Final = 5

_PLACE_PACK: Final = """
git index-pack --stdin < "$1" > /dev/null
if [ -n "$3" ]; then printf '%s\\n' "$2" > .git/shallow; fi
git update-ref --no-deref HEAD "$2"
missing=$4
hollow=$5
shift 5
while [ $# -gt 1 ]; do git update-ref "$1" "$2"; shift 2; done
if [ -n "$missing" ]; then
  git read-tree HEAD
  git update-index -z --skip-worktree --stdin < "$missing"
  git checkout-index --all --force --index
  if [ -n "$hollow" ]; then
    xargs -0 -n 1 sh -euc 'mkdir -p -- "./$(dirname -- "./$1")"; : > "./$1"' sh < "$hollow"
  fi
else
  git checkout --force --detach --quiet HEAD
fi
"""
_LIST_GITLINKS: Final = "git ls-tree -r --full-tree HEAD | grep '^160000' | head -n 1000 || true"
_COUNT_LFS: Final = "git ls-files -- ':(attr:filter=lfs)' | wc -l"


@dataclass(slots=True)
class _Tally:
    """What a fetch with all its submodules has found so far."""

    submodules: list[Submodule] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    silent: set[str] = field(default_factory=set)


def fetch_git(
    job: Job, url: str, ref: str | None, directory: str, *, rules: Iterable[tuple[str, str]]
) -> Fetched:
    """Check out ``ref`` of the repository at ``url`` in the new ``directory``. Raises SourceError."""
    rules = tuple(rules)
    place = make_place(url, rules)
    tally = _Tally()
    worker = _GitFetch(job, rules, tally)
    commit = worker.place(place, ref, directory, trusted=True)
    worker.place_submodules(place, directory, "", depth=1)
    lost = [module for module in tally.submodules if not module.fetched]
    if lost:
        shown = "; ".join(f"{module.path} ({module.reason})" for module in lost[:_SHOWN_PATHS])
        tally.notes.append(f"{len(lost)} of {len(tally.submodules)} submodules could not be had: {shown}")
    return Fetched(
        url_used=redact_text(place.listed.text),
        kind=Kind.GIT,
        name=directory.rpartition("/")[2],
        directory=directory,
        commit=commit,
        ref=ref,
        submodules=tuple(tally.submodules),
        left_out=tuple(posixpath.relpath(one, directory) for one in tally.left_out),
        notes=tuple(tally.notes),
    )


@dataclass(frozen=True, slots=True)
class _GitFetch:
    """Places repositories one after the other; ``rules`` are the host's URL rewriting."""

    job: Job
    rules: tuple[tuple[str, str], ...]
    tally: _Tally

    def place(self, place: Place, ref: str | None, directory: str, *, trusted: bool) -> str:
        """Check out one repository without its submodules and return the commit.

        ``trusted`` says that the user listed it, so that the host's own keys may be tried.
        """
        network = HostNetwork.of(self.job.environ)
        way = decide_way(place.used, network, read_git_proxy(place.used, self.job.environ))
        if isinstance(way, FromInside):
            try:
                return self._from_inside(place, ref, directory, way, network)
            except SourceError as error:
                if not (error.host_may_help and trusted):
                    raise
                self.job.say(
                    f"the sandbox was refused ({error}); trying with this machine's own git settings"
                )
                self.job.must('rm -rf -- "$1"', directory)
                way = FromHost("it needs credentials or certificates of this machine's user")
        return self._from_host(place, ref, directory, way)

    def place_submodules(self, parent: Place, directory: str, prefix: str, *, depth: int) -> None:
        """Fetch the submodules of a checkout; one that cannot be had is recorded, not raised."""
        there: list[str] = []
        for module in self._list_submodules(directory):
            record = self._place_submodule(parent, module, directory, prefix, depth=depth)
            self.tally.submodules.append(record)
            if not record.fetched:
                self.job.say(f"warning: submodule {record.path} is left out: {record.reason}")
                continue
            there.append(module.path)
            place = decide_submodule_place(parent, module.url, self.rules)
            if isinstance(place, Place):
                self.place_submodules(place, f"{directory}/{module.path}", f"{record.path}/", depth=depth + 1)
        if there:
            # So that git, and a build that asks it, knows that they are there already.
            init = ("git", "submodule", "--quiet", "init", "--", *there)
            self.job.run(init, limit_s=_QUICK_S, env=plan_inside_environment(), cwd=directory, quiet=True)

    def _place_submodule(
        self, parent: Place, module: Wanted, directory: str, prefix: str, *, depth: int
    ) -> Submodule:
        def record(reason: str = "") -> Submodule:
            return Submodule(
                path=f"{prefix}{module.path}",
                url=redact_text(module.url),
                commit=module.commit,
                fetched=not reason,
                reason=reason,
            )

        if depth > _DEEPEST or len(self.tally.submodules) >= _MOST_SUBMODULES:
            return record(f"more than {_MOST_SUBMODULES} submodules or {_DEEPEST} levels of them")
        if not module.url or module.path.startswith('"'):
            return record(".gitmodules has no URL for it")
        place = decide_submodule_place(parent, module.url, self.rules)
        if isinstance(place, Refused):
            return record(place.reason)
        if _server(place.used) in self.tally.silent:
            return record(f"{_server(place.used)} did not answer before")
        self.job.say(f"submodule {prefix}{module.path}: {place.shown} at {module.commit}")
        own = self.job.until(self.job.clock() + _SUBMODULE_S)
        try:
            _GitFetch(own, self.rules, self.tally).place(
                place, module.commit, f"{directory}/{module.path}", trusted=False
            )
        except SourceError as error:
            self.job.must('rm -rf -- "$1" && mkdir -- "$1"', f"{directory}/{module.path}", user="builder")
            if error.trouble is Trouble.TIMEOUT:
                self.job.limit_s(1)  # the submodule's own time is over; when ours is too, this raises
            elif _has_met_silence(error) and place.used.host:
                self.tally.silent.add(_server(place.used))
            return record(str(error))
        return record()

    def _list_submodules(self, directory: str) -> tuple[Wanted, ...]:
        env = plan_inside_environment()
        links = self.job.run(
            ("sh", "-c", _LIST_GITLINKS), limit_s=_QUICK_S, env=env, cwd=directory, quiet=True
        )
        gitlinks = parse_gitlinks(links.text)
        if not gitlinks:
            return ()
        query = (
            "git",
            "config",
            "--blob",
            "HEAD:.gitmodules",
            "-z",
            "--get-regexp",
            r"^submodule\..*\.(path|url)$",
        )
        settings = self.job.run(query, limit_s=_QUICK_S, env=env, cwd=directory, quiet=True)
        return plan_submodules(gitlinks, parse_gitmodules(settings.output) if settings.code == 0 else {})

    def _from_inside(
        self, place: Place, ref: str | None, directory: str, way: FromInside, network: HostNetwork
    ) -> str:
        env, remarks = plan_inside_proxies(network)
        proxy = (("http.proxy", way.proxy),) if way.proxy else ()
        git = InsideGit(self.job, directory, plan_inside_environment(proxy) | env)
        self.job.say(f"fetching {place.shown} inside the sandbox{'' if ref is None else f', ref {ref}'}")
        self._start_repository(directory, object_format_of(ref or ""))
        try:
            located = fetch_commit(git, place.used.text, ref, limit_s=self.job.limit_s(_TRANSFER_S))
        except SourceError as error:
            if error.trouble is Trouble.UNREACHABLE and remarks:
                raise SourceError(error.trouble, f"{error}; {'; '.join(remarks)}") from None
            raise
        end = git.git("checkout", "--force", "--detach", "--quiet", located.commit, limit_s=_TRANSFER_S)
        if end.code != 0:
            raise SourceError(Trouble.BROKEN, f"the commit {located.commit} cannot be checked out")
        return self._finish(place, directory, located)

    def _from_host(self, place: Place, ref: str | None, directory: str, way: FromHost) -> str:
        self.job.say(
            f"fetching {place.shown} through this machine, as objects, because {way.reason}"
            f"{'' if ref is None else f'; ref {ref}'}"
        )
        with self.job.incoming() as incoming:
            if place.used.scheme == "file":
                git, located = self._borrow(place.used, ref, incoming)
            else:
                git, located = self._transfer(place.used, ref, incoming)
            pack = pack_commit(git, located.commit, incoming)
            self._place_pack(pack, directory)
        if pack.missing_paths:
            shown = ", ".join(pack.missing_paths[:_SHOWN_PATHS])
            note = (
                f"the repository lacks the content of {len(pack.missing_paths)} files: they are left out, or "
                f"empty where they are test data: {shown}"
            )
            self.tally.notes.append(note)
            self.tally.left_out.extend(f"{directory}/{one}" for one in pack.missing_paths)
            self.job.say(f"warning: {note}")
        return self._finish(place, directory, located)

    def _borrow(self, url: SourceUrl, ref: str | None, incoming: Incoming) -> tuple[HostGit, Located]:
        path = find_local_path(url)
        try:
            repository = find_repository(path)
            if repository is None:
                there = "is no git repository" if path.exists() else "does not exist on this machine"
                raise SourceError(Trouble.UNREACHABLE, f"{path} {there}")
        except PermissionError:
            raise SourceError(Trouble.UNREACHABLE, f"{path} may not be read by this user") from None
        git = borrow_repository(self.job, repository, incoming.host / "borrowed.git")
        return git, resolve_ref(git, ref)

    def _transfer(self, url: SourceUrl, ref: str | None, incoming: Incoming) -> tuple[HostGit, Located]:
        plain = make_bare(self.job, incoming.host / "transferred.git")
        target, extra = _split_credentials(url)
        user = HostGit(self.job, plain.directory, plan_host_environment(self.job.environ, extra))
        located = fetch_commit(user, target, ref, limit_s=self.job.limit_s(_TRANSFER_S))
        return plain, Located(read_commit(plain, located.commit), located.notes)

    def _start_repository(self, directory: str, object_format: str) -> None:
        script = 'mkdir -p -- "$1" && cd -- "$1" && git init --quiet --template= --object-format="$2" .'
        end = self.job.run(
            ("sh", "-euc", script, "sh", directory, object_format),
            limit_s=_QUICK_S,
            env=plan_inside_environment((("init.defaultBranch", "main"),)),
        )
        if end.code != 0:
            raise SourceError(Trouble.BROKEN, f"a repository cannot be made in {directory}")

    def _place_pack(self, pack: Pack, directory: str) -> None:
        self._start_repository(directory, pack.object_format)
        tags = [part for tag in pack.tags for part in tag]
        end = self.job.run(
            (
                "sh",
                "-euc",
                _PLACE_PACK,
                "sh",
                pack.path,
                pack.commit,
                "1" if pack.truncated else "",
                pack.missing,
                pack.hollow,
                *tags,
            ),
            limit_s=_TRANSFER_S,
            env=plan_inside_environment(),
            cwd=directory,
        )
        if end.code != 0:
            raise SourceError(Trouble.BROKEN, f"the commit {pack.commit} cannot be checked out")

    def _finish(self, place: Place, directory: str, located: Located) -> str:
        self.tally.notes.extend(located.notes)
        env = plan_inside_environment()
        public, _ = _split_credentials(place.listed)
        self.job.run(("git", "config", "remote.origin.url", public), limit_s=_QUICK_S, env=env, cwd=directory)
        pointers = self.job.run(
            ("sh", "-c", _COUNT_LFS), limit_s=_QUICK_S, env=env, cwd=directory, quiet=True
        )
        if pointers.code == 0 and pointers.text.strip() not in {"", "0"}:
            self.tally.notes.append(
                f"{pointers.text.strip()} files are Git LFS pointers; their content was not fetched"
            )
        self.job.say(f"checked out {located.commit} in {directory}")
        return located.commit


def _has_met_silence(error: SourceError) -> bool:
    return error.trouble is Trouble.UNREACHABLE and not error.host_may_help and is_silence(str(error))


def _server(url: SourceUrl) -> str:
    """Return scheme, host and port: another port or protocol may answer where one does not."""
    return f"{url.scheme}://{urlsplit(url.text).netloc.rpartition('@')[2] or url.host}"


def _split_credentials(url: SourceUrl) -> tuple[str, tuple[tuple[str, str], ...]]:
    """Return an http URL without its credentials, and the git settings that send them; others as they are."""
    if not url.has_secret or url.scheme not in {"http", "https"}:
        return url.text, ()
    parts = urlsplit(url.text)
    plain = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
    pair = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}".encode()
    header = f"Authorization: Basic {base64.b64encode(pair).decode('ascii')}"
    return plain, ((f"http.{plain}.extraHeader", header), ("credential.helper", ""))
