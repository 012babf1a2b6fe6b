"""Make Cargo manifests fit the distribution's packaged crates.

Runs inside the sandbox, in the package's tree.

The distribution has one version of most crates, none for other systems, and not every optional one. Its own
builds change manifests in the same way: tests' dependencies and other systems' go, optional crates that are
not there go with the features that name them, and with ``--widen`` any version will do.
"""

import os
import re
import sys
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from pathlib import Path

REGISTRY = "/usr/share/cargo/registry"

_SECTION = re.compile(r"^\s*\[\[?\s*([^\]]+?)\s*\]\]?\s*(?:#.*)?$")
_DEPENDENCIES = re.compile(r"(^|\.)(build-)?dependencies(\.|$)")
_ELSEWHERE = re.compile(
    r"windows|macos|wasm|apple|android|\bios\b|redox|fuchsia|freebsd|netbsd|openbsd|dragonfly|haiku"
)
_ENTRY = re.compile(r"^\s*([A-Za-z0-9_-]+)\s*=\s*(.*)$")


def transform(text: str, available: AbstractSet[str], *, widen: bool) -> str:
    """Return the manifest ``text`` changed to need only ``available`` crates where that is possible."""
    kept: list[str] = []
    gone: set[str] = set()
    for section, lines in _sections(text):
        if "dev-dependencies" in section or _is_elsewhere(section):
            continue
        if _DEPENDENCIES.search(section):
            kept.extend(_dependencies(section, lines, available, gone, widen=widen))
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
    section: str, lines: list[str], available: AbstractSet[str], gone: set[str], *, widen: bool
) -> list[str]:
    own_table = re.search(r"dependencies\.(?:\"?)([A-Za-z0-9_-]+)(?:\"?)$", section)
    if own_table:
        text = "\n".join(lines)
        real = re.search(r"^\s*package\s*=\s*\"([^\"]+)\"", text, re.MULTILINE)
        if (
            re.search(r"^\s*optional\s*=\s*true", text, re.MULTILINE)
            and (real or own_table).group(1) not in available
        ):
            gone.add(own_table.group(1))
            return []
        return [re.sub(r"^(\s*version\s*=\s*)\"[^\"]*\"", r'\1"*"', one) if widen else one for one in lines]
    kept: list[str] = []
    for line in lines:
        entry = _ENTRY.match(line)
        if entry is None:
            kept.append(line)
            continue
        name, value = entry.groups()
        real = re.search(r"\bpackage\s*=\s*\"([^\"]+)\"", value)
        is_optional = re.search(r"\boptional\s*=\s*true", value) and not re.search(r"\bpath\s*=", value)
        if is_optional and (real.group(1) if real else name) not in available:
            gone.add(name)
            continue
        kept.append(_widened(line) if widen else line)
    return kept


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


def main() -> None:
    """Change each manifest below the current directory and point Cargo at the packaged crates."""
    here = Path(REGISTRY)
    names = [one.name for one in here.iterdir()] if here.is_dir() else []
    available = {re.sub(r"-\d+\.\d+\.\d.*$", "", one) for one in names}
    for path in _manifests("."):
        text = path.read_text(encoding="utf-8")
        changed = transform(text, available, widen="--widen" in sys.argv)
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
