"""The built-in kinds of RunSpec: ``port`` (a package-list entry), ``command`` (any program), ``coverage``."""

import posixpath
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, cast

from pytest_atesor.core.coverage_body import find_coverage_faults
from pytest_atesor.core.inputs import check_relative
from pytest_atesor.core.names import derive_package_name
from pytest_atesor.core.plan import Json
from pytest_atesor.core.port_body import Fault, find_port_faults, list_mark_words, try_check
from pytest_atesor.core.runspec import Kind, Traits

__all__ = ["BUILT_IN_KINDS"]


def _port_traits(body: Mapping[str, Json]) -> Traits:
    return Traits(derive_package_name(cast("str", body["url"])), list_mark_words(body))


def _command_faults(body: Mapping[str, Json]) -> Iterator[Fault]:
    for name in cast("Mapping[str, str]", body.get("env", {})):
        if name.startswith("ATESOR_"):
            yield Fault(
                ("env", name), "variables that start with ATESOR_ are the harness's own; choose another name"
            )
    yield from _file_faults(cast("Mapping[str, str]", body.get("files", {})))
    for index, output in enumerate(cast("list[str]", body.get("outputs", []))):
        yield from try_check(check_relative, output, ("outputs", index))
    if "metrics" in body:
        yield from try_check(check_relative, cast("str", body["metrics"]), ("metrics",))


def _file_faults(names: Iterable[str]) -> Iterator[Fault]:
    """Yield what keeps these files from standing beside each other in one directory."""
    files: dict[str, str] = {}
    for name in names:
        try:
            path = check_relative(name)
        except ValueError as error:
            yield Fault(("files",), f"{error}: {name}")
            continue
        if path in files:
            yield Fault(("files",), f"{files[path]!a} and {name!a} are one file; drop one of them")
        files[path] = name
    for path, name in files.items():
        above = path
        while above := posixpath.dirname(above):
            if above in files:
                yield Fault(("files",), f"{name!a} stands below {files[above]!a}, which is a file; move one")


BUILT_IN_KINDS: Final[Mapping[str, Kind]] = {
    "port": Kind(
        name="port",
        schema="runspec_port_v1",
        find_faults=find_port_faults,
        describe=_port_traits,
        needs_sandbox=True,
    ),
    "command": Kind(name="command", schema="runspec_command_v1", find_faults=_command_faults),
    "coverage": Kind(name="coverage", schema="runspec_coverage_v1", find_faults=find_coverage_faults),
}
