"""Fields of JSON objects with their type checked: KeyError when absent, TypeError when of another type."""

import re
from collections.abc import Mapping
from typing import Final, cast

from pytest_atesor.core.plan import Json

__all__ = ["ATTEMPT_ID", "read_attempt_id", "read_number", "read_text", "read_texts"]

ATTEMPT_ID: Final = re.compile(r"[0-9]{3,9}")
"""What an attempt is called: its number, and so is its directory."""


def read_text(value: Mapping[str, Json], key: str) -> str:
    """Return a text."""
    found = value[key]
    if not isinstance(found, str):
        raise TypeError(f"{key} is no text")
    return found


def read_attempt_id(value: Mapping[str, Json]) -> str:
    """Return the id of an attempt. Raises ValueError when no attempt is called so."""
    found = read_text(value, "attempt_id")
    if ATTEMPT_ID.fullmatch(found) is None:
        raise ValueError("attempt_id is no number of an attempt")
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
