"""The kind ``deb``: the upstream part of a Debian source package, had through apt inside the sandbox.

apt verifies the archive's signature and every file's checksum. Debian's own part (``debian/`` and its
patches) is left out: what is built is what upstream released.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pytest_atesor.core.text import sanitize_line
from pytest_atesor.porter.sources.archives import unpack_archive
from pytest_atesor.porter.sources.host_network import HostNetwork, plan_inside_proxies
from pytest_atesor.porter.sources.interface import Fetched, Kind, SourceError, Trouble
from pytest_atesor.porter.sources.job import SOURCE_ROOT, Job
from pytest_atesor.porter.tree import open_inside

__all__ = ["DebianFiles", "decide_apt_failure", "fetch_deb", "parse_records", "plan_notes"]

_SCRATCH: Final = f"{SOURCE_ROOT}/.debian"
_UPDATE_S: Final = 600.0
_DOWNLOAD_S: Final = 1800.0
_QUICK_S: Final = 60.0
_TAKE_S: Final = 120.0
_MOST_VERSIONS: Final = 3
_FIELD: Final = re.compile(r"^([A-Za-z0-9-]+):[ \t]*(.*)$")
_FILE: Final = re.compile(r"^ ([0-9a-f]{64}) \d+ ([A-Za-z0-9][A-Za-z0-9.+~_-]*)$", re.MULTILINE)
_MAIN: Final = re.compile(r"\.orig\.tar\.(?:gz|bz2|xz|lzma|zst)$")
_COMPONENT: Final = re.compile(r"\.orig-([A-Za-z0-9-]+)\.tar\.(?:gz|bz2|xz|lzma|zst)$")
_NATIVE: Final = re.compile(r"(?<!\.debian)\.tar\.(?:gz|bz2|xz|lzma|zst)$")
_REPACKED: Final = re.compile(r"[+.~](?:dfsg|ds|repack)")

_HAS_LISTS: Final = """
found=
for list in $(apt-get indextargets --format '$(FILENAME)' 'Created-By: Sources' 2>/dev/null); do
  for copy in "$list" "$list".*; do if [ -s "$copy" ]; then found=1; fi; done
done
[ -n "$found" ]
"""
# The image's own package sources, said again for source packages when none of them has any.
_ADD_SOURCES: Final = """
if [ -z "$(apt-get indextargets --format '$(URI)' 'Created-By: Sources' 2>/dev/null)" ]; then
  apt-get indextargets --format '$(SIGNED_BY)|$(REPO_URI)|$(RELEASE)|$(COMPONENT)' 'Created-By: Packages' |
  sort -u | while IFS='|' read -r key uri suite component; do
    case $uri in http*|file:*|copy:*) ;; *) continue ;; esac
    case $key in ''|/*) ;; *) key= ;; esac
    printf 'deb-src %s%s %s %s\\n' "${key:+[signed-by=$key] }" "$uri" "$suite" "$component"
  done > /etc/apt/sources.list.d/pytest-atesor-sources.list
fi
apt-get update
"""
# Without a word: a disk that is full here leaves apt the room of the half copy.
_TAKE: Final = 'cp -- "$1" "$2" 2>/dev/null || { rm -f -- "$2/${1##*/}"; exit 1; }'


@dataclass(frozen=True, slots=True, kw_only=True)
class DebianFiles:
    """The upstream part of a source package: main archive, components by directory, checksums by file.

    A native package has no upstream apart from Debian: ``native`` is True and its only archive is ``main``.
    """

    version: str
    main: str
    native: bool
    components: tuple[tuple[str, str], ...]
    sha256: dict[str, str]


def parse_records(text: str) -> tuple[DebianFiles, ...]:
    """Read what ``apt-cache showsrc`` prints: one value per version that has an upstream archive."""
    records = (_parse_record(stanza) for stanza in re.split(r"\n[ \t]*\n", text))
    return tuple(record for record in records if record is not None)


def _parse_record(text: str) -> DebianFiles | None:
    fields: dict[str, str] = {}
    name = ""
    for line in text.splitlines():
        found = _FIELD.match(line)
        if found:
            name = found[1].lower()
            fields.setdefault(name, found[2].strip())
        elif line.startswith(" ") and name:
            fields[name] += f"\n{line}"
    sums = {file: digest for digest, file in _FILE.findall(fields.get("checksums-sha256", ""))}
    mains = [file for file in sums if _MAIN.search(file)]
    native = not mains
    if native:
        mains = [file for file in sums if _NATIVE.search(file) and not _COMPONENT.search(file)]
    if len(mains) != 1 or not fields.get("version"):
        return None
    components = tuple(sorted((found[1], file) for file in sums if (found := _COMPONENT.search(file))))
    return DebianFiles(
        version=fields["version"], main=mains[0], native=native, components=components, sha256=sums
    )


def plan_notes(files: DebianFiles, ref: str | None) -> tuple[str, ...]:
    """Return what a reader of the result should know about this source."""
    notes: list[str] = []
    upstream = upstream_version(files.version)
    if ref is not None and upstream not in ref.replace("_", ".").replace("-", "."):
        notes.append(f"Debian has version {files.version}; ref {ref} was asked for")
    if _REPACKED.search(files.version):
        notes.append(f"Debian repacked this upstream archive (version {files.version}): files may be missing")
    if files.native:
        notes.append("the package is native to Debian: its archive was used without debian/")
    return tuple(notes)


def upstream_version(version: str) -> str:
    """Return the upstream part of a Debian version, without epoch, revision and repacking marks."""
    bare = version.partition(":")[2] if ":" in version else version
    upstream = bare.rpartition("-")[0] or bare
    really = re.search(r"\+really(.+)$", upstream)
    return re.split(r"[+~](?:dfsg|ds|repack|really)|\.dfsg", really[1] if really else upstream)[0]


def decide_apt_failure(output: str, remarks: Sequence[str]) -> SourceError:
    """Turn a failed apt run into the error it means."""
    lines = [line for line in output.splitlines() if line.startswith(("E:", "W:", "Err:"))]
    reason = sanitize_line(
        next((line for line in lines if line.startswith("E:")), lines[0] if lines else output[-200:]), 300
    )
    if re.search(r"Hash Sum mismatch|signature|NO_PUBKEY|not signed|unexpected size", output, re.IGNORECASE):
        return SourceError(Trouble.BROKEN, reason)
    return SourceError(Trouble.UNREACHABLE, "; ".join((reason, *remarks)))


def fetch_deb(job: Job, package: str, ref: str | None, directory: str) -> Fetched:
    """Unpack the upstream part of Debian source package ``package`` as ``directory``. Raises SourceError."""
    job.say(f"fetching the Debian source package {package} with apt inside the sandbox")
    if job.run(("sh", "-c", "command -v apt-get"), limit_s=_QUICK_S, quiet=True).code != 0:
        raise SourceError(
            Trouble.UNREACHABLE, "this platform has no apt, so it has no Debian source packages"
        )
    env, remarks = plan_inside_proxies(HostNetwork.of(job.environ))
    had_lists = job.run(("sh", "-c", _HAS_LISTS), limit_s=_QUICK_S, quiet=True).code == 0
    try:
        if not had_lists:
            _update_lists(job, env, remarks)
        files = _download(job, package, env, remarks)
    except SourceError as error:
        if not had_lists or error.trouble is not Trouble.UNREACHABLE:
            raise
        job.say(f"{error}; the image's package lists may be old")
        _update_lists(job, env, remarks)
        files = _download(job, package, env, remarks)
    notes = [*plan_notes(files, ref), *_unpack(job, files, directory)]
    job.must('rm -rf -- "$1"', _SCRATCH, user="builder")
    return Fetched(
        url_used=f"deb:{package}",
        kind=Kind.DEB,
        name=directory.rpartition("/")[2],
        directory=directory,
        sha256=files.sha256[files.main],
        version=files.version,
        notes=tuple(notes),
    )


def _update_lists(job: Job, env: dict[str, str], remarks: Sequence[str]) -> None:
    job.say("apt-get update, with source packages")
    end = job.run(("sh", "-c", _ADD_SOURCES), limit_s=_UPDATE_S, env=env, user="root", cwd="/")
    if end.timed_out:
        raise SourceError(Trouble.UNREACHABLE, f"apt-get update was not done after {_UPDATE_S:.0f} s")
    if end.code != 0:
        raise decide_apt_failure(end.text, remarks)


def _download(job: Job, package: str, env: dict[str, str], remarks: Sequence[str]) -> DebianFiles:
    """Download the upstream archives of the newest version that the mirror really has."""
    show = ("apt-cache", "showsrc", "--only-source", "--", package)
    records = {
        record.version: record for record in parse_records(job.run(show, limit_s=_QUICK_S, quiet=True).text)
    }
    if not records:
        raise SourceError(
            Trouble.UNREACHABLE, f"apt knows no source package {package} with an upstream archive"
        )
    newest_first = job.must('printf "%s\\n" "$@" | sort -V -r', *records, user="builder").split()
    failure: SourceError | None = None
    for version in newest_first[:_MOST_VERSIONS]:
        job.must('rm -rf -- "$1" && mkdir -p -- "$1"', _SCRATCH, user="builder")
        if version in records:
            _hand_in(job, records[version])
        options = ("--download-only", "--tar-only", "--only-source", "-o", "Acquire::Retries=2")
        command = ("apt-get", "source", *options, "--", f"{package}={version}")
        job.say(" ".join(command))
        end = job.run(command, limit_s=_DOWNLOAD_S, env=env, cwd=_SCRATCH)
        if end.code == 0 and version in records:
            _keep(job, records[version])
            return records[version]
        if end.timed_out:
            raise SourceError(Trouble.UNREACHABLE, f"apt was not done after {_DOWNLOAD_S:.0f} s")
        failure = decide_apt_failure(end.text, remarks)
        if failure.trouble is Trouble.BROKEN:
            break
    raise failure or SourceError(Trouble.UNREACHABLE, f"apt knows no version of {package}")


def _archives(files: DebianFiles) -> tuple[str, ...]:
    return (files.main, *(file for _, file in files.components))


def _hand_in(job: Job, files: DebianFiles) -> None:
    """Put the archives that the pool has where apt finds them, checks them and need not download them."""
    if job.pool is None:
        return
    try:
        with job.incoming() as incoming:
            for name in _archives(files):
                if job.pool.hand_out(files.sha256[name], incoming.host / name) is not None:
                    _take(job, f"{incoming.inside}/{name}")
    except OSError as error:
        job.say(f"downloads are not shared with other cases: {error}")


def _take(job: Job, path: str) -> None:
    """Copy a file to where apt looks for it; of a copy that fails nothing stays, and apt downloads."""
    end = job.run(("sh", "-c", _TAKE, "sh", path, _SCRATCH), limit_s=_TAKE_S, quiet=True)
    name = path.rpartition("/")[2]
    if end.code == 0:
        job.say(f"{name} is here from an earlier download")
    else:
        job.say(f"{name} cannot be copied from an earlier download")


def _keep(job: Job, files: DebianFiles) -> None:
    """Take the archives into the pool that it does not have."""
    if job.pool is None:
        return
    try:
        for name in _archives(files):
            if not job.pool.has(files.sha256[name]):
                with open_inside(job.workspace, f"{_SCRATCH.removeprefix('/workspace/')}/{name}") as source:
                    job.pool.keep(source)
    except OSError as error:
        job.say(f"downloads are not shared with other cases: {error}")


def _unpack(job: Job, files: DebianFiles, directory: str) -> list[str]:
    notes: list[str] = []
    with job.incoming() as incoming:
        for component, file in (("", files.main), *files.components):
            target = f"{directory}/{component}" if component else directory
            job.must('rm -rf -- "$1"', target, user="builder")
            unpacked = unpack_archive(job, incoming, f"{_SCRATCH}/{file}", target)
            if unpacked.sha256 != files.sha256[file]:
                raise SourceError(Trouble.BROKEN, f"{file} is not the file that apt's index describes")
            notes.extend(unpacked.notes)
        if files.native:
            job.must('rm -rf -- "$1/debian"', directory, user="builder")
    return notes
