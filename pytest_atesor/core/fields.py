"""Fields of JSON objects with their type checked: KeyError when absent, TypeError when of another type."""

from collections.abc import Mapping
from typing import cast

from pytest_atesor.core.plan import Json

__all__ = ["read_number", "read_text", "read_texts"]


def read_text(value: Mapping[str, Json], key: str) -> str:
    """Return a text."""
    found = value[key]
    if not isinstance(found, str):
        raise TypeError(f"{key} is no text")
    return found


def read_number(value: Mapping[str, Json], key: str) -> int:
    """Return a whole number; true and false are none."""
    found = value[key]
    if not isinstance(found, int) or isinstance(found, bool):
        raise TypeError(f"{key} is no whole number")
    return found


def read_texts(value: Mapping[str, Json], key: str) -> tuple[str, ...]:
    """Return an array of texts."""
    found = value[key]
    if not isinstance(found, list) or not all(isinstance(item, str) for item in found):
        raise TypeError(f"{key} is no array of texts")
    return tuple(cast("list[str]", found))
