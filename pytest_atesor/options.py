"""Every option, once: its flag, environment variable, ini key, help, default; and the value they become.

Where several places name an option, the command line wins, then the process environment, then ``.env`` in
the rootdir, then the ini file, then the default. Nobody but this module asks pytest for an option of ours;
everybody else gets an :class:`Options`. Nothing here looks for a package list or reads one.

argparse must not judge our values (it would end with pytest's own usage code), so everything arrives as text
and is checked here; each error names the value and the place that it came from.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from pytest_atesor.core.limits import SlotLimits, parse_size
from pytest_atesor.core.plan import Platform, Target
from pytest_atesor.core.shards import Shard, parse_shard
from pytest_atesor.core.yes_no import parse_yes_no
from pytest_atesor.errors import UsageError
from pytest_atesor.option_table import (
    INTERNAL_VARIABLES,
    LIST,
    MANIFEST,
    MOST_WORKERS,
    OPTIONS,
    RERUN,
    RESUME,
    RUN,
    VARIABLES,
    Option,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from pathlib import Path

    import pytest

__all__ = [
    "ENGINES",
    "INTERNAL_VARIABLES",
    "LIST",
    "MANIFEST",
    "MOST_WORKERS",
    "OPTIONS",
    "RERUN",
    "RESUME",
    "VARIABLES",
    "Option",
    "Options",
    "ReopenOptions",
    "Value",
    "add_options",
    "find_given",
    "find_list_setting",
    "find_manifest",
    "find_reopen",
    "has_order",
    "is_run_command",
    "join_values",
    "parse_choice",
    "parse_flag",
    "read_dotenv",
    "read_options",
    "refuse_strays",
]

ENGINES: Final = ("auto", "docker", "podman", "host", "none")

_OPEN_FILES: Final = ("/dev/fd/", "/dev/stdin", "/proc/self/fd/")
_DEFAULT_LIST: Final = "smoke"
_STATE_DIRECTORY: Final = "ATESOR_STATE_DIR"
_LARGEST_NAMES_BYTES: Final = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the user wants, checked and typed. ``agent`` is the split command, None for the built-in agent.

    ``output_root`` and ``profile_root`` are absolute. ``dotenv`` is what ``.env`` in the rootdir adds to the
    agents' environment. ``given`` names the options that stand on the command line; ``origins`` says of each
    that is not at its default where its value came from.
    """

    package_list: str | None
    platform: Platform
    target: Target
    engine: str
    is_accelerated: bool
    has_build_network: bool
    agent: tuple[str, ...] | None
    package: bool
    shard: Shard | None
    only: tuple[str, ...]
    output_root: Path
    batch_id: str | None
    profile_root: Path | None
    max_cases: int | None
    write_csv: bool
    is_plan_only: bool
    limits: SlotLimits
    retry_environment: int
    has_breaker: bool
    dotenv: Mapping[str, str]
    given: frozenset[str]
    origins: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReopenOptions:
    """Which cases of the bundle ``root`` to run.

    Without ``is_rerun`` those without an outcome (``with_failed``: and those that failed); with it those that
    failed, those named in ``cases``, or ``everything``.
    """

    root: Path
    is_rerun: bool
    with_failed: bool
    cases: tuple[str, ...]
    everything: bool


class Value(NamedTuple):
    """A raw value and the words that say where it came from."""

    text: str
    origin: str


def add_options(parser: pytest.Parser) -> None:
    """Register every option and its ini key with pytest."""
    group = parser.getgroup("atesor", "porting batches (pytest-atesor)")
    for option in OPTIONS:
        text = option.help
        text += "" if option.is_order else f". Also {option.env}, or {option.dest} in the ini file"
        text += f" (default: {option.default})" if option.default else ""
        if option.kind == "flag":
            group.addoption(option.flag, dest=option.dest, action="store_true", default=None, help=text)
        else:
            is_list = option.kind == "list"
            # pytest puts the lines of a FILE in the place of @FILE; of an empty one nothing is left.
            missing: dict[str, str] = {"nargs": "?", "const": ""} if is_list else {}
            group.addoption(
                option.flag,
                dest=option.dest,
                action="append" if is_list else "store",
                default=None,
                metavar=option.metavar,
                help=text,
                **missing,
            )
        if not option.is_order:
            parser.addini(option.dest, f"Default of {option.flag}", type="string", default="")
    group.addoption(RUN.flag, dest=RUN.dest, default=None, metavar=RUN.metavar, help=argparse.SUPPRESS)


def join_values(arguments: Sequence[str | os.PathLike[str]], directory: Path) -> list[str] | None:
    """Rewrite "--atesor-x VALUE" as "--atesor-x=VALUE" when some VALUE misleads pytest, else return None.

    pytest looks for the rootdir before it knows our options, and takes an existing path for a test path; in
    place of a separate @FILE it puts the lines of the file, of which the option would get the first.
    """
    flags = {option.flag for option in OPTIONS if option.kind != "flag"}
    joined: list[str] = []
    is_misleading = False
    for argument in [os.fspath(one) for one in arguments]:
        if joined and joined[-1] in flags:
            is_misleading = (
                is_misleading
                or argument.startswith("@")
                # False for what is too long to be a path, where pathlib's own raises
                or os.path.exists(directory / argument)  # noqa: PTH110
            )
            joined[-1] += f"={argument}"
        else:
            joined.append(argument)
    return joined if is_misleading else None


def has_order(config: pytest.Config) -> bool:
    """Say whether the command line asks for a manifest or a bundle by an option."""
    return any(config.getoption(option.dest) is not None for option in OPTIONS if option.is_order)


def refuse_strays(config: pytest.Config) -> None:
    """Raise UsageError when the user typed an option of ours; to be called where no batch will come of it."""
    arguments = [os.fspath(one) for one in config.invocation_params.args]
    flags = [one.partition("=")[0] for one in arguments if one.startswith("--atesor-")]
    if not flags:
        return
    if config.args_source is config.ArgsSource.ARGS:
        reason = f"{config.args[0]!r} is no package list; name one in its place"
    else:
        reason = "no package list is named; add --atesor-list NAME"
    raise UsageError(f"{flags[0]} is for a batch, and {reason}")


def is_run_command(config: pytest.Config) -> bool:
    """Say whether ``atesor run`` started this pytest."""
    return config.getoption(RUN.dest) is not None


def find_given(config: pytest.Config) -> frozenset[str]:
    """Return the names of the options that stand on the command line."""
    return frozenset(option.name for option in OPTIONS if config.getoption(option.dest) is not None)


def find_manifest(config: pytest.Config) -> str | None:
    """Return the manifest that an option names, None when none does."""
    value: str | None = config.getoption(MANIFEST.dest)
    return value


def find_reopen(config: pytest.Config) -> ReopenOptions | None:
    """Return which bundle is to go on and with what, None when none is.

    Raises UsageError for options that stand alone or do not go together.
    """
    values = {option.name: config.getoption(option.dest) for option in OPTIONS if option.is_order}
    root, again = values["resume"], values["rerun"]
    details = [name for name in ("rerun-failed", "rerun-case", "rerun-all") if values[name]]
    for name in ("retry-failed",) if root is None else ():
        if values[name]:
            raise UsageError(f"--atesor-{name} needs {RESUME.flag} DIR; name the bundle")
    if details and again is None:
        raise UsageError(f"--atesor-{details[0]} needs {RERUN.flag} DIR; name the bundle")
    if root is None and again is None:
        return None
    if root is not None and again is not None:
        raise UsageError(f"{RESUME.flag} and {RERUN.flag} exclude each other; drop one")
    if again is not None and len(details) != 1:
        raise UsageError(
            f"{RERUN.flag} needs exactly one of --atesor-rerun-failed, --atesor-rerun-case and"
            f" --atesor-rerun-all, and has {' and '.join(f'--atesor-{name}' for name in details) or 'none'}"
        )
    return ReopenOptions(
        root=config.invocation_params.dir / str(root if again is None else again),
        is_rerun=again is not None,
        with_failed=bool(values["retry-failed"] or values["rerun-failed"]),
        cases=tuple(values["rerun-case"] or ()),
        everything=bool(values["rerun-all"]),
    )


def find_list_setting(
    config: pytest.Config, environ: Mapping[str, str]
) -> Literal["flag", "command", "setting"] | None:
    """Say how a list was asked for: by the flag, by ``atesor run``, by a setting, or not at all (None).

    A setting stands in the environment, in ``.env`` or in the ini file. Cheap: ``.env`` is parsed only when
    it mentions the variable.
    """
    if config.getoption(LIST.dest) is not None:
        return "flag"
    if is_run_command(config):
        return "command"
    if environ.get(LIST.env) or config.getini(LIST.dest):
        return "setting"
    dotenv = config.rootpath / ".env"
    if _mentions(dotenv, LIST.env) and read_dotenv(dotenv).get(LIST.env):
        return "setting"
    return None


def read_options(
    config: pytest.Config, environ: Mapping[str, str], *, settled: Collection[str] = ()
) -> Options:
    """Merge all places into one checked value.

    Of the options named in ``settled`` only the command line is asked. Raises UsageError for a value that no
    run could use: unknown platform, target or engine, bad shards, more workers of ``atesor run`` than CPUs.
    """
    dotenv_path = config.rootpath / ".env"
    dotenv = read_dotenv(dotenv_path) if dotenv_path.is_file() else {}
    places: tuple[tuple[str, Mapping[str, str]], ...] = (
        ("the environment", environ),
        (str(dotenv_path), dotenv),
    )
    values = {
        option.name: _find_values(option, config, places, only_flag=option.name in settled)
        for option in OPTIONS
    }
    only = tuple(
        name for value in values["only"] for name in _expand_only(value, directory=_base_of(value, config))
    )
    origins = {name: found[-1].origin for name, found in values.items() if found and found[-1].origin}
    shard = _parse_shard(values, origins)
    target = Target(parse_choice(values["target"][-1], "target", list(Target)))
    if target is not Target.NATIVE:
        _check_workers(config, os.cpu_count() or 1)
    return Options(
        package_list=_choose_list(values["list"], config),
        platform=Platform(parse_choice(values["platform"][-1], "platform", list(Platform))),
        target=target,
        engine=parse_choice(values["engine"][-1], "engine", ENGINES),
        is_accelerated=not any(parse_flag(value) for value in values["no-acceleration"]),
        has_build_network=any(parse_flag(value) for value in values["build-network"]),
        agent=_parse_command(values["agent"]),
        package=any(parse_flag(value) for value in values["package"]),
        shard=shard,
        only=only,
        output_root=config.rootpath / _parse_directory(values["output-root"], "output root"),
        batch_id=_text(values["batch-id"]),
        profile_root=_parse_path(values["profile-root"], config),
        max_cases=_parse_count(values["max-cases"], "largest number of cases", least=0)
        if values["max-cases"]
        else None,
        write_csv=any(parse_flag(value) for value in values["write-summary-csv"]),
        is_plan_only=bool(values["plan-only"]),
        limits=_parse_limits(values),
        retry_environment=_parse_count(values["retry-environment"], "number of retries", least=0),
        has_breaker=not any(parse_flag(value) for value in values["no-breaker"]),
        given=find_given(config),
        origins=origins,
        dotenv=_complete_environment(dotenv, environ, config.rootpath),
    )


def _choose_list(values: Sequence[Value], config: pytest.Config) -> str | None:
    named = _text(values)
    return _DEFAULT_LIST if named is None and is_run_command(config) else named


def _check_workers(config: pytest.Config, cpus: int) -> None:
    workers = config.getoption(RUN.dest)
    if workers and int(workers) > cpus:
        raise UsageError(
            f"bad worker count {workers!r} from --workers; it must be from 1 to {cpus}, the CPU count"
        )


def _find_values(
    option: Option,
    config: pytest.Config,
    places: Iterable[tuple[str, Mapping[str, str]]],
    *,
    only_flag: bool,
) -> tuple[Value, ...]:
    """Return the values of the first place that has some; a default comes from nowhere."""
    given = config.getoption(option.dest)
    if given is not None:
        texts = given if option.kind == "list" else ["1" if given is True else str(given)]
        return tuple(Value(text, option.flag) for text in texts)
    if option.is_order:
        return ()
    if not only_flag:
        for where, mapping in places:
            if mapping.get(option.env):
                return _split(option, Value(mapping[option.env], f"{option.env} in {where}"))
        ini = config.getini(option.dest)
        if ini:
            return _split(option, Value(str(ini), f"{option.dest} in {config.inipath or 'the ini options'}"))
    return (Value(option.default, ""),) if option.default else ()


def _split(option: Option, value: Value) -> tuple[Value, ...]:
    if option.kind != "list":
        return (value,)
    return tuple(Value(text, value.origin) for text in value.text.replace(",", " ").split())


def _text(values: Sequence[Value]) -> str | None:
    return values[-1].text if values else None


def _parse_path(values: Sequence[Value], config: pytest.Config) -> Path | None:
    """Return a path: of the command line it counts from the working directory, else from the rootdir."""
    if not values:
        return None
    return _base_of(values[-1], config) / values[-1].text


def _base_of(value: Value, config: pytest.Config) -> Path:
    return config.invocation_params.dir if value.origin.startswith("--") else config.rootpath


def parse_choice(value: Value, what: str, known: Sequence[str]) -> str:
    """Return a value that is one of the ``known``; errors call it ``what``. Raises UsageError."""
    text, origin = value
    if text not in known:
        raise UsageError(f"unknown {what} {text!r} from {origin}; use one of: {', '.join(known)}")
    return text


def _parse_directory(values: Sequence[Value], what: str) -> str:
    text, origin = values[-1]
    if not text.strip():
        raise UsageError(f"empty {what} from {origin}; name a directory")
    return text


def parse_flag(value: Value) -> bool:
    """Return whether a value says yes. Raises UsageError for one that says neither yes nor no."""
    return parse_yes_no(value.text, value.origin)


def _parse_command(values: Sequence[Value]) -> tuple[str, ...] | None:
    if not values:
        return None
    text, origin = values[-1]
    try:
        command = tuple(shlex.split(text))
    except ValueError as error:
        raise UsageError(f"agent command {text!r} from {origin} cannot be split: {error}") from error
    if not command:
        raise UsageError(f"empty agent command from {origin}; name a program")
    return command


def _parse_number(values: Sequence[Value], what: str) -> int | None:
    if not values:
        return None
    text, origin = values[-1]
    # int() would also take "1_0", " 1" and digits of other scripts.
    if not re.fullmatch(r"-?[0-9]{1,9}", text):
        raise UsageError(f"bad {what} {text!r} from {origin}; use a whole number")
    return int(text)


def _parse_count(values: Sequence[Value], what: str, *, least: int) -> int:
    number = _parse_number(values, what)
    if number is None or number < least:
        text, origin = values[-1]
        raise UsageError(f"bad {what} {text!r} from {origin}; use a whole number of at least {least}")
    return number


def _parse_shard(values: Mapping[str, Sequence[Value]], origins: Mapping[str, str]) -> Shard | None:
    return parse_shard(
        _parse_number(values["shard-index"], "shard index"),
        _parse_number(values["shard-total"], "shard total"),
        index_origin=origins.get("shard-index", ""),
        total_origin=origins.get("shard-total", ""),
    )


def _parse_limits(values: Mapping[str, Sequence[Value]]) -> SlotLimits:
    return SlotLimits(
        memory_bytes=_parse_size(values["slot-memory"], "slot memory"),
        pids=_parse_count(values["slot-pids"], "number of processes", least=64),
        cpu_weight=_parse_count(values["slot-cpu-weight"], "CPU weight", least=2),
    )


def _parse_size(values: Sequence[Value], what: str) -> int | None:
    if not values:
        return None
    text, origin = values[-1]
    try:
        return parse_size(text)
    except ValueError as error:
        raise UsageError(f"bad {what} {text!r} from {origin}: {error}") from None


def _expand_only(value: Value, *, directory: Path) -> tuple[str, ...]:
    if not value.text.strip():
        raise UsageError(f"no name behind {value.origin}; give a package's name, or @FILE with names")
    if not value.text.startswith("@"):
        return (value.text,)
    path = directory / value.text[1:]
    if path.exists() and not path.is_file() and not _is_open_pipe(path):
        raise UsageError(
            f"cannot read the names in {path}, from {value.origin}: no regular file; "
            "name one, or a command's output: --atesor-only=@<(COMMAND)"
        )
    try:
        with path.open("rb") as file:
            data = file.read(_LARGEST_NAMES_BYTES)
        lines = data.decode("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read the names in {path}, from {value.origin}: {error}") from error
    names = tuple(name for line in lines if (name := line.split("#", 1)[0].strip()))
    if not names:
        # No names in particular would mean all of them, which nobody wants of a command that found none.
        raise UsageError(
            f"{path}, from {value.origin}, has no names; write one a line, or drop it to run all"
        )
    return names


def _mentions(path: Path, word: str) -> bool:
    """Say whether a file has the word; one that cannot be read is for a batch to complain of."""
    try:
        return path.is_file() and word.encode() in path.read_bytes()
    except OSError:
        return False


def _complete_environment(
    dotenv: Mapping[str, str], environ: Mapping[str, str], rootdir: Path
) -> dict[str, str]:
    """Return what ``.env`` adds to the environment; a state directory in it counts from the rootdir."""
    from pytest_atesor.core.dotenv import is_set  # noqa: PLC0415 - plain pytest runs must not pay for it

    added = {name: text for name, text in dotenv.items() if not is_set(name, environ)}
    if state := added.get(_STATE_DIRECTORY):
        added[_STATE_DIRECTORY] = str(rootdir / state)
    return added


def _is_open_pipe(path: Path) -> bool:
    """Say whether a path is a pipe that the shell opened for us; any other might never be written to."""
    return str(path).startswith(_OPEN_FILES) and path.is_fifo()


def read_dotenv(path: Path) -> dict[str, str]:
    """Return the variables of a ``.env`` file, none when it is not there. Raises UsageError, naming it."""
    from dotenv import dotenv_values  # noqa: PLC0415 - plain pytest runs must not pay for it

    try:
        values = dotenv_values(path, encoding="utf-8", interpolate=False)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {path}: {error}; it holds NAME=value lines in UTF-8") from error
    return {name: text for name, text in values.items() if text is not None}
