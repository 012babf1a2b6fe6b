"""The kind ``tarball``: one archive, downloaded inside the sandbox, checked and unpacked there."""

import base64
import json
import os
import shutil
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote, urlsplit

from pytest_atesor.core.names import redact_text
from pytest_atesor.core.text import sanitize_line
from pytest_atesor.core.urls import SourceUrl, SourceUrlError, parse_source_url
from pytest_atesor.porter.inside import RESULT_MARK, read_program
from pytest_atesor.porter.sources.host_network import FromHost, HostNetwork, decide_way, plan_inside_proxies
from pytest_atesor.porter.sources.interface import Fetched, Kind, SourceError, Trouble
from pytest_atesor.porter.sources.job import SOURCE_ROOT, CommandEnd, Incoming, Job
from pytest_atesor.porter.sources.places import find_local_path

__all__ = ["Unpacked", "fetch_tarball", "unpack_archive"]

LONGEST_ARCHIVE_BYTES: Final = 4 * 1024**3
_DOWNLOAD_S: Final = 3600.0
_UNPACK_S: Final = 1800.0
_INSTALL_S: Final = 600.0
_SCRATCH: Final = f"{SOURCE_ROOT}/.download"
_INSTALL: Final = """
if ! command -v apt-get; then exec apk add "$1"; fi
apt-get update && apt-get install -y --no-install-recommends "$1"
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unpacked:
    """An archive that was unpacked: its checksum and size, and remarks."""

    sha256: str
    size_bytes: int
    notes: tuple[str, ...]


def fetch_tarball(job: Job, text: str, ref: str | None, directory: str) -> Fetched:
    """Download the archive at ``text`` and unpack it as the new ``directory``. Raises SourceError."""
    try:
        url = parse_source_url(text)
    except SourceUrlError as error:
        raise SourceError(Trouble.BROKEN, f"the URL {redact_text(text)} is refused: {error}") from None
    way = decide_way(url, HostNetwork.of(job.environ))
    with job.incoming() as incoming:
        if isinstance(way, FromHost):
            job.say(f"fetching {redact_text(text)} through this machine, because {way.reason}")
            path = (
                _copy_local(job, url, incoming)
                if url.scheme == "file"
                else _download_on_host(job, url, incoming)
            )
        else:
            job.say(f"downloading {redact_text(text)} inside the sandbox")
            path = _download_inside(job, url, incoming)
        unpacked = unpack_archive(job, incoming, path, directory)
    job.must('rm -rf -- "$1"', _SCRATCH, user="builder")
    ignored = (
        () if ref is None else (f"the source is an archive: ref {ref} has no meaning for it and was ignored",)
    )
    return Fetched(
        url_used=redact_text(text),
        kind=Kind.TARBALL,
        name=directory.rpartition("/")[2],
        directory=directory,
        sha256=unpacked.sha256,
        notes=(*ignored, *unpacked.notes),
    )


def unpack_archive(job: Job, incoming: Incoming, path: str, directory: str) -> Unpacked:
    """Check and unpack the archive at ``path`` (inside) as the new ``directory``. Raises SourceError."""
    script = f"{incoming.inside}/unpack.py"
    if not (incoming.host / "unpack.py").exists():
        incoming.hand_in("unpack.py", read_program("unpack.py"))
    job.say(f"unpacking {path.rpartition('/')[2]}")
    command = ("python3", "-I", script, path, directory)
    result = _parse_result(job.run(command, limit_s=_UNPACK_S, quiet=True), "unpacking the archive")
    if result.get("trouble") == "tool":
        _install(job, str(result.get("reason")))
        result = _parse_result(job.run(command, limit_s=_UNPACK_S, quiet=True), "unpacking the archive")
    _raise_trouble(result)
    notes = result.get("notes")
    listed = tuple(sanitize_line(str(note)) for note in notes) if isinstance(notes, list) else ()
    for note in listed:
        job.say(f"warning: {note}")
    size = result.get("size_bytes")
    unpacked = Unpacked(
        sha256=str(result["sha256"]), size_bytes=size if isinstance(size, int) else 0, notes=listed
    )
    job.say(f"unpacked in {directory}; sha256 {unpacked.sha256}")
    return unpacked


def _copy_local(job: Job, url: SourceUrl, incoming: Incoming) -> str:
    path = find_local_path(url)
    job.limit_s(1)
    try:
        with open(path, "rb", opener=_open_at_once) as source:
            status = os.fstat(source.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise SourceError(Trouble.BROKEN, f"{path} is no regular file")
            if status.st_size > LONGEST_ARCHIVE_BYTES:
                raise SourceError(Trouble.BROKEN, f"{path} is larger than {LONGEST_ARCHIVE_BYTES} bytes")
            with (incoming.host / "archive").open("xb") as out:
                shutil.copyfileobj(source, out)
    except IsADirectoryError:
        raise SourceError(Trouble.BROKEN, f"{path} is a directory, not an archive") from None
    except OSError as error:
        raise SourceError(Trouble.UNREACHABLE, f"{path}: {error.strerror}") from None
    (incoming.host / "archive").chmod(0o644)
    return f"{incoming.inside}/archive"


def _open_at_once(path: str, flags: int) -> int:
    """Open a file without waiting: a FIFO would keep us for ever."""
    return os.open(path, flags | os.O_NONBLOCK)


def _download_on_host(job: Job, url: SourceUrl, incoming: Incoming) -> str:
    # Seldom needed, and an HTTP client is a fifth of what the agent's start would cost.
    from pytest_atesor.porter.inside import download  # noqa: PLC0415

    parts = urlsplit(url.text)
    headers: dict[str, str] = {}
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()
        headers["Authorization"] = f"Basic {base64.b64encode(pair).decode('ascii')}"
    plain = parts._replace(netloc=parts.netloc.rpartition("@")[2], fragment="").geturl()
    proxy = HostNetwork.of(job.environ).proxy_for(url)
    try:
        with (incoming.host / "archive").open("xb") as out:
            request = _plan_request(plain, headers, job.limit_s(_DOWNLOAD_S))
            download.download(request, out, {url.scheme: proxy} if proxy else {})
    except download.DownloadError as error:
        raise SourceError(Trouble(error.trouble), sanitize_line(str(error))) from None
    (incoming.host / "archive").chmod(0o644)
    return f"{incoming.inside}/archive"


def _download_inside(job: Job, url: SourceUrl, incoming: Incoming) -> str:
    program = incoming.hand_in("download.py", read_program("download.py"))
    plain = urlsplit(url.text)._replace(fragment="").geturl()
    limit = job.limit_s(_DOWNLOAD_S)
    request = incoming.hand_in("request.json", json.dumps(_plan_request(plain, {}, limit)).encode())
    env, remarks = plan_inside_proxies(HostNetwork.of(job.environ))
    job.must('rm -rf -- "$1" && mkdir -p -- "$1"', _SCRATCH, user="builder")
    path = f"{_SCRATCH}/archive"
    end = job.run(("python3", "-I", program, request, path), limit_s=limit, env=env, quiet=True)
    if end.timed_out:
        raise SourceError(Trouble.UNREACHABLE, f"the download was not done after {limit:.0f} s")
    result = _parse_result(end, "downloading the archive")
    if result.get("trouble") == "unreachable" and remarks:
        result = {**result, "reason": f"{result.get('reason')}; {'; '.join(remarks)}"}
    _raise_trouble(result)
    job.say(f"downloaded {result.get('size_bytes')} bytes")
    return path


def _plan_request(url: str, headers: Mapping[str, str], limit_s: float) -> dict[str, object]:
    return {"url": url, "headers": dict(headers), "longest_bytes": LONGEST_ARCHIVE_BYTES, "limit_s": limit_s}


def _parse_result(end: CommandEnd, what: str) -> dict[str, object]:
    if end.timed_out:
        raise SourceError(Trouble.TIMEOUT, f"{what} took too long")
    for line in reversed(end.text.splitlines()):
        if line.startswith(RESULT_MARK):
            result = json.loads(line.removeprefix(RESULT_MARK))
            if isinstance(result, dict):
                return result
    raise SourceError(Trouble.BROKEN, f"{what} failed inside the sandbox: {sanitize_line(end.text[-300:])}")


def _raise_trouble(result: Mapping[str, object]) -> None:
    trouble = result.get("trouble")
    if trouble is not None:
        kind = Trouble.UNREACHABLE if trouble == "unreachable" else Trouble.BROKEN
        missing = f"{result.get('reason')} is not installed in the sandbox"
        raise SourceError(
            kind, missing if trouble == "tool" else sanitize_line(str(result.get("reason")), 300)
        )


def _install(job: Job, tool: str) -> None:
    package = {"xz": "xz-utils"}.get(tool, tool)
    job.say(f"installing {package} inside the sandbox to unpack the archive")
    env, _ = plan_inside_proxies(HostNetwork.of(job.environ))
    env["DEBIAN_FRONTEND"] = "noninteractive"
    job.run(("sh", "-c", _INSTALL, "sh", package), limit_s=_INSTALL_S, env=env, user="root")
