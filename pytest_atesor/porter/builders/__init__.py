"""The build systems that the agent knows, one file each. Adding one means its file and a line here."""

from pytest_atesor.porter.builders.autotools import AutotoolsBuilder
from pytest_atesor.porter.builders.cargo import CargoBuilder
from pytest_atesor.porter.builders.cmake import CMakeBuilder
from pytest_atesor.porter.builders.configure import ConfigureBuilder
from pytest_atesor.porter.builders.golang import GoBuilder
from pytest_atesor.porter.builders.interface import Builder
from pytest_atesor.porter.builders.make import MakeBuilder
from pytest_atesor.porter.builders.meson import MesonBuilder
from pytest_atesor.porter.builders.plainc import PlainCBuilder

__all__ = ["BUILDERS", "builder_named"]

BUILDERS: tuple[Builder, ...] = (
    CargoBuilder(),
    GoBuilder(),
    AutotoolsBuilder(),
    ConfigureBuilder(),
    CMakeBuilder(),
    MesonBuilder(),
    MakeBuilder(),
    PlainCBuilder(),
)


def builder_named(name: str) -> Builder:
    """Return the builder of that name. Raises KeyError."""
    return {one.name: one for one in BUILDERS}[name]
