import os
import time
from pathlib import Path

import pytest
from sandbox_fakes import FakeEngine

from pytest_atesor.errors import SandboxError
from pytest_atesor.sandbox.interface import Absent, ExecSpec, Foreign, Present
from pytest_atesor.sandbox.sandbox import Sandbox, find_running_image, open_sandbox
from tests.unit.processes import LIMIT_S

IMAGE = "localhost/pytest-atesor-sandbox:debian"
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give files to others")


@pytest.fixture
def engine() -> FakeEngine:
    return FakeEngine(images={IMAGE: {"version": "1"}})


def opened(engine: FakeEngine, state: Path, *, reset: bool = False) -> list[str]:
    """Open the sandbox "box" and return what that made the engine do."""
    engine.calls.clear()
    open_sandbox(engine, "box", image=IMAGE, state=state, reset=reset)
    return [call for call in engine.calls if not call.startswith("exec")]


def test_an_absent_sandbox_is_created_with_its_workspace(engine: FakeEngine, tmp_path: Path) -> None:
    assert opened(engine, tmp_path) == ["create box"]
    assert (tmp_path / "slots" / "box" / "workspace").is_dir()


def test_a_running_sandbox_is_taken_as_it_is(engine: FakeEngine, tmp_path: Path) -> None:
    opened(engine, tmp_path)
    assert opened(engine, tmp_path) == []


def test_a_sandbox_of_a_name_or_an_id_is_the_same(engine: FakeEngine, tmp_path: Path) -> None:
    assert find_running_image(engine, "box") is None
    opened(engine, tmp_path)
    image = find_running_image(engine, "box")
    assert image == engine.image_id(IMAGE)
    engine.calls.clear()
    open_sandbox(engine, "box", image=image, state=tmp_path)
    assert engine.calls == []


@pytest.mark.parametrize(
    "found", [Foreign(), Present(running=False, image_id="x", labels={})], ids=["foreign", "stopped"]
)
def test_what_is_not_ours_or_does_not_run_has_no_image(engine: FakeEngine, found: Foreign | Present) -> None:
    engine.containers["box"] = found
    assert find_running_image(engine, "box") is None


def test_a_reset_always_makes_a_new_one(engine: FakeEngine, tmp_path: Path) -> None:
    opened(engine, tmp_path)
    assert opened(engine, tmp_path, reset=True) == ["remove box", "create box"]


def test_a_reset_empties_the_workspace_but_for_the_cache(engine: FakeEngine, tmp_path: Path) -> None:
    opened(engine, tmp_path, reset=True)
    (prepared,) = [call for call in engine.calls if call.startswith("exec box root")]
    assert "! -name cache -exec rm -rf" in prepared


def leave_work(workspace: Path, owner: int) -> None:
    """Make a workspace as a case leaves it, with a package in the cache that belongs to ``owner``."""
    archives = workspace / "cache/apt/archives"
    archives.mkdir(parents=True)
    workspace.chmod(0o755)
    (archives / "kept_1_all.deb").write_text("kept")
    (archives / "kept_1_all.deb").chmod(0o644)
    (workspace / "src").mkdir()
    (workspace / "src/file").touch()
    os.chown(workspace / "cache", owner, owner)


@AS_ROOT
@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_where_root_inside_is_root_here_the_workspace_is_emptied_before_the_sandbox_is_made(
    engine: FakeEngine, tmp_path: Path, umask: int
) -> None:
    workspace = tmp_path / "slots/box/workspace"
    leave_work(workspace, 0)
    before = os.umask(umask)
    try:
        assert opened(engine, tmp_path, reset=True) == ["create box"]
    finally:
        os.umask(before)
    assert not [call for call in engine.calls if call.startswith("exec")]
    found = {str(path.relative_to(workspace)): path.stat() for path in workspace.rglob("*")}
    assert {name: (status.st_uid, status.st_mode & 0o7777) for name, status in found.items()} == {
        "cache": (0, 0o755),
        "cache/apt": (0, 0o755),
        "cache/apt/archives": (0, 0o755),
        "cache/apt/archives/kept_1_all.deb": (0, 0o644),
        "cache/apt/archives/partial": (0, 0o755),
        "src": (1000, 0o755),
    }


@AS_ROOT
@pytest.mark.parametrize(
    ("owner", "is_remote"),
    [(100_000, False), (0, True)],
    ids=["root-inside-is-another", "on-another-machine"],
)
def test_where_root_inside_is_another_the_workspace_is_emptied_from_inside(
    engine: FakeEngine, tmp_path: Path, owner: int, *, is_remote: bool
) -> None:
    engine.is_remote = is_remote
    leave_work(tmp_path / "slots/box/workspace", owner)
    opened(engine, tmp_path, reset=True)
    assert [call for call in engine.calls if call.startswith("exec box root")]
    assert (tmp_path / "slots/box/workspace/src/file").exists()


def test_a_workspace_that_cannot_be_prepared_is_replaced_once(engine: FakeEngine, tmp_path: Path) -> None:
    engine.says = "echo input/output error; exit 1"
    (tmp_path / "slots/box/workspace").mkdir(parents=True)
    (tmp_path / "slots/box/workspace/stubborn").touch()
    with pytest.raises(SandboxError, match="workspace of box cannot be prepared"):
        opened(engine, tmp_path, reset=True)
    assert [call for call in engine.calls if not call.startswith("exec")] == [
        *("create box", "remove box", "create box")
    ]
    assert list((tmp_path / "slots/box/workspace").iterdir()) == []


@pytest.mark.parametrize("mode", [0o700, 0o775, 0o1777, 0o0])
def test_a_workspace_with_another_mode_is_replaced(engine: FakeEngine, tmp_path: Path, mode: int) -> None:
    workspace = tmp_path / "slots/box/workspace"
    workspace.mkdir(parents=True)
    (workspace / "file").touch()
    workspace.chmod(mode)
    opened(engine, tmp_path, reset=True)
    assert (workspace.stat().st_mode & 0o7777, list(workspace.iterdir())) == (0o755, [])
    assert [path.name for path in (tmp_path / "slots/box").iterdir()] == ["workspace"]


def test_opening_without_reset_removes_no_file(engine: FakeEngine, tmp_path: Path) -> None:
    opened(engine, tmp_path)
    assert not [call for call in engine.calls if "rm -rf" in call]


@pytest.mark.parametrize(
    "found",
    [
        Present(running=False, image_id="any", labels={}),
        Present(running=True, image_id="of-an-older-image", labels={}),
    ],
    ids=["stopped", "of-another-image"],
)
def test_an_unusable_sandbox_is_replaced(engine: FakeEngine, tmp_path: Path, found: Present) -> None:
    engine.containers["box"] = found
    assert opened(engine, tmp_path) == ["remove box", "create box"]


@pytest.mark.parametrize("reset", [False, True], ids=["open", "reset"])
def test_somebody_elses_container_is_refused(engine: FakeEngine, tmp_path: Path, *, reset: bool) -> None:
    engine.containers["box"] = Foreign()
    with pytest.raises(SandboxError, match="left alone"):
        opened(engine, tmp_path, reset=reset)
    assert engine.calls == []


def test_a_workspace_that_cannot_be_prepared_is_the_sandboxs_failure(
    engine: FakeEngine, tmp_path: Path
) -> None:
    engine.says = "echo read-only; exit 1"
    with pytest.raises(SandboxError, match=r"workspace of box cannot be prepared .read-only."):
        opened(engine, tmp_path)


def test_a_failed_command_is_a_value(engine: FakeEngine) -> None:
    engine.containers["box"] = Present(running=True, image_id="", labels={})
    engine.says = "echo no; exit 4"
    done = Sandbox(engine, "box").run(ExecSpec(argv=["x"]), timeout_s=LIMIT_S)
    assert (done.exit_code, done.tail, done.timed_out) == (4, b"no\n", False)


def test_a_failed_sandbox_is_an_error_with_its_last_words(engine: FakeEngine) -> None:
    engine.says = "echo first; echo last; exit 137"
    with pytest.raises(SandboxError, match=r"box failed .last."):
        Sandbox(engine, "box").run(ExecSpec(argv=["x"]), timeout_s=LIMIT_S)


class SlowEngine(FakeEngine):
    """Says for more than a second that a sandbox runs which is gone."""

    def state(self, name: str) -> Absent | Foreign | Present:
        now_s = time.monotonic()
        self.asked_s = getattr(self, "asked_s", now_s)
        is_late = now_s - self.asked_s < 1.5
        return Present(running=True, image_id="", labels={}) if is_late else super().state(name)


def test_the_end_of_a_sandbox_that_its_engine_is_slow_to_notice_is_no_end_of_the_command() -> None:
    engine = SlowEngine(images={IMAGE: {}}, says="echo last; exit 137")
    with pytest.raises(SandboxError, match=r"box failed .last."):
        Sandbox(engine, "box").run(ExecSpec(argv=["x"]), timeout_s=LIMIT_S)


def test_a_timeout_empties_the_sandbox_and_is_a_value(engine: FakeEngine) -> None:
    engine.says = "exec sleep 0.5"
    done = Sandbox(engine, "box").run(ExecSpec(argv=["x"]), timeout_s=0.1)
    assert done.timed_out
    assert engine.calls[-1] == "restart box"
