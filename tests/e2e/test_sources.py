"""How sources get into a real sandbox: through the host as objects, over its own network, and with apt."""

import base64
import io
import os
import shutil
import subprocess
import tarfile
import time
from collections.abc import Iterator, Mapping
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from pytest_atesor.core.plan import Platform
from pytest_atesor.errors import AtesorError
from pytest_atesor.porter.download_pool import DownloadPool
from pytest_atesor.porter.sources.fetch import fetch_source
from pytest_atesor.porter.sources.interface import Fetched, Kind, SourceError, SourceRequest, Trouble
from pytest_atesor.sandbox.image import ensure_image
from pytest_atesor.sandbox.interface import ExecSpec
from pytest_atesor.sandbox.sandbox import Sandbox, open_sandbox
from pytest_atesor.sandbox.select import select_engine
from pytest_atesor.sandbox.slots import slot_directory, state_directory

pytestmark = pytest.mark.engine

GIT = shutil.which("git") or "git"


class Bench:
    """A sandbox, the host directory that it sees, and a way to fetch into it."""

    def __init__(self, sandbox: Sandbox, workspace: Path) -> None:
        self.sandbox = sandbox
        self.workspace = workspace
        self.log = io.BytesIO()

    def fetch(
        self,
        url: str,
        *,
        ref: str | None = None,
        mirrors: tuple[str, ...] = (),
        pool: DownloadPool | None = None,
    ) -> Fetched:
        self.log = io.BytesIO()
        return fetch_source(
            SourceRequest(url=url, ref=ref, mirrors=mirrors, name="package"),
            sandbox=self.sandbox,
            workspace=self.workspace,
            sink=self.log,
            deadline=time.monotonic() + 300,
            pool=pool,
        )

    def inside(self, script: str, *, user: str = "builder", cwd: str = "/workspace/src") -> str:
        done = self.sandbox.run(ExecSpec(argv=["sh", "-ec", script], user=user, cwd=cwd), timeout_s=300)
        assert done.exit_code == 0, done.tail.decode(errors="replace")
        return done.tail.decode().strip()


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    try:
        engine = select_engine(os.environ.get("ATESOR_ENGINE", "auto"))
    except AtesorError as error:
        pytest.skip(str(error))
    image = ensure_image(engine, Platform.DEBIAN, state=state_directory(os.environ), progress=print)
    name, state = f"atesor-sources-test-{os.getpid()}", tmp_path_factory.mktemp("state")
    sandbox = open_sandbox(engine, name, image=image, state=state, reset=True)
    try:
        yield Bench(sandbox, slot_directory(state, name) / "workspace")
    finally:
        engine.remove(name)


def git(directory: Path, *args: str) -> str:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "protocol.file.allow=always"]
    done = subprocess.run([GIT, *identity, *args], cwd=directory, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def make_repository(path: Path, files: Mapping[str, str]) -> str:
    path.mkdir()
    git(path, "init", "-q", "-b", "main", "--template=", ".")
    for name, content in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text(content)
    git(path, "add", "-A")
    git(path, "commit", "-q", "-m", "first")
    return git(path, "rev-parse", "HEAD")


def make_hostile(path: Path, marker: Path) -> None:
    """Let everything that git could run for a repository's sake create ``marker``."""
    touch = path.parent / "touch.sh"
    touch.write_text(f"#!/bin/sh\ntouch {marker}\n")
    touch.chmod(0o755)
    (path / ".git/hooks").mkdir()
    for hook in ("post-checkout", "reference-transaction", "post-index-change", "pre-auto-gc"):
        shutil.copy(touch, path / ".git/hooks" / hook)
    with (path / ".git/config").open("a") as config:
        config.write(
            f"[core]\n\tfsmonitor = {touch}\n\tsshCommand = {touch}\n"
            f"[uploadpack]\n\tpackObjectsHook = {touch}\n"
            f'[extensions]\n\tpartialClone = o\n[remote "o"]\n\turl = ext::{touch}\n\tpromisor = true\n'
            f'\tuploadpack = {touch}\n[protocol "ext"]\n\tallow = always\n[filter "x"]\n\tsmudge = {touch}\n'
        )


def test_a_local_repository_comes_in_as_objects_and_nothing_of_it_runs(bench: Bench, tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    make_repository(tmp_path / "leaf", {"leaf.txt": "leaf"})
    make_repository(tmp_path / "top", {".gitattributes": "* filter=x\n", "run.sh": "#!/bin/sh\n"})
    git(tmp_path / "top", "submodule", "--quiet", "add", "../leaf", "deep/leaf")
    git(tmp_path / "top", "commit", "-q", "-m", "submodule")
    git(tmp_path / "top", "tag", "v1")
    commit = git(tmp_path / "top", "rev-parse", "HEAD")
    make_hostile(tmp_path / "top", marker)
    fetched = bench.fetch(f"file://{tmp_path}/top", ref="v1")
    assert (fetched.commit, fetched.kind, fetched.notes) == (commit, Kind.GIT, ())
    assert [(module.path, module.fetched) for module in fetched.submodules] == [("deep/leaf", True)]
    assert bench.inside("cat package/deep/leaf/leaf.txt; find . ! -user builder") == "leaf"
    assert (
        bench.inside("git status --short; git describe --tags --exact-match", cwd=fetched.directory) == "v1"
    )
    assert not marker.exists()
    assert sorted(path.name for path in bench.workspace.iterdir()) == ["cache", "src"]


SERVE = """
rm -rf /tmp/served && mkdir /tmp/served && cd /tmp/served
git init -q -b main lib && cd lib
git config user.name t && git config user.email t@example.org
echo 1 > VERSION && git add VERSION && git commit -q -m one
echo 2 > VERSION && git commit -q -a -m two
echo 3 > VERSION && git commit -q -a -m three && git tag v3
mkdir -p lib-1.0 && echo hello > lib-1.0/hello
tar -czf ../lib-1.0.tar.gz lib-1.0 && tar -cJf ../lib-1.0.tar.xz lib-1.0
tar -czf ../evil.tar.gz --transform 's,^,../,' -P lib-1.0/hello
cd .. && echo '<!DOCTYPE html><p>sign in' > page.tar.gz
(git daemon --export-all --base-path=/tmp/served --reuseaddr > /dev/null 2>&1 &)
(python3 -m http.server 8000 > /dev/null 2>&1 &)
address=$(hostname -i | cut -d' ' -f1)
until git ls-remote "git://$address/lib" > /dev/null 2>&1; do sleep 0.2; done
open='import socket, sys; socket.create_connection((sys.argv[1], 8000))'
until python3 -c "$open" "$address" 2> /dev/null; do sleep 0.2; done
echo "@$address@"
git -C lib rev-parse HEAD HEAD~1
"""


class Served:
    """A git server and a web server inside the sandbox, under its own address, which is no loopback."""

    def __init__(self, bench: Bench) -> None:
        said = bench.inside(SERVE)
        self.address = said.split("@")[1]
        self.commits = said.split()[-2:]

    @property
    def repository(self) -> str:
        return f"git://{self.address}/lib"

    def archive(self, name: str) -> str:
        return f"http://{self.address}:8000/{name}"


@pytest.fixture(scope="module")
def served(bench: Bench) -> Served:
    return Served(bench)


@pytest.mark.parametrize("ref", [None, "v3", "main"], ids=["default", "tag", "branch"])
def test_the_sandbox_fetches_one_commit_without_history(
    bench: Bench, served: Served, ref: str | None
) -> None:
    fetched = bench.fetch(served.repository, ref=ref)
    assert (fetched.commit, fetched.notes) == (served.commits[0], ())
    assert bench.inside("cat VERSION; git rev-list --all | wc -l", cwd=fetched.directory).split() == [
        "3",
        "1",
    ]
    assert b"inside the sandbox" in bench.log.getvalue()


@pytest.mark.parametrize("digits", [40, 9], ids=["full", "short"])
def test_a_commit_behind_the_tips_is_had_with_more_history(bench: Bench, served: Served, digits: int) -> None:
    fetched = bench.fetch(served.repository, ref=served.commits[1][:digits])
    assert fetched.commit == served.commits[1]
    assert bench.inside("cat VERSION", cwd=fetched.directory) == "2"


def test_a_missing_ref_ends_the_search(bench: Bench, served: Served) -> None:
    with pytest.raises(SourceError, match="no tag or branch v9") as caught:
        bench.fetch(served.repository, ref="v9", mirrors=(served.archive("lib-1.0.tar.gz"),))
    assert caught.value.trouble is Trouble.BROKEN


@pytest.mark.parametrize("name", ["lib-1.0.tar.gz", "lib-1.0.tar.xz"])
def test_the_sandbox_downloads_and_unpacks_an_archive(bench: Bench, served: Served, name: str) -> None:
    fetched = bench.fetch(
        f"git://{served.address}/gone", mirrors=(served.archive("404.tar.gz"), served.archive(name))
    )
    assert (fetched.kind, fetched.url_used) == (Kind.TARBALL, served.archive(name))
    assert fetched.sha256 == bench.inside(f"sha256sum /tmp/served/{name}").split()[0]
    assert bench.inside("cat package/hello; find . ! -user builder; ls -A") == "hello\npackage"
    assert [note.partition(":")[0] for note in fetched.notes] == ["not used", "not used"]


@pytest.mark.parametrize(("name", "reason"), [("evil.tar.gz", "leads out"), ("page.tar.gz", "web page")])
def test_a_broken_archive_ends_the_search_and_leaves_nothing(
    bench: Bench, served: Served, name: str, reason: str
) -> None:
    with pytest.raises(SourceError, match=reason) as caught:
        bench.fetch(served.archive(name), mirrors=(served.archive("lib-1.0.tar.gz"),))
    assert caught.value.trouble is Trouble.BROKEN
    assert not bench.inside("find . -name hello")


def test_credentials_work_and_stay_on_the_host(bench: Bench, tmp_path: Path) -> None:
    make_repository(tmp_path / "work", {"a": "1"})
    git(tmp_path, "clone", "-q", "--bare", "work", "www/lib.git")
    git(tmp_path / "www/lib.git", "update-server-info")
    with serve_with_password(tmp_path / "www", "me:s3cr3t") as port:
        fetched = bench.fetch(f"http://me:s3cr3t@127.0.0.1:{port}/lib.git")
    assert fetched.url_used == f"http://***@127.0.0.1:{port}/lib.git"
    assert "s3cr3t" not in f"{bench.log.getvalue().decode()}{fetched}"
    assert bench.inside("grep -rl s3cr3t /workspace || true", user="root") == ""


class serve_with_password:  # noqa: N801 - used like a function
    """Serve a directory on the loopback to those who know the password; gives the port."""

    def __init__(self, root: Path, password: str) -> None:
        wanted = f"Basic {base64.b64encode(password.encode()).decode()}"

        class Handler(SimpleHTTPRequestHandler):
            def __init__(self, *args: Any) -> None:
                super().__init__(*args, directory=str(root))

            def do_GET(self) -> None:
                if self.headers.get("Authorization") == wanted:
                    super().do_GET()
                else:
                    self.send_error(401)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the signature is http.server's
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> int:
        self._thread.start()
        return self._server.server_port

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def test_a_local_archive_that_climbs_is_refused(bench: Bench, tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "evil.tar", "w") as archive:
        member = tarfile.TarInfo("lib/../../../evil")
        archive.addfile(member, io.BytesIO())
    with pytest.raises(SourceError, match="leads out"):
        bench.fetch(f"file://{tmp_path}/evil.tar")
    assert not bench.inside("find / -name evil -not -path '/proc/*' 2> /dev/null || true")


@pytest.mark.network
def test_the_upstream_part_of_a_debian_package_is_the_last_resort(bench: Bench) -> None:
    fetched = bench.fetch(
        "https://no-such-host.invalid/o/microsocks", ref="v1.0.5", mirrors=("deb:microsocks",)
    )
    assert (fetched.kind, fetched.url_used) == (Kind.DEB, "deb:microsocks")
    assert fetched.version is not None
    assert fetched.version.startswith("1.")
    assert fetched.sha256 is not None
    assert "no-such-host.invalid" in fetched.notes[0]
    assert (
        bench.inside("ls package/Makefile; ls -d package/debian 2> /dev/null || true; find . ! -user builder")
        == "package/Makefile"
    )
    assert not bench.inside("find package -name debian; ls -A | grep -v '^package$' || true")


@pytest.mark.network
def test_a_debian_source_is_downloaded_once_and_a_poisoned_copy_is_not_used(
    bench: Bench, tmp_path: Path
) -> None:
    pool = DownloadPool(tmp_path / "downloads", spare_bytes=0)

    def fetch() -> str:
        bench.fetch("https://no-such-host.invalid/o/x", mirrors=("deb:microsocks",), pool=pool)
        assert bench.inside("ls package/Makefile")
        return bench.log.getvalue().decode()

    assert "Get:1" in fetch()
    (entry,) = (tmp_path / "downloads").glob("sha256/*/*")
    good = entry.read_bytes()
    said = fetch()
    assert "Get:1" not in said
    assert "is here from an earlier download" in said
    entry.write_bytes(bytes(len(good)))
    assert "Get:1" in fetch()
    assert entry.read_bytes() == good


@pytest.mark.network
def test_a_debian_package_that_is_not_there_is_unreachable(bench: Bench) -> None:
    with pytest.raises(SourceError, match="no source package no-such-package-here") as caught:
        bench.fetch("https://no-such-host.invalid/o/x", mirrors=("deb:no-such-package-here",))
    assert caught.value.trouble is Trouble.UNREACHABLE


@pytest.mark.parametrize("url", ["ext::sh -c touch% /tmp/x", "--upload-pack=/tmp/x", "fd::7"])
def test_urls_that_run_programs_are_refused(bench: Bench, url: str) -> None:
    with pytest.raises(SourceError, match="refused"):
        bench.fetch(url)
