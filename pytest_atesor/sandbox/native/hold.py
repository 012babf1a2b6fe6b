"""A batch's hold on its riscv64 machines, from the preflight to the last container's end.

Whoever starts a native batch enters the hold; its engines serve the controller. Workers and agents make
their own engine from the directory of their machine's session.
"""

import platform as host_platform
import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from pytest_atesor.core.plan import Platform
from pytest_atesor.errors import SetupError
from pytest_atesor.sandbox.engines.podman import decide_unenforced, plan_ulimits
from pytest_atesor.sandbox.image_use import using_images
from pytest_atesor.sandbox.native.engine import NativeEngine
from pytest_atesor.sandbox.native.link import Link
from pytest_atesor.sandbox.native.preflight import Found, require_machines
from pytest_atesor.sandbox.native.probe import Machine, format_machine
from pytest_atesor.sandbox.native.session import (
    Restore,
    Session,
    find_user,
    make_directory,
    make_owner,
    read_session,
)
from pytest_atesor.sandbox.pinning import pinning_image

__all__ = ["Held", "NativeHold", "native_engine", "native_state"]

_UNLIMITED: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A machine that a batch holds: what the preflight found, podman there, how many slots it has."""

    name: str
    machine: Machine
    engine: NativeEngine
    slots: int


def _share_alike(machines: Sequence[Machine]) -> tuple[int, ...]:
    return tuple(machine.workers for machine in machines)


class NativeHold:
    """The machines while a batch runs; a context manager, whose end removes the batch's sandboxes there.

    ``say`` gets one line per event. ``share`` says how many slots each machine gets, by default as many as it
    can hold, and may refuse them before anything is done there; a machine without one is left alone.
    """

    def __init__(
        self,
        environ: Mapping[str, str],
        platform: Platform,
        *,
        state: Path,
        say: Callable[[str], None],
        share: Callable[[Sequence[Machine]], Sequence[int]] = _share_alike,
    ) -> None:
        self._environ = environ
        self._platform = platform
        self._state = state
        self._say = say
        self._share = share
        self._stack = ExitStack()
        self.held: tuple[Held, ...] = ()

    def __enter__(self) -> Self:
        try:
            self.held = self._open()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the machines; the second time does nothing."""
        self._stack.close()

    def _open(self) -> tuple[Held, ...]:
        found = require_machines(self._environ)
        for one in found:
            self._say(f"machine: {one.settings.name}: {format_machine(one.machine)}")
        shares = self._share([one.machine for one in found])
        return tuple(self._take(one, slots) for one, slots in zip(found, shares, strict=True) if slots)

    def _take(self, found: Found, slots: int) -> Held:
        settings, connection, machine = found
        directory = self._stack.enter_context(make_directory(self._environ))
        session = Session(
            directory=str(directory),
            host=connection.host,
            config=None if connection.config is None else str(connection.config),
            token=secrets.token_hex(8),
            owner=make_owner(self._state, find_user(), host_platform.node()),
            work=machine.work,
            image=settings.image or "",
            image_id="",
            podman=machine.podman,
            is_rootless=machine.rootless,
            options=_plan_options(machine),
            unenforced=_decide_unenforced(machine),
        )
        restore = Restore(session)
        self._stack.callback(restore.release)
        self._stack.enter_context(
            Link(session.connection, session.token, say=self._say, on_loss=session.note_loss, restore=restore)
        )
        session = self._with_image(session)
        restore.change(session)
        self._stack.callback(
            lambda: self._say(
                f"{session.trips} round trips to the machine {session.host}, "
                f"{session.commands} of them sandboxes' commands"
            )
        )
        return Held(name=settings.name, machine=machine, engine=NativeEngine(session), slots=slots)

    def _with_image(self, session: Session) -> Session:
        """Return the session with the image that its sandboxes are made from, whoever takes its name."""
        engine = NativeEngine(session)
        if not session.image:
            pinned = self._stack.enter_context(
                pinning_image(
                    engine,
                    self._platform,
                    state=self._state,
                    progress=self._say,
                    accelerated=False,
                    environ=self._environ,
                )
            )
            return replace(session, image=pinned.name, image_id=pinned.id)
        self._stack.enter_context(using_images(engine.name, self._state))
        found = engine.image_id(session.image)
        if found is None:
            raise SetupError(
                f"the machine {session.host} has no image {session.image!r}, from ATESOR_NATIVE_IMAGE; "
                f"load it there (podman load) or name one that podman images shows"
            )
        return replace(session, image_id=found)


def native_engine(directory: str) -> NativeEngine:
    """Return the engine of the batch whose session is there. Raises SetupError."""
    return NativeEngine(read_session(directory))


def native_state(state: Path) -> Path:
    """Return the state directory of native batches: nothing of it is shared with emulated ones."""
    return state / "native"


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
        cgroup_manager=facts.get("manager", ""),
        controllers=facts.get("controllers", "").strip("[]").split(),
        can_make_networks="has_tun" in facts and ("has_pasta" in facts or "has_slirp4netns" in facts),
    )
