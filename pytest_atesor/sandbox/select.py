"""Choosing the container engine: the one that was asked for, or the first that answers."""

import os
from collections.abc import Mapping, Sequence

from pytest_atesor.errors import SetupError, UsageError
from pytest_atesor.sandbox.engines.docker import DockerEngine
from pytest_atesor.sandbox.engines.host import HostEngine
from pytest_atesor.sandbox.engines.podman import PodmanEngine
from pytest_atesor.sandbox.interface import Engine
from pytest_atesor.sandbox.slots import state_directory

__all__ = ["NoEngineError", "find_engine", "select_engine"]


class NoEngineError(SetupError):
    """None of the engines answers; ``reasons`` has each one's, which ends with what mends it."""

    def __init__(self, reasons: Sequence[str]) -> None:
        super().__init__("no container engine answers - " + " | ".join(reasons))
        self.reasons = tuple(reasons)


def select_engine(name: str, candidates: Mapping[str, Engine] | None = None) -> Engine:
    """Return an engine that answered its probe; "auto" tries docker, podman and host.

    Raises UsageError for an unknown name, NoEngineError with each engine's reason when none answers.
    """
    engines = candidates or _make_engines()
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


def _make_engines() -> Mapping[str, Engine]:
    return {
        "docker": DockerEngine(),
        "podman": PodmanEngine(),
        "host": HostEngine(state_directory(os.environ)),
    }


def _get(name: str, engines: Mapping[str, Engine]) -> Engine:
    if name not in engines:
        raise UsageError(f"unknown engine {name!r}; choose one of auto, {', '.join(engines)}")
    return engines[name]
