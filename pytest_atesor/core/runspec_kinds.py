"""The built-in kinds of RunSpec: ``port`` (what a package-list entry says) and ``command`` (any program)."""

from collections.abc import Callable, Iterator, Mapping
from typing import Final, cast

from pytest_atesor.core.inputs import check_relative
from pytest_atesor.core.jsontext import JsonPath
from pytest_atesor.core.names import check_name, derive_package_name
from pytest_atesor.core.plan import Json
from pytest_atesor.core.runspec import Fault, Kind, Traits
from pytest_atesor.core.urls import check_open_mirror, check_open_url, check_ref

__all__ = ["BUILT_IN_KINDS"]


def _try(check: Callable[[str], object], value: str, path: JsonPath) -> Iterator[Fault]:
    try:
        check(value)
    except ValueError as error:
        yield Fault(path, str(error))


def _port_faults(body: Mapping[str, Json]) -> Iterator[Fault]:
    if "name" in body:
        yield from _try(check_name, cast("str", body["name"]), ("name",))
    yield from _try(check_open_url, cast("str", body["url"]), ("url",))
    if "ref" in body:
        yield from _try(check_ref, cast("str", body["ref"]), ("ref",))
    for index, mirror in enumerate(cast("list[str]", body.get("mirrors", []))):
        yield from _try(check_open_mirror, mirror, ("mirrors", index))


def _port_traits(body: Mapping[str, Json]) -> Traits:
    words: list[tuple[JsonPath, str]] = [
        ((key,), cast("str", body[key])) for key in ("lang", "group") if key in body
    ]
    tags = enumerate(cast("list[str]", body.get("tags", [])))
    words += [(("tags", index), tag) for index, tag in tags]
    return Traits(derive_package_name(cast("str", body["url"])), tuple(words))


def _command_faults(body: Mapping[str, Json]) -> Iterator[Fault]:
    for name in cast("Mapping[str, str]", body.get("env", {})):
        if name.startswith("ATESOR_"):
            yield Fault(
                ("env", name), "variables that start with ATESOR_ are the harness's own; choose another name"
            )
    for name in cast("Mapping[str, str]", body.get("files", {})):
        yield from (Fault(("files",), f"{fault.reason}: {name}") for fault in _try(check_relative, name, ()))
    for index, output in enumerate(cast("list[str]", body.get("outputs", []))):
        yield from _try(check_relative, output, ("outputs", index))
    if "metrics" in body:
        yield from _try(check_relative, cast("str", body["metrics"]), ("metrics",))


BUILT_IN_KINDS: Final[Mapping[str, Kind]] = {
    "port": Kind(
        name="port",
        schema="runspec_port_v1",
        find_faults=_port_faults,
        describe=_port_traits,
        needs_sandbox=True,
    ),
    "command": Kind(name="command", schema="runspec_command_v1", find_faults=_command_faults),
}
