"""``atesor doctor``: one list of problems, exit code 1 when the machine is not ready; and ``setup``."""

from pathlib import Path

import pytest

from pytest_atesor.cli import main
from pytest_atesor.commands.machine import MachineChoice, choose_machine, read_environment
from pytest_atesor.core.plan import Platform, Target


@pytest.fixture(autouse=True)
def _place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("TARGET", "PLATFORM", "ENGINE", "NO_ACCELERATION", "STATE_DIR", "ATTEMPT_DIR"):
        monkeypatch.delenv(f"ATESOR_{name}", raising=False)


def test_a_native_machine_that_is_not_set_is_not_ready(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--target", "native"]) == 1
    out = capsys.readouterr().out
    assert "set ATESOR_SSH_HOST" in out
    assert out.endswith("not ready: 1 problem(s)\n")


def test_settings_may_stand_in_the_env_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / ".env").write_text("ATESOR_TARGET=native\nATESOR_SSH_NONSENSE=1\n", encoding="utf-8")
    assert main(["doctor"]) == 1
    assert "unknown setting ATESOR_SSH_NONSENSE" in capsys.readouterr().out


def test_a_mistyped_name_in_the_env_file_is_warned_of_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / ".env").write_text("ATESOR_TARGTE=qemu\nATESOR_TARGET=native\n", encoding="utf-8")
    main(["doctor"])
    warning = "nothing reads ATESOR_TARGTE in .env; did you mean ATESOR_TARGET?"
    assert capsys.readouterr().err == f"atesor: warning: {warning}\n"


@pytest.mark.parametrize("value", [None, ""], ids=["not-set", "set-to-nothing"])
def test_one_port_keeps_its_state_where_the_env_file_says(
    value: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".env").write_text("ATESOR_STATE_DIR=kept\n", encoding="utf-8")
    if value is not None:
        monkeypatch.setenv("ATESOR_STATE_DIR", value)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["port", "https://example.invalid/zlib", "--engine", "podman", "--container", "one"]) == 1
    assert (tmp_path / "kept/slots/one").is_dir()
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ATESOR_PLATFORM", "plan9"),
        ("ATESOR_TESTS", "Require"),
        ("ATESOR_BUILD_NETWORK", "perhaps"),
        ("ATESOR_MIRRORS", "deb:x"),
        ("ATESOR_RUN_DEADLINE", "soon"),
    ],
)
def test_a_bad_setting_of_one_port_is_named_with_its_place(
    name: str, value: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path(".env").write_text(f"{name}={value}\n", encoding="utf-8")
    assert main(["port", "https://example.invalid/zlib"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert repr(value) in line
    assert f" {name} in .env" in line
    monkeypatch.setenv(name, value)
    assert main(["port", "https://example.invalid/zlib"]) == 2
    assert f" {name} in the environment" in capsys.readouterr().err


def test_an_agent_of_a_batch_reads_no_env_file_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".env").write_text("ATESOR_ENGINE=podman\n", encoding="utf-8")
    assert read_environment()["ATESOR_ENGINE"] == "podman"
    monkeypatch.setenv("ATESOR_ATTEMPT_DIR", str(tmp_path))
    assert "ATESOR_ENGINE" not in read_environment()


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


SETTINGS = {
    "ATESOR_PLATFORM": "alpine",
    "ATESOR_TARGET": "native",
    "ATESOR_ENGINE": "podman",
    "ATESOR_NO_ACCELERATION": "yes",
}


def test_the_machine_is_that_of_a_batch_with_these_settings() -> None:
    assert choose_machine({"ATESOR_ENGINE": ""}) == MachineChoice(
        platform=Platform.DEBIAN, target=Target.QEMU, engine="auto", is_accelerated=True
    )
    assert choose_machine(SETTINGS) == MachineChoice(
        platform=Platform.ALPINE, target=Target.NATIVE, engine="podman", is_accelerated=False
    )
    assert choose_machine(
        SETTINGS | {"ATESOR_NO_ACCELERATION": "0"}, platform="ubuntu", target="qemu", engine="host"
    ) == MachineChoice(platform=Platform.UBUNTU, target=Target.QEMU, engine="host", is_accelerated=True)
    assert not choose_machine({}, no_acceleration=True).is_accelerated


@pytest.mark.parametrize("command", ["doctor", "setup"])
@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("PLATFORM=arch", "unknown platform 'arch' from ATESOR_PLATFORM"),
        ("TARGET=arm", "unknown target 'arm' from ATESOR_TARGET"),
        ("ENGINE=lxc", "unknown engine 'lxc' from ATESOR_ENGINE"),
        ("NO_ACCELERATION=perhaps", "bad value 'perhaps' of ATESOR_NO_ACCELERATION"),
    ],
)
def test_a_bad_setting_is_refused_as_by_a_batch(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    command: str,
    setting: str,
    words: str,
) -> None:
    Path(".env").write_text(f"ATESOR_{setting}\n", encoding="utf-8")
    assert main([command]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"{words} in .env; use " in line
    monkeypatch.setenv("ATESOR_PLATFORM", "plan9")
    assert main([command]) == 2
    assert "unknown platform 'plan9' from ATESOR_PLATFORM in the environment; " in capsys.readouterr().err


@pytest.mark.parametrize("command", ["doctor", "setup"])
def test_the_engine_of_the_settings_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    Path(".env").write_text("ATESOR_ENGINE=podman\n", encoding="utf-8")
    assert main([command]) == 1
    captured = capsys.readouterr()
    assert "podman is not installed" in captured.out + captured.err
    assert "docker" not in captured.out + captured.err


def test_without_an_engine_there_is_nothing_to_look_at_and_no_image(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ATESOR_ENGINE", "none")
    assert main(["doctor"]) == 0
    assert capsys.readouterr().out == "engine: none; the agent brings its own sandbox\nready\n"
    assert main(["setup"]) == 2
    assert "the engine 'none' of ATESOR_ENGINE has no image to make" in capsys.readouterr().err
