"""The recipe of the sandbox images: its files, its digest, and what is decided about images made from it."""

import hashlib
import platform as host_platform
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pytest_atesor.core.plan import Platform

__all__ = [
    "BASE_IMAGES",
    "BOOTSTRAP_COMPONENTS",
    "BOOTSTRAP_SUITES",
    "ENVIRONMENT",
    "LABEL_CREATED",
    "LABEL_RECIPE",
    "UNFINISHED",
    "VERSIONS_FILE",
    "containerfile",
    "find_old_tools",
    "find_unreadable_tools",
    "format_labels",
    "has_native_tools",
    "host_architecture",
    "image_name",
    "image_variant",
    "read_recipe_digest",
    "recipe_directory",
]

LABEL_RECIPE: Final = "org.pytest-atesor.recipe"
LABEL_CREATED: Final = "org.pytest-atesor.created"
UNFINISHED: Final = "unfinished"
"""The recipe, by its label, of an image that is being built: no digest of any."""

VERSIONS_FILE: Final = "/etc/atesor-versions"
"""Where an image says what :func:`format_labels` takes."""

_LABEL_VERSION: Final = "org.pytest-atesor.version."

BASE_IMAGES: Final[Mapping[Platform, str]] = {
    Platform.ALPINE: "alpine:3.22",
    Platform.DEBIAN: "debian:trixie",
    Platform.UBUNTU: "ubuntu:24.04",
}
BOOTSTRAP_SUITES: Final[Mapping[Platform, str]] = {Platform.DEBIAN: "trixie", Platform.UBUNTU: "noble"}
BOOTSTRAP_COMPONENTS: Final[Mapping[Platform, str]] = {
    Platform.DEBIAN: "main",
    Platform.UBUNTU: "main,universe",
}

ENVIRONMENT: Final[Mapping[str, str]] = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LANG": "C.UTF-8",
    "DEBIAN_FRONTEND": "noninteractive",
    # compiled into the fast shell as the host's; the environment wins
    "HOSTTYPE": "riscv64",
    "MACHTYPE": "riscv64-unknown-linux-gnu",
}

_OLDEST: Final[Mapping[str, tuple[int, ...]]] = {"go": (1, 26, 5), "cargo": (1, 90, 0)}
_HOSTS: Final[Mapping[str, str]] = {"x86_64": "amd64", "aarch64": "arm64"}


def has_native_tools(platform: Platform) -> bool:
    """Say whether the platform has an accelerated image: its C library is that of the native tools."""
    return platform in BOOTSTRAP_SUITES


def image_name(platform: Platform, *, accelerated: bool = True) -> str:
    """Return the name of the platform's sandbox image; a plain one has no native tools."""
    return f"localhost/pytest-atesor-sandbox:{image_variant(platform, accelerated=accelerated)}"


def image_variant(platform: Platform, *, accelerated: bool) -> str:
    """Return the word for a platform's image in names of tags and files."""
    return platform.value if accelerated or not has_native_tools(platform) else f"{platform}-plain"


def recipe_directory() -> Path:
    """Return where the recipe's files stand."""
    return Path(__file__).resolve().parent.parent / "resources" / "sandbox"


def containerfile(platform: Platform, *, accelerated: bool = True) -> Path:
    """Return the file that makes the platform's image from a registry's base image."""
    if not has_native_tools(platform):
        return recipe_directory() / "Containerfile.alpine"
    return recipe_directory() / ("Containerfile.debian" if accelerated else "Containerfile.debian-plain")


def host_architecture(machine: str | None = None) -> str | None:
    """Return the distribution's name of the host's architecture, None when no native tools exist for it."""
    return _HOSTS.get(machine or host_platform.machine())


def read_recipe_digest(
    platform: Platform, host: str | None, directory: Path | None = None, *, accelerated: bool = True
) -> str:
    """Return a digest of everything but the mirror that decides what the platform's image contains."""
    variant = image_variant(platform, accelerated=accelerated)
    digest = hashlib.sha256(
        f"{variant} {host} {BASE_IMAGES[platform]} {sorted(ENVIRONMENT.items())}".encode()
    )
    for file in sorted((directory or recipe_directory()).iterdir()):
        digest.update(f"\n{file.name} {file.stat().st_size}\n".encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()


def format_labels(*, digest: str, created_s: int, versions: str = "") -> dict[str, str]:
    """Return an image's labels; ``versions`` is NAME=VERSION, one a line, as the recipe records them."""
    labels = {LABEL_RECIPE: digest, LABEL_CREATED: str(created_s)}
    for line in versions.splitlines():
        name, equals, version = line.strip().partition("=")
        if equals:
            labels[_LABEL_VERSION + name] = version
    return labels


def find_old_tools(labels: Mapping[str, str]) -> tuple[str, ...]:
    """Return the tools that are older than a batch needs, as "go 1.22.2"; unknown versions count as new."""
    versions = {name: labels.get(_LABEL_VERSION + name, "") for name in _OLDEST}
    return tuple(
        f"{name} {version}"
        for name, version in versions.items()
        if (numbers := _parse_version(version)) and numbers < _OLDEST[name]
    )


def find_unreadable_tools(labels: Mapping[str, str]) -> tuple[str, ...]:
    """Return the tools whose recorded version cannot be read, as "go 'devel'"."""
    versions = {name: labels.get(_LABEL_VERSION + name) for name in _OLDEST}
    return tuple(
        f"{name} {version[:40]!r}"
        for name, version in versions.items()
        if version is not None and not _parse_version(version)
    )


def _parse_version(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d{1,9}", version)[:3])
