import json
import os
import platform
import subprocess
import tarfile
import time
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from sandbox_fakes import FakeEngine

from pytest_atesor.core.plan import Platform
from pytest_atesor.errors import SetupError
from pytest_atesor.sandbox.archive import ImageSettings
from pytest_atesor.sandbox.bootstrap import bootstrap_archive, find_free_memory, parse_debian_mirror
from pytest_atesor.sandbox.image import ensure_image
from pytest_atesor.sandbox.packing import LayerPacker
from pytest_atesor.sandbox.recipe import format_labels, host_architecture, read_recipe_digest

DEBIAN = "localhost/pytest-atesor-sandbox:debian-plain"
PLENTY_BYTES = 1 << 40
MAIN = "Debian|main|http://mirror.invalid/debian/"

# Stands in for the program of that name: makes a root file system with one file, fails when told to.
MMDEBSTRAP = r"""#!/bin/sh
echo "I: asked for $*" | tr '\n' ' '; echo
echo "I: works in $(stat -f -c %T "$TMPDIR")"
[ ! -e "$0.broken" ] || { echo 'E: no mirror answers' >&2; exit 3; }
for word; do
    case $word in
    *hook=download*)
        file=${word##* \'}
        printf 'go=%s\ncargo=1.96.0\n' "${GO_VERSION:-1.27.4}" > "${file%\'}" ;;
    */root.tar | */root.tar.native) tar -cf "$word" -C / etc/hostname ;;
    esac
done
"""


@pytest.mark.parametrize(
    ("targets", "mirror"),
    [
        pytest.param(MAIN, "http://mirror.invalid/debian", id="main-archive"),
        pytest.param(
            "Debian-Security|main|http://security.invalid/\nDebian|contrib|http://other.invalid/\n" + MAIN,
            "http://mirror.invalid/debian",
            id="among-others",
        ),
        pytest.param("Ubuntu|main|http://mirror.invalid/ubuntu/\n", None, id="ubuntu"),
        pytest.param("Debian|main|cdrom://disc/\n", None, id="a-disc"),
        pytest.param("Debian Backports|main|http://mirror.invalid/debian/\n", None, id="backports-alone"),
        pytest.param("", None, id="nothing"),
    ],
)
def test_the_mirror_is_the_one_of_the_machines_main_archive(targets: str, mirror: str | None) -> None:
    assert parse_debian_mirror(targets) == mirror


class LoadingEngine(FakeEngine):
    """Has what an archive says after loading it."""

    def load_image(self, archive: Path) -> None:
        self.calls.append(f"load {archive.name}")
        with tarfile.open(archive) as packed:
            (manifest,) = json.load(packed.extractfile("manifest.json"))  # type: ignore[arg-type]  # it is a file
            config = json.load(packed.extractfile(manifest["Config"]))  # type: ignore[arg-type]  # it is a file
        self.images[DEBIAN] = config["config"]["Labels"]


class Yesterday:
    """The image store and the engine of a batch of yesterday, whose mirror had an old Go."""

    def __init__(self, state: Path) -> None:
        self.state = state
        self.engine = LoadingEngine()
        self.digest = read_recipe_digest(Platform.DEBIAN, host_architecture(), accelerated=False)
        self.archive = state / "images" / f"debian-plain-{self.digest[:16]}.tar.zst"
        self.created_s = int(time.time()) - 25 * 3600
        self.old = format_labels(digest=self.digest, created_s=self.created_s, versions="go=1.24.4")
        self.archive.parent.mkdir(parents=True)
        with LayerPacker(state / "pipe", state / "layer") as packer:
            (state / "pipe").write_bytes(b"\0" * 1024)
            settings = ImageSettings(tag=DEBIAN, environment={}, labels=self.old, created="")
            packer.write_archive(self.archive, settings)
        os.utime(self.archive, (self.created_s, self.created_s))

    def ensure(self) -> list[str]:
        """Return what the engine was asked for, but for a registry and to prune."""
        self.engine.calls.clear()
        self.lines: list[str] = []
        tag = ensure_image(
            self.engine, Platform.DEBIAN, state=self.state, progress=self.lines.append, accelerated=False
        )
        assert tag == DEBIAN
        return [call for call in self.engine.calls if call.startswith("load")]

    @property
    def go(self) -> str:
        """The version of Go in the image that the engine has."""
        return self.engine.images[DEBIAN]["org.pytest-atesor.version.go"]


@pytest.fixture
def yesterday(programs: Path, tmp_path: Path) -> Yesterday:
    assert programs.is_dir()
    return Yesterday(tmp_path / "state")


@pytest.mark.parametrize("has_image", [True, False], ids=["in-the-engine", "in-the-archive"])
def test_an_image_with_too_old_tools_is_built_again_and_not_loaded_again(
    yesterday: Yesterday, *, has_image: bool
) -> None:
    if has_image:
        yesterday.engine.images[DEBIAN] = yesterday.old
    loads = [yesterday.ensure() for _ in range(3)]
    assert [len(one) for one in loads] == [1 if has_image else 2, 0, 0]
    assert yesterday.go == "1.27.4"


def test_where_there_is_nothing_newer_an_image_is_built_once_a_day(
    yesterday: Yesterday, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GO_VERSION", "1.24.4")
    yesterday.engine.images[DEBIAN] = yesterday.old
    warning = f"warning: the image {DEBIAN} has go 1.24.4, older than a batch needs: there was no newer one"
    starts = [(len(yesterday.ensure()), yesterday.lines[-1].startswith(warning)) for _ in range(3)]
    assert starts == [(1, True), (0, True), (0, True)]
    assert int(yesterday.engine.images[DEBIAN]["org.pytest-atesor.created"]) > yesterday.created_s
    assert yesterday.go == "1.24.4"


def test_an_old_image_is_used_with_a_warning_where_none_can_be_built(
    yesterday: Yesterday, programs: Path
) -> None:
    (programs / "mmdebstrap.broken").touch()
    yesterday.engine.images[DEBIAN] = yesterday.old
    assert yesterday.ensure() == []
    assert yesterday.engine.images[DEBIAN] == yesterday.old
    assert f"the image {DEBIAN} has go 1.24.4, older than a batch needs, and is made again" in yesterday.lines
    assert yesterday.lines[-1].startswith(
        "warning: the image with go 1.24.4 is used, because no other can be made: the image could not be "
        "bootstrapped (E: no mirror answers)"
    )


def test_what_was_built_for_another_engine_today_is_loaded(yesterday: Yesterday) -> None:
    yesterday.engine.images[DEBIAN] = yesterday.old
    yesterday.ensure()
    other = yesterday.engine = LoadingEngine(images={DEBIAN: yesterday.old})
    assert yesterday.ensure() == [f"load {yesterday.archive.name}"]
    assert (yesterday.go, other.calls[0]) == ("1.27.4", f"load {yesterday.archive.name}")


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory in front of PATH with the programs that a bootstrap calls."""
    if host_architecture() is None:
        pytest.skip("no native tools exist for this kind of machine")
    directory = tmp_path / "bin"
    directory.mkdir()
    for name, script in (
        ("mmdebstrap", MMDEBSTRAP),
        ("arch-test", "#!/bin/sh\n"),
        ("zstd", "#!/bin/sh\nexec cat\n"),
    ):
        (directory / name).write_text(script)
        (directory / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{directory}:{os.environ['PATH']}")
    return directory


def test_a_bootstrap_packs_the_new_system_with_its_labels(programs: Path, tmp_path: Path) -> None:
    assert programs.is_dir()
    images = tmp_path / "images"
    (images / "build-left-by-a-killed-one" / "root").mkdir(parents=True)
    archive = images / "debian-0.tar.zst"
    lines: list[str] = []
    bootstrap_archive(Platform.DEBIAN, archive, tag="localhost/x:y", digest="d", progress=lines.append)
    assert [line.split(" ")[0] for line in lines] == ["building", "native", "riscv64", "packing"]
    assert sorted(file.name for file in images.iterdir()) == ["debian-0.tar.zst", "debian-build.log"]
    with tarfile.open(archive) as packed:
        (manifest,) = json.load(packed.extractfile("manifest.json"))  # type: ignore[arg-type]  # it is a file
        config = json.load(packed.extractfile(manifest["Config"]))  # type: ignore[arg-type]  # it is a file
    assert manifest["RepoTags"] == ["localhost/x:y"]
    assert config["config"]["Labels"]["org.pytest-atesor.version.go"] == "1.27.4"
    assert "HOSTTYPE=riscv64" in config["config"]["Env"]


@pytest.mark.skipif(
    os.geteuid() != 0
    or subprocess.run(["unshare", "--mount", "true"], check=False).returncode != 0  # noqa: S607 - PATH
    or find_free_memory(PLENTY_BYTES) < PLENTY_BYTES,
    reason="needs root that may mount, without a limit of memory",
)
def test_with_memory_to_spare_the_system_is_made_there_and_nothing_stays_mounted(
    programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert programs.is_dir()
    # Next to none is needed here, and what is free now may not be in a moment.
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=PLENTY_BYTES))
    archive = tmp_path / "x.tar.zst"
    bootstrap_archive(Platform.DEBIAN, archive, tag="t", digest="d", progress=lambda _line: None)
    log = (tmp_path / "debian-build.log").read_text()
    assert log.count("I: works in tmpfs") == 2
    assert str(tmp_path) not in Path("/proc/self/mountinfo").read_text(encoding="utf-8")
    assert archive.exists()


@pytest.mark.parametrize(("wish", "shown"), [("1", True), ("0", False)])
def test_the_output_of_a_bootstrap_is_shown_live_when_asked(
    programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wish: str, *, shown: bool
) -> None:
    assert programs.is_dir()
    monkeypatch.delenv("ATESOR_SETUP_STREAM", raising=False)
    lines: list[str] = []
    bootstrap_archive(
        Platform.DEBIAN,
        tmp_path / "x.tar.zst",
        tag="t",
        digest="d",
        progress=lines.append,
        environ={"ATESOR_SETUP_STREAM": wish},
    )
    assert any(line.startswith("I: asked for") for line in lines) is shown


@pytest.mark.parametrize(("wish", "shown"), [("1", True), ("0", False)])
def test_an_image_s_bootstrap_is_shown_live_when_the_settings_ask(
    programs: Path, tmp_path: Path, wish: str, *, shown: bool
) -> None:
    assert programs.is_dir()
    lines: list[str] = []
    ensure_image(
        FakeEngine(),
        Platform.DEBIAN,
        state=tmp_path / "state",
        progress=lines.append,
        accelerated=False,
        environ={"ATESOR_SETUP_STREAM": wish},
    )
    assert any(line.startswith("I: asked for") for line in lines) is shown


def test_a_bootstrap_that_fails_leaves_its_log_and_nothing_else(programs: Path, tmp_path: Path) -> None:
    (programs / "mmdebstrap.broken").touch()
    images = tmp_path / "images"
    images.mkdir()
    with pytest.raises(SetupError, match=r"bootstrapped \(E: no mirror answers\); see .*debian-build.log$"):
        bootstrap_archive(
            Platform.DEBIAN, images / "x.tar.zst", tag="t", digest="d", progress=lambda _line: None
        )
    assert [file.name for file in images.iterdir()] == ["debian-build.log"]
    assert "riscv64" not in (images / "debian-build.log").read_text()


def test_a_disk_that_fills_is_told_with_its_directory(programs: Path, tmp_path: Path) -> None:
    assert programs.is_dir()
    images = tmp_path / "images"
    images.mkdir()
    (images / "debian-build.log").symlink_to("/dev/full")
    with pytest.raises(
        SetupError,
        match=rf"^no image can be made below {images} \(.*No space left.*\); free some space there, "
        "or set ATESOR_STATE_DIR$",
    ):
        bootstrap_archive(
            Platform.DEBIAN, images / "x.tar.zst", tag="t", digest="d", progress=lambda _line: None
        )
    assert [file.name for file in images.iterdir()] == ["debian-build.log"]


def test_a_state_directory_that_is_in_the_way_is_told(programs: Path, tmp_path: Path) -> None:
    assert programs.is_dir()
    (tmp_path / "images").write_text("")
    with pytest.raises(SetupError, match=r"\(.*Not a directory.*\); mend that, or set ATESOR_STATE_DIR$"):
        bootstrap_archive(
            Platform.DEBIAN, tmp_path / "images/x.tar.zst", tag="t", digest="d", progress=lambda _line: None
        )


def test_missing_programs_are_named_as_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if host_architecture() is None:
        pytest.skip("no native tools exist for this kind of machine")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(
        SetupError, match=r"without mmdebstrap, arch-test, zstd; apt-get install mmdebstrap arch"
    ):
        bootstrap_archive(
            Platform.DEBIAN, tmp_path / "x.tar.zst", tag="t", digest="d", progress=lambda _line: None
        )


@pytest.mark.parametrize(
    "key",
    [
        "usr/share/keyrings/ubuntu-archive-keyring.gpg",
        "usr/share/keyrings/ubuntu-archive-keyring.pgp",
        "etc/apt/trusted.gpg.d/ubuntu-keyring-2018-archive.gpg",
    ],
    ids=["keyring", "newer-keyring", "trusted-by-apt"],
)
def test_ubuntu_is_made_from_its_own_default_mirror(programs: Path, tmp_path: Path, key: str) -> None:
    assert programs.is_dir()
    (tmp_path / key).parent.mkdir(parents=True)
    (tmp_path / key).touch()
    bootstrap_archive(
        Platform.UBUNTU,
        tmp_path / "x.tar.zst",
        tag="t",
        digest="d",
        progress=lambda _line: None,
        keys_below=tmp_path,
    )
    asked = (tmp_path / "ubuntu-build.log").read_text().splitlines()
    last_words = [line.split()[-2:] for line in asked if line.startswith("I: asked for")]
    assert [words[0] for words in last_words] == ["noble", "noble"]


@pytest.mark.parametrize(
    ("distribution", "package"),
    [(Platform.UBUNTU, "ubuntu-keyring"), (Platform.DEBIAN, "debian-archive-keyring")],
    ids=str,
)
def test_missing_keys_are_named_as_a_package(
    programs: Path, tmp_path: Path, distribution: Platform, package: str
) -> None:
    assert programs.is_dir()
    (tmp_path / "etc/apt/trusted.gpg.d").mkdir(parents=True)
    (tmp_path / "etc/apt/trusted.gpg.d/nodesource.gpg").touch()
    with pytest.raises(SetupError) as caught:
        bootstrap_archive(
            distribution,
            tmp_path / "x.tar.zst",
            tag="t",
            digest="d",
            progress=lambda _line: None,
            keys_below=tmp_path,
        )
    assert str(caught.value) == (
        f"the {distribution} image cannot be bootstrapped without the keys of its archive "
        f"({tmp_path}/usr/share/keyrings/{distribution}-archive-keyring.gpg); apt-get install {package}"
    )


@pytest.mark.parametrize("accelerated", [True, False], ids=["accelerated", "plain"])
def test_a_machine_without_native_tools_is_told_what_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, accelerated: bool
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "ppc64le")
    with pytest.raises(SetupError) as caught:
        ensure_image(
            FakeEngine(offered=accelerated),
            Platform.DEBIAN,
            state=tmp_path,
            progress=lambda _line: None,
            accelerated=accelerated,
        )
    assert str(caught.value) == (
        "no debian image can be bootstrapped on a machine of kind ppc64le, only on amd64 and arm64; make one "
        "from a registry that offers debian:trixie (--no-acceleration, with docker or podman), or use a "
        "machine of one of these kinds"
    )


@pytest.mark.parametrize(
    ("files", "free"),
    [
        pytest.param({}, 1000, id="no-groups"),
        pytest.param({"memory.max": "max\n", "memory.current": "5\n"}, 1000, id="no-limit"),
        pytest.param({"memory.max": "700\n", "memory.current": "500\n"}, 200, id="v2"),
        pytest.param({"memory.max": "700\n", "memory.current": "900\n"}, 0, id="beyond"),
        pytest.param(
            {"memory/memory.limit_in_bytes": "700\n", "memory/memory.usage_in_bytes": "100\n"}, 600, id="v1"
        ),
        pytest.param(
            {"memory/memory.limit_in_bytes": f"{1 << 62}\n", "memory/memory.usage_in_bytes": "1\n"},
            1000,
            id="v1-without-limit",
        ),
    ],
)
def test_memory_that_a_control_group_forbids_is_not_free(
    tmp_path: Path, files: dict[str, str], free: int
) -> None:
    (tmp_path / "memory").mkdir()
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert find_free_memory(1000, tmp_path) == free
