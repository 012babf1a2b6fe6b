"""``recipe.md`` followed by hand: its blocks in their order, in an empty sandbox, without this program."""

import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_atesor.core.plan import Platform
from pytest_atesor.errors import AtesorError
from pytest_atesor.sandbox.image import ensure_image
from pytest_atesor.sandbox.interface import Engine, ExecSpec
from pytest_atesor.sandbox.sandbox import Sandbox, open_sandbox
from pytest_atesor.sandbox.select import select_engine
from pytest_atesor.sandbox.slots import state_directory

pytestmark = [pytest.mark.engine, pytest.mark.network]

_CONTAINER = "atesor-by-hand-e2e"
_BLOCK = re.compile(
    r"^##+ (?P<title>[^\n]*) \((?P<user>root|builder), network (?P<network>on|off)"
    r"(?P<optional>, may fail)?\)\n\n"
    r"(?P<fence>`{3,})sh\n(?P<script>.*?)\n(?P=fence)$",
    re.MULTILINE | re.DOTALL,
)


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    try:
        chosen = select_engine(os.environ.get("ATESOR_ENGINE", "auto"))
    except AtesorError as error:
        pytest.skip(str(error))
    chosen.remove(_CONTAINER)
    yield chosen
    chosen.remove(_CONTAINER)


def _port(tmp_path: Path, engine: Engine, package: str) -> Path:
    """Port a Debian source; return the attempt's directory."""
    attempt = tmp_path / "attempt"
    attempt.mkdir()
    command = [
        *(sys.executable, "-m", "pytest_atesor.porter", "--repo", f"https://example.invalid/o/{package}"),
        *("--mirror", f"deb:{package}", "--force", "--tests", "skip", "--container", _CONTAINER),
    ]
    done = subprocess.run(
        command,
        env={**os.environ, "ATESOR_ATTEMPT_DIR": str(attempt), "ATESOR_ENGINE": engine.name},
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        check=False,
        timeout=900,
    )
    assert done.returncode == 0, (attempt / "result.json").read_text()
    return attempt


def _follow(sandbox: Sandbox, text: str) -> list[str]:
    """Run every block as its heading says; return the headings. Fails when a block fails that may not."""
    titles = []
    for block in _BLOCK.finditer(text):
        sandbox.set_network(enabled=block["network"] == "on")
        command = ExecSpec(argv=["sh", "-c", block["script"]], user=block["user"], cwd="/")
        done = sandbox.run(command, timeout_s=600)
        assert done.exit_code == 0 or block["optional"], (block["title"], done.tail[-2000:])
        titles.append(block["title"])
    return titles


def test_the_blocks_of_a_recipe_make_the_same_files_in_an_empty_sandbox(
    tmp_path: Path, engine: Engine
) -> None:
    attempt = _port(tmp_path, engine, "entr")
    result = json.loads((attempt / "result.json").read_text())
    text = (attempt / "artifacts/recipe.md").read_text()
    image = ensure_image(engine, Platform.DEBIAN, state=state_directory(os.environ), progress=print)
    state = tmp_path / "state"
    sandbox = open_sandbox(engine, _CONTAINER, image=image, state=state, reset=True)
    titles = _follow(sandbox, text)
    assert titles[:2] == ["Directories", "Fetch"]
    assert "build" in titles
    assert len(re.findall(r"^`{3,}sh$", text, re.MULTILINE)) == len(titles)
    workspace = state / "slots" / _CONTAINER / "workspace"
    made = {hashlib.sha256(one.read_bytes()).hexdigest() for one in workspace.rglob("*") if one.is_file()}
    assert result["artifacts"]
    assert {one["sha256"] for one in result["artifacts"]} <= made
