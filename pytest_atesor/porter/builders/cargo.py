"""Cargo: packages and workspaces; vendored, from a registry, or with the distribution's packaged crates."""

import itertools
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from pytest_atesor.porter.builders.interface import Builder, BuildOptions, Candidate, Project, Step, Suite
from pytest_atesor.porter.builders.shared import depth_penalty, limit_download, quote
from pytest_atesor.porter.directories import holds_helpers, holds_others_code, list_places
from pytest_atesor.porter.inside import read_program
from pytest_atesor.porter.needs import Need, NeedKind
from pytest_atesor.porter.tree import Tree

__all__ = [
    "DISTRIBUTION_CRATES",
    "IGNORE_RUST_VERSION",
    "OWN_TARGET",
    "WITHOUT_PROGRAMS",
    "CargoBuilder",
    "CargoProject",
]

DISTRIBUTION_CRATES = "cargo-distribution"
"""The ``prepare`` word that switches to the distribution's packaged crates."""

IGNORE_RUST_VERSION = "cargo-ignore-rust-version"
"""The ``prepare`` word that builds with an older compiler than the manifest asks for, if that works."""

OWN_TARGET = "cargo-own-target"
"""The ``prepare`` word that builds for the sandbox, whatever target the tree's configuration names."""

WITHOUT_PROGRAMS = "cargo-without-programs"
"""The ``prepare`` word that builds a library alone, without the programs of other members."""

_DOWNLOAD_SECONDS = 600
# An accelerated sandbox has its target in a file above every tree; elsewhere it is the compiler's own host.
_OWN_TARGET = r"""
own=$(sed -n 's/^target = "\(.*\)"$/\1/p' /.cargo/config.toml 2>/dev/null || :)
export CARGO_BUILD_TARGET="${own:-$(rustc -vV | sed -n 's/^host: //p')}"
"""

_BUILT = ("dependencies", "build-dependencies")
_TESTED = ("dev-dependencies", "dev_dependencies")
_BINARY = re.compile(r"src/(main\.rs|bin/[^/]+\.rs|bin/[^/]+/main\.rs)")
_TASK = re.compile(
    r"(.*[-_])?(x?tasks?|bench(es|mark|marks)?|tests?|testing|testsuite|fuzz(er|ing)?|examples?|demos?|codegen"
    r"|generators?|internal)([-_].*)?"
)
_MOST_MEMBERS = 200
_NO_LOCKS = "find . -name Cargo.lock -not -path './vendor/*' -exec rm -f {} +\n"


def _edit_manifests(words: str) -> str:
    program = read_program("distribution_crates.py").decode()
    return f"python3 -{words} <<'PROGRAM'\n{program}PROGRAM\n"


def _bring_tests_back() -> str:
    """Return the lines after which manifests ask for the tests' crates, as far as Cargo can agree on them."""
    edit = _edit_manifests(' --tests "$@"')
    return (
        f"edit() {{\n{edit}}}\n"
        "for how in '' --widen --none; do\n"
        "  edit $how || break\n"
        "  said=$(cargo metadata --offline --format-version 1 2>&1 >/dev/null) && break\n"
        "  echo \"$said\" | sed 's/^error: /not so: /'\n"
        "done\n"
    )


_SAY_WHAT_IS_LEFT_OUT = """{
  code=$?
  left=$(cat .cargo/atesor-left-out 2>/dev/null || :)
  [ -z "$left" ] || echo "error: tests without these crates, which are not packaged as asked for: $left"
  exit $code
}"""


@dataclass(frozen=True, slots=True, kw_only=True)
class CargoProject(Project):
    """What manifests ask of a registry: ``crates`` and, for tests, ``tested``; ``fetches`` counts all.

    ``programs`` are the directories of the members that have the programs of a library: Cargo by itself
    builds the package of the root alone.
    """

    is_vendored: bool = False
    crates: tuple[str, ...] = ()
    tested: tuple[str, ...] = ()
    fetches: bool = False
    programs: tuple[str, ...] = ()

    @property
    def declared(self) -> tuple[Need, ...]:
        """The crates."""
        return tuple(Need(kind=NeedKind.CRATE, name=one) for one in self.crates)

    def plan(self, options: BuildOptions) -> tuple[Step, ...]:
        """Fetch the crates where there are any to fetch, then build without the network."""
        any_version = " --ignore-rust-version" if IGNORE_RUST_VERSION in options.tweak.prepare else ""
        commands = self._for_each(options, f"cargo build --release --offline{any_version} -j {options.jobs}")
        build = f"{_own_target(options)}{' && '.join(commands)}"
        if DISTRIBUTION_CRATES in options.tweak.prepare:
            widen = " --widen" if "cargo-widen" in options.tweak.prepare else ""
            built = "".join(f" {quote(f'--program={one}')}" for one in self._chosen(options))
            edit = f"{_NO_LOCKS}{_edit_manifests(widen + built)}"
            return (Step(name="manifests", script=edit), Step(name="build", script=build))
        if self.is_vendored or not self.fetches:
            return (Step(name="build", script=build),)
        return (
            Step(
                name="download",
                script="export CARGO_NET_RETRY=1\n"
                + limit_download("cargo fetch", _DOWNLOAD_SECONDS, "crates"),
                network=True,
                is_attempt=False,
            ),
            Step(name="build", script=build),
        )

    def plan_suites(self, options: BuildOptions) -> tuple[Suite, ...]:
        """Return ``cargo test`` of everything but documentation, in the profile of the build."""
        any_version = " --ignore-rust-version" if IGNORE_RUST_VERSION in options.tweak.prepare else ""
        test = f"cargo test --release --offline{any_version} --tests --no-fail-fast -j {options.jobs}"
        own = _own_target(options)
        prepare = f"{own}{' && '.join(self._for_each(options, f'{test} --no-run'))}"
        script = f"{own}{_run_all(self._for_each(options, test))}"
        if DISTRIBUTION_CRATES in options.tweak.prepare:
            prepare = f"{_bring_tests_back()}{prepare} || {_SAY_WHAT_IS_LEFT_OUT}"
        return (Suite(framework="cargo", command="cargo test --tests", prepare=prepare, script=script),)

    def heeds(self, word: str) -> bool:
        """Say whether there are programs to leave out; everything else may change something."""
        return word != WITHOUT_PROGRAMS or bool(self.programs)

    def _chosen(self, options: BuildOptions) -> tuple[str, ...]:
        return () if WITHOUT_PROGRAMS in options.tweak.prepare else self.programs

    def _for_each(self, options: BuildOptions, command: str) -> tuple[str, ...]:
        """Return the command for the package of this place and for each of the programs."""
        manifests = (quote(f"{one}/Cargo.toml") for one in self._chosen(options))
        return (command, *(f"{command} --manifest-path {one}" for one in manifests))

    def test_needs(self, options: BuildOptions) -> tuple[Need, ...]:
        """Return the tests' crates where they are the distribution's; else the download brings them along."""
        if DISTRIBUTION_CRATES not in options.tweak.prepare:
            return ()
        return tuple(Need(kind=NeedKind.CRATE, name=one) for one in self.tested)


def _run_all(commands: tuple[str, ...]) -> str:
    """Return the script that runs them all and fails where one has failed."""
    if len(commands) == 1:
        return commands[0]
    return "code=0\n" + "".join(f"{one} || code=$?\n" for one in commands) + "exit $code"


def _own_target(options: BuildOptions) -> str:
    return _OWN_TARGET if OWN_TARGET in options.tweak.prepare else ""


class CargoBuilder(Builder):
    """Builds the release profile of the package or the whole workspace."""

    name = "cargo"
    commands = ("cargo", "rustc", "cc")
    language = "rust"
    borrowing = (DISTRIBUTION_CRATES,)

    def find(self, tree: Tree) -> Iterable[Candidate]:
        """Yield a candidate for each Cargo.toml near the root that is a package or a workspace."""
        for place in list_places(tree, ("rust", "cli", "crates")):
            prefix = f"{place}/" if place else ""
            if not tree.has(f"{prefix}Cargo.toml"):
                continue
            manifests = tuple(_manifests(tree, prefix))
            config = tree.text(f"{prefix}.cargo/config.toml") or tree.text(f"{prefix}.cargo/config")
            vendored = "directory" in config and "replace-with" in config
            yield Candidate(
                builder=self.name,
                directory=place,
                rank=90 - depth_penalty(place),
                evidence=f"{prefix}Cargo.toml" + (", vendored" if vendored else ""),
                project=CargoProject(
                    is_vendored=vendored,
                    crates=_crate_packages(manifests),
                    tested=_crate_packages(manifests, _TESTED),
                    fetches=bool(_crate_packages(manifests, (*_BUILT, *_TESTED))),
                    programs=tuple(_list_programs(tree.at(place) if place else tree)),
                ),
            )


def _manifests(tree: Tree, prefix: str) -> Iterable[Mapping[str, Any]]:
    for name in sorted(tree.files):
        if name.startswith(prefix) and name.endswith("Cargo.toml") and "/vendor/" not in f"/{name}":
            yield _read_manifest(tree, name)


def _read_manifest(tree: Tree, name: str) -> Mapping[str, Any]:
    """Return a manifest's tables, none where it cannot be read: Cargo itself complains of it."""
    import tomllib  # noqa: PLC0415 - only for Rust, and the agent's start pays for every import

    try:
        return tomllib.loads(tree.text(name))
    except (tomllib.TOMLDecodeError, RecursionError):
        return {}


def _list_programs(tree: Tree) -> Iterator[str]:
    """Yield the members that have the programs of a root that is a Rust library without default members.

    A library for C is the product itself.
    Left out is what serves the work on it by its name or place, or is not published although the root is.
    """
    root = _read_manifest(tree, "Cargo.toml")
    workspace = _table(root.get("workspace"))
    is_alone = "package" in root and "workspace" in root and "default-members" not in workspace
    library = _table(root.get("lib"))
    kinds = _list(library.get("crate-type", library.get("crate_type")))
    if not is_alone or _has_binaries(tree, root, "") or {"cdylib", "staticlib"} & set(map(str, kinds)):
        return
    for place in itertools.islice(_list_members(tree, workspace), _MOST_MEMBERS):
        manifest = _read_manifest(tree, f"{place}/Cargo.toml")
        is_aside = (
            holds_helpers(place)
            or holds_others_code(f"{place}/")
            or _TASK.fullmatch(place.rpartition("/")[2].lower())
        )
        is_tool = _is_published(root) and not _is_published(manifest)
        if not (is_aside or is_tool) and _has_binaries(tree, manifest, f"{place}/"):
            yield place


def _list_members(tree: Tree, workspace: Mapping[str, Any]) -> Iterator[str]:
    wanted, unwanted = (
        [posixpath.normpath(one) for one in _list(workspace.get(key)) if isinstance(one, str)]
        for key in ("members", "exclude")
    )
    packages = sorted(one.removesuffix("/Cargo.toml") for one in tree.files if one.endswith("/Cargo.toml"))
    for place in packages:
        if place not in unwanted and any(_fits(place, glob) for glob in wanted[:_MOST_MEMBERS]):
            yield place


def _fits(place: str, glob: str) -> bool:
    parts, globs = place.split("/"), glob.split("/")
    return len(parts) == len(globs) and all(map(fnmatchcase, parts, globs))


def _has_binaries(tree: Tree, manifest: Mapping[str, Any], prefix: str) -> bool:
    package = _table(manifest.get("package"))
    if manifest.get("bin"):
        return True
    return package.get("autobins") is not False and any(
        name.startswith(f"{prefix}src/") and _BINARY.fullmatch(name.removeprefix(prefix))
        for name in tree.files
    )


def _is_published(manifest: Mapping[str, Any]) -> bool:
    return _table(manifest.get("package")).get("publish") not in (False, [])


def _table(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _crate_packages(manifests: Iterable[Mapping[str, Any]], kinds: Iterable[str] = _BUILT) -> tuple[str, ...]:
    """Return what manifests ask of a registry, as ``name@requirement`` words without repeats.

    Paths are left out.
    """
    found: dict[str, None] = {}
    for manifest in manifests:
        tables = [manifest, *_tables(manifest.get("target")), *_tables({"w": manifest.get("workspace")})]
        for table in tables:
            for kind in kinds:
                for name, wanted in _items(table.get(kind)):
                    word = _crate_word(name, wanted)
                    if word:
                        found[word] = None
    return tuple(found)


def _tables(value: object) -> list[Mapping[str, Any]]:
    return [one for _, one in _items(value) if isinstance(one, Mapping)]


def _items(value: object) -> list[tuple[str, Any]]:
    return list(value.items()) if isinstance(value, Mapping) else []


def _crate_word(name: str, wanted: object) -> str:
    if isinstance(wanted, str):
        return f"{name}@{wanted}".replace(" ", "")
    if not isinstance(wanted, Mapping) or "path" in wanted or wanted.get("workspace"):
        return ""
    real, version = wanted.get("package", name), wanted.get("version", "*")
    return f"{real}@{version}".replace(" ", "") if isinstance(real, str) and isinstance(version, str) else ""
