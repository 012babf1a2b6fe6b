"""``atesor doctor``: one list of problems, exit code 1 when the machine is not ready."""

from pathlib import Path

import pytest

from pytest_atesor.cli import main


@pytest.fixture(autouse=True)
def _place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ATESOR_TARGET", raising=False)


def test_a_native_machine_that_is_not_set_is_not_ready(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--target", "native"]) == 1
    out = capsys.readouterr().out
    assert "set ATESOR_SSH_HOST" in out
    assert out.endswith("not ready: 1 problem(s)\n")


def test_settings_may_stand_in_the_env_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / ".env").write_text("ATESOR_TARGET=native\nATESOR_SSH_NONSENSE=1\n", encoding="utf-8")
    assert main(["doctor"]) == 1
    assert "unknown setting ATESOR_SSH_NONSENSE" in capsys.readouterr().out


def test_a_target_that_there_is_not_is_a_bad_flag(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--target", "arm"]) == 2
    assert "unknown target 'arm'" in capsys.readouterr().err


def test_without_any_engine_each_one_s_problem_stands_with_what_mends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["doctor"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[:4] == [
        "problem: docker: docker is not installed",
        "    apt-get install docker.io",
        "problem: podman: podman is not installed",
        "    apt-get install podman",
    ]
    assert lines[4].startswith("problem: host: sandboxes without a container engine need ")
    assert lines[-1] == "not ready: no container engine answers; mend one of them"
