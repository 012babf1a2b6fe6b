"""What the user asked for: which package list or manifest and which of its cases, or an ordinary pytest run.

A batch is asked for by ``--atesor-list`` (or its environment variable or ini key, when no path is given), by
``--atesor-manifest``, or by naming a package list or a manifest as an argument. Only one of them makes a
batch, and ordinary test paths beside it are refused. The input is found here, not read.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest_atesor
from pytest_atesor.errors import BadInputError, UsageError
from pytest_atesor.options import LIST, find_list_setting, find_manifest, has_order

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pytest

__all__ = [
    "ListFile",
    "Request",
    "find_list_file",
    "find_request",
    "has_request",
    "is_package_list",
    "shipped_directories",
]

_SUFFIX: Final = ".json"
_MANIFEST_SUFFIXES: Final = (".json", ".yaml", ".yml")
# Single RunSpecs and sweeps too: planning refuses them with better words than pytest has for a strange path.
_MANIFEST_SIGNS: Final = (b"batch_v", b"runspec_v", b"sweep_v")
_LIST_SIGNS: Final = (b'"$schema_version"', b'"packages"')
_SNIFF_BYTES: Final = 65536


@dataclass(frozen=True, slots=True, kw_only=True)
class ListFile:
    """A package list or manifest on disk.

    Its file, the path shown in node ids ("packages/smoke.json"), its name.
    """

    path: Path
    source: str
    name: str
    is_manifest: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One batch: the list that an argument named, and the names given as ``LIST::NAME`` (empty: all).

    ``list_file`` is None when only the option or a setting names the list; its value is then in the options.
    """

    list_file: ListFile | None
    names: tuple[str, ...]


def has_request(config: pytest.Config, environ: Mapping[str, str]) -> bool:
    """Say cheaply whether this session may be a batch; :func:`find_request` decides."""
    return (
        has_order(config)
        or find_list_setting(config, environ) is not None
        or any(
            _split_argument(argument)[0].endswith(_MANIFEST_SUFFIXES) for argument in _path_arguments(config)
        )
    )


def find_request(config: pytest.Config, environ: Mapping[str, str]) -> Request | None:
    """Return the batch that was asked for, None when this is an ordinary pytest run.

    Raises UsageError for several lists, or test paths beside a list, and BadInputError for a missing list.
    Bundles that go on are not found here.
    """
    setting = find_list_setting(config, environ)
    manifest = find_manifest(config)
    claims = [(argument, *_claim(argument, config)) for argument in _path_arguments(config)]
    lists = [(file, name) for _, file, name in claims if file is not None]
    strangers = [argument for argument, file, _ in claims if file is None]
    if manifest is not None:
        lists.insert(0, (_find_manifest_file(manifest, config), ""))
    if strangers and (lists or setting == "flag"):
        raise UsageError(
            f"a batch runs its package list or manifest only, and {strangers[0]!r} is none;"
            " drop it, or start two runs"
        )
    if not lists:
        return None if setting is None or strangers else Request(list_file=None, names=())
    files = {file.path.resolve() for file, _ in lists}
    if setting == "flag":
        value = str(config.getoption(LIST.dest))
        named = find_list_file(value, rootdir=config.rootpath, directory=config.invocation_params.dir)
        files.add(named.path.resolve())
    if len(files) > 1:
        shown = ", ".join(sorted(str(path) for path in files))
        raise UsageError(
            f"one batch runs one package list or manifest, and several were named: {shown}; start two runs"
        )
    whole = any(not name for _, name in lists)
    return Request(list_file=lists[0][0], names=() if whole else tuple(name for _, name in lists))


def find_list_file(
    value: str, *, rootdir: Path, directory: Path, shipped: Sequence[Path] | None = None
) -> ListFile:
    """Find the list that ``value`` names; a path is relative to ``directory``.

    Raises BadInputError, with the places that were searched, when there is none.
    """
    if "/" in value or value.endswith(_SUFFIX):
        path = directory / value
        if not path.is_file():
            raise BadInputError(f"no package list at {value!r} ({path}); check the path")
        return _describe(path, rootdir)
    folders = [rootdir / "packages", *(shipped_directories() if shipped is None else shipped)]
    for folder in folders:
        path = folder / f"{value}{_SUFFIX}"
        if value and path.is_file():
            return ListFile(path=path, source=_check_source(f"packages/{path.name}"), name=value)
    known = {path.stem for folder in folders if folder.is_dir() for path in folder.glob(f"*{_SUFFIX}")}
    raise BadInputError(
        f"no package list named {value!r} in {folders[0]} or among those of the plugin; "
        f"known: {', '.join(sorted(known)) or 'none'}"
    )


def shipped_directories() -> tuple[Path, ...]:
    """Return where the plugin's own lists lie: in the installed package, or in its source checkout."""
    package = Path(pytest_atesor.__file__).parent
    checkout = package.parent
    installed = (package / "packages",)
    return (*installed, checkout / "packages") if (checkout / "pyproject.toml").is_file() else installed


def is_package_list(value: str) -> bool:
    """Say whether a value names a package list: by its bare name, or a file with the signs of one."""
    path = Path(value)
    if path.suffix in _MANIFEST_SUFFIXES or "/" in value or path.is_file():
        return path.suffix == _SUFFIX and _has_sign(path, _LIST_SIGNS)
    return True


def _path_arguments(config: pytest.Config) -> list[str]:
    return list(config.args) if config.args_source is config.ArgsSource.ARGS else []


def _split_argument(argument: str) -> tuple[str, str]:
    path, _, name = argument.partition("::")
    return path, name


def _claim(argument: str, config: pytest.Config) -> tuple[ListFile | None, str]:
    """Take an argument for a package list, or leave it to pytest."""
    text, name = _split_argument(argument)
    if not text.endswith(_MANIFEST_SUFFIXES):
        return None, name
    directory = config.invocation_params.dir
    path = directory / text
    if path.is_file() and _has_sign(path, _MANIFEST_SIGNS):
        return replace(_describe(path, config.rootpath), is_manifest=True), name
    if not text.endswith(_SUFFIX):
        return None, name
    if not path.exists():
        # A node id of a list that this rootdir does not have: "packages/smoke.json::zlib" of the plugin's
        # own.
        if Path(text).parent == Path("packages"):
            return find_list_file(Path(text).stem, rootdir=config.rootpath, directory=directory), name
        raise BadInputError(f"no package list at {text!r} ({path}); check the path")
    if not path.is_file() and (not path.is_dir() or _stands_in_packages(path, config.rootpath)):
        raise BadInputError(f"the package list {text!r} ({path}) is no regular file; name a file")
    if path.is_file() and (_stands_in_packages(path, config.rootpath) or _has_sign(path, _LIST_SIGNS)):
        return _describe(path, config.rootpath), name
    return None, name


def _stands_in_packages(path: Path, rootdir: Path) -> bool:
    return path.parent.resolve() == (rootdir / "packages").resolve()


def _has_sign(path: Path, signs: tuple[bytes, ...]) -> bool:
    if not path.is_file():
        return False
    try:
        with path.open("rb") as file:
            head = file.read(_SNIFF_BYTES)
    except OSError:
        return False
    return any(sign in head for sign in signs)


def _find_manifest_file(value: str, config: pytest.Config) -> ListFile:
    path = config.invocation_params.dir / value
    if not path.is_file():
        raise BadInputError(f"no manifest at {value!r} ({path}); check the path")
    return replace(_describe(path, config.rootpath), is_manifest=True)


def _describe(path: Path, rootdir: Path) -> ListFile:
    absolute = Path(os.path.abspath(path))  # noqa: PTH100 - resolve() would rename what a link was called
    try:
        source = absolute.relative_to(rootdir).as_posix()
    except ValueError:
        source = absolute.name
    return ListFile(path=absolute, source=_check_source(source), name=absolute.stem)


def _check_source(source: str) -> str:
    """Return a path as node ids show it. Raises BadInputError: JUnit readers refuse some characters."""
    from pytest_atesor.core.text import sanitize  # noqa: PLC0415 - plain runs are light

    if sanitize(source) != source or "\n" in source or "\t" in source:
        raise BadInputError(f"the path {source!a} has characters that no report can show; rename the file")
    return source
