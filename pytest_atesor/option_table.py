"""Every option as data: its flag, environment variable, ini key, default and help."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from pytest_atesor.core.limits import DEFAULT_CPU_WEIGHT, DEFAULT_PIDS
from pytest_atesor.core.plan import Platform, Target

__all__ = [
    "INTERNAL_VARIABLES",
    "LIST",
    "MANIFEST",
    "MOST_WORKERS",
    "OPTIONS",
    "RERUN",
    "RESUME",
    "RUN",
    "VARIABLES",
    "Option",
]

MOST_WORKERS: Final = 999
"""The largest number that a slot can have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One option. ``kind`` is "text" (the last value wins), "flag" or "list" (values add up, in order).

    ``is_order`` says that it asks for something to be done now: it has no environment variable or ini key.
    """

    name: str
    kind: Literal["text", "flag", "list"] = "text"
    metavar: str | None = None
    default: str = ""
    help: str
    is_order: bool = False

    @property
    def flag(self) -> str:
        """The spelling on the command line."""
        return f"--atesor-{self.name}"

    @property
    def dest(self) -> str:
        """The attribute of pytest's option namespace, and the ini key."""
        return f"atesor_{self.name.replace('-', '_')}"

    @property
    def env(self) -> str:
        """The environment variable."""
        return self.dest.upper()


LIST: Final = Option(
    name="list",
    metavar="NAME|PATH",
    help="Run this package list as a batch: a bare NAME is packages/NAME.json of the rootdir, else its "
    ".github/packages/NAME.json, else the plugin's own list of that name; a value with a slash or ending in "
    ".json is a path",
)

MANIFEST: Final = Option(
    name="manifest",
    metavar="PATH",
    is_order=True,
    help="Run this batch manifest; the same as naming it as a path, and never taken for a test",
)
RESUME: Final = Option(
    name="resume",
    metavar="DIR",
    is_order=True,
    help="Go on with the batch whose bundle is DIR: run its cases that have no outcome yet, but for "
    "those that -k, -m or the like left out",
)
RERUN: Final = Option(
    name="rerun",
    metavar="DIR",
    is_order=True,
    help="Run cases of the bundle DIR again, as new attempts; needs one of the three that follow",
)

RUN: Final = Option(name="run", metavar="WORKERS", is_order=True, help="Used by the command atesor run")
"""What ``atesor run`` says of itself: run a list in any case, with so many workers (empty: as many as fit).

It stands in no help and is not among :data:`OPTIONS`: the command has flags of its own.
"""

OPTIONS: Final = (
    LIST,
    MANIFEST,
    Option(
        name="platform",
        metavar="NAME",
        default=Platform.DEBIAN.value,
        help="Distribution of the sandboxes: alpine, debian or ubuntu",
    ),
    Option(
        name="target",
        metavar="NAME",
        default=Target.QEMU.value,
        help="Where builds run: qemu (emulated on this machine) or native (riscv64 machines over ssh)",
    ),
    Option(
        name="engine",
        metavar="NAME",
        default="auto",
        help="Container engine: auto, docker, podman, host (as root, without an engine), or none when "
        "the agent brings its own sandbox",
    ),
    Option(
        name="agent",
        metavar="CMD",
        help="Program that ports one package, in place of the built-in one; same flags, same exit codes",
    ),
    Option(
        name="no-acceleration",
        kind="flag",
        help="Sandboxes of the plain image: every tool in them is emulated, about ten times slower",
    ),
    Option(
        name="build-network",
        kind="flag",
        help="Leave the network on while packages build and test themselves; without it, it is cut after the "
        "fetch phase",
    ),
    Option(name="package", kind="flag", help="Ask every agent to package what it built"),
    Option(name="shard-index", metavar="I", help="Run only shard I, counted from 0; needs the total"),
    Option(name="shard-total", metavar="N", help="Cut the list into N contiguous shards; 1: no sharding"),
    Option(
        name="only",
        kind="list",
        metavar="NAME|@FILE",
        help="Run only the package of this exact name, or with =@FILE those in FILE, one name a line; "
        "repeatable",
    ),
    Option(
        name="output-root",
        metavar="DIR",
        default="runs/batches",
        help="Directory of the bundles, relative to the rootdir",
    ),
    Option(
        name="retry-environment",
        metavar="N",
        default="1",
        help="How often a case is tried again when not the package but the sandbox or the machine failed",
    ),
    Option(
        name="no-breaker",
        kind="flag",
        help="Go on when the first five cases all failed for the environment's sake, or the engine is gone",
    ),
    Option(
        name="slot-memory",
        metavar="SIZE",
        help="Memory of one sandbox, such as 4G; without it, the machine's memory over the slots",
    ),
    Option(
        name="slot-pids",
        metavar="N",
        default=str(DEFAULT_PIDS),
        help="Most processes and threads in one sandbox",
    ),
    Option(
        name="slot-cpu-weight",
        metavar="N",
        default=str(DEFAULT_CPU_WEIGHT),
        help="CPU weight of a sandbox, relative to other containers, which have 1024",
    ),
    Option(name="batch-id", metavar="ID", help="Name of the bundle; without it, the list and the time"),
    Option(
        name="profile-root",
        metavar="DIR",
        help="Directory that the imports of RunSpecs count from; without it, the manifest's own",
    ),
    Option(name="max-cases", metavar="N", help="Warn when a batch has more cases than this"),
    Option(name="write-summary-csv", kind="flag", help="Write batch_summary.csv too"),
    Option(
        name="plan-only",
        kind="flag",
        is_order=True,
        help="Write the bundle with its frozen plan and run nothing",
    ),
    RESUME,
    Option(
        name="retry-failed",
        kind="flag",
        is_order=True,
        help="With the resume of a bundle: run what ended as neither PASS nor a skip of your own again too",
    ),
    RERUN,
    Option(
        name="rerun-failed",
        kind="flag",
        is_order=True,
        help="Rerun what ended as neither PASS nor a skip of your own",
    ),
    Option(
        name="rerun-case",
        kind="list",
        metavar="CASE",
        is_order=True,
        help="Rerun the case of this id or label; repeatable",
    ),
    Option(name="rerun-all", kind="flag", is_order=True, help="Rerun every case of the plan"),
)

VARIABLES: Final = frozenset((
    *(option.env for option in OPTIONS if not option.is_order),
    "ATESOR_ATTEMPT_DIR",
    "ATESOR_MIRRORS",
    "ATESOR_NATIVE_ALLOW",
    "ATESOR_NATIVE_IMAGE",
    "ATESOR_REF",
    "ATESOR_REMOTE_WORKDIR",
    "ATESOR_RUN_DEADLINE",
    "ATESOR_SETUP_STREAM",
    "ATESOR_SSH_HOST",
    "ATESOR_SSH_HOSTNAME",
    "ATESOR_SSH_IDENTITY_FILE",
    "ATESOR_SSH_PORT",
    "ATESOR_SSH_USER",
    "ATESOR_STATE_DIR",
    "ATESOR_TESTS",
))
"""Every environment variable of ours that a user may set, also for one port or an agent."""

INTERNAL_VARIABLES: Final = frozenset((
    "ATESOR_DOWNLOADS",
    "ATESOR_NATIVE_MACHINE",
    "ATESOR_NATIVE_SESSION",
    "ATESOR_ROOTDIR",
    "ATESOR_STAGE",
))
"""Those that this program sets for its own processes, or in a sandbox."""
