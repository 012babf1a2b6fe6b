"""Names that a batch cannot use here, refused before anything starts.

Python keeps undecodable bytes of a path as lone surrogates, and xdist, which sends its workers UTF-8, ends in
a traceback when it meets one. Where Python takes file names for something else than UTF-8 (the locale C with
Python's UTF-8 mode off), every other letter is such a byte, or cannot be a file name at all.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from pytest_atesor.errors import SetupError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest

__all__ = ["check_file_names", "check_told"]


def check_file_names() -> None:
    """Check that file names are UTF-8 here, as in lists, manifests and bundles. Raises SetupError."""
    encoding = sys.getfilesystemencoding()
    if encoding.lower() != "utf-8":
        raise SetupError(
            f"Python takes file names for {encoding} here, and a batch needs UTF-8; "
            "set LC_ALL=C.UTF-8 and leave PYTHONUTF8 unset"
        )


def check_told(config: pytest.Config) -> None:
    """Check what xdist tells its workers. Raises SetupError naming the first path or argument of bytes."""
    for what, value in _list_told(config):
        try:
            value.encode("utf-8")
        except UnicodeEncodeError:
            raise SetupError(
                f"{what} {value!a} is not UTF-8, and workers cannot be told of it; "
                "rename it, or run without -n"
            ) from None


def _list_told(config: pytest.Config) -> Iterator[tuple[str, str]]:
    yield "the rootdir", str(config.rootpath)
    yield "the working directory", str(config.invocation_params.dir)
    yield from (("the argument", str(value)) for value in config.invocation_params.args)
    yield from (("the directory of sys.path", value) for value in sys.path)
