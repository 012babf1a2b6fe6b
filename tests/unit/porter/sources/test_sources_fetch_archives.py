"""Whole archive fetches, with a directory for a sandbox."""

import hashlib
import io
import os
import tarfile
from pathlib import Path
from typing import Any

import pytest

from pytest_atesor.porter.sources.interface import Kind, SourceError, Trouble


def make_archive(path: Path, name: str = "lib-1.0/configure") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz") as archive:
        member = tarfile.TarInfo(name)
        member.size, member.mode = 10, 0o755
        archive.addfile(member, io.BytesIO(b"#!/bin/sh\n"))
    return path


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_local_archive_is_unpacked_inside(bench: Any, tmp_path: Path) -> None:
    archive = make_archive(tmp_path / "a b/lib-1.0.tar.gz")
    fetched = bench.fetch(f"file://{tmp_path}/a%20b/lib-1.0.tar.gz", ref="v1")
    assert (fetched.kind, fetched.sha256, fetched.commit) == (Kind.TARBALL, digest(archive), None)
    assert "ref v1" in fetched.notes[0]
    assert bench.has("configure")
    assert [path.name for path in (bench.workspace / "src").iterdir()] == ["package"]
    assert [path.name for path in bench.workspace.iterdir()] == ["src"]


def test_an_archive_with_a_password_is_downloaded_and_the_password_seen_nowhere(
    bench: Any, tmp_path: Path, make_server: Any
) -> None:
    archive = make_archive(tmp_path / "www/lib.tar.gz")
    with make_server(tmp_path / "www", "me:s3cr3t") as server:
        fetched = bench.fetch(server.url("lib.tar.gz", "me:s3cr3t@"))
    assert fetched.sha256 == digest(archive)
    assert "s3cr3t" not in f"{bench.everything()}{fetched}"


def test_an_archive_that_is_not_there_sends_to_the_mirror(
    bench: Any, tmp_path: Path, make_server: Any
) -> None:
    make_archive(tmp_path / "www/lib.tar.gz")
    with make_server(tmp_path / "www") as server:
        fetched = bench.fetch(server.url("gone.tar.gz"), mirrors=(server.url("lib.tar.gz"),))
    assert fetched.url_used == server.url("lib.tar.gz")
    assert "404" in fetched.notes[0]


@pytest.mark.parametrize(
    ("name", "reason"),
    [("page.tar.gz", "web page"), ("evil.tar.gz", "leads out"), ("cut.tar.gz", "corrupt")],
)
def test_a_broken_archive_ends_the_search(
    bench: Any, tmp_path: Path, make_server: Any, name: str, reason: str
) -> None:
    www = tmp_path / "www"
    good = make_archive(www / "good.tar.gz")
    make_archive(www / "evil.tar.gz", "lib/../../evil")
    (www / "page.tar.gz").write_text("<html>sign in first</html>")
    (www / "cut.tar.gz").write_bytes(good.read_bytes()[:60])
    with make_server(www) as server, pytest.raises(SourceError, match=reason) as caught:
        bench.fetch(server.url(name), mirrors=(server.url("good.tar.gz"),))
    assert caught.value.trouble is Trouble.BROKEN
    assert not any(request.startswith("/good") for request in server.requests)
    assert list((bench.workspace / "src").glob("**/evil")) == []


def test_a_directory_is_no_archive(bench: Any, tmp_path: Path) -> None:
    (tmp_path / "lib.tar.gz").mkdir()
    with pytest.raises(SourceError, match="directory") as caught:
        bench.fetch(f"file://{tmp_path}/lib.tar.gz")
    assert caught.value.trouble is Trouble.BROKEN


def test_a_fifo_is_no_archive_and_is_not_waited_for(bench: Any, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "lib.tar.gz")
    with pytest.raises(SourceError, match="no regular file") as caught:
        bench.fetch(f"file://{tmp_path}/lib.tar.gz")
    assert caught.value.trouble is Trouble.BROKEN


def test_a_proxy_on_the_loopback_is_used_by_the_host(bench: Any, tmp_path: Path, make_server: Any) -> None:
    archive = make_archive(tmp_path / "www/lib.tar.gz")
    with make_server(tmp_path / "www") as server:
        bench.environ["http_proxy"] = server.url("")
        fetched = bench.fetch("http://no-such-host.invalid/lib.tar.gz")
    assert fetched.sha256 == digest(archive)
    assert server.requests == ["http://no-such-host.invalid/lib.tar.gz"]


def test_a_file_that_is_gone_is_unreachable(bench: Any, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="No such file or directory") as caught:
        bench.fetch(f"file://{tmp_path}/gone.tar.gz")
    assert caught.value.trouble is Trouble.UNREACHABLE
