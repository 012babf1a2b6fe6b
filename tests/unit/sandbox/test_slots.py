import os
import pwd
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_atesor.core.plan import Platform
from pytest_atesor.errors import SetupError
from pytest_atesor.sandbox.native.connection import cache_directory
from pytest_atesor.sandbox.slots import (
    container_base,
    lease_slot,
    slot_directory,
    slot_name,
    state_directory,
)

HOLDER = """
import sys
from pathlib import Path
from pytest_atesor.core.plan import Platform
from pytest_atesor.sandbox.slots import lease_slot
lease = lease_slot(Path(sys.argv[1]), Platform.DEBIAN)
print(lease.name, flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        pytest.param(
            {"ATESOR_STATE_DIR": "/a", "XDG_STATE_HOME": "/b", "HOME": "/c"}, "/a", id="own-variable"
        ),
        pytest.param({"XDG_STATE_HOME": "/b", "HOME": "/c"}, "/b/pytest-atesor", id="xdg"),
        pytest.param(
            {"XDG_STATE_HOME": "b", "HOME": "/c"}, "/c/.local/state/pytest-atesor", id="relative-xdg"
        ),
        pytest.param({"ATESOR_STATE_DIR": "", "HOME": "/c"}, "/c/.local/state/pytest-atesor", id="home"),
    ],
)
def test_the_state_directory_follows_the_environment(environ: dict[str, str], expected: str) -> None:
    assert state_directory(environ) == Path(expected)


def test_without_home_and_account_it_says_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 2_000_000_011)  # containers run such users
    with pytest.raises(SetupError, match="2000000011 has no home directory; set ATESOR_STATE_DIR or HOME"):
        state_directory({"XDG_STATE_HOME": "relative", "HOME": ""})
    with pytest.raises(SetupError, match="set XDG_CACHE_HOME or HOME"):
        cache_directory({})
    assert state_directory({"ATESOR_STATE_DIR": "/a"}) == Path("/a")


def test_without_home_the_account_says_where_it_is() -> None:
    home = pwd.getpwuid(os.getuid()).pw_dir
    assert state_directory({}) == Path(home) / ".local/state/pytest-atesor"
    assert cache_directory({}) == Path(home) / ".cache/pytest-atesor"


@pytest.mark.parametrize(
    ("platform", "name"),
    [
        (Platform.ALPINE, "atesor-ai-sandbox-w3"),
        (Platform.DEBIAN, "atesor-ai-sandbox-debian-w3"),
        (Platform.UBUNTU, "atesor-ai-sandbox-debian-w3"),
    ],
    ids=str,
)
def test_slots_are_named_as_the_contract_names_them(platform: Platform, name: str) -> None:
    assert slot_name(platform, 3) == name


def test_two_leases_take_different_numbers(tmp_path: Path) -> None:
    with lease_slot(tmp_path, Platform.DEBIAN) as first, lease_slot(tmp_path, Platform.DEBIAN) as second:
        assert (first.number, second.number) == (1, 2)
        assert second.directory == slot_directory(tmp_path, "atesor-ai-sandbox-debian-w2")


def test_a_released_number_is_free_again(tmp_path: Path) -> None:
    lease = lease_slot(tmp_path, Platform.DEBIAN)
    lease.release()
    lease.release()
    with lease_slot(tmp_path, Platform.DEBIAN) as again:
        assert again.number == 1


def test_debian_and_ubuntu_share_their_numbers(tmp_path: Path) -> None:
    with lease_slot(tmp_path, Platform.DEBIAN), lease_slot(tmp_path, Platform.UBUNTU) as second:
        assert second.number == 2


def test_a_lease_of_another_process_ends_with_its_death(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline().strip() == "atesor-ai-sandbox-debian-w1"
        with lease_slot(tmp_path, Platform.DEBIAN) as other:
            assert other.number == 2
        holder.kill()
        holder.wait()
    with lease_slot(tmp_path, Platform.DEBIAN) as freed:
        assert freed.number == 1


def test_a_child_process_does_not_inherit_the_lease(tmp_path: Path) -> None:
    lease = lease_slot(tmp_path, Platform.DEBIAN)
    idle = [sys.executable, "-c", "input()"]
    with subprocess.Popen(idle, stdin=subprocess.PIPE, close_fds=False) as child:
        lease.release()
        with lease_slot(tmp_path, Platform.DEBIAN) as again:
            assert again.number == 1
        child.kill()


def test_numbers_with_somebody_elses_container_are_skipped(tmp_path: Path) -> None:
    foreign = {"atesor-ai-sandbox-debian-w1", "atesor-ai-sandbox-debian-w2"}
    with lease_slot(tmp_path, Platform.DEBIAN, is_foreign=foreign.__contains__) as lease:
        assert lease.number == 3


def test_no_free_number_is_a_clear_error(tmp_path: Path) -> None:
    with (
        lease_slot(tmp_path, Platform.DEBIAN, [1]),
        pytest.raises(SetupError, match="no free slot for atesor-ai-sandbox-debian"),
    ):
        lease_slot(tmp_path, Platform.DEBIAN, [1])


def test_an_unusable_state_directory_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "slots").write_text("in the way")
    with pytest.raises(SetupError, match="set ATESOR_STATE_DIR"):
        lease_slot(tmp_path, Platform.DEBIAN)


@pytest.mark.parametrize("name", ["", "../x", "a/b", "-k", "a\nb", "x" * 200], ids=repr)
def test_a_name_that_is_no_container_name_is_refused(name: str) -> None:
    with pytest.raises(SetupError, match="bad container name"):
        slot_directory(Path("/state"), name)


def test_the_base_is_known_for_each_platform() -> None:
    assert {container_base(platform) for platform in Platform} == {
        "atesor-ai-sandbox",
        "atesor-ai-sandbox-debian",
    }
