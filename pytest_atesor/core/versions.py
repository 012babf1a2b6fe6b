"""Schema versions of our own files: ``<family>_v<number>``.

Older and equal numbers are written, newer only read.
"""

import re
from collections.abc import Mapping
from typing import Final

from pytest_atesor.core.jsontext import show_value
from pytest_atesor.core.plan import Json
from pytest_atesor.errors import BundleError

__all__ = ["read_version"]

_VERSION: Final = re.compile(r"(?P<family>[a-z]+(?:_[a-z]+)*)_v(?P<number>[1-9][0-9]{0,5})")


def read_version(document: Json, family: str, where: str, *, key: str = "schema_version") -> int:
    """Return the version number of a document of ``family``. Raises BundleError when it is not one."""
    value = document.get(key) if isinstance(document, Mapping) else None
    found = _VERSION.fullmatch(value) if isinstance(value, str) else None
    if found is None or found["family"] != family:
        raise BundleError(f"{where}: {key} is {show_value(value)}, not {family}_v1; is this the right file?")
    return int(found["number"])
