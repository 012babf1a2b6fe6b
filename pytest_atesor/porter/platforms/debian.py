"""Debian and Ubuntu: apt, and the distribution's own index of files."""

import shlex
from collections.abc import Iterable

from pytest_atesor.porter.builders.shared import words
from pytest_atesor.porter.debian import describe_script, install_script, source_script
from pytest_atesor.porter.platforms.interface import Profile

__all__ = ["DEBIAN"]

_REFRESH = """\
for one in /etc/apt/sources.list.d/*.sources; do sed -i 's/^Types: deb$/Types: deb deb-src/' "$one"; done
apt-get update"""


def _plan_versions(packages: Iterable[str]) -> str:
    return f"dpkg-query -W -f '${{Package}}=${{Version}}\\n'{words(packages)} 2>/dev/null || :"


def _plan_by_hand(packages: Iterable[str]) -> str:
    return shlex.join(["apt-get", "install", "-y", "--no-install-recommends", *packages])


DEBIAN = Profile(
    install=install_script,
    pinned=lambda name, version: f"{name}={version}",
    plan_by_hand=_plan_by_hand,
    versions=_plan_versions,
    refresh=_REFRESH,
    build_depends=source_script,
    describe=describe_script,
    has_index=True,
)
