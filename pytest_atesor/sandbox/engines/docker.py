"""Docker, through its command-line client and a running daemon."""

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final

from pytest_atesor.core.names import redact_text
from pytest_atesor.errors import SandboxError, SetupError
from pytest_atesor.sandbox.engines.cli import BINARY_PLATFORM, UNLABELLED, CliEngine, last_line
from pytest_atesor.sandbox.engines.endpoints import is_loopback, is_socket, is_this_machine
from pytest_atesor.sandbox.interface import EngineInfo, ImageBuild

__all__ = ["DockerEngine"]

_PATIENCE_S = 20.0
_PROXIES: Final = tuple(
    cased
    for name in ("http_proxy", "https_proxy", "ftp_proxy", "all_proxy", "no_proxy")
    for cased in (name, name.upper())
)
"""What the client adds to a new container from its own settings: each name that the command does not have."""
_FIX = "start the daemon (systemctl start docker, or dockerd) or choose --atesor-engine podman or host"


@dataclass(frozen=True, slots=True)
class _Findings:
    info: EngineInfo
    options: tuple[str, ...]


class DockerEngine(CliEngine):
    """Docker or anything that answers its client.

    ``first_s`` is how long the first probe may take, which asks for more than the later ones.
    """

    name: ClassVar[str] = "docker"

    def __init__(self, *, first_s: float = _PATIENCE_S) -> None:
        self._first_s = first_s
        self._findings: _Findings | None = None

    def probe(self) -> EngineInfo:
        """Ask the daemon who it is; later only whether it still answers, within 20 seconds.

        To say who it is it counts what it has, which is slowest on a machine that is out of memory or disk.
        """
        if shutil.which(self.program) is None:
            raise SetupError("docker is not installed; apt-get install docker.io")
        if self._findings is None:
            self._findings = self._find_out()
            return self._findings.info
        try:
            self._call(["version", "--format", "{{.Server.Version}}"], timeout_s=_PATIENCE_S)
        except SandboxError as error:
            raise SetupError(f"the docker daemon does not answer any more ({error}); {_FIX}") from error
        return self._findings.info

    def _find_out(self) -> "_Findings":
        endpoint = os.environ.get("DOCKER_HOST", "")
        if endpoint and not is_loopback(endpoint):
            _refuse_remote(endpoint, {}, "DOCKER_HOST", "unset DOCKER_HOST")
        try:
            ended = subprocess.run(
                [self.program, "info", "--format", "{{json .}}"],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=self._first_s,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise SetupError(
                f"the docker daemon did not answer within {self._first_s:g} s; {_FIX}"
            ) from error
        answer = _parse_info(ended.stdout)
        self._refuse_remote_context(answer or {})
        if answer is None or not answer.get("ServerVersion"):
            problems = (answer or {}).get("ServerErrors") or [
                last_line(ended.stderr.decode(errors="replace"))
            ]
            raise SetupError(f"the docker daemon does not answer ({problems[0]}); {_FIX}")
        if endpoint:
            _refuse_remote(endpoint, answer, "DOCKER_HOST", "unset DOCKER_HOST")
        return _judge(self.name, answer)

    def _refuse_remote_context(self, answer: Mapping[str, Any]) -> None:
        context = str((answer.get("ClientInfo") or {}).get("Context") or "default")
        if context == "default":
            return
        try:
            endpoint = self._call(["context", "inspect", "--format", "{{.Endpoints.docker.Host}}", context])
        except SandboxError:
            return  # then nothing else will work, and says so
        _refuse_remote(endpoint.strip(), answer, f"the context {context}", "docker context use default")

    def build_image(self, build: ImageBuild) -> None:
        """Build an image. Raises SandboxError where docker's old builder cannot do it."""
        if build.host_platform is not None:
            try:
                self._call(["buildx", "version"])
            except SandboxError as error:
                raise SandboxError(
                    f"docker cannot build for {BINARY_PLATFORM} and {build.host_platform} in one go without "
                    "BuildKit (apt-get install docker-buildx)"
                ) from error
        super().build_image(build)

    def create_options(self) -> list[str]:
        """Name the architecture, without which docker warns, keep proxies out and SELinux from the workspace.

        A name without a value is a variable that the container does not have, unless the client has it.
        """
        if self._findings is None:
            self.probe()
        return [
            "--platform",
            BINARY_PLATFORM,
            *(word for name in _PROXIES for word in ("--env", name)),
            *(self._findings.options if self._findings is not None else ()),
        ]

    def client_environ(self, command: str) -> Mapping[str, str] | None:
        """Return the environment of ``run`` without proxies, whose values it would give to the container."""
        if command != "run":
            return None
        return {name: value for name, value in os.environ.items() if name not in _PROXIES}

    def _untag_command(self, tag: str) -> list[str]:
        return ["image", "rm", "--no-prune", tag]


def _refuse_remote(endpoint: str, answer: Mapping[str, Any], origin: str, fix: str) -> None:
    """Raise SetupError for a daemon, with its ``answer``, that need not be on this machine."""
    is_here = is_loopback(endpoint) and is_this_machine(answer.get("Name"), answer.get("DockerRootDir"))
    if not is_socket(endpoint) and not is_here:
        raise SetupError(
            f"the docker daemon at {redact_text(endpoint)}, from {origin}, may be on another machine, where "
            f"sandboxes would not see their workspaces; {fix} or choose --atesor-engine podman or host"
        )


def _judge(name: str, answer: Mapping[str, Any]) -> _Findings:
    """Return what a daemon's answer means for us. Raises SetupError where it remaps users."""
    security = " ".join(str(option) for option in answer.get("SecurityOptions") or ())
    if "name=userns" in security:
        # --userns=host does not help: the image's files belong to the remapped users all the same
        raise SetupError(
            "the docker daemon remaps users (userns-remap), and sandboxes could not write to their "
            "workspaces; remove userns-remap from its settings (/etc/docker/daemon.json) or choose "
            "--atesor-engine podman or host"
        )
    storage = Path(answer.get("DockerRootDir", "/"))
    info = EngineInfo(
        name=name,
        version=str(answer["ServerVersion"]),
        rootless="rootless" in security,
        storage=storage if storage.is_dir() else None,
        unenforced=tuple(
            word
            for word, key in (("memory", "MemoryLimit"), ("pids", "PidsLimit"), ("cpu", "CPUShares"))
            if not answer.get(key)
        ),
    )
    return _Findings(info, UNLABELLED if "name=selinux" in security else ())


def _parse_info(output: bytes) -> dict[str, Any] | None:
    try:
        info = json.loads(output)
    except ValueError:
        return None
    return info if isinstance(info, dict) else None
