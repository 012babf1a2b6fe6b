"""What differs between the platforms when a build misses something, one file each."""

from collections.abc import Mapping

from pytest_atesor.core.plan import Platform
from pytest_atesor.porter.platforms.alpine import ALPINE
from pytest_atesor.porter.platforms.debian import DEBIAN
from pytest_atesor.porter.platforms.interface import Profile

__all__ = ["PROFILES", "profile_of"]

PROFILES: Mapping[Platform, Profile] = {
    Platform.ALPINE: ALPINE,
    Platform.DEBIAN: DEBIAN,
    Platform.UBUNTU: DEBIAN,
}


def profile_of(platform: str) -> Profile:
    """Return the profile of the platform of that name. Raises ValueError."""
    return PROFILES[Platform(platform)]
