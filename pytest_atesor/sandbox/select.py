"""Choosing the container engine: the one that was asked for, or the first that answers."""

import os
from collections.abc import Mapping

from pytest_atesor.errors import SetupError, UsageError
from pytest_atesor.sandbox.engines.docker import DockerEngine
from pytest_atesor.sandbox.engines.host import HostEngine
from pytest_atesor.sandbox.engines.podman import PodmanEngine
from pytest_atesor.sandbox.interface import Engine
from pytest_atesor.sandbox.slots import state_directory

__all__ = ["select_engine"]


def select_engine(name: str, candidates: Mapping[str, Engine] | None = None) -> Engine:
    """Return an engine that answered its probe; "auto" tries docker, podman and host.

    Raises UsageError for an unknown name, SetupError with each engine's reason when none answers.
    """
    engines: Mapping[str, Engine] = candidates or {
        "docker": DockerEngine(),
        "podman": PodmanEngine(),
        "host": HostEngine(state_directory(os.environ)),
    }
    if name != "auto":
        if name not in engines:
            raise UsageError(f"unknown engine {name!r}; choose one of auto, {', '.join(engines)}")
        engines[name].probe()
        return engines[name]
    reasons = []
    for engine in engines.values():
        try:
            engine.probe()
        except SetupError as error:
            reasons.append(f"{engine.name}: {error}")
        else:
            return engine
    raise SetupError("no container engine answers - " + " | ".join(reasons))
