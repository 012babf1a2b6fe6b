"""The rooms and the doors between them, read off the source's own import statements."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import pytest_atesor

PACKAGE = Path(pytest_atesor.__file__).parent
MODULES = sorted(PACKAGE.rglob("*.py"))

ALLOWED = {
    # A room may import itself, the error tree and what is named here.
    "core": set(),
    "errors": set(),
    "temporary": set(),
    "bundle": {"core", "temporary"},
    "reports": {"core"},
    "sandbox": {"core", "temporary"},
    "coverage": {"core"},
    "runners": {"core", "sandbox", "bundle"},
    "porter": {"core", "sandbox", "temporary"},
    "work": {"core", "bundle", "runners", "sandbox"},
    "control": {"core", "bundle", "runners", "sandbox", "reports", "work"},
    "intake": {"core", "bundle", "runners", "sandbox", "options", "spelling", "work", "control"},
}

# What belongs to a pytest run; whatever is added at the root does too.
PLUGIN_SIDE = {
    entry.stem for entry in PACKAGE.iterdir() if entry.suffix == ".py" or (entry / "__init__.py").is_file()
} - {"core", "errors", "temporary", "sandbox", "porter", "__init__"}

IMPURE = {
    "os",
    "subprocess",
    "socket",
    "time",
    "random",
    "logging",
    "pytest",
    "pathlib",
    "shutil",
    "tempfile",
    "secrets",
    "uuid",
    "threading",
    "multiprocessing",
    "asyncio",
    "sys",
    "glob",
    "fcntl",
}


class Import(NamedTuple):
    module: Path
    line: int
    target: str

    def __str__(self) -> str:
        return f"{self.module.relative_to(PACKAGE.parent)}:{self.line} imports {self.target}"


def imports_of(module: Path) -> Iterator[Import]:
    for node in ast.walk(ast.parse(module.read_text("utf-8"))):
        match node:
            case ast.Import(names=names):
                yield from (Import(module, node.lineno, name.name) for name in names)
            case ast.ImportFrom(module=str(source), names=names, level=0):
                # ``from package import name`` may import the module package.name: both are reported.
                yield from (Import(module, node.lineno, f"{source}.{name.name}") for name in names)
            case ast.ImportFrom():
                yield Import(module, node.lineno, "a relative module")


def room_of(module: Path) -> str:
    relative = module.relative_to(PACKAGE)
    return relative.parts[0] if len(relative.parts) > 1 else relative.stem


def rooms(imported: Import) -> str | None:
    parts = imported.target.split(".")
    is_room = parts[0] == "pytest_atesor" and len(parts) > 1 and not parts[1].startswith("__")
    return parts[1] if is_room else None


IMPORTS = [imported for module in MODULES for imported in imports_of(module)]


def test_the_walk_sees_the_code() -> None:
    assert any(str(imported).endswith("imports json") for imported in IMPORTS)
    assert {"core", "bundle", "reports"} <= {room_of(module) for module in MODULES}


@pytest.mark.parametrize("room", sorted(ALLOWED))
def test_imports_point_inward(room: str) -> None:
    wrong = [
        str(imported)
        for imported in IMPORTS
        if room_of(imported.module) == room
        and (to := rooms(imported)) is not None
        and to not in ALLOWED[room] | {room, "errors"}
    ]
    assert wrong == []


def test_core_has_no_clock_no_disk_and_no_chance() -> None:
    wrong = [
        str(imported)
        for imported in IMPORTS
        if room_of(imported.module) == "core"
        and imported.target.split(".")[0] in IMPURE
        and not imported.target.startswith("pathlib.Pure")
    ]
    calls = [
        f"{module.name}:{node.lineno} calls {node.func.id}"
        for module in MODULES
        if room_of(module) == "core"
        for node in ast.walk(ast.parse(module.read_text("utf-8")))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in {"open", "print", "input", "exec", "eval"}
    ]
    assert wrong + calls == []


def test_core_never_asks_for_the_current_time() -> None:
    asked = [
        f"{module.name}:{node.lineno} reads {node.attr}"
        for module in MODULES
        if room_of(module) == "core"
        for node in ast.walk(ast.parse(module.read_text("utf-8")))
        if isinstance(node, ast.Attribute)
        and node.attr in {"now", "utcnow", "today"}
        and isinstance(node.value, ast.Name)
    ]
    assert asked == []


def test_the_porter_never_imports_the_plugin_side() -> None:
    wrong = [
        str(imported)
        for imported in IMPORTS
        if room_of(imported.module) == "porter" and rooms(imported) in PLUGIN_SIDE
    ]
    assert wrong == []


def test_only_public_interfaces_and_no_mocks() -> None:
    tests = Path(__file__).parents[1]
    everywhere = [
        *IMPORTS,
        *(imported for module in sorted(tests.rglob("*.py")) for imported in imports_of(module)),
    ]
    banned = [
        f"{imported.module.name}:{imported.line} imports {imported.target}"
        for imported in everywhere
        if imported.target.split(".")[0] == "_pytest"
        or imported.target.startswith(("unittest.mock", "a relative"))
    ]
    assert banned == []


def _rows(*, cells: int) -> list[list[str]]:
    """Return the rows of the tables in the architecture page that have so many cells, heads left out."""
    page = (PACKAGE.parent / "docs/architecture.md").read_text("utf-8")
    tables = [line.strip("|").split("|") for line in page.splitlines() if line.startswith("|")]
    rows = [[cell.strip() for cell in row] for row in tables if len(row) == cells]
    return [row for row in rows if "`" in row[0] or not row[0]]


def test_the_architecture_page_names_every_module_of_the_batch_s_rooms() -> None:
    named: dict[str, list[str]] = {}
    room = ""
    for first, second, _ in _rows(cells=3):
        room = first.strip("`/") or room
        named.setdefault(room, []).extend(re.findall(r"`(\w+)`", second))
    for room in ("intake", "control", "work"):
        there = sorted(path.stem for path in (PACKAGE / room).glob("*.py") if path.stem != "__init__")
        assert sorted(named[room]) == there, room


def test_the_architecture_page_names_every_room_and_what_stands_at_the_root() -> None:
    first = " ".join(row[0] for cells in (2, 3) for row in _rows(cells=cells))
    named = set(re.findall(r"`(\w+)(?:\.py|/)`", first))
    there = {
        path.stem
        for path in PACKAGE.iterdir()
        if (path.suffix == ".py" and path.stem != "__init__") or (path / "__init__.py").is_file()
    }
    assert named == there


def test_the_architecture_page_says_what_each_lower_room_may_import() -> None:
    told = {first.strip("`/"): set(allowed.split(", ")) for first, _, allowed in _rows(cells=3)}
    for room in ("core", "bundle", "runners", "sandbox", "porter", "coverage", "reports"):
        assert told[room] - {room} == ALLOWED[room] - {"temporary"}, room
