"""Writes a container image as a docker-archive file, which every engine can load.

One layer, one tag. Engines disagree on how to label an image's architecture at import; here it stands in the
image's own configuration. What comes before the layer's bytes names their digest, so it is known last:
:func:`format_head` and :func:`format_tail` let the layer be packed while it is still being made.
"""

import hashlib
import json
import shutil
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_atesor.core.plan import Json

__all__ = ["ImageSettings", "Layer", "format_config", "format_head", "format_tail", "write_archive"]

_BLOCK = tarfile.BLOCKSIZE


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageSettings:
    """What an image says of itself: tag, environment, labels, creation time (ISO 8601)."""

    tag: str
    environment: Mapping[str, str]
    labels: Mapping[str, str]
    created: str


def format_config(settings: ImageSettings, layer_sha256: str) -> bytes:
    """Return the image's configuration document."""
    document: dict[str, Json] = {
        "architecture": "riscv64",
        "os": "linux",
        "created": settings.created,
        "config": {
            "Env": [f"{name}={value}" for name, value in settings.environment.items()],
            "Cmd": ["/bin/sh"],
            "WorkingDir": "/workspace",
            "Labels": dict(settings.labels),
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{layer_sha256}"]},
        "history": [{"created": settings.created, "created_by": "pytest-atesor"}],
    }
    return json.dumps(document, sort_keys=True).encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """An uncompressed layer's digest and size."""

    sha256: str
    size_bytes: int


def format_head(layer: Layer, settings: ImageSettings) -> bytes:
    """Return the archive up to the layer's first byte."""
    config = format_config(settings, layer.sha256)
    config_name = hashlib.sha256(config).hexdigest() + ".json"
    layer_name = f"{layer.sha256}/layer.tar"
    manifest = json.dumps([
        {"Config": config_name, "RepoTags": [settings.tag], "Layers": [layer_name]}
    ]).encode()
    documents = b"".join(
        _format_member(name, len(content)) + content + _pad(len(content))
        for name, content in (("manifest.json", manifest), (config_name, config))
    )
    return documents + _format_member(layer_name, layer.size_bytes)


def format_tail(layer: Layer) -> bytes:
    """Return the archive after the layer's last byte."""
    return _pad(layer.size_bytes) + bytes(2 * _BLOCK)


def write_archive(root_tar: Path, target: IO[bytes], settings: ImageSettings) -> None:
    """Write the archive that makes ``root_tar`` (uncompressed) an image."""
    with root_tar.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
        layer = Layer(sha256=digest, size_bytes=root_tar.stat().st_size)
        stream.seek(0)
        target.write(format_head(layer, settings))
        shutil.copyfileobj(stream, target)
    target.write(format_tail(layer))


def _format_member(name: str, size_bytes: int) -> bytes:
    member = tarfile.TarInfo(name)
    member.size = size_bytes
    return member.tobuf(tarfile.GNU_FORMAT)


def _pad(size_bytes: int) -> bytes:
    return bytes(-size_bytes % _BLOCK)
