from pathlib import Path

from pytest_atesor.porter.builders.cargo import DISTRIBUTION_CRATES, CargoProject
from pytest_atesor.porter.builders.interface import BuildOptions, Candidate, Tweak
from pytest_atesor.porter.installer import Installer
from pytest_atesor.porter.repair import Package, Repair
from pytest_atesor.porter.shell import Shell
from pytest_atesor.porter.suite_needs import FoundNeeds
from tests.unit.porter.fake_sandbox import FakeSandbox

_INDEX = "crate/0.3.1/devx.crate\trust/librust-devx-dev\ncrate/1.0.0/libx.crate\trust/librust-libx-dev\n"
_CRATE = Candidate(
    builder="cargo",
    directory="",
    rank=90,
    evidence="Cargo.toml",
    project=CargoProject(crates=("libx@1",), tested=("devx@0.3", "gone@1")),
)


def _bring(sandbox: FakeSandbox, workspace: Path, *fixes: str) -> FoundNeeds:
    """Return the needs of the crate's tests after they were brought."""
    (workspace / "index").write_text(_INDEX)
    shell = Shell(sandbox, deadline=None, output=None)
    installer = Installer(shell, index=workspace / "index", workspace=workspace, say=lambda _text: None)
    installer.installed["librust-libx-dev"] = "the build's"
    repair = Repair(installer, Package(name="x", same_times=False, debian_source="x"), say=lambda _text: None)
    options = BuildOptions(jobs=1, tweak=Tweak(prepare=fixes))
    needs = FoundNeeds(installer, repair, _CRATE, options, lambda names: dict.fromkeys(names, "1"))
    assert needs.bring(100.0)
    return needs


def test_packaged_crates_of_tests_are_brought_as_far_as_they_can_be_had(tmp_path: Path) -> None:
    sandbox = FakeSandbox([(r"librust-devx-dev", [(100, b"E: Unable to locate package\n")])])
    needs = _bring(sandbox, tmp_path, DISTRIBUTION_CRATES)
    (script,) = sandbox.scripts("librust-devx-dev")
    assert 'for one in librust-devx-dev; do get "$one" || ' in script
    assert "gone" not in script
    assert "librust-libx-dev" not in script
    assert needs.list_packages() == {"librust-devx-dev": "1"}


def test_a_registry_has_brought_the_crates_of_tests_with_the_others(tmp_path: Path) -> None:
    sandbox = FakeSandbox([])
    assert _bring(sandbox, tmp_path).list_packages() == {}
    assert sandbox.ran == []
