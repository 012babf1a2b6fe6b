"""What a ``.env`` file adds to the environment; it overrides nothing that is set there."""

from collections.abc import Mapping

__all__ = ["add_dotenv", "is_set"]


def is_set(name: str, environ: Mapping[str, str]) -> bool:
    """Tell whether the environment has a word on that; one of our own variables that is empty is none.

    Another program's may be empty to switch something off, such as a proxy.
    """
    return bool(environ.get(name)) if name.startswith("ATESOR_") else name in environ


def add_dotenv(dotenv: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment together with what ``.env`` says of what is not set there."""
    return {**environ, **{name: text for name, text in dotenv.items() if not is_set(name, environ)}}
