"""The runtime configuration of a sandbox that an OCI runtime starts without an engine. Pure.

Format: the Open Container Initiative's runtime specification, version 1.0.2, ``config.json``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_atesor.core.plan import Json

__all__ = ["CAPABILITIES", "INIT", "Confinement", "format_config"]

INIT: Final = "/sbin/atesor-init"

CAPABILITIES: Final = (
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "SETFCAP",
    "SETGID",
    "SETUID",
    "SYS_CHROOT",
)
"""What apt and dpkg need of root; everything else is dropped. Ordinary users in the sandbox have none."""

_MASKED: Final = (
    "/proc/acpi",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/sys/firmware",
)
_READ_ONLY: Final = (
    "/proc/bus",
    "/proc/fs",
    "/proc/irq",
    "/proc/sys",
    "/proc/sysrq-trigger",
)

# What the engines' own filters refuse to a container without further capabilities and no build needs.
_REFUSED_CALLS: Final = (
    "acct",
    "add_key",
    "bpf",
    "clock_adjtime",
    "clock_settime",
    "create_module",
    "delete_module",
    "finit_module",
    "fsconfig",
    "fsmount",
    "fsopen",
    "fspick",
    "init_module",
    "io_uring_enter",
    "io_uring_register",
    "io_uring_setup",
    "ioperm",
    "iopl",
    "kcmp",
    "kexec_file_load",
    "kexec_load",
    "keyctl",
    "lookup_dcookie",
    "mount",
    "mount_setattr",
    "move_mount",
    "move_pages",
    "nfsservctl",
    "open_by_handle_at",
    "open_tree",
    "perf_event_open",
    "pivot_root",
    "query_module",
    "quotactl",
    "quotactl_fd",
    "reboot",
    "request_key",
    "setns",
    "settimeofday",
    "stime",
    "swapoff",
    "swapon",
    "umount",
    "umount2",
    "unshare",
    "uselib",
    "userfaultfd",
    "vhangup",
    "vm86",
    "vm86old",
)
_NEW_NAMESPACES: Final = tuple(
    1 << bit for bit in (17, 25, 26, 27, 28, 29, 30)
)  # CLONE_NEWNS to CLONE_NEWNET
_AF_VSOCK: Final = 40  # reaches the hypervisor whatever network namespace asks
_ENOSYS: Final = 38
# Foreign architectures of the same processor are not listed: their programs end at the first call.
_FILTERED: Final[Mapping[str, str]] = {
    "x86_64": "SCMP_ARCH_X86_64",
    "aarch64": "SCMP_ARCH_AARCH64",
    "riscv64": "SCMP_ARCH_RISCV64",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Confinement:
    """What one sandbox is confined to.

    ``group`` is the path of its control group; ``machine`` the host's, as uname names it; ``nofile`` the
    greatest number of open files of a process. A limit of None is not set. Where ``bounds_swap`` says that
    swap can be bounded, a sandbox may have as much of it as of memory, which is what other engines give it.
    """

    group: str
    root: str
    workspace: str
    environment: Mapping[str, str]
    memory_bytes: int | None
    bounds_swap: bool
    pids: int | None
    cpu_weight: int | None
    nofile: int
    machine: str


def format_config(wanted: Confinement) -> dict[str, Json]:
    """Return the configuration document: own namespaces, few capabilities, one directory of the host."""
    return {
        "ociVersion": "1.0.2",
        "hostname": "sandbox",
        "root": {"path": wanted.root, "readonly": False},
        "process": _format_process(wanted),
        "mounts": _format_mounts(wanted.workspace),
        "linux": {
            "cgroupsPath": wanted.group,
            "namespaces": [{"type": kind} for kind in ("pid", "ipc", "uts", "mount", "network", "cgroup")],
            "maskedPaths": list(_MASKED),
            "readonlyPaths": list(_READ_ONLY),
            "resources": _format_resources(wanted),
            **_format_filter(wanted.machine),
        },
    }


def _format_process(wanted: Confinement) -> dict[str, Json]:
    # Commands inherit all of this. Root's get their capabilities with the command; nobody else's has any.
    bounding: list[Json] = [f"CAP_{name}" for name in CAPABILITIES]
    return {
        "terminal": False,
        "user": {"uid": 0, "gid": 0},
        "args": [INIT],
        "cwd": "/workspace",
        "env": [f"{name}={value}" for name, value in wanted.environment.items()],
        "noNewPrivileges": True,
        "capabilities": {
            "bounding": bounding,
            "permitted": [],
            "effective": [],
            "inheritable": [],
            "ambient": [],
        },
        "rlimits": [
            {"type": "RLIMIT_CORE", "hard": 0, "soft": 0},
            {"type": "RLIMIT_NOFILE", "hard": wanted.nofile, "soft": min(1024, wanted.nofile)},
        ],
    }


def _format_mounts(workspace: str) -> list[Json]:
    safe: list[Json] = ["nosuid", "noexec", "nodev"]
    return [
        {"destination": "/proc", "type": "proc", "source": "proc", "options": safe},
        {
            "destination": "/dev",
            "type": "tmpfs",
            "source": "tmpfs",
            "options": ["nosuid", "strictatime", "mode=755", "size=64k"],
        },
        {
            "destination": "/dev/pts",
            "type": "devpts",
            "source": "devpts",
            "options": ["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"],
        },
        {
            "destination": "/dev/shm",  # noqa: S108 - the sandbox's own
            "type": "tmpfs",
            "source": "shm",
            "options": [*safe, "mode=1777", "size=64m"],
        },
        {"destination": "/dev/mqueue", "type": "mqueue", "source": "mqueue", "options": safe},
        {"destination": "/sys", "type": "sysfs", "source": "sysfs", "options": [*safe, "ro"]},
        {
            "destination": "/sys/fs/cgroup",
            "type": "cgroup",
            "source": "cgroup",
            "options": [*safe, "relatime", "ro"],
        },
        {
            "destination": "/workspace",
            "type": "bind",
            "source": workspace,
            "options": ["bind", "rprivate", "nosuid", "nodev"],
        },
    ]


def _format_resources(wanted: Confinement) -> dict[str, Json]:
    resources: dict[str, Json] = {"devices": [{"allow": False, "access": "rwm"}]}
    if wanted.memory_bytes is not None:
        both = {"swap": 2 * wanted.memory_bytes} if wanted.bounds_swap else {}  # of both together, says OCI
        resources["memory"] = {"limit": wanted.memory_bytes, **both}
    if wanted.pids is not None:
        resources["pids"] = {"limit": wanted.pids}
    if wanted.cpu_weight is not None:
        resources["cpu"] = {"shares": wanted.cpu_weight}
    return resources


def _format_filter(machine: str) -> dict[str, Json]:
    if machine not in _FILTERED:
        return {}
    namespaces: list[Json] = [
        {
            "names": ["clone"],
            "action": "SCMP_ACT_ERRNO",
            "args": [{"index": 0, "value": flag, "valueTwo": flag, "op": "SCMP_CMP_MASKED_EQ"}],
        }
        for flag in _NEW_NAMESPACES
    ]
    return {
        "seccomp": {
            "defaultAction": "SCMP_ACT_ALLOW",
            "architectures": [_FILTERED[machine]],
            "syscalls": [
                {"names": list(_REFUSED_CALLS), "action": "SCMP_ACT_ERRNO"},
                *namespaces,
                # its flags are out of a filter's sight; told that there is none, libraries take clone
                {"names": ["clone3"], "action": "SCMP_ACT_ERRNO", "errnoRet": _ENOSYS},
                {
                    "names": ["socket"],
                    "action": "SCMP_ACT_ERRNO",
                    "args": [{"index": 0, "value": _AF_VSOCK, "op": "SCMP_CMP_EQ"}],
                },
            ],
        }
    }
