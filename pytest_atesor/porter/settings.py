"""The agent's flags and environment, read once into one frozen value."""

import argparse
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn

from pytest_atesor.core.dotenv import tell_origin
from pytest_atesor.core.jsontext import show_value
from pytest_atesor.core.names import redact_text
from pytest_atesor.core.native import MACHINE_VARIABLE
from pytest_atesor.core.package_testing import TESTS_VARIABLE, PackageTesting, parse_package_testing
from pytest_atesor.core.plan import DEFAULT_MAX_ATTEMPTS, Platform, Target
from pytest_atesor.core.text import LONGEST_LINE, sanitize_line
from pytest_atesor.core.urls import SourceUrlError, check_ref, parse_mirror, parse_source_url
from pytest_atesor.core.yes_no import parse_yes_no
from pytest_atesor.errors import SetupError, UsageError

__all__ = ["REPLAY", "Settings", "parse_recipe_path", "read_settings"]

REPLAY: Final = "atesor replay"
"""The program whose source is the recipe of an earlier port."""

_ENGINES = ("auto", "docker", "podman", "host")
_PLATFORMS = tuple(one.value for one in Platform)
_TARGETS = tuple(one.value for one in Target)
_TESTS = tuple(one.value for one in PackageTesting)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What one run is asked to do. ``kill_at`` is in epoch seconds, None without a deadline.

    ``machine`` is the name of the machine that a native batch builds on, "" for this one.
    """

    url: str
    ref: str | None
    mirrors: tuple[str, ...]
    max_attempts: int
    container: str
    platform: Platform
    target: Target
    package: bool
    engine: str
    attempt_directory: Path | None
    kill_at: float | None
    tests: PackageTesting = PackageTesting.RUN
    is_accelerated: bool = True
    has_build_network: bool = False
    force: bool = False
    machine: str = ""


def read_settings(
    argv: Sequence[str], environ: Mapping[str, str], *, program: str = "atesor port"
) -> Settings:
    """Return the settings. Raises UsageError; ``--help`` is printed and ends the process."""
    given = _parser(program).parse_args(argv)
    platform = Platform(given.platform or _choice(environ, "ATESOR_PLATFORM", _PLATFORMS, "debian"))
    target = Target(given.target or _choice(environ, "ATESOR_TARGET", _TARGETS, "qemu"))
    url = given.repo or given.url
    if not url:
        raise UsageError(f"no source given; name it: {program} URL")
    ref = given.ref or environ.get("ATESOR_REF") or None
    mirrors = tuple(given.mirror) or _mirrors(environ)
    _check(parse_source_url, url, "source")
    if ref is not None:
        _check(check_ref, ref, "ref", "" if given.ref else tell_origin("ATESOR_REF", environ))
    for mirror in mirrors:
        _check(parse_mirror, mirror, "mirror", "" if given.mirror else tell_origin("ATESOR_MIRRORS", environ))
    directory = environ.get("ATESOR_ATTEMPT_DIR")
    return Settings(
        url=url,
        ref=ref,
        mirrors=mirrors,
        max_attempts=given.max_attempts,
        container=given.container or f"atesor-port-{platform}",
        platform=platform,
        target=target,
        package=given.package,
        engine=given.engine or _choice(environ, "ATESOR_ENGINE", _ENGINES, "auto"),
        is_accelerated=not (given.no_acceleration or _is_on(environ, "ATESOR_NO_ACCELERATION")),
        has_build_network=given.build_network or _is_on(environ, "ATESOR_BUILD_NETWORK"),
        attempt_directory=Path(directory) if directory else None,
        kill_at=_epoch(environ),
        tests=parse_package_testing(
            given.tests or environ.get(TESTS_VARIABLE) or "run", tell_origin(TESTS_VARIABLE, environ)
        ),
        force=given.force,
        machine=environ.get(MACHINE_VARIABLE, "") if target is Target.NATIVE else "",
    )


def parse_recipe_path(argv: Sequence[str]) -> Path:
    """Return where the recipe is. Raises UsageError; ``--help`` is printed and ends the process."""
    path = _parser(REPLAY).parse_args(argv).url
    if not path:
        raise UsageError(f"no recipe given; name the recipe.json of a run: {REPLAY} recipe.json")
    return Path(path)


class _Parser(argparse.ArgumentParser):
    """One whose errors are one line, like those of every other command."""

    def error(self, message: str) -> NoReturn:
        """Raise UsageError."""
        raise UsageError(f"{sanitize_line(message, LONGEST_LINE)}; see {self.prog} --help")


def _parser(program: str) -> argparse.ArgumentParser:
    is_replay = program == REPLAY
    what = "Carry out the recipe of a port again" if is_replay else "Port one upstream package to riscv64"
    parser = _Parser(
        prog=program,
        description=f"{what}, in a sandbox. Exit code 0: riscv64 output verified; 3: the commands passed, "
        "but nothing was proven; 1: failure; 2: a bad flag.",
        epilog="The variables may also stand in .env in the working directory.",
        allow_abbrev=False,
    )
    (_add_recipe if is_replay else _add_source)(parser)
    parser.add_argument(
        "--max-attempts",
        type=_positive,
        default=DEFAULT_MAX_ATTEMPTS,
        metavar="N",
        help="build attempts (default: %(default)s)",
    )
    parser.add_argument(
        "--force",
        action="store_true",
        help="find out anew how to build it, even if the recipe of an earlier port is known",
    )
    parser.add_argument(
        "--container",
        type=_container,
        metavar="NAME",
        help="the sandbox's container name (default: atesor-port-PLATFORM)",
    )
    parser.add_argument(
        "--target",
        choices=_TARGETS,
        help="where it builds; native in batches only (default: ATESOR_TARGET, else qemu)",
    )
    parser.add_argument(
        "--engine",
        choices=_ENGINES,
        help="what makes the sandbox (default: ATESOR_ENGINE, else auto)",
    )
    parser.add_argument(
        "--no-acceleration",
        action="store_true",
        help="build in the plain image, all emulated (default: ATESOR_NO_ACCELERATION, 1 or 0)",
    )
    parser.add_argument(
        "--build-network",
        action="store_true",
        help="leave the network on while it builds and tests (default: ATESOR_BUILD_NETWORK, 1 or 0)",
    )
    parser.add_argument(
        "--package", action="store_true", help="write a zip of the products under workspace/packages/"
    )
    parser.add_argument(
        "--tests",
        choices=_TESTS,
        help="the package's own tests: run and record, require, or skip them "
        "(default: ATESOR_TESTS, else run)",
    )
    return parser


def _add_source(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("url", nargs="?", help="where the source is, as --repo")
    _add_place(
        parser,
        repo="",
        ref=" (default: ATESOR_REF, else the default branch)",
        mirror=" (default: those of ATESOR_MIRRORS, a JSON array)",
        platform=" (default: ATESOR_PLATFORM, else debian)",
    )


def _add_recipe(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("url", nargs="?", metavar="recipe.json", help="the recipe that a port has left")
    of_recipe = " (default: the recipe's)"
    _add_place(parser, repo=of_recipe, ref=of_recipe, mirror="", platform=of_recipe)


def _add_place(parser: argparse.ArgumentParser, *, repo: str, ref: str, mirror: str, platform: str) -> None:
    parser.add_argument("--repo", metavar="URL", help=f"git repository or source tarball{repo}")
    parser.add_argument("--ref", help=f"tag, branch or commit{ref}")
    parser.add_argument(
        "--mirror",
        action="append",
        default=[],
        metavar="URL",
        help=f"another place of the source, or deb:NAME; repeatable{mirror}",
    )
    parser.add_argument("--platform", choices=_PLATFORMS, help=f"the sandbox's distribution{platform}")


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text[:80]!r} is no number of at least 1")
    return int(text)


def _container(text: str) -> str:
    from pytest_atesor.sandbox.slots import slot_directory  # noqa: PLC0415 - a bad flag answers at once

    try:
        slot_directory(Path(), text)
    except SetupError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def _is_on(environ: Mapping[str, str], name: str) -> bool:
    return parse_yes_no(environ.get(name, ""), tell_origin(name, environ))


def _choice(environ: Mapping[str, str], name: str, allowed: Sequence[str], default: str) -> str:
    value = environ.get(name) or default
    if value not in allowed:
        origin = tell_origin(name, environ)
        raise UsageError(f"unknown value {value[:80]!r} from {origin}; use one of: {', '.join(allowed)}")
    return value


def _mirrors(environ: Mapping[str, str]) -> tuple[str, ...]:
    text = environ.get("ATESOR_MIRRORS", "")
    if not text:
        return ()
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        origin = tell_origin("ATESOR_MIRRORS", environ)
        raise UsageError(f"{text[:80]!r} from {origin} is no JSON array of strings; correct or unset it")
    return tuple(value)


def _check(check: Callable[[str], object], value: str, what: str, origin: str = "") -> None:
    """Raise UsageError for what a package list refuses, but for secrets: they may be typed."""
    try:
        check(value)
    except SourceUrlError as error:
        shown = f"{show_value(redact_text(value))}{f' from {origin}' if origin else ''}"
        raise UsageError(f"the {what} {shown} is refused: {error}") from None


def _epoch(environ: Mapping[str, str]) -> float | None:
    text = environ.get("ATESOR_RUN_DEADLINE", "")
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        origin = tell_origin("ATESOR_RUN_DEADLINE", environ)
        raise UsageError(f"{text[:80]!r} from {origin} is no time in epoch seconds; correct or unset it")
    return value
