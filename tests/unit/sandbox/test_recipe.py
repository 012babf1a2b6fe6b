import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from pytest_atesor.core.plan import Platform
from pytest_atesor.sandbox import recipe

SCRIPTS = sorted(recipe.recipe_directory().glob("*.sh"))


@pytest.mark.parametrize("platform", list(Platform), ids=str)
def test_each_platform_has_an_image_name_a_base_and_a_build_file(platform: Platform) -> None:
    assert recipe.image_name(platform) == f"localhost/pytest-atesor-sandbox:{platform}"
    assert ":" in recipe.BASE_IMAGES[platform]
    assert recipe.containerfile(platform).is_file()


@pytest.mark.parametrize(
    ("machine", "host"),
    [("x86_64", "amd64"), ("aarch64", "arm64"), ("riscv64", None), ("s390x", None)],
    ids=str,
)
def test_native_tools_exist_for_two_kinds_of_host(machine: str, host: str | None) -> None:
    assert recipe.host_architecture(machine) == host


@pytest.mark.parametrize(
    ("platform", "variant"),
    [
        (Platform.DEBIAN, "debian-plain"),
        (Platform.UBUNTU, "ubuntu-plain"),
        (Platform.ALPINE, "alpine"),  # plain in any case
    ],
    ids=str,
)
def test_a_plain_image_has_a_name_and_a_build_file_of_its_own(platform: Platform, variant: str) -> None:
    assert recipe.image_name(platform, accelerated=False) == f"localhost/pytest-atesor-sandbox:{variant}"
    file = recipe.containerfile(platform, accelerated=False)
    assert file.is_file()
    assert "/native" not in file.read_text()


def test_the_digest_covers_names_contents_platform_tools_and_host(tmp_path: Path) -> None:
    def digest(platform: Platform = Platform.DEBIAN, host: str = "amd64", *, accelerated: bool = True) -> str:
        return recipe.read_recipe_digest(platform, host, tmp_path, accelerated=accelerated)

    file = tmp_path / "a.sh"
    file.write_text("one")
    seen = {digest(), digest(Platform.UBUNTU), digest(host="arm64"), digest(accelerated=False)}
    file.write_text("two")
    seen.add(digest())
    file.rename(tmp_path / "b.sh")
    seen.add(digest())
    assert len(seen) == 6
    assert digest() == digest()


def test_labels_carry_the_versions_of_the_recipes_record() -> None:
    labels = recipe.format_labels(
        digest="d" * 64, created_s=12, versions="go=1.27.4\n cargo=1.96.0\nnonsense\n"
    )
    assert labels == {
        "org.pytest-atesor.recipe": "d" * 64,
        "org.pytest-atesor.created": "12",
        "org.pytest-atesor.version.go": "1.27.4",
        "org.pytest-atesor.version.cargo": "1.96.0",
    }


@pytest.mark.parametrize(
    ("versions", "old"),
    [
        pytest.param({"go": "1.26.5", "cargo": "1.90.0"}, (), id="just-new-enough"),
        pytest.param({"go": "1.26.4", "cargo": "1.90.0"}, ("go 1.26.4",), id="go-by-a-patch"),
        pytest.param({"go": "1.9.9", "cargo": "1.89.3"}, ("go 1.9.9", "cargo 1.89.3"), id="numbers-not-text"),
        pytest.param({"go": "1.27rc1", "cargo": "2.0"}, (), id="release-candidate"),
        pytest.param({}, (), id="unknown"),
    ],
)
def test_tools_older_than_a_batch_needs_are_named(versions: Mapping[str, str], old: tuple[str, ...]) -> None:
    text = "".join(f"{name}={version}\n" for name, version in versions.items())
    labels = recipe.format_labels(digest="", created_s=0, versions=text)
    assert recipe.find_old_tools(labels) == old


@pytest.mark.parametrize(
    ("versions", "unreadable"),
    [
        pytest.param({"go": "1.27.4", "cargo": "1.96.0"}, (), id="readable"),
        pytest.param({"go": "devel", "cargo": ""}, ("go 'devel'", "cargo ''"), id="no-numbers"),
        pytest.param({}, (), id="not-recorded"),
    ],
)
def test_versions_that_cannot_be_read_are_named(
    versions: Mapping[str, str], unreadable: tuple[str, ...]
) -> None:
    text = "".join(f"{name}={version}\n" for name, version in versions.items())
    labels = recipe.format_labels(digest="", created_s=0, versions=text)
    assert recipe.find_unreadable_tools(labels) == unreadable
    assert recipe.find_old_tools(labels) == ()


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_each_script_is_well_formed_posix_shell(script: Path) -> None:
    first_line = script.read_text(encoding="utf-8").splitlines()[0]
    assert first_line in {"#!/bin/sh", "#!/native/usr/bin/dash"}
    checked = subprocess.run(["sh", "-n", str(script)], capture_output=True, check=False)  # noqa: S607 - the system's own
    assert checked.returncode == 0, checked.stderr


@pytest.mark.parametrize("name", ["native-tree.sh", "root.sh"])
def test_scripts_that_rewrite_their_system_refuse_to_run_elsewhere(name: str) -> None:
    refused = subprocess.run(
        ["sh", str(recipe.recipe_directory() / name)],  # noqa: S607 - the system's own
        capture_output=True,
        check=False,
    )
    assert refused.returncode == 2
    assert b"only inside a system that the recipe makes" in refused.stderr


@pytest.mark.parametrize("name", ["native.packages", "debian.packages", "alpine.packages"])
def test_package_lists_name_each_package_once(name: str) -> None:
    lines = (recipe.recipe_directory() / name).read_text(encoding="utf-8").splitlines()
    packages = [line for line in lines if line and not line.startswith("#")]
    assert packages
    assert len(set(packages)) == len(packages)
    assert all(package == package.strip() and " " not in package for package in packages)
