"""The proof of the native tools on a real image, and on one whose compiler was spoilt."""

import os
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, cast

import pytest

from pytest_atesor.core.plan import Platform
from pytest_atesor.errors import SetupError
from pytest_atesor.sandbox import recipe
from pytest_atesor.sandbox.image import ensure_image, proof_file
from pytest_atesor.sandbox.interface import Engine, ImageBuild, SandboxSpec
from pytest_atesor.sandbox.proof import Proof, read_proof
from pytest_atesor.sandbox.select import select_engine
from pytest_atesor.sandbox.slots import state_directory

pytestmark = pytest.mark.engine

# Still a working compiler for riscv64, but for another machine: only the comparison can tell.
SPOILT: Final = """\
FROM {image}
RUN file=$(readlink -f "$(command -v gcc)") && mv $file $file.real && \\
    printf '#!/native/usr/bin/dash\\nexec %s.real -march=rv64gc_zba "$@"\\n' $file > $file && chmod 755 $file
"""
LIKE: Final = "FROM {image}\n"


class Renamed:
    """A real engine whose sandbox images have other names: "debian" is spoilt, the plain one is not."""

    def __init__(self, engine: Engine, image: str, scratch: Path) -> None:
        self._engine = engine
        self._image = image
        self._scratch = scratch

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def rename(self, image: str) -> str:
        return image.replace("/pytest-atesor-sandbox:", f"/pytest-atesor-test-{os.getpid()}:")

    def image_labels(self, image: str) -> Any:
        return self._engine.image_labels(self.rename(image))

    def image_id(self, image: str) -> Any:
        return self._engine.image_id(self.rename(image))

    def create(self, spec: SandboxSpec) -> None:
        self._engine.create(replace(spec, image=self.rename(spec.image)))

    def prune_images(self, label: str) -> None:
        """Leave the machine's own alone."""

    def load_image(self, archive: Path) -> None:
        """Build what the archive's name says from the image that is there."""
        is_plain = archive.name.startswith("debian-plain-")
        file = self._scratch / f"Containerfile.{'plain' if is_plain else 'spoilt'}"
        file.write_text((LIKE if is_plain else SPOILT).format(image=self._image))
        digest = read_digest(accelerated=not is_plain)
        self._engine.build_image(
            ImageBuild(
                tag=self.rename(recipe.image_name(Platform.DEBIAN, accelerated=not is_plain)),
                containerfile=file,
                context=self._scratch,
                host_platform=None,
                arguments={},
                labels=recipe.format_labels(digest=digest, created_s=1 << 40),
                log=self._scratch / "build.log",
                timeout_s=600,
            )
        )


def read_digest(*, accelerated: bool = True) -> str:
    host = recipe.host_architecture()
    return recipe.read_recipe_digest(Platform.DEBIAN, host, accelerated=accelerated)


@pytest.fixture(scope="module")
def engine() -> Engine:
    reasons = []
    for name in ("podman", "docker"):
        try:
            return select_engine(name)
        except SetupError as error:
            reasons.append(str(error))
    pytest.skip("; ".join(reasons))


@pytest.fixture(scope="module")
def proof(engine: Engine) -> Proof:
    """The proof of this machine's image, made when there is none yet."""
    state = state_directory(os.environ)
    ensure_image(engine, Platform.DEBIAN, state=state, progress=print, must_prove=True)
    found = read_proof(proof_file(state / "images", "debian", read_digest()))
    assert found is not None
    return found


@pytest.fixture
def spoilt(engine: Engine, proof: Proof, tmp_path: Path) -> Iterator[Engine]:
    renamed = Renamed(engine, proof.image, tmp_path)
    for variant, accelerated in (("debian", True), ("debian-plain", False)):
        archive = tmp_path / f"images/{variant}-{read_digest(accelerated=accelerated)[:16]}.tar.zst"
        archive.parent.mkdir(exist_ok=True)
        archive.write_text("stands for an image that was bootstrapped")
    yield cast("Engine", renamed)
    for accelerated in (True, False):
        tag = renamed.rename(recipe.image_name(Platform.DEBIAN, accelerated=accelerated))
        subprocess.run([engine.name, "rmi", "--force", tag], capture_output=True, check=False)


def test_what_native_and_emulated_tools_make_agrees(proof: Proof) -> None:
    assert proof.has_passed, proof.reason
    names = {file.name for file in proof.files}
    assert names >= {"libcanary.a", "libcanary.so.1", "shared", "static", "cxx", "configured", "go"}
    assert names >= {"config.cache.txt", "shared.txt", "cxx.txt", "configured.txt", "go.txt"}
    assert all(not file.likeness.differences for file in proof.files)
    compiler = next(version for name, version in proof.native.items() if name.startswith("gcc-"))
    emulated = next(version for name, version in proof.emulated.items() if name.startswith("gcc-"))
    assert compiler.startswith(emulated)


def test_a_compiler_that_emits_other_attributes_is_refused_and_the_plain_image_used(
    spoilt: Engine, tmp_path: Path
) -> None:
    lines: list[str] = []
    tag = ensure_image(spoilt, Platform.DEBIAN, state=tmp_path, progress=lines.append)
    assert tag == recipe.image_name(Platform.DEBIAN, accelerated=False), lines
    found = read_proof(proof_file(tmp_path / "images", "debian", read_digest()))
    assert found is not None
    differences = {file.name: " ".join(file.likeness.differences) for file in found.files}
    assert "attributes: TAG_ARCH" in differences["libcanary.so.1"]
    assert differences["go"] == ""
    said = [line for line in lines if "the plain image is used" in line]
    assert len(said) == 1
    assert "native tools refused: " in said[0]
    assert list((tmp_path / "slots").iterdir()) == []
