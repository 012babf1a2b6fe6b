"""Podman, as root or as an ordinary user, through its command-line client."""

import json
import os
import re
import resource
import shutil
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from pytest_atesor.core.names import redact_text
from pytest_atesor.errors import SandboxError, SetupError
from pytest_atesor.sandbox.engines.cli import UNLABELLED, CliEngine
from pytest_atesor.sandbox.engines.endpoints import is_loopback, is_socket, is_this_machine
from pytest_atesor.sandbox.interface import LABEL, EngineInfo, SandboxSpec

__all__ = [
    "PodmanEngine",
    "decide_runtime",
    "decide_unenforced",
    "find_delegated",
    "has_hybrid_cgroups",
    "plan_ulimits",
]

_LIMITS = ("memory", "pids", "cpu")

_PROBE_S = 60.0  # it has no daemon: on a busy machine its start alone takes many seconds
_NOFILE_SOFT = 1024
_NOFILE_HARD = 524_288
_PID_MAX = Path("/proc/sys/kernel/pid_max")
_DEFAULT_ENDPOINT = "unix://"  # a socket whose place depends on the user
_TUN = Path("/dev/net/tun")
_CGROUPS = Path("/sys/fs/cgroup")
_ROOTLESS_NETWORKS = ("slirp4netns", "pasta")


@dataclass(frozen=True, slots=True)
class _Findings:
    info: EngineInfo
    options: tuple[str, ...]
    run_options: tuple[str, ...] = ()


class PodmanEngine(CliEngine):
    """Podman. Where its defaults do not work on this machine, it is asked for something else."""

    name: ClassVar[str] = "podman"

    def __init__(self) -> None:
        self._findings: _Findings | None = None
        self._removed: set[str] = set()  # by us: likely to be absent still

    def probe(self) -> EngineInfo:
        """Ask podman about itself and look at this machine's limits; later only whether it still answers.

        What it says of itself takes half a second, because it asks dpkg for the packages of its helpers.
        """
        if shutil.which(self.program) is None:
            raise SetupError("podman is not installed; apt-get install podman")
        try:
            if self._findings is not None:
                self._call(["volume", "ls", "--quiet"], timeout_s=_PROBE_S)
                return self._findings.info
            answer = json.loads(self._call(["info", "--format", "json"], timeout_s=_PROBE_S))
            if answer["host"].get("serviceIsRemote"):
                _refuse_remote(self._find_endpoint(), answer)
        except SandboxError as error:
            raise SetupError(f"podman does not work here: {error}") from error
        self._findings = _find_out(self.name, answer)
        return self._findings.info

    def create_options(self) -> list[str]:
        """Name the architecture, keep proxies out, and stay within this machine's limits and labels."""
        found = self._found()
        return ["--arch", "riscv64", "--http-proxy=false", *found.options, *found.run_options]

    def refused_limits(self) -> Collection[str]:
        """Return what podman cannot enforce: its runtime ends at a limit that has no control group."""
        return self._found().info.unenforced

    def build_options(self) -> list[str]:
        """Stay within this machine's limits when building, too, and leave no image per step behind."""
        return ["--layers=false", *self._found().options]

    def create(self, spec: SandboxSpec) -> None:
        """Create and start a sandbox with the network on. The name must be free."""
        self._removed.discard(spec.name)
        super().create(spec)

    def remove(self, name: str) -> None:
        """Kill and remove our sandbox with all its processes. Absent is fine; Foreign raises SandboxError."""
        super().remove(name)
        self._removed.add(name)

    def _remove_at_once(self, name: str) -> str | None:
        """Let podman choose by name and label: somebody else's container is not ours to name.

        Each call of a client costs it a start of its own.
        """
        if name in self._removed:
            return None
        ours = ("--filter", f"name=^{re.escape(name)}$", "--filter", f"label={LABEL}={name}")
        try:
            said = self._call([*self._remove_command(), *ours])
        except SandboxError:  # older than 4.3, or in a state that takes more than one call
            return None
        return said.strip() or None

    def _find_endpoint(self) -> str:
        """Return where the service listens, "" where podman does not tell."""
        if endpoint := os.environ.get("CONTAINER_HOST"):
            return endpoint
        chosen = os.environ.get("CONTAINER_CONNECTION")
        try:
            listed = self._call(["system", "connection", "list", "--format", "json"], timeout_s=_PROBE_S)
            connections = json.loads(listed.strip() or "[]") or []
        except (SandboxError, ValueError):
            return ""
        for one in connections:
            if one.get("Name") == chosen if chosen else one.get("Default"):
                return str(one.get("URI", ""))
        return "" if chosen or connections else _DEFAULT_ENDPOINT

    def _found(self) -> _Findings:
        if self._findings is None:
            self.probe()
        if self._findings is None:
            raise SetupError("podman does not answer")
        return self._findings

    def _network_mode(self) -> str:
        if self._findings is not None:
            return "host" if "network" in self._findings.info.unenforced else "bridge"
        return "host" if os.geteuid() != 0 and not _can_make_networks() else "bridge"

    def _network_name(self) -> str:
        return "podman"

    def _remove_command(self) -> list[str]:
        return ["rm", "--force", "--volumes", "--time", "0"]


def _find_out(name: str, answer: dict[str, Any]) -> _Findings:
    host = answer["host"]
    rootless = bool(host["security"]["rootless"])
    info = EngineInfo(
        name=name,
        version=str(answer["version"]["Version"]),
        rootless=rootless,
        storage=Path(answer["store"]["graphRoot"]),
        unenforced=decide_unenforced(
            rootless=rootless,
            cgroup_version=str(host.get("cgroupVersion")),
            cgroup_manager=str(host.get("cgroupManager")),
            controllers=_find_controllers(host, rootless=rootless),
            can_make_networks=_can_make_networks(),
        ),
    )
    options = plan_ulimits(
        nofile_hard=resource.getrlimit(resource.RLIMIT_NOFILE)[1],
        nproc_hard=resource.getrlimit(resource.RLIMIT_NPROC)[1],
        pid_max=int(_PID_MAX.read_text(encoding="ascii")),
    )
    runtime = decide_runtime(
        default=str(host["ociRuntime"]["name"]),
        hybrid=has_hybrid_cgroups(Path("/proc/self/mountinfo").read_text(encoding="utf-8")),
        installed=tuple(name for name in ("runc",) if _which_admin(name)),
    )
    if runtime is not None:
        # a global option of podman, not of run, but accepted by both
        options += ["--runtime", runtime]
    return _Findings(info, tuple(options), UNLABELLED if host["security"].get("selinuxEnabled") else ())


def _refuse_remote(endpoint: str, answer: dict[str, Any]) -> None:
    """Raise SetupError for a service, with its ``answer``, that need not be on this machine."""
    node, root = answer["host"].get("hostname"), answer["store"].get("graphRoot")
    is_here = is_loopback(endpoint) and is_this_machine(node, root)
    if not is_socket(endpoint) and not is_here:
        origin = ", from CONTAINER_HOST," if os.environ.get("CONTAINER_HOST") else ""
        where = f"at {redact_text(endpoint)}{origin}" if endpoint else "of its connection"
        raise SetupError(
            f"the podman service {where} may be on another machine, where sandboxes would not see their "
            "workspaces; unset CONTAINER_HOST and CONTAINER_CONNECTION, or choose --atesor-engine docker or "
            "host"
        )


def _can_make_networks() -> bool:
    """Tell whether podman can make networks without root."""
    return os.access(_TUN, os.R_OK | os.W_OK) and any(map(shutil.which, _ROOTLESS_NETWORKS))


def _find_controllers(host: dict[str, Any], *, rootless: bool) -> Collection[str]:
    """Return the controllers that podman tells of, and without root those of the user's own services.

    Without root, podman before 4.0 tells of none, and later ones of those that their terminal has. Before
    3.2 it tells nobody.
    """
    told = host.get("cgroupControllers", () if rootless else _LIMITS) or ()
    return {*told, *find_delegated(os.geteuid())} if rootless else told


def find_delegated(uid: int, mount: Path = _CGROUPS) -> Collection[str]:
    """Return the controllers that systemd lets a user's own services have, none where it has no session."""
    slice_ = mount / f"user.slice/user-{uid}.slice/user@{uid}.service"
    try:
        return (slice_ / "cgroup.controllers").read_text(encoding="ascii").split()
    except OSError:
        return ()


def decide_unenforced(
    *,
    rootless: bool,
    cgroup_version: str,
    cgroup_manager: str,
    controllers: Collection[str],
    can_make_networks: bool,
) -> tuple[str, ...]:
    """Return what podman cannot limit or cut off.

    Without root nothing is limited with cgroup v1, and where no systemd of the user's makes the groups.
    """
    has_groups = not rootless or (cgroup_version != "v1" and cgroup_manager != "cgroupfs")
    limits = tuple(word for word in _LIMITS if not has_groups or word not in controllers)
    return limits if can_make_networks or not rootless else (*limits, "network")


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


def decide_runtime(*, default: str, hybrid: bool, installed: Collection[str]) -> str | None:
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
