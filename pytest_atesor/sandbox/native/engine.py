"""Podman on the riscv64 machine, as an engine: the same commands as here, each sent over the connection.

Container names there end in the owner's mark, so that two people who share an account don't meet. A command
inside that ends with 255 is reported as 254: 255 is ssh's own word for a lost connection.
"""

import contextlib
import math
import shlex
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Final

from pytest_atesor.errors import SandboxError
from pytest_atesor.sandbox.building import run_logged
from pytest_atesor.sandbox.engines.cli import BINARY_PLATFORM, CliEngine, last_line
from pytest_atesor.sandbox.failure import Failure, decide_failure
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
from pytest_atesor.sandbox.native.connection import COMMAND, SSH_FAILED, is_lost, read_script
from pytest_atesor.sandbox.native.link import KEEPER_LABEL
from pytest_atesor.sandbox.native.session import Session
from pytest_atesor.sandbox.sandbox import Sandbox

__all__ = ["NativeEngine", "NativeSandbox"]

_ABSENT: Final = ("no such", "not known")
# A dead line is noticed by the link, in seconds, and ends what waits: these are for podman there, which may
# take minutes on a busy machine or an emulated one.
_QUICK_S: Final = 300.0
_PROBE_S: Final = 120.0
_FOREIGN: Final = 3
_GONE: Final = 4
# Private but for the workspace itself, in which the builder is another user.
_MAKE_WORKSPACE: Final = 'umask 077; mkdir -p "$1" && chmod 755 "$1"'
# Whatever becomes of us, a build there ends, and with it its hold on the lock.
_BOUNDED: Final = """
limit=$1 script=$2 && shift 2 && exec timeout -k 30 "$limit" sh -c "$script" sh "$@"
"""
_BUILD: Final = """
cd "$1" && shift && mkdir -p recipe && exec 2>&1 9>image.lock && flock 9 &&
rm -rf recipe/* && tar -x -f - -C recipe && exec "$@" recipe
"""
_NETWORK: Final = """
form='{{range $name, $_ := .NetworkSettings.Networks}}{{$name}} {{end}}'
seen=$(podman container inspect --format "$form" "$1") || exit
case $2 in
connect) [ -n "$seen" ] || exec podman network connect "$3" "$1" ;;
*) for one in $seen; do podman network disconnect --force "$one" "$1" || exit; done ;;
esac
"""
_NO_NETWORK: Final = "native: the network of the sandbox cannot be set"
_DOUBTFUL: Final = frozenset({125, 126, 127, 137, 143, 254})
"""How podman ends, too, when the sandbox is gone or has died; other codes are a command's own."""
_OUT_OF_TIME: Final = frozenset({124, 137})
_END_S: Final = 120.0
"""How much later than the machine itself we take a build there for one that will not end."""
_LOAD_S: Final = 7200.0
_LONGEST_LIFE_S: Final = 86_400
"""After a day the machine itself ends a sandbox, should everything else have failed."""


class NativeEngine(CliEngine):
    """Podman at the other end of a session's connection."""

    name: ClassVar[str] = "native"
    is_remote: ClassVar[bool] = True
    create_s: ClassVar[float] = _QUICK_S

    def __init__(self, session: Session) -> None:
        self.session = session
        self._connection = session.connection
        self._made: set[str] = set()
        self._first: dict[str, str] = {}
        self._absent: set[str] = set()

    def probe(self) -> EngineInfo:
        """Ask podman for its version. Raises SandboxError when the machine does not answer."""
        version = self._call(["version", "--format", "{{.Client.Version}}"], timeout_s=_PROBE_S).strip()
        return EngineInfo(
            name=self.name,
            version=version,
            rootless=self.session.is_rootless,
            unenforced=self.session.unenforced,
        )

    def workspace(self, name: str) -> str:
        """Return the directory there that a sandbox sees as its workspace."""
        return f"{self.session.work}/slots/{self.session.owner}/{name}/workspace"

    def create_options(self) -> list[str]:
        """Return the machine's options; the keeper's mark comes with them, and a bound to the whole life."""
        return [
            *("--label", f"{KEEPER_LABEL}={self.session.token}"),
            *("--timeout", str(_LONGEST_LIFE_S)),
            "--http-proxy=false",
            *self.session.options,
        ]

    def refused_limits(self) -> Collection[str]:
        """Return what podman there cannot enforce."""
        return self.session.unenforced

    def build_image(self, build: ImageBuild) -> None:
        """Build an image there, under a lock there. Raises SandboxError with the log's path here.

        The machine itself ends it after the build's time, the wait for the lock included.
        """
        limit_s = math.ceil(build.timeout_s)
        command = ["podman", "build", "--platform", BINARY_PLATFORM, "--layers=false", "--tag", build.tag]
        command += ["--file", f"recipe/{build.containerfile.name}", *self.session.options]
        for key, value in build.arguments.items():
            command += ["--build-arg", f"{key}={value}"]
        for key, value in build.labels.items():
            command += ["--label", f"{key}={value}"]
        script = shlex.join(["sh", "-c", _BOUNDED, "sh", str(limit_s), _BUILD, self.session.work, *command])
        began = time.monotonic()
        code = self._run_build(build, script, limit_s + _END_S)
        if code == 0:
            return
        if code in _OUT_OF_TIME and time.monotonic() - began >= limit_s:
            raise SandboxError(f"native: the build took more than {limit_s} s; see {build.log}")
        if is_lost(code):
            host = self.session.host
            raise SandboxError(f"native: the connection to {host} was lost during the build; see {build.log}")
        raise SandboxError(f"native: podman build ended with {code}; see {build.log}")

    def _run_build(self, build: ImageBuild, script: str, timeout_s: float) -> int:
        """Send the context and run the script there; return how ssh ended."""
        self._connection.count()
        try:
            with tempfile.TemporaryFile() as context:
                with tarfile.open(fileobj=context, mode="w") as tar:
                    tar.add(build.context, arcname=".")
                context.seek(0)
                return run_logged(
                    self._connection.argv(script, is_logged=True),
                    build.log,
                    on_line=build.on_line,
                    timeout_s=timeout_s,
                    stdin=context,
                )
        except TimeoutError as error:
            raise SandboxError(
                f"the machine {self.session.host} did not answer within {timeout_s:.0f} s; see that it is up"
            ) from error
        except OSError as error:
            raise SandboxError(f"native: the build failed ({error}); see {build.log}") from error

    def load_image(self, archive: Path) -> None:
        """Load an archive there, as compressed as it is, under a lock there."""
        with archive.open("rb") as stream:  # one at a time: two would fill the disk twice
            command = ["flock", self._lock, "podman", "load", "--quiet"]
            done = self._connection.run(
                self._connection.argv(shlex.join(command)), timeout_s=_LOAD_S, stdin=stream
            )
        if done.returncode != 0:
            raise SandboxError(f"native: podman load failed: {last_line(_text(done.stderr))}")

    def state(self, name: str) -> Absent | Foreign | Present:
        """Say what stands under that name there; what this process removed itself need not be asked for."""
        if name in self._absent:
            return Absent()
        found = super().state(self._there(name))
        if isinstance(found, Present):
            return replace(found, labels={**found.labels, LABEL: name})
        return found

    def create(self, spec: SandboxSpec) -> None:
        """Create and start a sandbox there; the workspace is a directory of that machine."""
        there = self.workspace(spec.name)
        if spec.name not in self._made:
            done = self._connection.script(_MAKE_WORKSPACE, there, timeout_s=_QUICK_S)
            if done.returncode != 0:
                raise SandboxError(f"native: {there} cannot be made: {last_line(_text(done.stderr))}")
            self._made.add(spec.name)
        self._absent.discard(spec.name)
        super().create(replace(spec, name=self._there(spec.name), workspace=Path(there)))

    def remove(self, name: str) -> None:
        """Kill and remove our sandbox and empty its workspace, in one round trip."""
        if name.endswith(f".{self.session.owner}"):  # a create that failed cleans up under the name there
            name = name.removesuffix(f".{self.session.owner}")
        if name in self._absent:
            return
        self._end(name, self.workspace(name), "removed")
        self._absent.add(name)

    def restart(self, name: str) -> None:
        """Kill everything in our sandbox there and start it again."""
        self._end(name, "", "restarted")

    def _end(self, name: str, workspace: str, done: str) -> None:
        """Kill everything in our sandbox, in one round trip, and remove it, or start it again."""
        there = self._there(name)
        words = (there, LABEL, *([workspace] if workspace else []))
        ended = self._connection.script(read_script("end.sh"), *words, timeout_s=_QUICK_S)
        if ended.returncode == _FOREIGN:
            raise SandboxError(
                f"native: the container {there} was not made by this program and is left alone; "
                "rename it or remove it yourself"
            )
        if ended.returncode == _GONE:
            raise SandboxError(f"native: the sandbox {there} is gone; it must be created again")
        if ended.returncode != 0:
            raise SandboxError(f"native: {there} cannot be {done}: {last_line(_text(ended.stderr))}")

    def exec_argv(self, name: str, command: ExecSpec) -> list[str]:
        """Return the command line here that runs ``command`` inside, there."""
        self._connection.count(COMMAND)
        argv = ["podman", *super().exec_argv(self._there(name), command)[1:]]
        ends = "code=$?; exit $((code == 255 ? 254 : code))"
        first = self._first.pop(name, "")
        return self._connection.argv(f"{first}{shlex.join(argv)} </dev/null; {ends}", is_logged=True)

    def set_network_first(self, name: str, *, enabled: bool) -> None:
        """Have the next command in the sandbox wait until its network is so: both in one round trip."""
        if self._network_mode() != "host":
            switch = shlex.join(["sh", "-c", _NETWORK, "sh", *self._network_words(name, enabled=enabled)])
            self._first[name] = f"{switch} || {{ echo '{_NO_NETWORK}'; exit {SSH_FAILED}; }}; "

    def set_network(self, name: str, *, enabled: bool) -> None:
        """Connect the sandbox there to the network or cut it off, in one round trip."""
        if self._network_mode() == "host":
            return
        words = self._network_words(name, enabled=enabled)
        done = self._connection.script(_NETWORK, *words, timeout_s=_QUICK_S)
        if done.returncode != 0:
            said = last_line(_text(done.stderr))
            raise SandboxError(f"native: the network of {self._there(name)} cannot be set: {said}")

    def _network_words(self, name: str, *, enabled: bool) -> tuple[str, ...]:
        return self._there(name), "connect" if enabled else "disconnect", self._network_name()

    def list_sandboxes(self) -> tuple[str, ...]:
        """Return the names of this owner's sandboxes, as they are called here."""
        mark = f".{self.session.owner}"
        return tuple(name.removesuffix(mark) for name in super().list_sandboxes() if name.endswith(mark))

    @property
    def _lock(self) -> str:
        return f"{self.session.work}/image.lock"

    def _there(self, name: str) -> str:
        mark = f".{self.session.owner}"
        return name if name.endswith(mark) else f"{name}{mark}"

    def _network_mode(self) -> str:
        return "host" if "network" in self.session.unenforced else "bridge"

    def _network_name(self) -> str:
        return "podman"

    def _call(
        self,
        arguments: Sequence[str],
        *,
        timeout_s: float = _QUICK_S,
        absent_is_fine: bool = False,
        stdin: Any = subprocess.DEVNULL,  # noqa: ANN401 - whatever Popen takes
    ) -> str:
        """Run podman there and return its output. Raises SandboxError with its last line."""
        argv = self._connection.argv(shlex.join(["podman", *arguments]))
        ended = self._connection.run(argv, timeout_s=timeout_s, stdin=stdin)
        message = _text(ended.stderr)
        if ended.returncode == 0:
            return _text(ended.stdout)
        if absent_is_fine and any(words in message.lower() for words in _ABSENT):
            return ""
        raise SandboxError(f"native: podman {arguments[0]} failed: {last_line(message)}")


class NativeSandbox(Sandbox):
    """A sandbox there. A command whose connection was lost is the sandbox's failure, never the package's."""

    def __init__(self, engine: NativeEngine, name: str) -> None:
        super().__init__(engine, name)
        self._session = engine.session

    def _refuse_own_failure(self, exit_code: int, tail: bytes) -> None:
        if is_lost(exit_code):
            self._session.note_loss()  # its worker looks for it there
            with contextlib.suppress(SandboxError):
                self.engine.restart(self.name)  # whatever goes on there has lost its listener
            if _NO_NETWORK.encode() in tail:
                raise SandboxError(f"{_NO_NETWORK} ({self.name})")
            raise SandboxError(f"native: the connection was lost while a command ran in {self.name}")
        if exit_code in _DOUBTFUL or decide_failure(exit_code, tail, running=True) is Failure.SANDBOX:
            super()._refuse_own_failure(exit_code, tail)


def _text(data: bytes) -> str:
    return data.decode(errors="replace")
