"""Make Cargo manifests fit the distribution's packaged crates.

Runs inside the sandbox, in the package's tree.

The distribution has one version of most crates, none for other systems, and not every optional one. Its own
builds change manifests in the same way: tests' dependencies and other systems' go, optional crates that are
not there go with the features that name them, and with ``--widen`` any version will do. What the build does
not build (members of the workspace that nothing else needs) still takes part in Cargo's choice of versions:
there any crate that is not there goes.
"""

import fnmatch
import json
import os
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

REGISTRY = "/usr/share/cargo/registry"

_BUILT = ("dependencies", "build-dependencies", "build_dependencies")
_TESTED = ("dev-dependencies", "dev_dependencies")
_ELSEWHERE = re.compile(
    r"windows|macos|wasm|apple|android|\bios\b|redox|fuchsia|freebsd|netbsd|openbsd|dragonfly|haiku"
)

Manifest = Mapping[str, Any]


def find_spare(manifests: Mapping[str, Manifest]) -> frozenset[str]:
    """Return the directories of the packages that a build of the root does not build.

    ``manifests`` are by directory below the root, which is ".". A workspace without a package at its root and
    without default members builds them all. See "The default-members field" in The Cargo Book.
    """
    root = manifests.get(".", {})
    wanted = _table(root.get("workspace")).get("default-members")
    if isinstance(wanted, list):
        globs = [os.path.normpath(str(one)) for one in wanted]
        roots = [place for place in manifests if any(fnmatch.fnmatchcase(place, glob) for glob in globs)]
    elif "package" in root:
        roots = ["."]
    else:
        return frozenset()
    waiting = [*((place, False) for place in roots), *((place, True) for place in _patches(root))]
    needed: set[tuple[str, bool]] = set()
    while waiting:
        visit = waiting.pop()
        place, is_asked_for = visit
        if place in manifests and visit not in needed:
            needed.add(visit)
            shared = find_shared(place, manifests)
            neighbours = _neighbours(place, manifests[place], shared, is_asked_for=is_asked_for)
            waiting.extend((one, True) for one in neighbours)
    return frozenset(manifests) - {place for place, _ in needed}


def find_shared(place: str, manifests: Mapping[str, Manifest]) -> Manifest:
    """Return what the members of the workspace that ``place`` is in may inherit."""
    for one in (PurePosixPath(place), *PurePosixPath(place).parents):
        workspace = manifests.get(str(one), {}).get("workspace")
        if isinstance(workspace, dict):
            return _table(workspace.get("dependencies"))
    return {}


def _neighbours(place: str, manifest: Manifest, shared: Manifest, *, is_asked_for: bool) -> Iterator[str]:
    """Yield the directories of the tree's packages that one needs.

    Which features others turn on in one that they ask for is not looked into: all its optional ones count.
    """
    turned_on = None if is_asked_for else _default_crates(_table(manifest.get("features")))
    for table in _tables(manifest):
        for kind in _BUILT:
            for name, value in _table(table.get(kind)).items():
                entry = _table(value)
                if entry.get("optional") and turned_on is not None and name not in turned_on:
                    continue
                if "path" in entry:
                    yield os.path.normpath(f"{place}/{entry['path']}")
                elif entry.get("workspace") and "path" in _table(shared.get(name)):
                    yield os.path.normpath(str(shared[name]["path"]))


def _patches(root: Manifest) -> Iterator[str]:
    for source in (*_table(root.get("patch")).values(), root.get("replace")):
        for value in _table(source).values():
            if "path" in _table(value):
                yield os.path.normpath(str(value["path"]))


def _default_crates(features: Manifest) -> set[str]:
    """Return the optional crates that the default features turn on, and the names of these features."""
    found: set[str] = set()
    waiting = ["default"]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            listed = features.get(name)
            words = [one for one in listed if isinstance(one, str)] if isinstance(listed, list) else []
            waiting.extend(one.removeprefix("dep:").split("/")[0] for one in words if "?/" not in one)
    return found


def _table(value: object) -> Manifest:
    return value if isinstance(value, dict) else {}


def _tables(manifest: Manifest) -> Iterator[Manifest]:
    yield manifest
    yield from map(_table, _table(manifest.get("target")).values())


class Offer(NamedTuple):
    """What a manifest may ask for: packaged crates, and what it inherits from its workspace.

    ``is_spare``: any crate that is absent may go; else those that are optional.
    """

    available: AbstractSet[str]
    shared: Manifest
    widen: bool = False
    is_spare: bool = False

    def keeps(self, name: str, value: object) -> bool:
        """Say whether an entry stays; those of the tree itself do."""
        entry = _table(value)
        if entry.get("workspace"):
            entry = {**_table(self.shared.get(name)), **entry}
        is_here = "path" in entry or entry.get("package", name) in self.available
        return is_here or not (self.is_spare or entry.get("optional") is True)

    def reduce(self, entries: Manifest) -> dict[str, Any]:
        """Return the entries that stay, of any version if that is wished."""
        kept = {name: value for name, value in entries.items() if self.keeps(name, value)}
        return {name: _widened(value) for name, value in kept.items()} if self.widen else kept


def transform(manifest: Manifest, offer: Offer) -> dict[str, Any]:
    """Return the manifest changed to need only what is on offer, where that is possible."""
    made = _reduce(manifest, offer)
    if isinstance(made.get("target"), dict):
        systems = {key: value for key, value in made["target"].items() if not _is_elsewhere(key)}
        made["target"] = {key: _reduce(_table(value), offer) for key, value in systems.items()}
    workspace = _table(made.get("workspace"))
    if offer.widen and isinstance(workspace.get("dependencies"), dict):
        shared = {name: _widened(value) for name, value in workspace["dependencies"].items()}
        made["workspace"] = {**workspace, "dependencies": shared}
    if isinstance(made.get("features"), dict):
        made["features"] = _without(made["features"], _names(manifest) - _names(made))
    return made


def _reduce(table: Manifest, offer: Offer) -> dict[str, Any]:
    return {
        key: offer.reduce(value) if key in _BUILT and isinstance(value, dict) else value
        for key, value in table.items()
        if key not in _TESTED
    }


def _names(manifest: Manifest) -> set[str]:
    kinds = (*_BUILT, *_TESTED)
    return {name for table in _tables(manifest) for kind in kinds for name in _table(table.get(kind))}


def _is_elsewhere(system: str) -> bool:
    return bool(_ELSEWHERE.search(system)) and "not(" not in system


def _widened(value: object) -> object:
    if isinstance(value, dict):
        return {**value, "version": "*"} if "version" in value else value
    return "*"


def _without(features: Manifest, gone: AbstractSet[str]) -> dict[str, Any]:
    """Return the features without what names a crate that is gone."""

    def is_gone(word: object) -> bool:
        name = re.split(r"\??/", str(word).removeprefix("dep:"))[0]
        return name in gone and not (word == name and name in features)

    return {
        feature: [one for one in words if not is_gone(one)] if isinstance(words, list) else words
        for feature, words in features.items()
    }


def format_manifest(table: Manifest, path: str = "") -> str:
    """Return the text of a table read by tomllib: TOML 1.0 with a header for every table in it."""
    lines = [
        f"{_key(key)} = {_inline(value)}\n" for key, value in table.items() if not isinstance(value, dict)
    ]
    for key, value in table.items():
        if isinstance(value, dict):
            name = f"{path}.{_key(key)}" if path else _key(key)
            lines.append(f"\n[{name}]\n{format_manifest(value, name)}")
    return "".join(lines)


def _inline(value: object) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_key(key)} = {_inline(one)}" for key, one in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_inline, value)) + "]"
    if isinstance(value, str):
        # JSON's escapes are TOML's, which wants one more
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _inline(key)


def _read_manifests() -> dict[str, dict[str, Any]]:
    """Return the manifests that can be read, by directory; Cargo itself complains of the others."""
    found: dict[str, dict[str, Any]] = {}
    for directory, children, files in os.walk("."):
        children[:] = [one for one in children if one not in {".git", "vendor", "target"}]
        if "Cargo.toml" in files:
            try:
                text = Path(directory, "Cargo.toml").read_text(encoding="utf-8")
                found[os.path.normpath(directory)] = tomllib.loads(text)
            except (ValueError, RecursionError):
                continue
    return found


def main() -> None:
    """Change each manifest below the current directory and point Cargo at the packaged crates."""
    here = Path(REGISTRY)
    names = [one.name for one in here.iterdir()] if here.is_dir() else []
    available = {re.sub(r"-\d+\.\d+\.\d.*$", "", one) for one in names}
    manifests = _read_manifests()
    spare = find_spare(manifests)
    patches = _table(manifests.get(".", {}).get("patch")).values()
    patched = {name for source in patches for name in _table(source)}
    for place, manifest in manifests.items():
        offer = Offer(
            available | patched,
            find_shared(place, manifests),
            widen="--widen" in sys.argv,
            is_spare=place in spare,
        )
        changed = transform(manifest, offer)
        if changed != manifest:
            Path(place, "Cargo.toml").write_text(format_manifest(changed), encoding="utf-8")
    if not available:
        return
    Path(".cargo").mkdir(exist_ok=True)
    with Path(".cargo/config.toml").open("a", encoding="utf-8") as stream:
        stream.write(
            '\n[source.crates-io]\nreplace-with = "distribution"\n'
            f'[source.distribution]\ndirectory = "{REGISTRY}"\n'
        )


if __name__ == "__main__":
    main()
