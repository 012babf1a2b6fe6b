"""Make Cargo manifests fit the distribution's packaged crates.

Runs inside the sandbox, in the package's tree.

The distribution has one version of most crates, none for other systems, and not every optional one. Its own
builds change manifests in the same way: tests' dependencies and other systems' go, optional crates that are
not there go with the features that name them, and with ``--widen`` any version will do. What the build does
not build (members of the workspace that nothing else needs) still takes part in Cargo's choice of versions:
there any crate that is not there goes. ``--program=DIRECTORY`` names a member that is built beside the root.

After that build, ``--tests`` brings those of the tests' dependencies back that are there by then: with
``--widen`` in any version, with ``--none`` none of them. The build's own stay as they were. The names of
those that stay away are left in ``.cargo/atesor-left-out``.
"""

import fnmatch
import json
import os
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

REGISTRY = "/usr/share/cargo/registry"
KEPT = ".cargo/atesor-manifests.json"
LEFT_OUT = ".cargo/atesor-left-out"

_PROGRAM = "--program="
_SOURCE = f"""
[source.crates-io]
replace-with = "distribution"
[source.distribution]
directory = "{REGISTRY}"
"""

_BUILT = ("dependencies", "build-dependencies", "build_dependencies")
_TESTED = ("dev-dependencies", "dev_dependencies")
_ELSEWHERE = re.compile(
    r"windows|macos|wasm|apple|android|\bios\b|redox|fuchsia|freebsd|netbsd|openbsd|dragonfly|haiku"
)

Manifest = Mapping[str, Any]


def find_spare(manifests: Mapping[str, Manifest], programs: Iterable[str] = ()) -> frozenset[str]:
    """Return the directories of the packages that a build of the root and of ``programs`` does not build.

    ``manifests`` are by directory below the root, which is ".". A workspace without a package at its root and
    without default members builds them all. See "The default-members field" in The Cargo Book.
    """
    root = manifests.get(".", {})
    wanted = _table(root.get("workspace")).get("default-members")
    if isinstance(wanted, list):
        globs = [os.path.normpath(str(one)) for one in wanted]
        roots = [place for place in manifests if any(fnmatch.fnmatchcase(place, glob) for glob in globs)]
    elif "package" in root:
        roots = [".", *programs]
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


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _tables(manifest: Manifest) -> Iterator[Manifest]:
    yield manifest
    yield from map(_table, _table(manifest.get("target")).values())


class Offer(NamedTuple):
    """What a manifest may ask for: packaged crates, and what it inherits from its workspace.

    ``is_spare``: any crate that is absent may go; else those that are optional. ``tests`` is what tests may
    ask for, None where they are not built.
    """

    available: AbstractSet[str]
    shared: Manifest
    widen: bool = False
    is_spare: bool = False
    tests: "Offer | None" = None

    def keeps(self, name: str, value: object) -> bool:
        """Say whether an entry stays; those of the tree itself do."""
        entry = _table(value)
        if entry.get("workspace"):
            entry = {**_table(self.shared.get(name)), **entry}
        is_packaged = "git" not in entry and entry.get("package", name) in self.available
        is_here = "path" in entry or is_packaged
        return is_here or not (self.is_spare or entry.get("optional") is True)

    def reduce(self, entries: Manifest) -> dict[str, Any]:
        """Return the entries that stay, of any version if that is wished."""
        kept = {name: value for name, value in entries.items() if self.keeps(name, value)}
        return {name: self._widen(name, value) for name, value in kept.items()} if self.widen else kept

    def _widen(self, name: str, value: object) -> object:
        """Return an entry for any version; one that inherits a version no longer does."""
        entry, inherited = _table(value), self.shared.get(name)
        if not entry.get("workspace") or inherited is None or "path" in _table(inherited):
            return _widened(value)
        features = [*_list(_table(inherited).get("features")), *_list(entry.get("features"))]
        own = {key: one for key, one in entry.items() if key != "workspace"}
        made = {**_table(inherited), "version": "*", **own}
        return {**made, "features": features} if features else made


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
        built = _names(manifest, _BUILT) - _names(made, _BUILT)
        tested = _names(manifest, _TESTED) - _names(made, (*_BUILT, *_TESTED))
        made["features"] = _without(made["features"], built | tested)
    return made


def _reduce(table: Manifest, offer: Offer) -> dict[str, Any]:
    offers = {**dict.fromkeys(_BUILT, offer), **dict.fromkeys(_TESTED, offer.tests)}
    made: dict[str, Any] = {}
    for key, value in table.items():
        one = offers.get(key)
        if one is not None and isinstance(value, dict):
            made[key] = one.reduce(value)
        elif key not in _TESTED:
            made[key] = value
    return made


def _names(manifest: Manifest, kinds: Iterable[str]) -> set[str]:
    return {name for table in _tables(manifest) for kind in kinds for name in _table(table.get(kind))}


def _for_here(manifest: Manifest) -> Manifest:
    systems = {key: one for key, one in _table(manifest.get("target")).items() if not _is_elsewhere(key)}
    return {**manifest, "target": systems}


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


def _list_crates() -> set[str]:
    here = Path(REGISTRY)
    names = [one.name for one in here.iterdir()] if here.is_dir() else []
    return {re.sub(r"-\d+\.\d+\.\d.*$", "", one) for one in names}


def _change(manifests: Mapping[str, Manifest], kept: Mapping[str, Any], tests: Offer | None) -> set[str]:
    """Write each manifest that has to be changed; return which crates of tests were left out."""
    spare = find_spare(manifests, kept["programs"])
    left_out: set[str] = set()
    for place, manifest in manifests.items():
        shared = find_shared(place, manifests)
        offer = Offer(
            frozenset(kept["available"]),
            shared,
            widen=kept["widen"],
            is_spare=place in spare,
            tests=tests and tests._replace(shared=shared),
        )
        changed = transform(manifest, offer)
        left_out |= _names(_for_here(manifest), _TESTED) - _names(changed, _TESTED)
        text = kept["manifests"][place] if changed == manifest else format_manifest(changed)
        file = Path(place, "Cargo.toml")
        if file.read_text(encoding="utf-8") != text:
            file.write_text(text, encoding="utf-8")
    return left_out


def _patched(manifests: Mapping[str, Manifest]) -> set[str]:
    patches = _table(manifests.get(".", {}).get("patch")).values()
    return {name for source in patches for name in _table(source)}


def _use_registry() -> None:
    """Point Cargo at the packaged crates, once, where there are any."""
    config = Path(".cargo/config.toml")
    text = config.read_text(encoding="utf-8", errors="surrogateescape") if config.exists() else ""
    if _list_crates() and _SOURCE not in text:
        config.write_text(text + _SOURCE, encoding="utf-8", errors="surrogateescape")


def bring_tests_back(words: AbstractSet[str]) -> None:
    """Change the manifests of a build once more, for its tests; where no build changed them do nothing."""
    try:
        kept = json.loads(Path(KEPT).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return
    manifests = {place: tomllib.loads(text) for place, text in kept["manifests"].items()}
    available = set() if "--none" in words else _list_crates() | _patched(manifests)
    tests = Offer(available, {}, widen="--widen" in words, is_spare=True)
    left_out = _change(manifests, kept, None if "--none" in words else tests)
    Path(LEFT_OUT).write_text(", ".join(sorted(left_out)), encoding="utf-8")
    _use_registry()


def main() -> None:
    """Change each manifest below the current directory and point Cargo at the packaged crates."""
    words = frozenset(sys.argv)
    if "--tests" in words:
        bring_tests_back(words)
        return
    available = _list_crates()
    manifests = _read_manifests()
    kept = {
        "available": sorted(available | _patched(manifests)),
        "widen": "--widen" in words,
        "programs": [one.removeprefix(_PROGRAM) for one in sys.argv[1:] if one.startswith(_PROGRAM)],
        "manifests": {one: Path(one, "Cargo.toml").read_text(encoding="utf-8") for one in manifests},
    }
    _change(manifests, kept, None)
    Path(".cargo").mkdir(exist_ok=True)
    Path(KEPT).write_text(json.dumps(kept), encoding="utf-8")
    _use_registry()


if __name__ == "__main__":
    main()
