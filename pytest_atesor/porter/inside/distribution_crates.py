"""Make Cargo manifests fit the distribution's packaged crates.

Runs inside the sandbox, in the package's tree.

The distribution has one version of most crates, none for other systems, and not every optional one. Its own
builds change manifests in the same way: tests' dependencies and other systems' go, optional crates that are
not there go with the features that name them, and with ``--widen`` any version will do. What the build does
not build (members of the workspace that nothing else needs) still takes part in Cargo's choice of versions:
there any crate that is not there goes.
"""

import fnmatch
import os
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any

REGISTRY = "/usr/share/cargo/registry"

_SECTION = re.compile(r"^\s*\[\[?\s*([^\]]+?)\s*\]\]?\s*(?:#.*)?$")
_DEPENDENCIES = re.compile(r"(^|\.)(build-)?dependencies(\.|$)")
_ELSEWHERE = re.compile(
    r"windows|macos|wasm|apple|android|\bios\b|redox|fuchsia|freebsd|netbsd|openbsd|dragonfly|haiku"
)
_ENTRY = re.compile(r"\s*([A-Za-z0-9_-]+)(?:\.[a-z-]+)?\s*=\s*(.*)", re.DOTALL)
_QUOTED = re.compile(r"\"[^\"]*\"|'[^']*'")


def find_spare(manifests: Mapping[str, Mapping[str, Any]]) -> frozenset[str]:
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
    needed: set[str] = set()
    waiting = [*roots]
    while waiting:
        place = waiting.pop()
        if place in manifests and place not in needed:
            needed.add(place)
            waiting.extend(_neighbours(place, manifests[place], root, is_root=place in roots))
    return frozenset(manifests) - needed


def _table(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _neighbours(
    place: str, manifest: Mapping[str, Any], root: Mapping[str, Any], *, is_root: bool
) -> Iterator[str]:
    """Yield the directories of the tree's packages that one needs.

    Which optional ones other packages turn on is not looked into: of all but the roots they count as needed.
    """
    shared = _table(_table(root.get("workspace")).get("dependencies"))
    turned_on = _default_crates(_table(manifest.get("features"))) if is_root else None
    for table in (manifest, *map(_table, _table(manifest.get("target")).values())):
        for kind in ("dependencies", "build-dependencies"):
            for name, value in _table(table.get(kind)).items():
                entry = _table(value)
                if entry.get("optional") and turned_on is not None and name not in turned_on:
                    continue
                if "path" in entry:
                    yield os.path.normpath(f"{place}/{entry['path']}")
                elif entry.get("workspace") and "path" in _table(shared.get(name)):
                    yield os.path.normpath(str(shared[name]["path"]))


def _default_crates(features: Mapping[str, Any]) -> set[str]:
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


def transform(text: str, available: AbstractSet[str], *, widen: bool, is_spare: bool = False) -> str:
    """Return the manifest ``text`` changed to need only ``available`` crates where that is possible."""
    kept: list[str] = []
    gone: set[str] = set()
    for section, lines in _sections(text):
        if "dev-dependencies" in section or _is_elsewhere(section):
            continue
        if _DEPENDENCIES.search(section):
            may_go = is_spare and not section.startswith("workspace.")
            kept.extend(_dependencies(section, lines, available, gone, widen=widen, may_go=may_go))
        else:
            kept.extend(lines)
    result = "\n".join(kept)
    return _without_features(result, gone) if gone else result


def _sections(text: str) -> Iterator[tuple[str, list[str]]]:
    name = ""
    lines: list[str] = []
    for line in text.split("\n"):
        header = _SECTION.match(line)
        if header:
            yield name, lines
            name, lines = header.group(1), []
        lines.append(line)
    yield name, lines


def _is_elsewhere(section: str) -> bool:
    return section.startswith("target.") and bool(_ELSEWHERE.search(section)) and "not(" not in section


def _dependencies(
    section: str,
    lines: list[str],
    available: AbstractSet[str],
    gone: set[str],
    *,
    widen: bool,
    may_go: bool,
) -> list[str]:
    """Return the section's lines without the crates that are absent; all may go, or the optional ones."""
    own_table = re.search(r"dependencies\.(?:\"?)([A-Za-z0-9_-]+)(?:\"?)$", section)
    if own_table:
        if _is_absent(own_table.group(1), "\n".join(lines), available, may_go=may_go):
            gone.add(own_table.group(1))
            return []
        return [re.sub(r"^(\s*version\s*=\s*)\"[^\"]*\"", r'\1"*"', one) if widen else one for one in lines]
    kept: list[str] = []
    for text in _entries(lines):
        entry = _ENTRY.match(text)
        if entry and _is_absent(entry.group(1), entry.group(2), available, may_go=may_go):
            gone.add(entry.group(1))
        else:
            kept.append(_widened(text) if widen and entry else text)
    return kept


def _entries(lines: list[str]) -> Iterator[str]:
    """Yield the lines, those of an entry that goes on over several as one text."""
    text = ""
    for line in lines:
        text = f"{text}\n{line}" if text else line
        bare = "\n".join(_QUOTED.sub("", one).split("#")[0] for one in text.split("\n"))
        is_header = bare.lstrip().startswith("[")
        if is_header or bare.count("{") + bare.count("[") <= bare.count("}") + bare.count("]"):
            yield text
            text = ""
    if text:
        yield text


def _is_absent(name: str, value: str, available: AbstractSet[str], *, may_go: bool) -> bool:
    """Say whether a crate is not there and may go; those of the tree itself stay."""
    bare = _QUOTED.sub("", value)
    if re.search(r"(?<![\w-])path\s*=", bare) or not (
        may_go or re.search(r"(?<![\w-])optional\s*=\s*true", bare)
    ):
        return False
    real = re.search(r"(?<![\w-])package\s*=\s*\"([^\"]+)\"", value)
    return (real.group(1) if real else name) not in available


def _widened(line: str) -> str:
    line = re.sub(r"^(\s*[A-Za-z0-9_-]+\s*=\s*)\"[^\"]*\"", r'\1"*"', line)
    return re.sub(r"(\bversion\s*=\s*)\"[^\"]*\"", r'\1"*"', line)


def _without_features(text: str, gone: AbstractSet[str]) -> str:
    """Remove what names a crate that is gone from the ``[features]`` section."""
    names = "|".join(re.escape(one) for one in sorted(gone))
    pattern = re.compile(rf"\"(?:dep:)?(?:{names})(?:\??/[^\"]*)?\"\s*,?")
    return "\n".join(
        "\n".join(pattern.sub("", one) for one in lines) if section == "features" else "\n".join(lines)
        for section, lines in _sections(text)
    ).lstrip("\n")


def _manifests(root: str) -> Iterator[Path]:
    for directory, children, files in os.walk(root):
        children[:] = [one for one in children if one not in {".git", "vendor", "target"}]
        if "Cargo.toml" in files:
            yield Path(directory, "Cargo.toml")


def _parse(texts: Mapping[Path, str]) -> dict[str, dict[str, Any]]:
    """Return the manifests that can be read, by directory; Cargo itself complains of the others."""
    parsed: dict[str, dict[str, Any]] = {}
    for path, text in texts.items():
        try:
            parsed[os.path.normpath(path.parent)] = tomllib.loads(text)
        except tomllib.TOMLDecodeError:
            continue
    return parsed


def main() -> None:
    """Change each manifest below the current directory and point Cargo at the packaged crates."""
    here = Path(REGISTRY)
    names = [one.name for one in here.iterdir()] if here.is_dir() else []
    available = {re.sub(r"-\d+\.\d+\.\d.*$", "", one) for one in names}
    texts = {path: path.read_text(encoding="utf-8") for path in _manifests(".")}
    spare = find_spare(_parse(texts))
    for path, text in texts.items():
        is_spare = os.path.normpath(path.parent) in spare
        changed = transform(text, available, widen="--widen" in sys.argv, is_spare=is_spare)
        if changed != text:
            path.write_text(changed, encoding="utf-8")
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
