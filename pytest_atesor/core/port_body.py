"""What a port says of its package, wherever it stands: in a package list's entry or in a RunSpec's body."""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple, cast

from pytest_atesor.core.jsontext import JsonPath
from pytest_atesor.core.names import check_name
from pytest_atesor.core.plan import Json
from pytest_atesor.core.urls import check_open_mirror, check_open_url, check_ref

__all__ = ["Fault", "find_port_faults", "list_mark_words", "try_check"]


class Fault(NamedTuple):
    """What is wrong at a place in a kind's body, in words that follow the value."""

    path: JsonPath
    reason: str


def try_check(check: Callable[[str], object], value: str, path: JsonPath) -> Iterator[Fault]:
    """Yield what a check that raises ValueError has against ``value``."""
    try:
        check(value)
    except ValueError as error:
        yield Fault(path, str(error))


def find_port_faults(body: Mapping[str, Json]) -> Iterator[Fault]:
    """Yield what the schema cannot say against name, URL, ref and mirrors."""
    if "name" in body:
        yield from try_check(check_name, cast("str", body["name"]), ("name",))
    yield from try_check(check_open_url, cast("str", body["url"]), ("url",))
    if "ref" in body:
        yield from try_check(check_ref, cast("str", body["ref"]), ("ref",))
    for index, mirror in enumerate(cast("list[str]", body.get("mirrors", []))):
        yield from try_check(check_open_mirror, mirror, ("mirrors", index))


def list_mark_words(body: Mapping[str, Json]) -> tuple[tuple[JsonPath, str], ...]:
    """Return the words that become marks, language and group first, each with its place."""
    words: list[tuple[JsonPath, str]] = [
        ((key,), cast("str", body[key])) for key in ("lang", "group") if key in body
    ]
    tags = enumerate(cast("list[str]", body.get("tags", [])))
    return (*words, *((("tags", index), tag) for index, tag in tags))
