"""The distribution's file index (``Contents``), reduced to what builds ask for, in a memory map.

It only names packages: what gets installed is apt's to fetch and verify, so a mirror whose index lags behind
its release file (apt refuses such an index) still serves. One index serves every slot and is kept for a week.
"""

import contextlib
import mmap
import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from pytest_atesor.porter.tree import open_inside
from pytest_atesor.temporary import temporary_name

__all__ = ["INDEX_SCRIPT", "KEPT_S", "ContentsIndex", "IndexLine", "adopt_index", "index_age_s"]

KEPT_S = 7 * 24 * 3600.0
"""How long a downloaded index is used, in seconds."""

_LARGEST = 512 * 1024 * 1024

# Runs as root with the network on; leaves the lines "path<TAB>package,package" of what builds ask for. Crates
# are filed as crate/<version>/<name>.crate, Go packages as their directory with a trailing slash.
INDEX_SCRIPT = r"""
work=/workspace/cache/contents; mkdir -p "$work"; cd "$work"; rm -f ./*.gz ./*.new
apt-get indextargets --format '$(SITE) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' | sort -u > targets
arch=$(dpkg --print-architecture)
while read -r site release component; do
  for one in "$arch" all; do
    for path in "$component/Contents-$one.gz" "Contents-$one.gz"; do
      name=$(echo "$site-$release-$path" | tr -c 'A-Za-z0-9._\n-' '_')
      url="$site/dists/$release/$path"
      if /usr/lib/apt/apt-helper download-file "$url" "$work/$name" >/dev/null 2>&1; then break; fi
      rm -f "$work/$name"
    done
  done
done < targets
ls ./*.gz >/dev/null
zcat ./*.gz | LC_ALL=C awk '
  { path = $0; sub(/[ \t]+[^ \t]+$/, "", path); owner = $NF }
  path ~ /^usr\/share\/gocode\/src\// {
    sub(/[^\/]*$/, "", path); if (path != last) { last = path; print path "\t" owner }
    next }
  path ~ /^usr\/share\/cargo\/registry\/[^\/]+\/Cargo\.toml$/ {
    sub(/\/Cargo\.toml$/, "", path); sub(/.*\//, "", path)
    if (match(path, /-[0-9]+\.[0-9]+\.[0-9]/))
      print "crate/" substr(path, RSTART + 1) "/" substr(path, 1, RSTART - 1) ".crate\t" owner
    next }
  path ~ /^usr\/include\// || path ~ /^(usr\/)?s?bin\// || path ~ /\.(pc|m4|so|a|pm|gir|vapi)$/ ||
  path ~ /(Config|-config)\.cmake$/ ||
  path ~ /^usr\/lib\/python3\/dist-packages\/[^\/]+(\/__init__)?(\.py)?$/ { print path "\t" owner }
' > index.new
[ -s index.new ]; rm -f ./*.gz; mv -f index.new index; ls -l index
"""


@dataclass(frozen=True, slots=True)
class IndexLine:
    """One file and the binary packages that have it."""

    path: str
    packages: tuple[str, ...]


class ContentsIndex:
    """A reduced index file; use it as a context manager."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._map: mmap.mmap | None = None

    def __enter__(self) -> Self:
        """Map the file. Raises OSError, or ValueError when it is empty."""
        with self._path.open("rb") as stream:
            self._map = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Unmap the file."""
        if self._map is not None:
            self._map.close()
            self._map = None

    def ending_with(self, suffix: str) -> Iterator[IndexLine]:
        """Yield the lines whose path ends with ``suffix``, in the file's order."""
        data = self._map
        if data is None:
            raise RuntimeError("the index is not open")
        wanted = suffix.encode("utf-8", "surrogateescape") + b"\t"
        at = data.find(wanted)
        while at >= 0:
            start = data.rfind(b"\n", 0, at) + 1
            end = data.find(b"\n", at)
            line = data[start : end if end >= 0 else len(data)].decode("utf-8", "surrogateescape")
            path, _, owners = line.partition("\t")
            yield IndexLine(path, tuple(one.rpartition("/")[2] for one in owners.split(",") if one))
            at = data.find(wanted, at + 1)


def index_age_s(path: Path) -> float | None:
    """Return the age of an index in seconds, None when there is none."""
    with contextlib.suppress(OSError):
        return max(0.0, time.time() - path.stat().st_mtime)
    return None


def adopt_index(workspace: Path, target: Path) -> None:
    """Copy the index that a sandbox made to where every slot finds it, atomically. Raises OSError."""
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(temporary_name(target.name))
    try:
        with open_inside(workspace, "cache/contents/index") as handle:
            if os.fstat(handle).st_size > _LARGEST:
                raise OSError("the file index is implausibly large")
            with os.fdopen(os.dup(handle), "rb") as source, temporary.open("wb") as copy:
                shutil.copyfileobj(source, copy)
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
