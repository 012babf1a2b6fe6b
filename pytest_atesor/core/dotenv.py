"""What a ``.env`` file adds to the environment; it overrides nothing that is set there."""

from collections.abc import Mapping
from typing import final

__all__ = ["Surroundings", "add_dotenv", "is_set", "tell_origin"]


@final
class Surroundings(dict[str, str]):
    """An environment together with ``.env``, which knows what stands where."""

    def __init__(self, dotenv: Mapping[str, str], environ: Mapping[str, str]) -> None:
        super().__init__(add_dotenv(dotenv, environ))
        self.from_dotenv = frozenset(name for name in dotenv if not is_set(name, environ))


def is_set(name: str, environ: Mapping[str, str]) -> bool:
    """Tell whether the environment has a word on that; one of our own variables that is empty is none.

    Another program's may be empty to switch something off, such as a proxy.
    """
    return bool(environ.get(name)) if name.startswith("ATESOR_") else name in environ


def add_dotenv(dotenv: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment together with what ``.env`` says of what is not set there."""
    return {**environ, **{name: text for name, text in dotenv.items() if not is_set(name, environ)}}


def tell_origin(name: str, environ: Mapping[str, str]) -> str:
    """Return a variable's name, and where it stands if the environment knows that."""
    if not isinstance(environ, Surroundings):
        return name
    return f"{name} in {'.env' if name in environ.from_dotenv else 'the environment'}"
