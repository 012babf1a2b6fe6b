"""Choosing the container engine: the one that was asked for, or the first that answers."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from pytest_atesor.errors import SetupError, UsageError
from pytest_atesor.sandbox.engines.docker import DockerEngine
from pytest_atesor.sandbox.engines.host import HostEngine
from pytest_atesor.sandbox.engines.podman import PodmanEngine
from pytest_atesor.sandbox.interface import Engine
from pytest_atesor.sandbox.slots import state_directory

__all__ = ["NoEngineError", "find_engine", "select_engine"]

_CHOICE_S = 5.0
"""How long a daemon is waited for while there may be other engines."""


class NoEngineError(SetupError):
    """None of the engines answers; ``reasons`` has each one's, which ends with what mends it."""

    def __init__(self, reasons: Sequence[str]) -> None:
        super().__init__("no container engine answers - " + " | ".join(reasons))
        self.reasons = tuple(reasons)


def select_engine(
    name: str, candidates: Mapping[str, Engine] | None = None, *, state: Path | None = None
) -> Engine:
    """Return an engine that answered its probe; "auto" tries docker, podman and host.

    ``state`` is the state directory, without it that of the environment. Raises UsageError for an unknown
    name, NoEngineError with each engine's reason when none answers.
    """
    engines = candidates or _make_engines(state, is_choice=name == "auto")
    if name != "auto":
        engine = _get(name, engines)
        engine.probe()
        return engine
    reasons = []
    for engine in engines.values():
        try:
            engine.probe()
        except SetupError as error:
            reasons.append(f"{engine.name}: {error}")
        else:
            return engine
    raise NoEngineError(reasons)


def find_engine(name: str) -> Engine:
    """Return the engine of that name without asking it: whoever names it knows that it works.

    Raises UsageError for an unknown name.
    """
    return _get(name, _make_engines())


def _make_engines(state: Path | None = None, *, is_choice: bool = False) -> Mapping[str, Engine]:
    return {
        "docker": DockerEngine(first_s=_CHOICE_S) if is_choice else DockerEngine(),
        "podman": PodmanEngine(),
        "host": HostEngine(state_directory(os.environ) if state is None else state),
    }


def _get(name: str, engines: Mapping[str, Engine]) -> Engine:
    if name not in engines:
        raise UsageError(f"unknown engine {name!r}; choose one of auto, {', '.join(engines)}")
    return engines[name]
