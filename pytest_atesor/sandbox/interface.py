"""What a container engine must do for us, and the values that pass between it and its users.

A failed command is a value (:class:`Completed`); a failed sandbox is an exception
(:class:`~pytest_atesor.errors.SandboxError`). Nothing here starts a process.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

__all__ = [
    "LABEL",
    "Absent",
    "Completed",
    "Engine",
    "EngineInfo",
    "ExecSpec",
    "Foreign",
    "ImageBuild",
    "Present",
    "SandboxSpec",
]

LABEL = "org.pytest-atesor.slot"
"""The label that marks a container as ours; its value is the slot's container name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineInfo:
    """What a probe of the engine found.

    ``storage`` is where it keeps images, None when that is on another machine; ``unenforced`` names the
    limits that it cannot enforce here: "memory", "pids", "cpu" (a weight), "network".
    """

    name: str
    version: str
    rootless: bool
    storage: Path | None = None
    unenforced: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxSpec:
    """Everything that a sandbox is created from. ``workspace`` is the only host directory that it sees.

    It appears inside as ``/workspace``. ``memory_bytes`` of None means no limit; ``cpu_weight`` is relative
    to that of other containers, whose default is 1024. Limits that the engine cannot enforce are left out.
    """

    name: str
    image: str
    workspace: Path
    memory_bytes: int | None
    pids: int
    labels: Mapping[str, str] = field(default_factory=dict)
    cpu_weight: int = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecSpec:
    """One command inside a sandbox: ``user`` is "root" or "builder"; ``env`` is added to the image's own.

    It is ended when the whole sandbox has used no processor for ``stall_s`` seconds, None: never.
    """

    argv: Sequence[str]
    user: str = "builder"
    cwd: str = "/workspace"
    env: Mapping[str, str] = field(default_factory=dict)
    stall_s: float | None = None


def _ignore(_line: str) -> None:
    """Show nobody."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageBuild:
    """An image to build: the tag it gets, its build file and context, variables and labels.

    ``host_platform`` is the second platform that its stages need ("linux/amd64"), None for only one. The
    output goes to ``log``, and line by line, where that can be had as it comes, to ``on_line``; after
    ``timeout_s`` seconds the build is given up.
    """

    tag: str
    containerfile: Path
    context: Path
    host_platform: str | None
    arguments: Mapping[str, str]
    labels: Mapping[str, str]
    log: Path
    timeout_s: float
    on_line: Callable[[str], None] = _ignore


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    """A command that ended: its exit code, the last bytes of its output (both streams), its wall seconds.

    ``timed_out`` is True when our own deadline ended it; the exit code then says nothing. ``is_stalled`` says
    that it was ended early, because nothing went on in the sandbox any more.
    """

    exit_code: int
    tail: bytes
    duration_s: float
    timed_out: bool = False
    is_stalled: bool = False


@dataclass(frozen=True, slots=True)
class Absent:
    """No container of that name."""


@dataclass(frozen=True, slots=True)
class Foreign:
    """A container of that name without our label: never touched."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Present:
    """Our container: whether it runs, the image it was made from (its id), its labels.

    ``oom_killed`` is the engine's word that the kernel killed something in it for want of memory; ``pid`` is
    its first process as this machine counts, 0 where that is not known;
    ``was_restarted`` says that it was started again since it was created.
    """

    running: bool
    image_id: str
    labels: Mapping[str, str]
    oom_killed: bool = False
    was_restarted: bool = False
    pid: int = 0


class Engine(Protocol):
    """One container engine. Every method but :meth:`exec_argv` may raise SandboxError or SetupError."""

    @property
    def name(self) -> str:
        """The engine's name on the command line: "docker", "podman", "host"."""

    @property
    def is_remote(self) -> bool:
        """Whether its sandboxes and their workspaces are on another machine."""

    def probe(self) -> EngineInfo:
        """Ask the engine who it is. Raises SetupError, with the fix, when it does not answer."""

    def image_labels(self, image: str) -> Mapping[str, str] | None:
        """Return the labels of a local image, None when there is no such image."""

    def image_id(self, image: str) -> str | None:
        """Return the id of a local image, None when there is no such image."""

    def load_image(self, archive: Path) -> None:
        """Load a docker-archive file; the tags in it become local images."""

    def is_offered(self, reference: str, *, timeout_s: float) -> bool:
        """Tell whether a registry answers and has that image, within ``timeout_s`` seconds."""

    def build_image(self, build: "ImageBuild") -> None:
        """Build an image from a registry's base image; it appears under its tag only when complete."""

    def read_file(self, image: str, path: str) -> str:
        """Return the text of a file in a local image."""

    def label_image(self, image: str, labels: Mapping[str, str], *, tag: str) -> None:
        """Make an image of a local one with more labels; ``tag``, which may be ``image``, then means it."""

    def untag_image(self, tag: str) -> None:
        """Take the tag from a local image; what is made from the image stays. Absent is fine."""

    def prune_images(self, label: str) -> None:
        """Remove the images with that label that have no tag any more and that no container uses."""

    def state(self, name: str) -> Absent | Foreign | Present:
        """Say what stands under that container name."""

    def create(self, spec: SandboxSpec) -> None:
        """Create and start a sandbox with the network on. The name must be free."""

    def remove(self, name: str) -> None:
        """Kill and remove our sandbox with all its processes. Absent is fine; Foreign raises SandboxError."""

    def restart(self, name: str) -> None:
        """Kill everything in our sandbox and start it again with its files and network as they were."""

    def exec_argv(self, name: str, command: ExecSpec) -> list[str]:
        """Return the host command line that runs ``command`` inside, with stdin closed."""

    def set_network(self, name: str, *, enabled: bool) -> None:
        """Connect the sandbox to the network or cut it off, for everything that runs in it.

        Does nothing where the engine says that it cannot enforce "network".
        """

    def list_sandboxes(self) -> tuple[str, ...]:
        """Return the names of all containers that carry our label."""
