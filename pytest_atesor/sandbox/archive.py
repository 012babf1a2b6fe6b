"""Writes a container image as a docker-archive file, which every engine can load.

One layer, one tag. Engines disagree on how to label an image's architecture at import; here it stands in the
image's own configuration.
"""

import hashlib
import io
import json
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_atesor.core.plan import Json

__all__ = ["ImageSettings", "format_config", "write_archive"]


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


def write_archive(root_tar: Path, target: IO[bytes], settings: ImageSettings) -> None:
    """Write the archive that makes ``root_tar`` (uncompressed) an image."""
    with root_tar.open("rb") as stream:
        layer_sha256 = hashlib.file_digest(stream, "sha256").hexdigest()
    config = format_config(settings, layer_sha256)
    config_name = hashlib.sha256(config).hexdigest() + ".json"
    layer_name = f"{layer_sha256}/layer.tar"
    manifest = json.dumps([
        {"Config": config_name, "RepoTags": [settings.tag], "Layers": [layer_name]}
    ]).encode()
    with tarfile.open(fileobj=target, mode="w|", format=tarfile.GNU_FORMAT) as archive:
        for name, content in (("manifest.json", manifest), (config_name, config)):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
        member = tarfile.TarInfo(layer_name)
        member.size = root_tar.stat().st_size
        with root_tar.open("rb") as stream:
            archive.addfile(member, stream)
