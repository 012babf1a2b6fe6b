"""Whether what answers at an endpoint is on this machine and sees its files."""

import platform
from pathlib import Path
from urllib.parse import urlsplit

__all__ = ["is_loopback", "is_socket", "is_this_machine"]


def is_socket(endpoint: str) -> bool:
    """Say whether an endpoint is a socket in the file system."""
    return endpoint.startswith("unix:")


def is_loopback(endpoint: str) -> bool:
    """Say whether an endpoint is a port of this machine; a tunnel may lead on from there."""
    try:
        parts = urlsplit(endpoint)
    except ValueError:
        return False
    host = parts.hostname or ""
    return parts.scheme == "tcp" and (host in {"localhost", "::1"} or host.startswith("127."))


def is_this_machine(node: object, root: object) -> bool:
    """Say whether a service is here, by its host's name and the directory where it keeps images.

    A container beside ours, with the network shared, has our host's name and another file system.
    """
    try:
        return node == platform.node() and isinstance(root, str) and Path(root).is_dir()
    except OSError:
        return False
