"""Sandboxes without a container engine: an unpacked image, an overlay per sandbox, and an OCI runtime.

The runtime (runc, else crun) makes the namespaces, drops the capabilities, sets the limits and runs commands
inside; it is the same program that docker and podman use. What an engine adds to it is small and stands
here: images as directories (:mod:`.store`), an overlay that a reset throws away, the network
(:mod:`.uplink`). There is no daemon: a sandbox is its PID 1 and its slirp4netns, nobody's children, and
every request is done by whoever makes it with programs that end.

Below the state directory: ``host/images`` and ``host/tags``, ``host/slots/NAME`` (``sandbox.json``,
``config.json``, ``upper``, ``work``, ``root``), ``host/run`` (the runtime's own records). Root only.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform as host_platform
import re
import resource
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

from pytest_atesor.errors import SandboxError, SetupError
from pytest_atesor.sandbox.engines.clients import ending_stopped_clients
from pytest_atesor.sandbox.engines.control_group import (
    ControlGroup,
    can_bound_swap,
    end_process,
    find_controllers,
    read_birth,
)
from pytest_atesor.sandbox.engines.host_programs import OWN_MOUNTS, find_program, has_program, run_program
from pytest_atesor.sandbox.engines.oci import CAPABILITIES, Confinement, format_config
from pytest_atesor.sandbox.engines.store import ImageStore, remove_tree
from pytest_atesor.sandbox.engines.uplink import RESOLVER, Uplink, connect, disconnect, start_uplink
from pytest_atesor.sandbox.interface import LABEL, Absent, EngineInfo, ExecSpec, Foreign, Present, SandboxSpec
from pytest_atesor.sandbox.slots import slot_directory

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_atesor.sandbox.engines.store import Image
    from pytest_atesor.sandbox.interface import ImageBuild

__all__ = ["HostEngine"]

_NOFILE: Final = 524_288
_NOBODY: Final = 65_534
_RUNTIMES: Final = ("runc", "crun")
_NEEDS: Final[Mapping[str, str]] = {
    "slirp4netns": "slirp4netns",
    "ip": "iproute2",
    "nsenter": "util-linux",
    "unshare": "util-linux",
}
_TUN: Final = Path("/dev/net/tun")
_CAPABILITY_OPTIONS: Final = tuple(word for name in CAPABILITIES for word in ("--cap", f"CAP_{name}"))
# The overlay is mounted where only the runtime and the sandbox see it, and goes with them. Relative names,
# because the sandbox can read them, and because no character of the state directory's then separates layers.
_START: Final = """\
log=$1 layers=$2 root=$3 lifeline=$4; shift 4
mount -t overlay -o "nodev,$layers" overlay "$root" 2>"$log" || exit
exec "$@" </dev/null >/dev/null 2>&1 3>"/proc/self/fd/$lifeline"
"""
# The runtime would stand between a command and its output, and wait until nobody can write any more. So the
# output goes past it, as files 3 and 4. What is a pipe becomes the user's own, for /dev/stdout to open.
_CLIENT: Final = """\
owner=$1; shift
pipes=
for number in 1 2; do [ ! -p /proc/self/fd/$number ] || pipes="$pipes /proc/self/fd/$number"; done
[ -z "$pipes" ] || [ "$owner" = 0:0 ] || chown "$owner" $pipes
exec "$@" 3>&1 4>&2
"""
_COMMAND: Final = 'exec "$@" >&3 2>&4 3>&- 4>&-'
_LOGGED: Final = re.compile(r'msg="(.*)"$')


class HostEngine:
    """This machine's own kernel. ``state`` is the directory of the program's state."""

    name: ClassVar[str] = "host"
    is_remote: ClassVar[bool] = False

    def __init__(self, state: Path) -> None:
        self._directory = state / "host"
        self._store = ImageStore(self._directory)

    def probe(self) -> EngineInfo:
        """Say what there is. Raises SetupError with the package that is missing."""
        if os.geteuid() != 0:
            raise SetupError(
                "sandboxes without a container engine need root; choose --atesor-engine podman "
                "(apt-get install podman), which does not"
            )
        if not any(map(has_program, _RUNTIMES)):
            raise SetupError("no OCI runtime is installed; apt-get install runc")
        for program, package in _NEEDS.items():
            if not has_program(program):
                raise SetupError(
                    f"sandboxes without a container engine need {program}; apt-get install {package}"
                )
        if not os.access(_TUN, os.R_OK | os.W_OK):
            raise SetupError(f"sandboxes without a container engine need {_TUN}; modprobe tun")
        return EngineInfo(
            name=self.name,
            version=run_program([_runtime(), "--version"]).splitlines()[0].rpartition(" ")[2],
            rootless=False,
            storage=_find_existing(self._directory),
            unenforced=tuple(word for word in ("memory", "pids", "cpu") if word not in find_controllers()),
        )

    def image_labels(self, image: str) -> Mapping[str, str] | None:
        """Return the labels of an unpacked image, None when there is no such image."""
        found = self._store.find(image)
        return None if found is None else found.labels

    def image_id(self, image: str) -> str | None:
        """Return the id of an unpacked image, None when there is no such image."""
        found = self._store.find(image)
        return None if found is None else found.id

    def load_image(self, archive: Path) -> None:
        """Unpack a docker-archive file. Raises SandboxError."""
        self._store.load(archive)

    def is_offered(self, reference: str, *, timeout_s: float) -> bool:
        """Nothing here talks to registries."""
        del reference, timeout_s
        return False

    def build_image(self, build: ImageBuild) -> None:
        """Raise SandboxError: images come from packages."""
        raise SandboxError(f"{self.name}: cannot build {build.tag} from a registry's image")

    def read_file(self, image: str, path: str) -> str:
        """Raise SandboxError: what an archive has is known."""
        raise SandboxError(f"{self.name}: cannot read {path} of {image}")

    def label_image(self, image: str, labels: Mapping[str, str], *, tag: str) -> None:
        """Raise SandboxError: an archive has its labels."""
        del tag
        raise SandboxError(f"{self.name}: cannot give {image} the labels {', '.join(labels)}")

    def untag_image(self, tag: str) -> None:
        """Do nothing: only what was built has more than one name."""

    def prune_images(self, label: str) -> None:
        """Remove the images with that label that no tag means and no sandbox uses."""
        used = {str(self._read(name).get("image_id")) for name in self.list_sandboxes()}
        self._store.prune(label, used=used)

    def state(self, name: str) -> Absent | Foreign | Present:
        """Say what stands under that name; nobody else has sandboxes in our directory."""
        record = self._read(name)
        if not record:
            return Absent()
        init = _find_init(record)
        return Present(
            running=init is not None,
            image_id=str(record["image_id"]),
            labels=record["labels"],
            oom_killed=self._group(name).count_oom_kills() > 0,
            pid=init or 0,
        )

    def create(self, spec: SandboxSpec) -> None:
        """Mount the overlay, start the sandbox, and connect it. The name must be free."""
        image = self._store.find(spec.image)
        if image is None:
            raise SandboxError(f"{self.name}: there is no image {spec.image}; atesor setup makes it")
        place = self._place(spec.name)
        if self._read(spec.name):
            raise SandboxError(
                f"{self.name}: the sandbox {spec.name} exists already; it must be removed first"
            )
        self.remove(spec.name)  # what is left of a start or a removal that was killed
        place.mkdir(parents=True, mode=0o700)
        record: dict[str, Any] = {"image_id": image.id, "labels": {**spec.labels, LABEL: spec.name}}
        try:
            self._write(spec.name, record)
            (place / "config.json").write_text(json.dumps(self._configure(spec, image)), encoding="utf-8")
            for word in ("upper", "work", "root"):
                (place / word).mkdir()
                (place / word).chmod(0o755)
            _write_names(place / "upper" / "etc")
            uplink, init = self._start(spec.name, image)
            self._write(
                spec.name,
                {
                    **record,
                    "init": [init, read_birth(init)],
                    "uplink": [uplink.pid, uplink.birth, uplink.parking],
                },
            )
            connect(init, uplink)
        except BaseException:
            self.remove(spec.name)
            raise

    def remove(self, name: str) -> None:
        """Kill and remove a sandbox with all its processes and files. Absent is fine."""
        place = self._place(name)
        if not place.exists():
            return
        with ending_stopped_clients(_RUNTIMES, name):
            self._end_processes(name, self._read(name))
        run_program([*self._runtime_argv(), "delete", "--force", name])
        remove_tree(place)

    def restart(self, name: str) -> None:
        """Kill everything in a sandbox but its PID 1; files and network stay as they are."""
        init, _ = self._find_running(name)
        self._group(name).kill_all_but(init)

    def exec_argv(self, name: str, command: ExecSpec) -> list[str]:
        """Return the host command line that runs ``command`` inside, with stdin closed."""
        uid, gid, home = self._find_user(name, command.user)
        argv = [
            "sh",
            "-c",
            _CLIENT,
            "sh",
            f"{uid}:{gid}",
            *self._runtime_argv(),
            "exec",
            "--preserve-fds",
            "2",
        ]
        argv += ["--cwd", command.cwd, "--user", f"{uid}:{gid}", "--env", f"HOME={home}"]
        argv += _CAPABILITY_OPTIONS if command.user == "root" else ()
        for key, value in command.env.items():
            argv += ["--env", f"{key}={value}"]
        return [*argv, name, "sh", "-c", _COMMAND, "sh", *command.argv]

    def set_network(self, name: str, *, enabled: bool) -> None:
        """Connect the sandbox to the network or cut it off, for everything that runs in it."""
        init, record = self._find_running(name)
        pid, birth, parking = record["uplink"]
        (connect if enabled else disconnect)(init, Uplink(pid=pid, birth=birth, parking=parking))

    def list_sandboxes(self) -> tuple[str, ...]:
        """Return the names of all sandboxes in our directory."""
        return tuple(sorted(file.parent.name for file in self._directory.glob("slots/*/sandbox.json")))

    def _configure(self, spec: SandboxSpec, image: Image) -> Mapping[str, Any]:
        controllers = find_controllers()
        return format_config(
            Confinement(
                group=self._group_path(spec.name),
                root=str(self._place(spec.name) / "root"),
                workspace=str(spec.workspace),
                environment=image.environment,
                memory_bytes=spec.memory_bytes if "memory" in controllers else None,
                bounds_swap=can_bound_swap(),
                pids=spec.pids if "pids" in controllers else None,
                cpu_weight=spec.cpu_weight if "cpu" in controllers else None,
                nofile=_decide_nofile(resource.getrlimit(resource.RLIMIT_NOFILE)[1]),
                machine=host_platform.machine(),
            )
        )

    def _start(self, name: str, image: Image) -> tuple[Uplink, int]:
        """Start slirp4netns and PID 1. PID 1 alone holds the pipe whose end ends slirp4netns."""
        place = self._place(name)
        log, pid_file = place / "start.log", place / "init.pid"
        layers = {
            "lowerdir": image.root.relative_to(self._directory),
            "upperdir": (place / "upper").relative_to(self._directory),
            "workdir": (place / "work").relative_to(self._directory),
        }
        runtime = [*self._runtime_argv(), "--log", str(log), "run", "--detach", "--preserve-fds", "1"]
        runtime += ["--bundle", str(place), "--pid-file", str(pid_file), name]
        options = ",".join(f"{key}={path}" for key, path in layers.items())
        lifeline, held = os.pipe()
        try:
            uplink = start_uplink(lifeline)
            run_program(
                [
                    *OWN_MOUNTS,
                    "sh",
                    "-c",
                    _START,
                    "sh",
                    str(log),
                    options,
                    str(place / "root"),
                    str(held),
                    *runtime,
                ],
                cwd=self._directory,
                pass_fds=(held,),
            )
            return uplink, int(pid_file.read_text(encoding="ascii"))
        except SandboxError as error:
            raise SandboxError(
                f"{self.name}: {name} cannot be started ({_read_log(log) or error})"
            ) from error
        finally:
            os.close(lifeline)
            os.close(held)

    def _end_processes(self, name: str, record: Mapping[str, Any]) -> None:
        group = self._group(name)
        group.thaw()  # in a stopped group nothing dies
        for word in ("init", "uplink"):
            if len(process := record.get(word, ())) > 1 and process[1] is not None:
                end_process(process[0], process[1])
        group.kill_all_but(0)

    def _find_running(self, name: str) -> tuple[int, dict[str, Any]]:
        record = self._read(name)
        init = _find_init(record)
        if init is None:
            raise SandboxError(f"{self.name}: the sandbox {name} is gone; it must be created again")
        return init, record

    def _runtime_argv(self) -> list[str]:
        return [_runtime(), "--root", str(self._directory / "run")]

    def _group(self, name: str) -> ControlGroup:
        return ControlGroup(self._group_path(name))

    def _group_path(self, name: str) -> str:
        # groups belong to the machine, names to a state directory
        return f"/pytest-atesor/{hashlib.sha256(os.fsencode(self._directory)).hexdigest()[:8]}-{name}"

    def _place(self, name: str) -> Path:
        return slot_directory(self._directory, name)

    def _read(self, name: str) -> dict[str, Any]:
        try:
            return dict(json.loads((self._place(name) / "sandbox.json").read_text(encoding="utf-8")))
        except (OSError, ValueError):
            return {}

    def _write(self, name: str, record: Mapping[str, Any]) -> None:
        file = self._place(name) / "sandbox.json"
        part = file.with_suffix(".part")
        part.write_text(json.dumps(record), encoding="utf-8")
        part.replace(file)

    def _find_user(self, name: str, user: str) -> tuple[int, int, str]:
        """Look a user up in the image, whose files no sandbox can change."""
        image = self._store.get(str(self._read(name).get("image_id")))
        lines: list[str] = []
        if image is not None:
            lines = (image.root / "etc/passwd").read_text(encoding="utf-8").splitlines()
        for line in lines:
            fields = line.split(":")
            if fields[0] == user:
                return int(fields[2]), int(fields[3]), fields[5]
        return _NOBODY, _NOBODY, "/"  # the sandbox is gone, and the runtime will say so


def _runtime() -> str:
    return find_program(next(filter(has_program, _RUNTIMES), _RUNTIMES[0]))


def _find_init(record: Mapping[str, Any]) -> int | None:
    """Return the number of a recorded PID 1 that still runs, None when none does."""
    pid, birth = record.get("init", (0, None))
    return int(pid) if birth is not None and read_birth(pid) == birth else None


def _find_existing(directory: Path) -> Path:
    while not directory.exists():
        directory = directory.parent
    return directory


def _decide_nofile(hard: int) -> int:
    return _NOFILE if hard == resource.RLIM_INFINITY else min(hard, _NOFILE)


def _write_names(etc: Path) -> None:
    """Write what an engine would: who the sandbox is, and who resolves names."""
    etc.mkdir()
    etc.chmod(0o755)
    for name, text in (
        ("hostname", "sandbox\n"),
        ("hosts", "127.0.0.1\tlocalhost\n::1\tlocalhost\n127.0.1.1\tsandbox\n"),
        ("resolv.conf", f"nameserver {RESOLVER}\n"),
    ):
        file = etc / name
        file.write_text(text, encoding="ascii")
        file.chmod(0o644)


def _read_log(log: Path) -> str:
    try:
        lines = [
            line for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()
        ]
    except OSError:
        return ""
    if not lines:
        return ""
    message = _LOGGED.search(lines[-1])
    return message[1] if message else lines[-1]
