"""Whether a failure names what is not in the tree, because it could not be fetched. Pure."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

__all__ = ["find_named_absence", "find_named_file"]

_FROM_ROOT = r"(?:/workspace/build/[^/\s]+/|(?:\.{1,2}/)+)?"
_PATH = re.compile(
    r"(?P<opened>['\"`\u2018])?(?P<path>[\w.+@/-]+)(?:(?P<closed>['\"\u2019])|(?P<gone>: No such file))?"
)
_ABSENCE = re.compile(
    r"No such file|[Nn]o rule to make target|[Nn]ot found|[Cc](?:annot|an't|ould not) (?:find|open|stat)"
    r"|[Dd]oes not (?:exist|contain)|[Nn]on-?existent|not an existing directory|\b[Mm]issing\b"
)
_MISSING_HEADER = re.compile(r"fatal error: [^\n]+: No such file")

_COMMON = re.compile(
    r"(?i:3rdparty|third[_-]?party|build|c?make|common|config|contrib|core|data|deps|docs?|examples?|ext|extern(?:al)?"
    r"|inc|includes?|libs?|modules?|packages?|scripts?|share|sources?|src|submodules?|tests?|tools?|utils?|vendor)"
)
"""Names of directories that nearly every tree has."""


def find_named_absence(
    absent: Iterable[str], said: Sequence[str], log: str, *, is_there: Callable[[str], bool]
) -> str | None:
    """Return the first of ``absent`` that ``said`` names, or a line of ``log`` that says what is not there.

    Those are directories. Names are compared as paths, from the tree's root or from a directory below, where
    a common name alone names nothing; what ``is_there`` knows is the tree's own. Where a header is missing, a
    directory that headers were looked for in counts as named.
    """
    paths = _paths_of(said, log)
    is_header = any(map(_MISSING_HEADER.search, said))
    for directory in absent:
        if any(_is_below(one, directory) and not is_there(one) for one in paths):
            return directory
        if is_header and re.search(rf"-I ?{_FROM_ROOT}{re.escape(directory)}(?=[/\s'\"])", log):
            return directory
    return None


def find_named_file(
    left_out: Iterable[str], said: Sequence[str], log: str, *, is_there: Callable[[str], bool]
) -> str | None:
    """Return the first of the files ``left_out`` that is named as above, but for its directory too.

    A last name alone may be that of another file.
    """
    paths = [f"/{one}" for one in _paths_of(said, log) if not is_there(one)]
    for name in left_out:
        end = "/".join(name.split("/")[-2:])
        if any(one == f"/{name}" or ("/" in end and one.endswith(f"/{end}")) for one in paths):
            return name
    return None


def _paths_of(said: Sequence[str], log: str) -> dict[str, None]:
    lines = [*said, *(one for one in log.splitlines() if _ABSENCE.search(one))]
    return {one: None for line in lines for one in _paths_in(line)}


def _paths_in(line: str) -> Iterator[str]:
    """Yield the tree's paths in a line. One component alone counts where something marks it as a name."""
    for found in _PATH.finditer(line):
        is_marked = "/" in found["path"] or (found["opened"] and found["closed"]) or found["gone"]
        path = re.sub(_FROM_ROOT, "", found["path"], count=1).rstrip("/")
        if is_marked and path and not path.startswith("/"):
            yield path


def _is_below(said: str, directory: str) -> bool:
    """Say whether a path is ``directory`` or leads below it, from the root or from one of its parents."""
    parts, whole = said.split("/"), directory.split("/")
    return any(
        parts[: len(whole) - left_out] == whole[left_out:] for left_out in range(_most_left_out(whole) + 1)
    )


def _most_left_out(whole: Sequence[str]) -> int:
    """Return how many of a path's first names need not be said: a common last one is not enough."""
    return max(0, len(whole) - (2 if _COMMON.fullmatch(whole[-1]) else 1))
