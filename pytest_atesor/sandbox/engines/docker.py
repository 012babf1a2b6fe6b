"""Docker, through its command-line client and a running daemon."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any, ClassVar

from pytest_atesor.errors import SandboxError, SetupError
from pytest_atesor.sandbox.engines.cli import BINARY_PLATFORM, CliEngine, last_line
from pytest_atesor.sandbox.interface import EngineInfo, ImageBuild

__all__ = ["DockerEngine"]

_PATIENCE_S = 20.0
_FIX = "start the daemon (systemctl start docker, or dockerd) or choose --atesor-engine podman or host"


class DockerEngine(CliEngine):
    """Docker or anything that answers its client.

    ``first_s`` is how long the first probe may take, which asks for more than the later ones.
    """

    name: ClassVar[str] = "docker"

    def __init__(self, *, first_s: float = _PATIENCE_S) -> None:
        self._first_s = first_s
        self._info: EngineInfo | None = None

    def probe(self) -> EngineInfo:
        """Ask the daemon who it is; later only whether it still answers, within 20 seconds.

        To say who it is it counts what it has, which is slowest on a machine that is out of memory or disk.
        """
        if shutil.which(self.program) is None:
            raise SetupError("docker is not installed; apt-get install docker.io")
        if self._info is None:
            self._info = self._find_out()
            return self._info
        try:
            self._call(["version", "--format", "{{.Server.Version}}"], timeout_s=_PATIENCE_S)
        except SandboxError as error:
            raise SetupError(f"the docker daemon does not answer any more ({error}); {_FIX}") from error
        return self._info

    def _find_out(self) -> EngineInfo:
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
        info = _parse_info(ended.stdout)
        if info is None or not info.get("ServerVersion"):
            problems = (info or {}).get("ServerErrors") or [last_line(ended.stderr.decode(errors="replace"))]
            raise SetupError(f"the docker daemon does not answer ({problems[0]}); {_FIX}")
        storage = Path(info.get("DockerRootDir", "/"))
        return EngineInfo(
            name=self.name,
            version=str(info["ServerVersion"]),
            rootless=any("rootless" in option for option in info.get("SecurityOptions") or ()),
            storage=storage if storage.is_dir() else None,
            unenforced=tuple(
                word
                for word, key in (("memory", "MemoryLimit"), ("pids", "PidsLimit"), ("cpu", "CPUShares"))
                if not info.get(key)
            ),
        )

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
        """Docker warns about a foreign architecture unless it is asked for."""
        return ["--platform", BINARY_PLATFORM]


def _parse_info(output: bytes) -> dict[str, Any] | None:
    try:
        info = json.loads(output)
    except ValueError:
        return None
    return info if isinstance(info, dict) else None
