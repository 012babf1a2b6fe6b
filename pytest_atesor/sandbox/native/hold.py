"""A batch's hold on the riscv64 machine, from the preflight to the last container's end.

Whoever starts a native batch enters the hold; its engine serves the controller. Workers and agents make
their own engine from the session's directory.
"""

import getpass
import platform as host_platform
import secrets
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from pytest_atesor.core.plan import Platform
from pytest_atesor.errors import SetupError
from pytest_atesor.sandbox.engines.podman import decide_unenforced, plan_ulimits
from pytest_atesor.sandbox.image import ensure_image
from pytest_atesor.sandbox.native.engine import NativeEngine
from pytest_atesor.sandbox.native.link import Link
from pytest_atesor.sandbox.native.preflight import require_machine
from pytest_atesor.sandbox.native.probe import Machine, format_machine
from pytest_atesor.sandbox.native.session import Session, make_directory, make_owner, read_session

__all__ = ["NativeHold", "native_engine", "native_state"]

_UNLIMITED: Final = 1 << 20


class NativeHold:
    """The machine while a batch runs; a context manager, whose end removes the batch's sandboxes there.

    ``say`` gets one line per event; ``accept`` may refuse the machine before anything is done there.
    """

    def __init__(
        self,
        environ: Mapping[str, str],
        platform: Platform,
        *,
        state: Path,
        say: Callable[[str], None],
        accept: Callable[[Machine], None] = lambda _machine: None,
    ) -> None:
        self._environ = environ
        self._platform = platform
        self._state = state
        self._say = say
        self._accept = accept
        self._stack = ExitStack()
        self._opened: tuple[Machine, NativeEngine] | None = None

    def __enter__(self) -> Self:
        try:
            self._opened = self._open()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the machine; the second time does nothing."""
        self._stack.close()

    @property
    def machine(self) -> Machine:
        """What the preflight found."""
        return self._require()[0]

    @property
    def engine(self) -> NativeEngine:
        """Podman there."""
        return self._require()[1]

    def _require(self) -> tuple[Machine, NativeEngine]:
        if self._opened is None:
            raise RuntimeError("the hold was not entered")
        return self._opened

    def _open(self) -> tuple[Machine, NativeEngine]:
        settings, connection, machine = require_machine(self._environ)
        self._say(f"machine: {format_machine(machine)}")
        self._accept(machine)
        directory = self._stack.enter_context(make_directory(self._environ))
        session = Session(
            directory=str(directory),
            host=connection.host,
            config=None if connection.config is None else str(connection.config),
            token=secrets.token_hex(8),
            owner=make_owner(self._state, getpass.getuser(), host_platform.node()),
            work=machine.work,
            image=settings.image or "",
            image_id="",
            podman=machine.podman,
            is_rootless=machine.rootless,
            options=_plan_options(machine),
            unenforced=_decide_unenforced(machine),
        )
        self._stack.enter_context(
            Link(session.connection, session.token, say=self._say, on_loss=session.note_loss)
        )
        session = _with_image(session, self._platform, self._state, self._say)
        session.write()
        self._stack.callback(
            lambda: self._say(
                f"{session.trips} round trips to the machine, {session.commands} of them sandboxes' commands"
            )
        )
        return machine, NativeEngine(session)


def native_engine(directory: str) -> NativeEngine:
    """Return the engine of the batch whose session is there. Raises SetupError."""
    return NativeEngine(read_session(directory))


def native_state(state: Path) -> Path:
    """Return the state directory of native batches: nothing of it is shared with emulated ones."""
    return state / "native"


def _with_image(session: Session, platform: Platform, state: Path, say: Callable[[str], None]) -> Session:
    """Return the session with the image that its sandboxes are made from. Raises SetupError."""
    engine = NativeEngine(replace(session, image=""))
    image = session.image or ensure_image(engine, platform, state=state, progress=say, accelerated=False)
    found = engine.image_id(image)
    if found is None:
        raise SetupError(
            f"the machine has no image {image!r}, from ATESOR_NATIVE_IMAGE; "
            f"load it there (podman load) or name one that podman images shows"
        )
    return replace(session, image=image, image_id=found)


def _plan_options(machine: Machine) -> tuple[str, ...]:
    words = machine.facts.get("limits", "").split()
    numbers = [int(word) if word.isdecimal() else _UNLIMITED for word in words]
    files, processes, most = (*numbers, _UNLIMITED, _UNLIMITED, _UNLIMITED)[:3]
    return tuple(plan_ulimits(nofile_hard=files, nproc_hard=processes, pid_max=min(most, 1 << 22)))


def _decide_unenforced(machine: Machine) -> tuple[str, ...]:
    facts = machine.facts
    return decide_unenforced(
        rootless=machine.rootless,
        cgroup_version=facts.get("cgroups", ""),
        controllers=facts.get("controllers", "").strip("[]").split(),
        can_make_networks="has_tun" in facts and ("has_pasta" in facts or "has_slirp4netns" in facts),
    )
