import os
import shutil
import subprocess
from pathlib import Path

import pytest

from pytest_atesor.errors import SetupError
from pytest_atesor.sandbox.archive import ImageSettings, write_archive
from pytest_atesor.sandbox.packing import LayerPacker

SETTINGS = ImageSettings(
    tag="localhost/x:y", environment={"A": "1"}, labels={"l": "v"}, created="2026-01-02T03:04:05Z"
)


def write_layer(pipe: Path, content: bytes) -> None:
    """Write as mmdebstrap does: open once to see whether that works, and again when there is something."""
    with pipe.open("wb"):
        pass
    script = 'head -c "$1" /dev/stdin > "$2"'
    argv = ["sh", "-c", script, "sh", str(len(content)), str(pipe)]
    subprocess.run(argv, input=content, check=True, timeout=60)


@pytest.mark.skipif(shutil.which("zstd") is None, reason="zstd is not installed; apt-get install zstd")
@pytest.mark.parametrize("size", [0, 512, 3_000_001])
def test_what_was_packed_while_it_was_written_is_the_archive_of_the_whole(tmp_path: Path, size: int) -> None:
    content = os.urandom(size)
    pipe, archive = tmp_path / "root.tar", tmp_path / "image.tar.zst"
    with LayerPacker(pipe, tmp_path / "layer.zst") as packer:
        write_layer(pipe, content)
        packer.write_archive(archive, SETTINGS)
    assert not pipe.exists()
    (tmp_path / "whole").write_bytes(content)
    with (tmp_path / "expected").open("wb") as expected:
        write_archive(tmp_path / "whole", expected, SETTINGS)
    unpack = ["zstd", "-dcq", str(archive)]
    unpacked = subprocess.run(unpack, stdout=subprocess.PIPE, check=True).stdout
    assert unpacked == (tmp_path / "expected").read_bytes()


@pytest.mark.parametrize(
    "zstd",
    [
        pytest.param("head -c 10 > /dev/null; exit 1", id="ends-early"),
        pytest.param("cat > /dev/null; exit 1", id="fails-at-its-end"),
        pytest.param(None, id="is-not-there"),
    ],
)
def test_who_writes_the_layer_never_waits_for_a_packer_that_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, zstd: str | None
) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("sh", "head", "cat"):
        (programs / name).symlink_to(str(shutil.which(name)))
    if zstd is not None:
        (programs / "zstd").write_text(f"#!/bin/sh\n{zstd}\n")
        (programs / "zstd").chmod(0o755)
    monkeypatch.setenv("PATH", str(programs))
    pipe, archive = tmp_path / "root.tar", tmp_path / "image.tar.zst"
    with LayerPacker(pipe, tmp_path / "layer.zst") as packer:
        write_layer(pipe, bytes(4_000_000))
        with pytest.raises(SetupError, match=r"image.tar.zst could not be written .*is .* full\?$"):
            packer.write_archive(archive, SETTINGS)
    assert not archive.exists()


def test_a_layer_that_is_given_up_leaves_no_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "root.tar"
    with pytest.raises(KeyboardInterrupt), LayerPacker(pipe, tmp_path / "layer.zst"):
        raise KeyboardInterrupt
    assert not pipe.exists()
