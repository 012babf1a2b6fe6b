"""What the user asked for: which package list or manifest and which of its cases, or an ordinary pytest run.

A batch is asked for by ``--atesor-list`` (or its environment variable or ini key, when no path is given), by
``--atesor-manifest``, or by naming a package list or a manifest as an argument. Only one of them makes a
batch, and ordinary test paths beside it are refused. The input is found here, not read.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

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
_LIST_FOLDERS: Final = ("packages", ".github/packages")
# Single RunSpecs and sweeps too: planning refuses them with better words than pytest has for a strange path.
# The text between keeps the search fast: it has a literal to look for.
_MANIFEST_SIGN: Final = re.compile(
    rb"""schema_version(?<![\w$]schema_version)["']?\s*:\s*["']?(?:batch|runspec|sweep)_v[0-9]"""
)
_LIST_SIGN: Final = re.compile(rb""""(?:\$schema_version"\s*:|packages"\s*:\s*\[)""")
# A manifest that was written with sorted keys has its sign at its end.
_SNIFF_BYTES: Final = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ListFile:
    """A package list or manifest on disk.

    Its file, the path shown in node ids ("packages/smoke.json"), its name, and what errors call it.
    """

    path: Path
    source: str
    name: str
    is_manifest: bool = False
    is_shipped: bool = False

    @property
    def called(self) -> str:
        """The path of node ids; for a list of the plugin, which that path does not lead to, its name."""
        return f"the plugin's list {self.name}" if self.is_shipped else self.source


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
    if strangers and (lists or setting in {"flag", "command"}):
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
        _require_file(path, value, "package list")
        return _describe(path, rootdir)
    own = [rootdir / folder for folder in _LIST_FOLDERS]
    return _find_named(value, rootdir, own, shipped_directories() if shipped is None else shipped)


def shipped_directories() -> tuple[Path, ...]:
    """Return where the plugin's own lists lie: in the installed package, or in its source checkout."""
    package = Path(pytest_atesor.__file__).parent
    checkout = package.parent
    installed = (package / "packages",)
    return (*installed, checkout / "packages") if (checkout / "pyproject.toml").is_file() else installed


def is_package_list(value: str) -> bool:
    """Say whether a value names a package list: by its bare name, or a file with the signs of one.

    A file in a directory of lists is one unless it has the signs of a manifest.
    """
    path = Path(value)
    if path.suffix in _MANIFEST_SUFFIXES or "/" in value or path.is_file():
        return path.suffix == _SUFFIX and _is_list(path, Path.cwd())
    return True


def _find_named(name: str, rootdir: Path, own: Sequence[Path], shipped: Sequence[Path]) -> ListFile:
    """Return the list of a bare name, of the rootdir's ``own`` folders or of the shipped ones.

    Raises BadInputError.
    """
    for folder in (*own, *shipped):
        path = folder / f"{name}{_SUFFIX}"
        if name and path.is_file():
            if folder in own:
                return _describe(path, rootdir)
            return ListFile(
                path=path, source=_check_source(f"packages/{path.name}"), name=name, is_shipped=True
            )
    folders = [folder for folder in (*own, *shipped) if folder.is_dir()]
    known = {path.stem for folder in folders for path in folder.glob(f"*{_SUFFIX}")}
    raise BadInputError(
        f"no package list named {name!r} in {' or '.join(map(str, own))} or among those of the plugin; "
        f"known: {', '.join(sorted(known)) or 'none'}"
    )


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
    if path.is_file() and _sniff(path) == "manifest":
        return replace(_describe(path, config.rootpath), is_manifest=True), name
    if not text.endswith(_SUFFIX):
        return None, name
    if not path.exists() and Path(text).parent == Path("packages"):
        # A node id of a list that this rootdir does not have: "packages/smoke.json::zlib" of the plugin's
        # own.
        own = config.rootpath / "packages"
        return _find_named(Path(text).stem, config.rootpath, [own], shipped_directories()), name
    if not path.is_dir() or _stands_in_packages(path, config.rootpath):
        _require_file(path, text, "package list")
    if path.is_file() and _is_list(path, config.rootpath):
        return _describe(path, config.rootpath), name
    return None, name


def _require_file(path: Path, value: str, what: str) -> None:
    """Raise BadInputError unless there is a regular file, where the user wrote ``value``."""
    if not path.exists():
        raise BadInputError(f"no {what} at {value!r} ({path}); check the path")
    if not path.is_file():
        raise BadInputError(f"the {what} {value!r} ({path}) is no regular file; name a file")


def _stands_in_packages(path: Path, rootdir: Path) -> bool:
    return path.parent.resolve() in {(rootdir / folder).resolve() for folder in _LIST_FOLDERS}


def _is_list(path: Path, rootdir: Path) -> bool:
    signs = _sniff(path)
    return signs == "list" or (signs is None and path.is_file() and _stands_in_packages(path, rootdir))


def _sniff(path: Path) -> Literal["manifest", "list"] | None:
    """Say what a file looks like; whatever else it has, a manifest's schema version makes it one."""
    if not path.is_file():
        return None
    try:
        with path.open("rb") as file:
            text = file.read(_SNIFF_BYTES)
    except OSError:
        return None
    if _MANIFEST_SIGN.search(text):
        return "manifest"
    return "list" if _LIST_SIGN.search(text) else None


def _find_manifest_file(value: str, config: pytest.Config) -> ListFile:
    path = config.invocation_params.dir / value
    _require_file(path, value, "manifest")
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
