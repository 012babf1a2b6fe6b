"""What a ``.env`` file adds to the environment; it overrides nothing that is set there."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final, final

__all__ = ["Surroundings", "add_dotenv", "describe_mistyped", "is_set", "tell_origin"]

_OURS: Final = "ATESOR_"


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
    return bool(environ.get(name)) if name.startswith(_OURS) else name in environ


def add_dotenv(dotenv: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment together with what ``.env`` says of what is not set there."""
    return {**environ, **{name: text for name, text in dotenv.items() if not is_set(name, environ)}}


def tell_origin(name: str, environ: Mapping[str, str]) -> str:
    """Return a variable's name, and where it stands if the environment knows that."""
    if not isinstance(environ, Surroundings):
        return name
    return f"{name} in {'.env' if name in environ.from_dotenv else 'the environment'}"


def describe_mistyped(
    names: Iterable[str], known: Collection[str], others: Collection[str] = ()
) -> Iterator[str]:
    """Yield a line for each name in ``.env`` that is almost one of the ``known`` variables of ours.

    ``others`` are names that are read, too, and not proposed. Further ones that begin like ours may be those
    of an agent, and are left alone.
    """
    import difflib  # noqa: PLC0415 - every agent that a batch starts reads this module

    without_prefix = {name.removeprefix(_OURS): name for name in known}
    for name in names:
        if name in known or name in others or not name.upper().startswith(_OURS):
            continue
        near = difflib.get_close_matches(name.upper().removeprefix(_OURS), without_prefix, n=1, cutoff=0.75)
        if near:
            yield f"nothing reads {name} in .env; did you mean {without_prefix[near[0]]}?"
