"""A whole batch without a container engine: local sources, the built-in agent, real riscv64 files."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from pytest_atesor.core.plan import Platform
from pytest_atesor.errors import SetupError
from pytest_atesor.sandbox.image import ensure_image
from pytest_atesor.sandbox.interface import Engine, Present
from pytest_atesor.sandbox.select import select_engine
from pytest_atesor.sandbox.slots import state_directory
from pytest_atesor.work.bench import LEASE_LABEL

pytestmark = pytest.mark.engine

GIT = shutil.which("git") or "git"
MAIN = '#include <stdio.h>\nint main(void) { puts("hello"); return 0; }\n'
SOURCES: Mapping[str, Mapping[str, str]] = {
    "plain": {"Makefile": "plain: plain.c\n\t$(CC) -o plain plain.c\n", "plain.c": MAIN},
    "cmade": {
        "CMakeLists.txt": "cmake_minimum_required(VERSION 3.20)\nproject(c C)\nadd_executable(c m.c)\n",
        "m.c": MAIN,
    },
    "broken": {"Makefile": "x: x.c\n\t$(CC) -o x x.c\n", "x.c": "int main(void) { return nonesuch; }\n"},
    "empty": {"Makefile": "all:\n\t@echo nothing to do\n", "x.h": "#define X 1\n"},
}


def make_repository(tree: Path, files: Mapping[str, str]) -> str:
    tree.mkdir(parents=True)
    for name, text in files.items():
        (tree / name).write_text(text)
    who = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    for arguments in (["init", "-q"], ["add", "."], [*who, "commit", "-qm", "x"]):
        subprocess.run([GIT, *arguments], cwd=tree, check=True)
    return tree.as_uri()


def list_leased(engine: Engine) -> set[str]:
    """Return the sandboxes that batches hold; other tests may have some of their own."""
    found = {name: engine.state(name) for name in engine.list_sandboxes()}
    return {name for name, one in found.items() if isinstance(one, Present) and LEASE_LABEL in one.labels}


def test_a_batch_runs_without_a_container_engine(tmp_path: Path) -> None:
    try:
        engine = select_engine("host")
    except SetupError as error:
        pytest.skip(f"no host engine here: {error}")
    ensure_image(engine, Platform.DEBIAN, state=state_directory(os.environ), progress=print)
    before = list_leased(engine)
    packages = [
        {"name": name, "url": make_repository(tmp_path / "upstream" / name, files)}
        for name, files in SOURCES.items()
    ]
    body = {
        "$schema_version": 1,
        "defaults": {"timeout_seconds": 600, "max_attempts": 2},
        "packages": packages,
    }
    (tmp_path / "packages").mkdir()
    (tmp_path / "packages/local.json").write_text(json.dumps(body))
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    kept = ("ATESOR_STATE_DIR",)
    environ = {
        name: value
        for name, value in os.environ.items()
        if name in kept or not name.startswith(("ATESOR_", "PYTEST_", "COV_"))
    }
    flags = ["--atesor-list=local", "--atesor-engine=host", "-n2", "--atesor-batch-id=b", "--junitxml=j.xml"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *flags],
        cwd=tmp_path,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    bundle = tmp_path / "runs/batches/b"
    assert bundle.is_dir(), done.stdout + done.stderr
    results = json.loads((bundle / "batch_results.json").read_text())
    assert {case["label"]: (case["status"], case["cause"]) for case in results["cases"]} == {
        "plain": ("PASS", None),
        "cmade": ("PASS", None),
        "broken": ("FAIL", "build"),
        "empty": ("UNVERIFIED", None),
    }, done.stdout + done.stderr
    assert done.returncode == 1
    assert json.loads((bundle / "batch_plan.json").read_text())["settings"]["engine"] == "host"
    files = [path for path in (bundle / "cases").rglob("*") if "artifacts" in path.parts and path.is_file()]
    headers = [header for path in files if (header := path.read_bytes()[:20]).startswith(b"\x7fELF")]
    assert [header[18:20] for header in headers] == [b"\xf3\x00", b"\xf3\x00"]  # EM_RISCV
    assert list_leased(engine) <= before, "a sandbox outlived its batch"
