"""A report on its way between two processes, packed: execnet takes one value much faster than some eighty.

Both ends are processes of one batch and run this code.
"""

from __future__ import annotations

import marshal
from typing import Any, Final

__all__ = ["pack_report", "unpack_report"]

_KEY: Final = "atesor_parcel"
_VERSION: Final = 4  # what each Python since 3.4 reads


def pack_report(data: dict[str, Any]) -> dict[str, Any]:
    """Return a serialized report as one value; as it is when another plugin put a stranger's type into it."""
    try:
        return {_KEY: marshal.dumps(data, _VERSION)}
    except ValueError:
        return data


def unpack_report(data: dict[str, Any]) -> None:
    """Put what was packed back into the mapping, beside what xdist added to it; a report unpacked stays."""
    packed = data.pop(_KEY, None)
    if packed is not None:
        data.update(marshal.loads(packed))  # noqa: S302 - from a process of our own, which runs our code
