"""The program ./bootstrap: what it decides. That it works is shown by running it."""

import importlib.machinery
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import pytest

from pytest_atesor.sandbox.emulation import RISCV64_PROGRAM
from pytest_atesor.sandbox.slots import state_directory

if TYPE_CHECKING:
    from conftest import ClosedPlace

PROGRAM = Path(__file__).resolve().parents[3] / "bootstrap"


@pytest.fixture(scope="module")
def bootstrap() -> ModuleType:
    loader = importlib.machinery.SourceFileLoader("bootstrap_program", str(PROGRAM))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    was, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    loader.exec_module(module)
    sys.dont_write_bytecode = was
    return module


def test_the_first_choice_that_the_release_knows_is_taken(bootstrap: ModuleType) -> None:
    needs = [
        bootstrap.Need("a", False, (("new", "with-it"), ("old",))),  # noqa: FBT003 - a NamedTuple in order
        bootstrap.Need("b", True, (("here-already",),)),  # noqa: FBT003 - a NamedTuple in order
        bootstrap.Need("c", False, (("old", "more"),)),  # noqa: FBT003 - a NamedTuple in order
    ]
    assert bootstrap.plan_packages(needs, {"new", "old", "more"}.__contains__) == ["old", "more"]
    assert bootstrap.plan_packages(needs, lambda _name: True) == ["new", "with-it", "old", "more"]


def test_a_release_without_the_packages_is_a_clear_problem(bootstrap: ModuleType) -> None:
    needs = [bootstrap.Need("an emulator", False, (("a", "b"), ("c",)))]  # noqa: FBT003 - a NamedTuple in order
    with pytest.raises(
        bootstrap.BootstrapError, match=r"an emulator: this release has no package a \+ b or c"
    ):
        bootstrap.plan_packages(needs, lambda _name: False)


def test_workers_are_chosen_where_the_arguments_choose_none(bootstrap: ModuleType) -> None:
    cpus = len(os.sched_getaffinity(0))
    assert bootstrap.choose_workers(["-k", "zlib"]) == ["-n", str(cpus)]
    assert bootstrap.choose_workers([], most=2) == ["-n", str(min(cpus, 2))]
    for own in (["-n0"], ["-n", "4"], ["--numprocesses=1"], ["--pdb"], ["-p", "no:xdist"]):
        assert bootstrap.choose_workers(own, most=2) == []


def test_it_knows_the_kernels_pattern_of_riscv64_programs(bootstrap: ModuleType) -> None:
    def matches(program: bytes) -> bool:
        pairs = zip(program, bootstrap.MAGIC, bootstrap.MASK, strict=False)
        return all(byte & mask == magic & mask for byte, magic, mask in pairs)

    assert len(bootstrap.MAGIC) == len(bootstrap.MASK) == 20
    assert matches(RISCV64_PROGRAM)
    assert not matches(Path(sys.executable).read_bytes()[:20])


@pytest.mark.parametrize(
    "environ",
    [
        {"ATESOR_STATE_DIR": "/a/b", "HOME": "/h"},
        {"XDG_STATE_HOME": "/x", "HOME": "/h"},
        {"XDG_STATE_HOME": "relative", "HOME": "/h"},
        {"HOME": "/h"},
    ],
    ids=["own", "xdg", "relative-xdg", "home"],
)
def test_it_keeps_its_state_where_the_project_does(
    bootstrap: ModuleType, monkeypatch: pytest.MonkeyPatch, environ: dict[str, str]
) -> None:
    for name in ("ATESOR_STATE_DIR", "XDG_STATE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    assert bootstrap.state_directory() == state_directory(environ)


def test_a_user_without_home_and_account_is_told_what_to_set(
    bootstrap: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ATESOR_STATE_DIR", "XDG_STATE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 2_000_000_011)
    with pytest.raises(bootstrap.BootstrapError, match="set ATESOR_STATE_DIR or HOME"):
        bootstrap.state_directory()
    assert bootstrap.find_user() == "2000000011"


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a directory that stands first on PATH; sudo is there, and runs what it is given."""
    directory = tmp_path / "bin"
    directory.mkdir()
    monkeypatch.setenv("PATH", f"{directory}:{os.environ['PATH']}")
    write_program(directory / "sudo", 'exec "$@"')
    return directory


def write_program(file: Path, body: str) -> None:
    file.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
    file.chmod(0o755)


APT_CACHE = """
case "$LANGUAGE:$LC_ALL:$LANG" in
    de*|:de*|::de*) candidate=Installationskandidat none='(keine)' ;;
    *) candidate=Candidate none='(none)' ;;
esac
printf '%s:\\n' "$2"
case "$2" in known) echo "  $candidate: 1.2-3" ;; *) echo "  $candidate: $none" ;; esac
"""


@pytest.mark.parametrize("variable", ["LANGUAGE", "LC_ALL", "LANG"])
def test_apt_is_understood_where_the_user_speaks_another_language(
    bootstrap: ModuleType, programs: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    write_program(programs / "apt-cache", APT_CACHE)
    for name in ("LANGUAGE", "LC_ALL", "LANG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, "de_DE.UTF-8")
    assert bootstrap.is_known_package("known")
    assert not bootstrap.is_known_package("unknown")


def test_what_a_program_says_need_not_be_utf_8(bootstrap: ModuleType, programs: Path) -> None:
    write_program(programs / "latin", "printf 'gr\\374n\\n'")
    assert bootstrap.run_quiet(["latin"]).stdout == "gr\ufffdn\n"


HANDLER = "enabled\ninterpreter /usr/bin/qemu-riscv64-static\nflags: {flags}\noffset 0\nmagic {magic}\n"


@pytest.mark.parametrize(
    ("runs", "flags", "serves"),
    [
        pytest.param(True, "PF", True, id="runs"),
        pytest.param(False, "PF", False, id="does-not-run"),
        pytest.param(None, "PF", True, id="not-tried"),
        pytest.param(None, "P", False, id="not-tried-and-not-for-containers"),
        pytest.param(True, "P", False, id="not-for-containers"),
        pytest.param(True, None, True, id="runs-without-a-handler"),
        pytest.param(None, None, False, id="not-tried-without-a-handler"),
    ],
)
def test_a_handler_that_works_is_never_registered_again(
    bootstrap: ModuleType, tmp_path: Path, *, runs: bool | None, flags: str | None, serves: bool
) -> None:
    magic = bootstrap.MAGIC.hex()
    off = HANDLER.format(flags="PF", magic=magic).replace("enabled", "disabled")
    handlers = {
        "status": "enabled\n",
        "register": "",
        "arm": HANDLER.format(flags="PF", magic="7f"),
        "off": off,
    }
    if flags is not None:
        handlers["qemu-riscv64"] = HANDLER.format(flags=flags, magic=magic)
    for name, text in handlers.items():
        (tmp_path / name).write_text(text)
    assert bootstrap.serves_containers(runs=runs, handlers=tmp_path) is serves


TRY = """
import importlib.machinery, importlib.util, sys
from pathlib import Path
sys.dont_write_bytecode = True
loader = importlib.machinery.SourceFileLoader("bootstrap_program", sys.argv[1])
module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
loader.exec_module(module)
script = b"#!/bin/sh\\nexit %d\\n"
closed, opened = Path(sys.argv[2]), Path(sys.argv[3])
print(*(module.try_program(script % code, place) for code in (0, 1) for place in (closed, opened, None)))
module.ROOT = closed
print(module.can_run_riscv64())
"""


def test_where_no_program_may_run_it_does_not_say_that_emulation_is_missing(
    tmp_path: Path, closed_place: "ClosedPlace"
) -> None:
    argv = [*closed_place.argv, sys.executable, "-c", TRY, PROGRAM, closed_place.path, tmp_path]
    environ = {**os.environ, "TMPDIR": str(closed_place.path)}
    ended = subprocess.run(argv, env=environ, capture_output=True, text=True, check=True)
    tried, can_run = ended.stdout.splitlines()
    assert tried == "None True None None False None"
    assert can_run == str(True if os.uname().machine == "riscv64" else None)


def test_an_emulator_that_may_not_be_executed_is_one_that_does_not_run(
    bootstrap: ModuleType, tmp_path: Path
) -> None:
    emulator = tmp_path / "qemu-riscv64-static"
    emulator.write_text("#!/bin/sh\n")
    emulator.chmod(0o644)
    assert bootstrap.try_program(f"#!{emulator}\n".encode(), tmp_path) is False


@pytest.mark.parametrize(
    ("text", "first"),
    [
        pytest.param("", 100_000, id="none"),
        pytest.param("# ids\n\nother:100000:65536\nmore:300000:5\n", 300_005, id="behind-all-others"),
        pytest.param("me:100000:65536\n", None, id="by-name"),
        pytest.param("other:5:5\n1234:100000:65536\n", None, id="by-number"),
        pytest.param("# me:1:2\nother:x:y\nother:100000\na:b:c:d\n", 100_000, id="nothing-to-read"),
    ],
)
def test_id_ranges_are_read_past_comments(bootstrap: ModuleType, text: str, first: int | None) -> None:
    assert bootstrap.plan_subordinate_ids(text.splitlines(), {"me", "1234"}) == first


@pytest.mark.parametrize("before", ["", "other:100000:65536\n", "other:100000:65536"], ids=ascii)
def test_an_account_that_is_not_in_the_password_file_gets_its_ids(
    bootstrap: ModuleType, programs: Path, tmp_path: Path, before: str
) -> None:
    write_program(programs / "usermod", "echo \"user '$3' does not exist in /etc/passwd\" >&2; exit 6")
    file = tmp_path / "subuid"
    file.write_text(before)
    first = 165_536 if before else 100_000
    for _ in range(2):  # the second time there is nothing to do
        bootstrap.add_subordinate_ids({file: "--add-subuids"})
        ours = f"{bootstrap.find_user()}:{first}:65536"
        assert file.read_text().splitlines() == [*before.splitlines(), ours]


def test_an_account_of_this_machine_gets_its_ids_from_usermod(
    bootstrap: ModuleType, programs: Path, tmp_path: Path
) -> None:
    write_program(programs / "usermod", f'echo "$*" >> {tmp_path}/asked')
    bootstrap.add_subordinate_ids({
        tmp_path / "subuid": "--add-subuids",
        tmp_path / "subgid": "--add-subgids",
    })
    user = bootstrap.find_user()
    assert (tmp_path / "asked").read_text().splitlines() == [
        f"--add-subuids 100000-165535 {user}",
        f"--add-subgids 100000-165535 {user}",
    ]


@pytest.mark.parametrize("code", [0, 1], ids=["docker-answers", "no-docker"])
def test_ids_that_cannot_be_given_matter_only_where_docker_does_not_answer(
    bootstrap: ModuleType,
    programs: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    code: int,
) -> None:
    write_program(programs / "docker", f"exit {code}")
    write_program(programs / "usermod", "exit 6")
    missing = {tmp_path / "absent" / "subuid": "--add-subuids"}
    if code == 0:
        bootstrap.prepare_podman(missing)
        assert "warning: podman will not work without root: adding " in capsys.readouterr().out
    else:
        with pytest.raises(bootstrap.BootstrapError, match=r"adding .* failed"):
            bootstrap.prepare_podman(missing)


def run(*arguments: str, path: str | None = None) -> "subprocess.CompletedProcess[str]":
    environ = {**os.environ, **({} if path is None else {"PATH": path})}
    return subprocess.run(
        [sys.executable, str(PROGRAM), *arguments], env=environ, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    ("arguments", "exit_code"),
    [([], 0), (["--help"], 0), (["frobnicate"], 2)],
    ids=["none", "help", "unknown"],
)
def test_it_explains_itself(arguments: list[str], exit_code: int) -> None:
    ended = run(*arguments)
    assert ended.returncode == exit_code
    assert "./bootstrap smoke" in ended.stdout


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become an ordinary user")
def test_without_root_and_sudo_it_says_what_to_run() -> None:
    python = Path("/usr/bin/python3")
    found = {name: shutil.which(name) for name in ("apt-get", "apt-cache")}
    if not python.exists() or None in found.values():
        pytest.skip("needs the distribution's own python3 and apt")
    # not pytest's directory: that is closed to other users
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        place.chmod(0o755)
        shutil.copy(PROGRAM, place)
        programs = place / "bin"
        programs.mkdir()
        for program, path in found.items():
            (programs / program).symlink_to(str(path))
        ended = subprocess.run(
            [str(python), str(place / "bootstrap"), "setup"],
            env={"PATH": str(programs), "HOME": "/nonexistent"},
            user=65534,
            group=65534,
            capture_output=True,
            text=True,
            check=False,
        )
    assert ended.returncode == 1
    assert "sudo is not installed; run as root: apt-get" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_stamp_that_cannot_be_read_is_no_stamp(bootstrap: ModuleType, tmp_path: Path) -> None:
    stamp = tmp_path / "stamp"
    assert bootstrap.read_stamp(stamp) == {}
    stamp.write_text("{broken")
    assert bootstrap.read_stamp(stamp) == {}
    stamp.write_text(json.dumps({"a": "b"}))
    assert bootstrap.read_stamp(stamp) == {"a": "b"}
