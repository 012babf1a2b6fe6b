"""What engines with a Docker-like command line have in common.

A subclass names the program and says what is its own: how to probe, which options a new sandbox needs. The
image's PID 1 is our own small init (see the recipe): the engines' own init programs end when their child
ends, and Debian's podman comes without one.
"""

import csv
import io
import json
import re
import subprocess
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar

from pytest_atesor.errors import SandboxError, SetupError
from pytest_atesor.sandbox.building import run_logged
from pytest_atesor.sandbox.engines.clients import end_leftovers, ending_stopped_clients
from pytest_atesor.sandbox.engines.oci import CAPABILITIES, INIT
from pytest_atesor.sandbox.interface import (
    LABEL,
    Absent,
    EngineInfo,
    ExecSpec,
    Foreign,
    ImageBuild,
    Present,
    SandboxSpec,
)
from pytest_atesor.sandbox.packing import start_unpacking
from pytest_atesor.sandbox.pump import NOWHERE

__all__ = ["BINARY_PLATFORM", "UNLABELLED", "CliEngine", "last_line"]

BINARY_PLATFORM = "linux/riscv64"

UNLABELLED = ("--security-opt", "label=disable")
"""Where SELinux is on: a sandbox may else not touch its workspace, which has the label of a user's files."""

_POINTER = re.compile(r"(?:See|Run) '\S.* --help'")  # what docker's run ends with when it fails
_ABSENT = ("no such", "not known")
_QUICK_S = 60.0
_SLOW_S = 900.0
_START_S = 20.0


class CliEngine(ABC):
    """An engine that is driven through its command-line client."""

    name: ClassVar[str]
    is_remote: ClassVar[bool] = False
    create_s: ClassVar[float] = 120.0

    @property
    def program(self) -> str:
        """The client program, looked up on PATH."""
        return self.name

    @abstractmethod
    def probe(self) -> EngineInfo:
        """Ask the engine who it is. Raises SetupError, with the fix, when it does not answer."""

    @abstractmethod
    def create_options(self) -> list[str]:
        """Return the options of ``run`` that only this engine needs on this machine."""

    def client_environ(self, command: str) -> Mapping[str, str] | None:
        """Return the whole environment of the client for that command, None for this process's own."""
        del command
        return None

    def refused_limits(self) -> Collection[str]:
        """Return the limits, named as in EngineInfo, with which this engine would create nothing here.

        None for one that drops what it cannot enforce.
        """
        return ()

    def build_options(self) -> list[str]:
        """Return the options of ``build`` that only this engine needs on this machine."""
        return []

    def image_labels(self, image: str) -> Mapping[str, str] | None:
        """Return the labels of a local image, None when there is no such image."""
        found = self._inspect("image", image)
        return None if found is None else (found["Config"].get("Labels") or {})

    def image_id(self, image: str) -> str | None:
        """Return the id of a local image, None when there is no such image."""
        found = self._inspect("image", image)
        return None if found is None else bare_id(found["Id"])

    def load_image(self, archive: Path) -> None:
        """Load a docker-archive file, which may be compressed with zstd.

        Raises SetupError where a program for that is missing, SandboxError when the engine refuses it.
        """
        if archive.suffix != ".zst":
            self._call(["load", "--quiet", "--input", str(archive)], timeout_s=_SLOW_S)
            return
        with start_unpacking(archive) as unpacker:
            self._call(["load", "--quiet"], timeout_s=_SLOW_S, stdin=unpacker.stdout)

    def is_offered(self, reference: str, *, timeout_s: float) -> bool:
        """Tell whether a registry answers and has that image, within ``timeout_s`` seconds."""
        try:
            self._call(["manifest", "inspect", reference], timeout_s=timeout_s)
        except SandboxError:
            return False
        return True

    def build_image(self, build: ImageBuild) -> None:
        """Build an image from a registry's base image. Raises SandboxError with the log's path."""
        argv = [self.program, "build", "--platform", BINARY_PLATFORM, "--tag", build.tag]
        argv += ["--file", str(build.containerfile), *self.build_options()]
        for key, value in build.arguments.items():
            argv += ["--build-arg", f"{key}={value}"]
        for key, value in build.labels.items():
            argv += ["--label", f"{key}={value}"]
        argv.append(str(build.context))
        try:
            code = run_logged(argv, build.log, on_line=build.on_line, timeout_s=build.timeout_s)
        except OSError as error:
            raise SandboxError(f"{self.name} build failed ({error}); see {build.log}") from error
        if code != 0:
            raise SandboxError(f"{self.name} build ended with exit code {code}; see {build.log}")

    def read_file(self, image: str, path: str) -> str:
        """Return the text of a file in a local image, which a program of the image reads."""
        quiet = ["run", "--rm", "--pull", "never", "--network", "none"]
        return self._call([*quiet, *self.create_options(), image, "cat", path], timeout_s=self.create_s)

    def label_image(self, image: str, labels: Mapping[str, str], *, tag: str) -> None:
        """Make an image of a local one with more labels; ``tag``, which may be ``image``, then means it."""
        argv = ["build", "--platform", BINARY_PLATFORM, "--tag", tag, *self.build_options()]
        for key, value in labels.items():
            argv += ["--label", f"{key}={value}"]
        with tempfile.TemporaryFile() as recipe:
            recipe.write(f"FROM {image}\n".encode())
            recipe.seek(0)
            self._call([*argv, "-"], timeout_s=_SLOW_S, stdin=recipe)

    def untag_image(self, tag: str) -> None:
        """Take the tag from a local image; what is made from the image stays. Absent is fine."""
        self._call(self._untag_command(tag), absent_is_fine=True)

    def prune_images(self, label: str) -> None:
        """Remove images with that label that have no tag and no container."""
        self._call(["image", "prune", "--force", "--filter", f"label={label}"], timeout_s=_SLOW_S)

    def state(self, name: str) -> Absent | Foreign | Present:
        """Say what stands under that container name."""
        found = self._inspect("container", name)
        if found is None:
            return Absent()
        labels = found["Config"].get("Labels") or {}
        if labels.get(LABEL) != name:
            return Foreign()
        state = found["State"]
        return Present(
            running=bool(state["Running"]),
            image_id=bare_id(found["Image"]),
            labels=labels,
            oom_killed=bool(state.get("OOMKilled")),
            was_restarted=_was_restarted(str(found.get("Created")), str(state.get("StartedAt"))),
            pid=_find_pid(state.get("Pid"), str(found["Id"])),
        )

    def create(self, spec: SandboxSpec) -> None:
        """Create and start a sandbox with the network on. The name must be free."""
        argv = ["run", "--detach", "--name", spec.name, "--hostname", "sandbox", "--pull", "never"]
        for key, value in {**spec.labels, LABEL: spec.name}.items():
            argv += ["--label", f"{key}={value}"]
        argv += [
            "--network",
            self._network_mode(),
            "--security-opt",
            "no-new-privileges",
            "--cap-drop",
            "ALL",
        ]
        for capability in CAPABILITIES:
            argv += ["--cap-add", capability]
        refused = self.refused_limits()
        for word, option, limit in (
            ("pids", "--pids-limit", spec.pids),
            ("cpu", "--cpu-shares", spec.cpu_weight),
            ("memory", "--memory", spec.memory_bytes),
        ):
            if limit is not None and word not in refused:
                argv += [option, str(limit)]
        argv += ["--ulimit", "core=0:0"]
        argv += ["--mount", _format_mount(spec.workspace), *self.create_options()]
        try:
            self._call([*argv, spec.image, INIT], timeout_s=self.create_s)
        except SandboxError:
            # a container that was made but would not start must not keep the name
            if isinstance(self.state(spec.name), Present):
                self.remove(spec.name)
            raise

    def remove(self, name: str) -> None:
        """Kill and remove our sandbox with all its processes. Absent is fine; Foreign raises SandboxError."""
        with ending_stopped_clients((self.program,), name):
            container = self._remove_at_once(name)
            if container is not None:
                end_leftovers(container)
            elif (container := self._own(name)) is not None:
                self._remove(container)

    def restart(self, name: str) -> None:
        """Kill everything in our sandbox and start it again, empty."""
        with ending_stopped_clients((self.program,), name):
            container = self._own(name)
            if container is None:
                raise SandboxError(f"{self.name}: the sandbox {name} is gone; it must be created again")
            self._call(["restart", "--time", "0", container])

    def exec_argv(self, name: str, command: ExecSpec) -> list[str]:
        """Return the host command line that runs ``command`` inside, with stdin closed."""
        argv = [self.program, "exec", "--user", command.user, "--workdir", command.cwd]
        for key, value in command.env.items():
            argv += ["--env", f"{key}={value}"]
        return [*argv, name, *command.argv]

    def set_network(self, name: str, *, enabled: bool) -> None:
        """Connect the sandbox to the network or cut it off, for everything that runs in it."""
        if self._network_mode() == "host":
            return
        container = self._inspect("container", name)
        if container is None:
            raise SandboxError(f"{self.name}: the sandbox {name} is gone; its network cannot be set")
        connected = list(container["NetworkSettings"].get("Networks") or {})
        if enabled and not connected:
            self._call(["network", "connect", self._network_name(), name])
        elif not enabled:
            for network in connected:
                self._call(["network", "disconnect", "--force", network, name])

    def list_sandboxes(self) -> tuple[str, ...]:
        """Return the names of all containers that carry our label."""
        text = self._call(["ps", "--all", "--filter", f"label={LABEL}", "--format", "{{.Names}}"])
        return tuple(sorted(text.split()))

    def _remove_at_once(self, name: str) -> str | None:
        """Remove our container in one call and return its id; None where that cannot be done, or was not."""
        del name
        return None

    def _remove(self, container: str) -> None:
        command = [*self._remove_command(), container]
        try:
            self._call(command, absent_is_fine=True)
        except SandboxError:
            # its own process behind the container was killed, and it does not know what to make of that
            end_leftovers(container)
            self._call(command, absent_is_fine=True)
        end_leftovers(container)

    def _network_mode(self) -> str:
        """Return "bridge", or "host" where the engine has no networks of its own."""
        return "bridge"

    def _network_name(self) -> str:
        return "bridge"

    def _remove_command(self) -> list[str]:
        return ["rm", "--force", "--volumes"]

    def _untag_command(self, tag: str) -> list[str]:
        return ["untag", tag, tag]

    def _own(self, name: str) -> str | None:
        """Return our container's id, None when there is none. Raises SandboxError for somebody else's."""
        found = self._inspect("container", name)
        if found is None:
            return None
        if (found["Config"].get("Labels") or {}).get(LABEL) != name:
            raise SandboxError(
                f"{self.name}: the container {name} was not made by this program and is left alone; "
                "rename it or remove it yourself"
            )
        return str(found["Id"])

    def _inspect(self, kind: str, name: str) -> dict[str, Any] | None:
        text = self._call([kind, "inspect", name], absent_is_fine=True)
        found = json.loads(text) if text.strip() else []
        return found[0] if found else None

    def _call(
        self,
        arguments: Sequence[str],
        *,
        timeout_s: float = _QUICK_S,
        absent_is_fine: bool = False,
        stdin: Any = subprocess.DEVNULL,  # noqa: ANN401 - whatever Popen takes
    ) -> str:
        """Run the client and return its output. Raises SandboxError with the client's last line."""
        try:
            ended = subprocess.run(
                [self.program, *arguments],
                stdin=stdin,
                capture_output=True,
                cwd=NOWHERE,
                env=self.client_environ(arguments[0]),
                timeout=timeout_s,
                check=False,
            )
        except OSError as error:
            raise SetupError(
                f"{self.program} cannot be started: {error}; install it (apt-get install {self.name})"
            ) from error
        except subprocess.TimeoutExpired as error:
            raise SandboxError(
                f"{self.name} {arguments[0]} did not answer within {timeout_s:.0f} s; restart the engine"
            ) from error
        message = ended.stderr.decode(errors="replace")
        if ended.returncode == 0:
            return ended.stdout.decode(errors="replace")
        if absent_is_fine and any(words in message.lower() for words in _ABSENT):
            return ""
        raise SandboxError(f"{self.name} {arguments[0]} failed: {last_line(message)}")


def _find_pid(pid: object, container: str) -> int:
    """Return the id of a container's first process, 0 when that is another machine's."""
    try:
        is_here = container in Path(f"/proc/{pid}/cgroup").read_text(encoding="utf-8")
    except OSError:
        return 0
    return pid if is_here and isinstance(pid, int) else 0


def _was_restarted(created: str, started: str) -> bool:
    """Compare two of the engine's times; the first start follows the creation at once."""
    try:
        age = datetime.fromisoformat(started) - datetime.fromisoformat(created)
    except (ValueError, TypeError):
        return False
    return age.total_seconds() > _START_S


def _format_mount(workspace: Path) -> str:
    """Return the value of ``--mount``: a record of CSV, so that no character of the path separates fields."""
    record = io.StringIO()
    csv.writer(record, lineterminator="").writerow(["type=bind", f"source={workspace}", "target=/workspace"])
    return record.getvalue()


def bare_id(identifier: str) -> str:
    """Return an id without the algorithm in front that some commands print and some don't."""
    return identifier.removeprefix("sha256:")


def last_line(text: str) -> str:
    """Return the last line that tells something, "no message" when none does."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    told = [line for line in lines if not _POINTER.match(line)]
    return told[-1] if told else "no message"
