"""Programs that run inside the sandbox, with nothing but its Python's standard library."""

from importlib import resources

__all__ = ["read_program"]


def read_program(name: str) -> bytes:
    """Return the source text of one of these programs, such as "unpack.py"."""
    return resources.files(__name__).joinpath(name).read_bytes()
