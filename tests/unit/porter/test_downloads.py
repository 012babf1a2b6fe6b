"""Slots share their downloads: apt's scripts run in a real shell, with a small apt in front of the PATH."""

import errno
import hashlib
import os
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import pytest

from pytest_atesor.porter.debian import HANDED_IN, install_script
from pytest_atesor.porter.download_pool import DownloadPool
from pytest_atesor.porter.downloads import Download, Downloads, parse_downloads
from pytest_atesor.porter.platforms import profile_of
from pytest_atesor.porter.shell import Shell
from pytest_atesor.sandbox.interface import Completed, ExecSpec

# As apt does it: of a file in the cache only the size is looked at.
APT_GET = r"""#!/bin/sh
mode=install
while [ $# -gt 0 ]; do
  case $1 in
    indextargets) echo list; exit ;;
    update) echo "Get:1 lists"; echo > "$LISTS/a_Packages"; echo > "$LISTS/a_Sources"; exit ;;
    --print-uris) mode=uris ;;
    --no-install-recommends) shift; break ;;
  esac
  shift
done
[ -f "$LISTS/a_Packages" ] || { echo "E: no lists"; exit 100; }
for one; do
  [ -f "$MIRROR/${one}_1_riscv64.deb" ] || { echo "E: Unable to locate package $one"; exit 100; }
done
for one; do
  file=${one}_1_riscv64.deb
  size=$(stat -c %s "$MIRROR/$file")
  if [ $mode = uris ]; then
    echo "'http://mirror.invalid/$file' $file $size SHA256:$(sha256sum "$MIRROR/$file" | cut -d' ' -f1)"
  else
    [ -z "${ATESOR_DOWNLOADS:-}" ] || ls "$ATESOR_DOWNLOADS" >> "$LEFT"
    if [ "$(stat -c %s "$ARCHIVES/$file" 2>/dev/null)" != "$size" ]; then
      echo "Get:1 $file"
      cp "$MIRROR/$file" "$ARCHIVES/$file"
    fi
    cp "$ARCHIVES/$file" "$INSTALLED/$one"
  fi
done
"""


@dataclass
class LocalSandbox:
    """A slot: its scripts run here, in a directory that stands for its root."""

    root: Path
    mirror: Path
    network: list[bool] = field(default_factory=list)
    cleared: int = 0
    seen: list[list[str]] = field(default_factory=list)
    heard: bytes = b""

    def __post_init__(self) -> None:
        for name in (
            "bin",
            "workspace/cache/apt/archives",
            "var/cache/apt",
            "var/lib/apt/lists",
            "installed",
        ):
            (self.root / name).mkdir(parents=True)
        for name in ("a_Packages", "a_Sources"):
            (self.root / "var/lib/apt/lists" / name).touch()
        (self.root / "bin/apt-get").write_text(APT_GET)
        (self.root / "bin/apt-get").chmod(0o755)

    def run(
        self, command: ExecSpec, *, timeout_s: float, sink: BinaryIO | None = None, tail_bytes: int = 65_536
    ) -> Completed:
        self.seen.append(sorted(one.name for one in (self.root / "workspace").iterdir()))
        environment = {
            "PATH": f"{self.root}/bin:{os.environ['PATH']}",
            "MIRROR": str(self.mirror),
            "ARCHIVES": str(self.archives),
            "LEFT": str(self.root / "left"),
            "LISTS": str(self.root / "var/lib/apt/lists"),
            "INSTALLED": str(self.root / "installed"),
            **{name: self._here(value) for name, value in command.env.items()},
        }
        done = subprocess.run(
            [self._here(one) for one in command.argv],
            env=environment,
            cwd=self.root,
            timeout=timeout_s,
            capture_output=True,
            check=False,
        )
        self.heard += done.stdout
        if sink is not None:
            sink.write(done.stdout)
        return Completed(exit_code=done.returncode, tail=done.stdout[-tail_bytes:], duration_s=0.0)

    def clear(self) -> None:
        self.cleared += 1

    def set_network(self, *, enabled: bool) -> None:
        self.network.append(enabled)

    @property
    def archives(self) -> Path:
        return self.root / "workspace/cache/apt/archives"

    @property
    def left(self) -> bytes:
        """What lay in the directory for what is handed in whenever apt downloaded or installed."""
        return (self.root / "left").read_bytes()

    @property
    def installed(self) -> dict[str, bytes]:
        return {one.name: one.read_bytes() for one in (self.root / "installed").iterdir()}

    def _here(self, text: str) -> str:
        for name in ("/workspace", "/var/cache/apt", "/var/lib/apt"):
            text = text.replace(name, f"{self.root}{name}")
        return text


class Lab:
    """Slots with one pool and one mirror, and what they say."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.mirror = place / "mirror"
        self.mirror.mkdir()
        for name in ("zlib", "xml", "ssl"):
            (self.mirror / f"{name}_1_riscv64.deb").write_bytes(name.encode() * 1000)
        self.root = place / "state/downloads"
        self.said: list[str] = []

    def slot(self, name: str) -> LocalSandbox:
        return LocalSandbox(self.place / name, self.mirror)

    def downloads(
        self, slot: LocalSandbox, platform: str = "debian", pool: DownloadPool | None = None
    ) -> Downloads:
        return Downloads(
            Shell(slot, deadline=None, output=None),
            profile_of(platform),
            pool=pool or DownloadPool(self.root, spare_bytes=0),
            workspace=slot.root / "workspace",
            say=self.said.append,
        )

    def install(
        self, slot: LocalSandbox, *packages: str, optional: tuple[str, ...] = (), platform: str = "debian"
    ) -> str:
        """Return the output of the installation."""
        done = self.downloads(slot, platform).install(packages, optional)
        assert done.exit_code == 0, done.tail
        return done.tail.decode()

    def entry(self, name: str) -> Path:
        content = (self.mirror / f"{name}_1_riscv64.deb").read_bytes()
        digest = hashlib.sha256(content).hexdigest()
        return self.root / "sha256" / digest[:2] / digest


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


@pytest.mark.parametrize("platform", ["debian", "ubuntu"])
def test_what_one_slot_downloaded_another_does_not(lab: Lab, platform: str) -> None:
    assert lab.install(lab.slot("one"), "zlib", "xml", platform=platform).count("Get:1") == 2
    assert lab.said == []
    second = lab.slot("two")
    assert lab.install(second, "zlib", "xml", "ssl", platform=platform).splitlines() == [
        "Get:1 ssl_1_riscv64.deb"
    ]
    assert second.installed == {name: name.encode() * 1000 for name in ("zlib", "xml", "ssl")}
    assert lab.said == ["2 of 3 downloads are here already (0.0 MB)"]
    assert second.left == b""  # while apt downloads, nothing lies there twice
    assert lab.entry("ssl").is_file()


def test_a_slot_has_copies_and_nothing_is_left_in_its_workspace(lab: Lab) -> None:
    first = lab.slot("one")
    lab.install(first, "zlib")
    second = lab.slot("two")
    lab.install(second, "zlib")
    assert [one.name for one in (second.root / "workspace").iterdir()] == ["cache"]
    for slot in (first, second):
        (slot.archives / "zlib_1_riscv64.deb").write_bytes(b"poison")
    assert lab.entry("zlib").read_bytes() == b"zlib" * 1000


def test_a_poisoned_entry_is_removed_downloaded_again_and_replaced(lab: Lab) -> None:
    lab.install(lab.slot("one"), "zlib")
    lab.entry("zlib").write_bytes(b"evil" * 1000)
    second = lab.slot("two")
    assert "Get:1 zlib" in lab.install(second, "zlib")
    assert second.installed == {"zlib": b"zlib" * 1000}
    assert lab.entry("zlib").read_bytes() == b"zlib" * 1000
    assert "Get:1" not in lab.install(lab.slot("three"), "zlib")


@pytest.mark.parametrize("content", [b"evil" * 1000, b""], ids=["of the same size", "empty"])
def test_a_wrong_file_that_was_handed_in_is_not_installed(lab: Lab, content: bytes) -> None:
    slot = lab.slot("one")
    (slot.root / "workspace/handed").mkdir()
    (slot.root / "workspace/handed/zlib_1_riscv64.deb").write_bytes(content)
    done = Shell(slot, deadline=None, output=None).script(
        install_script(["zlib"]), user="root", environment={HANDED_IN: "/workspace/handed"}
    )
    assert done.tail.decode().splitlines() == [
        "zlib_1_riscv64.deb is not what the package lists describe; it is downloaded again",
        "Get:1 zlib_1_riscv64.deb",
    ]
    assert slot.installed == {"zlib": b"zlib" * 1000}


def test_what_a_case_put_among_its_downloads_serves_nobody(lab: Lab) -> None:
    lab.install(lab.slot("one"), "xml")
    slot = lab.slot("two")
    secret = lab.place / "secret"
    secret.write_bytes(b"of the host")
    (slot.archives / "link_1_riscv64.deb").symlink_to(secret)
    os.mkfifo(slot.archives / "pipe_1_riscv64.deb")
    (slot.archives / "directory_1_riscv64.deb").mkdir()
    (slot.archives / "ssl_1_riscv64.deb").write_bytes(b"evil"[:3] * 1000)
    lab.install(slot, "zlib")
    kept = {one.read_bytes() for one in lab.root.rglob("sha256/*/*")}
    assert kept == {b"xml" * 1000, b"zlib" * 1000}
    third = lab.slot("three")
    assert "Get:1 ssl" in lab.install(third, "zlib", "xml", "ssl")
    assert third.installed["ssl"] == b"ssl" * 1000


def test_what_a_slot_had_before_there_was_a_pool_comes_into_it_when_it_is_wanted(lab: Lab) -> None:
    lab.install(lab.slot("one"), "xml")
    slot = lab.slot("two")
    shutil.copy(lab.mirror / "zlib_1_riscv64.deb", slot.archives)
    assert "Get:1" not in lab.install(slot, "zlib")
    assert lab.entry("zlib").is_file()
    assert lab.said == []


@pytest.mark.parametrize("lacks", [("a_Packages", "a_Sources"), ("a_Sources",)], ids=["none", "no sources"])
def test_lists_are_made_once_where_the_log_shows_it(lab: Lab, lacks: tuple[str, ...]) -> None:
    lab.install(lab.slot("one"), "zlib")
    slot = lab.slot("two")
    for name in lacks:
        (slot.root / "var/lib/apt/lists" / name).unlink()
    assert lab.install(slot, "zlib").count("Get:1 lists") == 1
    assert slot.heard.count(b"Get:1 lists") == 1
    assert "Get:1" not in lab.install(lab.slot("three"), "zlib")


def test_packages_that_may_be_missing_do_not_keep_the_others_from_the_pool(lab: Lab) -> None:
    lab.install(lab.slot("one"), "zlib", "xml")
    slot = lab.slot("two")
    said = lab.install(slot, "zlib", optional=("nonesuch", "ssl"))
    assert "Get:1 zlib" not in said
    assert "not installed: nonesuch" in said
    assert slot.installed == {name: name.encode() * 1000 for name in ("zlib", "ssl")}
    assert lab.entry("ssl").is_file()


@pytest.mark.parametrize("case", ["apt answered", "apt knew not all of them", "apt was not asked"])
def test_an_answer_of_apt_is_not_used_for_other_packages(lab: Lab, case: str) -> None:
    if case != "apt was not asked":
        lab.install(lab.slot("one"), "zlib")
    slot = lab.slot("two")
    (slot.root / "var/cache/apt/atesor-described").write_text("'x' xml_1_riscv64.deb 3000 SHA256:0\n")
    (slot.archives / "zlib_1_riscv64.deb").write_bytes(b"evil" * 1000)
    optional = ("nonesuch",) if case == "apt knew not all of them" else ()
    assert "Get:1 zlib" in lab.install(slot, "zlib", optional=optional)
    assert slot.installed == {"zlib": b"zlib" * 1000}


def test_a_copy_that_fails_inside_is_a_download(lab: Lab) -> None:
    lab.install(lab.slot("one"), "zlib", "xml")
    slot = lab.slot("two")
    (slot.root / "bin/cp").write_text(
        f"#!{shutil.which('sh')}\nfor one; do case $one in */incoming-*/zlib*) exit 1;; esac; done\n"
        f'exec {shutil.which("cp")} "$@"\n'
    )
    (slot.root / "bin/cp").chmod(0o755)
    assert "Get:1 zlib" in lab.install(slot, "zlib", "xml")
    assert slot.installed == {name: name.encode() * 1000 for name in ("zlib", "xml")}
    assert slot.left == b""


class SwappingPool(DownloadPool):
    """While it is asked, somebody replaces a downloaded file by a link."""

    def __init__(self, root: Path, file: Path, secret: Path) -> None:
        super().__init__(root, spare_bytes=0)
        self._file = file
        self._secret = secret

    def has(self, digest: str) -> bool:
        if self._file.exists():
            self._file.unlink()
            self._file.symlink_to(self._secret)
        return super().has(digest)


def test_a_link_that_comes_after_the_look_is_not_followed(lab: Lab) -> None:
    lab.install(lab.slot("one"), "xml")
    slot = lab.slot("two")
    (lab.place / "secret").write_bytes(b"of the host")
    pool = SwappingPool(lab.root, slot.archives / "zlib_1_riscv64.deb", lab.place / "secret")
    assert lab.downloads(slot, pool=pool).install(["zlib"]).exit_code == 0
    assert (slot.archives / "zlib_1_riscv64.deb").is_symlink()
    assert {one.read_bytes() for one in lab.root.rglob("sha256/*/*")} == {b"xml" * 1000}


@pytest.mark.parametrize(
    "trouble",
    [
        "the pool is a file",
        "the pool cannot be looked at",
        "the disk is full",
        "the disk has little room",
        "the workspace is another's",
    ],
)
def test_where_nothing_can_be_shared_the_port_goes_on_with_one_line(
    lab: Lab, trouble: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.install(lab.slot("one"), "zlib")
    slot = lab.slot("two")

    def refuse(*_given: object, **_named: object) -> None:
        raise OSError(errno.EACCES if "another" in trouble else errno.ENOSPC, "refused")

    pool = None
    match trouble:
        case "the pool is a file":
            shutil.rmtree(lab.root)
            lab.root.write_text("")
        case "the pool cannot be looked at":  # as one below somebody else's directory, but for root, too
            lab.root = lab.place / ("x" * 300)
        case "the disk is full":
            monkeypatch.setattr(os, "copy_file_range", refuse)
        case "the disk has little room":
            pool = DownloadPool(lab.root, spare_bytes=2**62)
        case _:
            monkeypatch.setattr("tempfile.mkdtemp", refuse)
    downloads = lab.downloads(slot, pool=pool)
    for name in ("zlib", "xml"):
        done = downloads.install([name])
        assert done.exit_code == 0
        assert f"Get:1 {name}" in done.tail.decode()
        assert slot.seen[-1] == ["cache"]  # a disk that is full has room again
    assert slot.installed == {"zlib": b"zlib" * 1000, "xml": b"xml" * 1000}
    (line,) = lab.said
    assert line.startswith("downloads are not shared with other cases: ")
    assert [one.name for one in (slot.root / "workspace").iterdir()] == ["cache"]


def test_no_pool_and_no_apt_mean_one_script_as_ever(lab: Lab) -> None:
    slot = lab.slot("one")
    downloads = Downloads(
        Shell(slot, deadline=None, output=None),
        profile_of("debian"),
        pool=None,
        workspace=Path("/nowhere"),
        say=lab.said.append,
    )
    assert downloads.install(["zlib"]).exit_code == 0
    assert profile_of("alpine").describe is None
    assert lab.said == []


def test_only_what_apt_says_in_its_own_form_is_a_download() -> None:
    digest = "0123456789abcdef" * 4
    good = f"'http://m/e%3a1.deb' e_1%3a2+b~1_riscv64.deb 12 SHA256:{digest}"
    bad = [
        f"'http://m/x' ../../etc_1_riscv64.deb 12 SHA256:{digest}",
        f"'http://m/x' .hidden.deb 12 SHA256:{digest}",
        f"'http://m/x' a/b.deb 12 SHA256:{digest}",
        f"'http://m/x' short.deb 12 SHA256:{digest[:-1]}",
        f"'http://m/x' md5.deb 12 MD5Sum:{digest}",
        f"'http://m/x' text.txt 12 SHA256:{digest}",
        f"'http://m/x' size.deb -1 SHA256:{digest}",
        "Get:1 http://m/x",
    ]
    assert parse_downloads("\n".join([*bad, good, good])) == (
        Download("e_1%3a2+b~1_riscv64.deb", 12, digest),
    )
