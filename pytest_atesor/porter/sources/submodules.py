"""Which submodules a commit has, read from what git prints about its tree and its ``.gitmodules``. Pure."""

import re
from dataclasses import dataclass
from typing import Final

__all__ = ["Wanted", "parse_gitlinks", "parse_gitmodules", "plan_submodules"]

_GITLINK: Final = re.compile(r"^160000 commit ([0-9a-f]{40}|[0-9a-f]{64})\t(.+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Wanted:
    """A submodule of a commit: its path below the top directory, its commit, its URL ("" for none)."""

    path: str
    commit: str
    url: str


def parse_gitlinks(listing: str) -> dict[str, str]:
    """Return path -> commit from ``git ls-tree -r``; quoted paths stay quoted."""
    return {path: commit for commit, path in _GITLINK.findall(listing)}


def parse_gitmodules(listing: bytes) -> dict[str, str]:
    """Return path -> URL from ``git config -z --get-regexp`` on ``.gitmodules``; the last value wins."""
    settings: dict[tuple[str, str], str] = {}
    for entry in listing.decode("utf-8", "surrogateescape").split("\0"):
        key, _, value = entry.partition("\n")
        name, dot, variable = key.removeprefix("submodule.").rpartition(".")
        if dot:
            settings[name, variable.lower()] = value
    return {
        path.rstrip("/"): settings.get((name, "url"), "")
        for (name, variable), path in settings.items()
        if variable == "path"
    }


def plan_submodules(gitlinks: dict[str, str], urls: dict[str, str]) -> tuple[Wanted, ...]:
    """Return what to fetch, in the tree's order."""
    return tuple(Wanted(path, commit, urls.get(path, "")) for path, commit in gitlinks.items())
