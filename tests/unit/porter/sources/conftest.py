"""A sandbox that is only a directory: commands run on this machine, and ``/workspace`` is a temporary one."""

import base64
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from pathlib import Path
from threading import Thread
from typing import Any, BinaryIO, Self
from urllib.parse import urlsplit

import pytest

from pytest_atesor.porter.sources.fetch import fetch_source
from pytest_atesor.porter.sources.interface import Fetched, SourceRequest
from pytest_atesor.sandbox.interface import Completed, ExecSpec

GIT = shutil.which("git") or "git"


def run_git(*args: str, cwd: Path) -> str:
    """Run git as the machine has it and return what it printed."""
    return subprocess.run([GIT, *args], cwd=cwd, capture_output=True, text=True, check=True).stdout


class DirectorySandbox:
    """Runs commands as this user; records every command line and environment for the tests."""

    def __init__(self, workspace: Path) -> None:
        self.workspace = workspace
        self.commands: list[ExecSpec] = []

    def run(
        self, command: ExecSpec, *, timeout_s: float, sink: BinaryIO | None, tail_bytes: int = 65536
    ) -> Completed:
        self.commands.append(command)
        started = time.monotonic()
        done = subprocess.run(
            [self._map(part) for part in command.argv],
            cwd=self._map(command.cwd),
            env={"PATH": os.environ["PATH"]} | {key: self._map(value) for key, value in command.env.items()},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=timeout_s,
            check=False,
        )
        if sink is not None:
            sink.write(done.stdout)
        return Completed(
            exit_code=done.returncode, tail=done.stdout[-tail_bytes:], duration_s=time.monotonic() - started
        )

    def _map(self, text: str) -> str:
        return text.replace("/workspace", str(self.workspace))


class Bench:
    """One directory sandbox, its log, and a way to fetch into it."""

    def __init__(self, workspace: Path, environ: Mapping[str, str]) -> None:
        self.workspace = workspace
        self.sandbox = DirectorySandbox(workspace)
        self.log = BytesIO()
        self.environ = dict(environ)

    def fetch(
        self, url: str, *, ref: str | None = None, mirrors: tuple[str, ...] = (), limit_s: float = 300
    ) -> Fetched:
        request = SourceRequest(url=url, ref=ref, mirrors=mirrors, name="package")
        return fetch_source(
            request,
            sandbox=self.sandbox,
            workspace=self.workspace,
            sink=self.log,
            deadline=time.monotonic() + limit_s,
            environ=self.environ,
        )

    @property
    def tree(self) -> Path:
        return self.workspace / "src" / "package"

    def has(self, name: str) -> bool:
        return (self.tree / name).exists()

    def logged(self) -> str:
        return self.log.getvalue().decode()

    def everything(self) -> str:
        """All that anybody could see: the log and the command lines and environments of all commands."""
        seen = [f"{command.argv} {command.env}" for command in self.sandbox.commands]
        return "\n".join([self.logged(), *seen])


class Upstream:
    """A git repository that stands for an upstream one."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(parents=True)
        self.git("init", "-q", "-b", "main", "--template=", ".")

    def git(self, *args: str) -> str:
        env = {
            "PATH": os.environ["PATH"],
            "HOME": "/nonexistent",
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_AUTHOR_NAME": "a",
            "GIT_AUTHOR_EMAIL": "a@example.org",
            "GIT_COMMITTER_NAME": "a",
            "GIT_COMMITTER_EMAIL": "a@example.org",
        }
        argv = [GIT, "-c", "protocol.file.allow=always", *args]
        done = subprocess.run(argv, cwd=self.path, env=env, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    def commit(self, files: Mapping[str, str | bytes], message: str = "change") -> str:
        for name, content in files.items():
            path = self.path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", message)
        return self.git("rev-parse", "HEAD")

    @property
    def url(self) -> str:
        return f"file://{self.path}"


class Server:
    """A static web server on the loopback, which serves dumb git and archives and may ask for a password."""

    def __init__(self, root: Path, password: str = "") -> None:
        server = self
        self.root = root
        self.requests: list[str] = []

        class Handler(SimpleHTTPRequestHandler):
            def __init__(self, *args: Any) -> None:
                super().__init__(*args, directory=str(root))

            def do_GET(self) -> None:
                server.requests.append(self.path)
                self.path = urlsplit(self.path).path  # as a proxy it is asked for whole URLs
                wanted = f"Basic {base64.b64encode(password.encode()).decode()}"
                if password and self.headers.get("Authorization") != wanted:
                    self.send_response(401)
                    self.send_header("WWW-Authenticate", 'Basic realm="x"')
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                else:
                    super().do_GET()

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the signature is http.server's
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = Thread(target=self._server.serve_forever, daemon=True)
        self.port = self._server.server_address[1]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def url(self, path: str, userinfo: str = "") -> str:
        return f"http://{userinfo}127.0.0.1:{self.port}/{path}"


@pytest.fixture
def sandbox(bench: Bench) -> DirectorySandbox:
    return bench.sandbox


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    workspace = tmp_path / "workspace"
    (workspace / "src").mkdir(parents=True)
    home = tmp_path / "home"
    home.mkdir()
    return Bench(workspace, {"PATH": os.environ["PATH"], "HOME": str(home), "GIT_CONFIG_NOSYSTEM": "1"})


@pytest.fixture
def make_upstream(tmp_path: Path) -> Callable[[str], Upstream]:
    return lambda name: Upstream(tmp_path / "upstream" / name)


@pytest.fixture
def git_in() -> Callable[..., str]:
    return run_git


@pytest.fixture
def make_server() -> type[Server]:
    return Server
