"""Podman, as root or as an ordinary user, through its command-line client."""

import json
import resource
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from pytest_atesor.errors import SandboxError, SetupError
from pytest_atesor.sandbox.engines.cli import CliEngine
from pytest_atesor.sandbox.interface import EngineInfo

__all__ = ["PodmanEngine", "decide_runtime", "has_hybrid_cgroups", "plan_ulimits"]

_NOFILE_SOFT = 1024
_NOFILE_HARD = 524_288
_PID_MAX = Path("/proc/sys/kernel/pid_max")


class PodmanEngine(CliEngine):
    """Podman. Where its defaults do not work on this machine, it is asked for something else."""

    name: ClassVar[str] = "podman"

    def __init__(self) -> None:
        self._options: list[str] | None = None

    def probe(self) -> EngineInfo:
        """Ask podman about itself."""
        if shutil.which(self.program) is None:
            raise SetupError("podman is not installed; apt-get install podman")
        try:
            info = json.loads(self._call(["info", "--format", "json"], timeout_s=20.0))
        except SandboxError as error:
            raise SetupError(f"podman does not work here: {error}") from error
        host = info["host"]
        self._options = _plan_options(str(host["ociRuntime"]["name"]))
        rootless = bool(host["security"]["rootless"])
        controllers = set(host.get("cgroupControllers") or ())
        if rootless and host.get("cgroupVersion") == "v1":
            controllers = set()
        return EngineInfo(
            name=self.name,
            version=str(info["version"]["Version"]),
            rootless=rootless,
            storage=Path(info["store"]["graphRoot"]),
            unenforced=tuple(word for word in ("memory", "pids") if word not in controllers),
        )

    def create_options(self) -> list[str]:
        """Name the architecture, keep the host's proxies out, and stay within this machine's limits."""
        if self._options is None:
            self.probe()
        return ["--arch", "riscv64", "--http-proxy=false", *(self._options or ())]

    def _network_name(self) -> str:
        return "podman"

    def _remove_command(self) -> list[str]:
        return ["rm", "--force", "--volumes", "--time", "0"]


def _plan_options(default_runtime: str) -> list[str]:
    options = plan_ulimits(
        nofile_hard=resource.getrlimit(resource.RLIMIT_NOFILE)[1],
        nproc_hard=resource.getrlimit(resource.RLIMIT_NPROC)[1],
        pid_max=int(_PID_MAX.read_text(encoding="ascii")),
    )
    runtime = decide_runtime(
        default=default_runtime,
        hybrid=has_hybrid_cgroups(Path("/proc/self/mountinfo").read_text(encoding="utf-8")),
        installed=tuple(name for name in ("runc",) if _which_admin(name)),
    )
    # a global option of podman, not of run, but accepted by both
    return options if runtime is None else [*options, "--runtime", runtime]


def plan_ulimits(*, nofile_hard: int, nproc_hard: int, pid_max: int) -> list[str]:
    """Return explicit limits that even a root without CAP_SYS_RESOURCE may set.

    Podman's defaults may be higher than the hard limits, and it lowers its own limit of processes to
    ``pid_max`` before it starts a container.
    """
    nofile = _NOFILE_HARD if nofile_hard == resource.RLIM_INFINITY else min(nofile_hard, _NOFILE_HARD)
    nproc = pid_max if nproc_hard == resource.RLIM_INFINITY else min(nproc_hard, pid_max)
    return ["--ulimit", f"nofile={min(_NOFILE_SOFT, nofile)}:{nofile}", "--ulimit", f"nproc={nproc}:{nproc}"]


def has_hybrid_cgroups(mountinfo: str) -> bool:
    """Tell whether cgroup v1 controllers and a cgroup v2 tree are mounted side by side."""
    kinds = {line.partition(" - ")[2].split(" ")[0] for line in mountinfo.splitlines()}
    return {"cgroup", "cgroup2"} <= kinds


def decide_runtime(*, default: str, hybrid: bool, installed: Sequence[str]) -> str | None:
    """Choose the OCI runtime, None for podman's own choice. crun refuses hybrid cgroups.

    Raises SetupError when crun cannot work and nothing else is installed.
    """
    if default != "crun" or not hybrid:
        return None
    if "runc" in installed:
        return "runc"
    raise SetupError(
        "podman's runtime crun does not support this machine's hybrid cgroups; apt-get install runc"
    )


def _which_admin(program: str) -> str | None:
    """Look a program up where administrators' programs stand, too."""
    return shutil.which(program) or shutil.which(program, path="/usr/sbin:/usr/local/sbin:/sbin")
