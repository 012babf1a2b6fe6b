"""Images as plain directories, for sandboxes without a container engine.

``images/ID/root`` is an unpacked file system, ``images/ID/image.json`` its labels and environment, and
``tags/TAG`` (quoted) a link to the image that a tag means. An image appears whole or not at all.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final
from urllib.parse import quote

from pytest_atesor.errors import SandboxError
from pytest_atesor.sandbox.packing import start_unpacking
from pytest_atesor.temporary import temporary_name

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

__all__ = ["Image", "ImageStore", "remove_tree"]

_ID: Final = re.compile(r"[0-9a-f]{64}")
_UNPACK: Final = (
    "tar",
    "--extract",
    "--numeric-owner",
    "--same-permissions",
    "--xattrs",
    "--xattrs-include=*",
)
_CHUNK: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """An unpacked image: its id, its root directory, its labels and its environment."""

    id: str
    root: Path
    labels: Mapping[str, str]
    environment: Mapping[str, str]


class ImageStore:
    """The images below one directory, which nobody but its owner may enter."""

    def __init__(self, directory: Path) -> None:
        self._images = directory / "images"
        self._tags = directory / "tags"

    def find(self, image: str) -> Image | None:
        """Return the image that a tag means, or of that id; None when there is none."""
        if _ID.fullmatch(image):
            return self.get(image)
        try:
            return self._read((self._tags / quote(image, safe="")).readlink().name)
        except (OSError, ValueError):
            return None

    def get(self, identifier: str) -> Image | None:
        """Return the image with that id, None when there is none."""
        try:
            return self._read(identifier)
        except (OSError, ValueError):
            return None

    def load(self, archive: Path) -> None:
        """Unpack a docker-archive file with one layer, compressed with zstd or not; its tags become ours.

        Raises SandboxError when it is no such file, or cannot be unpacked, SetupError without zstd.
        """
        for directory in (self._images, self._tags):
            directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        for left in self._images.glob("load-*"):  # by a loading that was killed; the callers hold a lock
            remove_tree(left)
        place = Path(tempfile.mkdtemp(prefix="load-", dir=self._images))
        try:
            tags, identifier = _unpack_archive(archive, place)
            if not (self._images / identifier).exists():
                place.rename(self._images / identifier)
        except (OSError, EOFError) as error:
            raise SandboxError(f"the image archive {archive} cannot be unpacked ({error})") from error
        finally:
            remove_tree(place)
        for tag in tags:
            self._point(tag, identifier)

    def prune(self, label: str, *, used: Collection[str]) -> None:
        """Remove the images with that label that no tag means and that are not ``used``."""
        keep = {*used, *(link.readlink().name for link in self._tags.glob("*"))}
        for file in self._images.glob("*/image.json"):
            image = self.get(file.parent.name)
            if image is not None and image.id not in keep and label in image.labels:
                remove_tree(file.parent)

    def _read(self, identifier: str) -> Image:
        place = self._images / identifier
        config = json.loads((place / "image.json").read_text(encoding="utf-8"))
        entries = (str(entry).partition("=") for entry in config.get("Env") or ())
        return Image(
            id=identifier,
            root=place / "root",
            labels=config.get("Labels") or {},
            environment={name: value for name, _, value in entries},
        )

    def _point(self, tag: str, identifier: str) -> None:
        link = self._tags / quote(tag, safe="")
        part = self._tags.parent / temporary_name("tag")
        part.unlink(missing_ok=True)
        part.symlink_to(Path("..") / "images" / identifier)
        part.replace(link)


def remove_tree(place: Path) -> None:
    """Remove a directory of any owner's files, without following anything out of it. Raises SandboxError."""
    if not place.exists():
        return
    ended = subprocess.run(
        ["rm", "-rf", "--one-file-system", "--", str(place)],  # noqa: S607 - PATH
        capture_output=True,
        check=False,
    )
    if ended.returncode != 0:
        said = ended.stderr.decode(errors="replace").strip()[-300:]
        raise SandboxError(f"{place} cannot be removed ({said}); remove it yourself")


def _unpack_archive(archive: Path, place: Path) -> tuple[list[str], str]:
    """Unpack into ``place`` and return the tags and the id."""
    import tarfile  # noqa: PLC0415 - agents start without it

    manifest: dict[str, Any] = {}
    config: dict[str, Any] = {}
    try:
        with (
            _decompressed(archive) as stream,
            tarfile.open(fileobj=stream, mode="r|", bufsize=_CHUNK) as members,
        ):
            for member in members:
                content = members.extractfile(member)
                if content is None:
                    continue
                if member.name == "manifest.json":
                    manifest = json.loads(content.read())[0]
                elif member.name == manifest.get("Config"):
                    config = json.loads(content.read())["config"]
                elif [member.name] == manifest.get("Layers"):
                    _unpack_layer(content, place / "root")
    except (tarfile.TarError, LookupError, TypeError, ValueError) as error:
        raise SandboxError(f"{archive} is no image archive ({error})") from error
    identifier = str(manifest.get("Config", "")).removesuffix(".json")
    if not (_ID.fullmatch(identifier) and (place / "root").is_dir()):
        raise SandboxError(f"{archive} is no image archive with one layer")
    (place / "image.json").write_text(json.dumps(config), encoding="utf-8")
    return list(manifest.get("RepoTags") or ()), identifier


@contextmanager
def _decompressed(archive: Path) -> Iterator[IO[bytes]]:
    """Yield the bytes of an archive as they are decompressed."""
    if archive.suffix != ".zst":
        with archive.open("rb") as plain:
            yield plain
        return
    with start_unpacking(archive) as unpacker:
        try:
            if unpacker.stdout is not None:
                yield unpacker.stdout
        finally:
            unpacker.kill()


def _unpack_layer(content: IO[bytes], root: Path) -> None:
    """Let tar unpack: it keeps owners, modes, links and attributes, and stays below the directory."""
    root.mkdir(mode=0o755)
    root.chmod(0o755)
    # devices are the sandbox's own, and not every root may make any
    argv = [*_UNPACK, "--exclude=./dev/*", "--directory", str(root)]
    with (
        tempfile.TemporaryFile() as errors,
        subprocess.Popen(argv, stdin=subprocess.PIPE, stderr=errors) as tar,
    ):
        if tar.stdin is not None:
            try:
                shutil.copyfileobj(content, tar.stdin, _CHUNK)
                tar.stdin.close()
            except BrokenPipeError:
                pass  # tar says why
        code = tar.wait()
        errors.seek(0)
        said = errors.read().decode(errors="replace").strip()
    if code != 0:
        raise SandboxError(f"the image's layer cannot be unpacked into {root} ({said[-300:]})")
