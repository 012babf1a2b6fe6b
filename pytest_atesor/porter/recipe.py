"""A recipe: what a run really did to build one package, as values, as JSON to replay and as text to read.

Nothing runs here. A recipe may come from anywhere, so reading one checks every field; what its commands may
do is the sandbox's business, and replaying proves the package again.
"""

import json
import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, cast

from pytest_atesor.core.text import sanitize
from pytest_atesor.errors import UsageError
from pytest_atesor.porter.counts import FRAMEWORKS
from pytest_atesor.porter.platforms import profile_of
from pytest_atesor.porter.platforms.interface import Profile
from pytest_atesor.porter.recipe_fetch import format_fetch

__all__ = [
    "Command",
    "PackageTests",
    "Recipe",
    "format_recipe",
    "format_recipe_text",
    "parse_recipe",
    "parse_versions",
]

_SCHEMA = "recipe_v1"
_PACKAGE_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9+._:~-]*")
_LAYOUT = "cd /workspace && install -d -o builder -g builder src build stage home"


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One command of the builder; a command that is not ``required`` may fail."""

    name: str
    argv: tuple[str, ...]
    cwd: str
    environment: Mapping[str, str] = field(default_factory=dict)
    network: bool = False
    required: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageTests:
    """How the project's own tests were run after the build, and whether with the network.

    ``prepare`` may be "". ``packages`` maps what was installed for them alone to versions.
    """

    framework: str
    command: str
    prepare: str
    script: str
    cwd: str
    environment: Mapping[str, str] = field(default_factory=dict)
    network: bool = False
    packages: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """From an empty sandbox to the products: the source's identity, packages with versions, commands.

    ``url_used`` is the place that answered; ``commit`` belongs to git, ``sha256`` to archives, ``version`` to
    Debian sources. ``name`` is the source's directory.
    """

    url: str
    url_used: str
    platform: str
    build_system: str
    ref: str | None = None
    commit: str | None = None
    sha256: str | None = None
    fixes: tuple[str, ...] = ()
    packages: Mapping[str, str] = field(default_factory=dict)
    commands: tuple[Command, ...] = ()
    package_tests: PackageTests | None = None
    name: str = ""
    version: str = ""


def format_recipe(recipe: Recipe) -> str:
    """Return the JSON that ``parse_recipe`` reads."""
    return json.dumps({"schema_version": _SCHEMA, **asdict(recipe)}, indent=1) + "\n"


def parse_recipe(text: str, where: str) -> Recipe:
    """Return the recipe in ``text``. Raises UsageError, one line, for all that is none."""
    try:
        return _recipe(json.loads(text))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise UsageError(
            f"{where} is no recipe ({sanitize(str(error))[:200]}); give the recipe.json of a run"
        ) from None


def parse_versions(text: str) -> dict[str, str]:
    """Return name to version from lines ``name=version``."""
    pairs = (line.partition("=") for line in text.split())
    return {name: version for name, _, version in pairs if name and version}


def format_recipe_text(recipe: Recipe) -> str:
    """Return the Markdown for people; its blocks run in a riscv64 sandbox, in their order."""
    profile = profile_of(recipe.platform)
    identity = f"commit {recipe.commit}" if recipe.commit else f"SHA-256 {recipe.sha256}"
    parts = [
        f"# Recipe: {_inline(recipe.url)}",
        (
            f"Platform {recipe.platform}, build system {recipe.build_system}. Replay it and prove it "
            "again with `atesor replay recipe.json`; by hand, run these blocks in their order in an empty "
            "sandbox."
        ),
        "## Source",
        f"From {_inline(recipe.url_used)}, {identity}; unpacked below `/workspace/src`.",
        "### Directories (root, network on)",
        _block(f"{_LAYOUT}\n{profile.refresh}"),
        "### Fetch (builder, network on)",
        _block(
            format_fetch(
                url=recipe.url_used,
                name=recipe.name,
                commit=recipe.commit,
                sha256=recipe.sha256,
                version=recipe.version,
            )
        ),
    ]
    if recipe.fixes:
        parts += ["## Fixes", "\n".join(f"- {_inline(one)}" for one in recipe.fixes)]
    parts += _package_parts("Packages", recipe.packages, profile)
    for one in recipe.commands:
        optional = "" if one.required else ", may fail"
        parts += [f"## {one.name} (builder, {_network(one)}{optional})", _block(_shell_line(one))]
    if tests := recipe.package_tests:
        parts += _package_parts("Packages of the tests", tests.packages, profile)
        parts.append(f"## Package tests: {_inline(tests.command)} (builder, {_network(tests)}, may fail)")
        parts += [_block(_shell_line(one)) for one in _test_commands(tests)]
    return "\n\n".join(parts) + "\n"


def _package_parts(heading: str, packages: Mapping[str, str], profile: Profile) -> list[str]:
    words = [profile.pinned(name, version) for name, version in sorted(packages.items())]
    return [f"## {heading} (root, network on)", _block(profile.plan_by_hand(words))] if words else []


def _network(one: Command | PackageTests) -> str:
    return f"network {'on' if one.network else 'off'}"


def _shell_line(command: Command) -> str:
    environment = [f"{key}={value}" for key, value in sorted(command.environment.items())]
    return f"cd {shlex.quote(command.cwd)} && {shlex.join(['env', *environment, *command.argv])}"


def _test_commands(tests: PackageTests) -> list[Command]:
    return [
        Command(
            name=tests.command,
            argv=("sh", "-eu", "-c", script),
            cwd=tests.cwd,
            environment=tests.environment,
            required=False,
        )
        for script in (tests.prepare, tests.script)
        if script
    ]


def _block(text: str) -> str:
    """Fence ``text`` with more backticks than it holds in a row."""
    clean = sanitize(text)
    fence = "```"
    while fence in clean:
        fence += "`"
    return f"{fence}sh\n{clean}\n{fence}"


def _inline(text: str) -> str:
    return "".join(f"\\{one}" if one in "\\`*[]<>|" else one for one in sanitize(text).replace("\n", " "))


def _command(value: Any) -> Command:  # noqa: ANN401 - parsed JSON
    given = dict(value)
    argv, environment = _strings(given.pop("argv")), _table(given.pop("environment"))
    flags = {key: given.pop(key) for key in ("network", "required")}
    if not argv or not all(isinstance(one, bool) for one in flags.values()):
        raise ValueError("a command needs argv, and network and required as true or false")
    name, cwd = _strings([given.pop("name"), given.pop("cwd")])
    if given:
        raise ValueError(f"a command has no field {next(iter(given))}")
    return Command(name=name, argv=argv, cwd=cwd, environment=environment, **flags)


def _tests(value: Any) -> PackageTests | None:  # noqa: ANN401 - parsed JSON
    if value is None:
        return None
    given = dict(value)
    environment, packages = _table(given.pop("environment")), _packages(given.pop("packages", {}))
    network = given.pop("network", False)  # recipes of before say nothing: it was off
    if not isinstance(network, bool):
        raise ValueError("package_tests.network must be true or false")  # noqa: TRY004 - the document's value
    _strings(list(given.values()))
    if given.get("framework") not in FRAMEWORKS:
        raise ValueError("package_tests.framework is unknown")
    return PackageTests(**given, environment=environment, network=network, packages=packages)


def _strings(value: Iterable[Any]) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(one, str) and "\0" not in one for one in value):
        raise ValueError("a list of strings is expected")
    return tuple(cast("list[str]", value))


def _table(value: Mapping[str, Any]) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(one, str) for one in value.values()):
        raise ValueError("a table of strings is expected")
    return dict(value)


def _packages(value: Mapping[str, Any]) -> dict[str, str]:
    """Return names and versions; none can be an option of a package manager."""
    table = _table(value)
    for word in (*table, *table.values()):
        if not _PACKAGE_WORD.fullmatch(word):
            raise ValueError(f"{word!r} is no package's name or version")
    return table


def _recipe(document: dict[str, Any]) -> Recipe:
    if document.pop("schema_version") != _SCHEMA:
        raise ValueError(f"schema_version is not {_SCHEMA}")
    commands = tuple(_command(one) for one in document.pop("commands"))
    fixes = _strings(document.pop("fixes"))
    packages = _packages(document.pop("packages"))
    tests = document.pop("package_tests", None)
    for key, value in document.items():
        if not isinstance(value, str) and not (value is None and key in {"ref", "commit", "sha256"}):
            raise ValueError(f"{key} is no string")
    return Recipe(**document, commands=commands, fixes=fixes, packages=packages, package_tests=_tests(tests))
