import hashlib
import io
import json
import tarfile
from pathlib import Path

from pytest_atesor.sandbox.archive import ImageSettings, write_archive

SETTINGS = ImageSettings(
    tag="localhost/x:y", environment={"A": "1"}, labels={"l": "v"}, created="2026-01-02T03:04:05Z"
)


def test_an_archive_names_its_parts_by_their_digests(tmp_path: Path) -> None:
    root = tmp_path / "root.tar"
    with tarfile.open(root, "w") as tar:
        member = tarfile.TarInfo("etc/x")
        member.size = 3
        tar.addfile(member, io.BytesIO(b"abc"))
    target = io.BytesIO()
    write_archive(root, target, SETTINGS)
    target.seek(0)
    with tarfile.open(fileobj=target) as archive:
        parts = {member.name: archive.extractfile(member).read() for member in archive}  # type: ignore[union-attr]  # every member is a file
    (manifest,) = json.loads(parts["manifest.json"])
    assert manifest["RepoTags"] == ["localhost/x:y"]
    (layer_name,) = manifest["Layers"]
    layer, config = parts[layer_name], parts[manifest["Config"]]
    assert layer == root.read_bytes()
    assert manifest["Config"] == hashlib.sha256(config).hexdigest() + ".json"
    document = json.loads(config)
    assert document["architecture"] == "riscv64"
    assert document["rootfs"]["diff_ids"] == ["sha256:" + hashlib.sha256(layer).hexdigest()]
    assert document["config"]["Env"] == ["A=1"]
    assert document["config"]["Labels"] == {"l": "v"}
