"""A batch keeps the image that it began with."""

import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest
from sandbox_fakes import FakeEngine

from pytest_atesor.core.plan import Platform
from pytest_atesor.errors import SetupError
from pytest_atesor.sandbox.image import ensure_image
from pytest_atesor.sandbox.image_use import removing_images, using_images
from pytest_atesor.sandbox.pinning import PinnedImage, pinning_image
from pytest_atesor.sandbox.recipe import LABEL_RECIPE, format_labels, host_architecture, read_recipe_digest

ALPINE = "localhost/pytest-atesor-sandbox:alpine"
USING = """
import sys
from pathlib import Path
from pytest_atesor.sandbox.image_use import using_images
with using_images(sys.argv[1], Path(sys.argv[2])):
    print("uses", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def name() -> str:
    """Return an engine's name that no other test has: what is used is known machine-wide."""
    return f"fake-{uuid.uuid4().hex[:12]}"


def labels_of_today() -> dict[str, str]:
    digest = read_recipe_digest(Platform.ALPINE, host_architecture())
    return format_labels(digest=digest, created_s=int(time.time()))


class RegistryEngine(FakeEngine):
    """Keeps images by id, too, as engines do."""

    def image_labels(self, image: str) -> dict[str, str] | None:
        by_id = {self.image_id(tag): labels for tag, labels in self.images.items()}
        found = self.images.get(image, by_id.get(image))
        return None if found is None else dict(found)


def pin(
    engine: FakeEngine, state: Path, former: PinnedImage | None = None, said: list[str] | None = None
) -> "list[PinnedImage]":
    found = []
    with pinning_image(
        engine,
        Platform.ALPINE,
        state=state,
        progress=([] if said is None else said).append,
        accelerated=True,
        environ={},
        former=former,
    ) as image:
        found.append(image)
    return found


def test_a_batch_gets_the_image_s_name_and_id(name: str, tmp_path: Path) -> None:
    engine = RegistryEngine(name=name, images={ALPINE: labels_of_today()})
    assert pin(engine, tmp_path) == [PinnedImage(ALPINE, str(engine.image_id(ALPINE)))]
    assert engine.calls == []


def test_a_batch_that_goes_on_keeps_its_image_though_another_one_has_the_name(
    name: str, tmp_path: Path
) -> None:
    engine = RegistryEngine(name=name, images={"former": labels_of_today(), ALPINE: {LABEL_RECIPE: "newer"}})
    former = PinnedImage(ALPINE, str(engine.image_id("former")))
    said: list[str] = []
    assert pin(engine, tmp_path, former, said) == [former]
    assert (engine.calls, said) == ([], [])


@pytest.mark.parametrize("labels", [None, {LABEL_RECIPE: "of another version"}], ids=["gone", "old"])
def test_a_batch_whose_image_cannot_be_had_goes_on_in_the_one_of_today_and_says_so(
    name: str, tmp_path: Path, labels: dict[str, str] | None
) -> None:
    engine = RegistryEngine(name=name, images={ALPINE: labels_of_today()})
    former = PinnedImage(ALPINE, "0123456789abcdef")
    if labels is not None:
        engine.images["former"] = labels
        former = PinnedImage(ALPINE, str(engine.image_id("former")))
    said: list[str] = []
    assert pin(engine, tmp_path, former, said) == [PinnedImage(ALPINE, str(engine.image_id(ALPINE)))]
    (line,) = said
    assert line == (
        f"the image {ALPINE} that the batch was built in before ({former.id[:12]}) is gone, or "
        "another version of this program made it; the batch goes on in the one of today"
    )


class ContestedEngine(RegistryEngine):
    """Another version of this program takes the name ``times`` times right after it was looked at."""

    times = 0

    def image_id(self, image: str) -> str | None:
        if image == ALPINE and self.times:
            self.times -= 1
            self.images[ALPINE] = {LABEL_RECIPE: "of another version"}
        return super().image_id(image)


def test_an_image_of_another_version_is_never_taken(name: str, tmp_path: Path) -> None:
    engine = ContestedEngine(name=name, offered=True, images={ALPINE: labels_of_today()})
    engine.times = 1
    (image,) = pin(engine, tmp_path)
    assert (engine.image_labels(image.id) or {})[LABEL_RECIPE] == labels_of_today()[LABEL_RECIPE]
    engine.times = 1000
    with pytest.raises(SetupError, match=f"the image {ALPINE} is replaced again and again"):
        pin(engine, tmp_path)


@pytest.mark.parametrize("is_ours", [True, False], ids=["same-state-directory", "another-user"])
def test_nobody_removes_images_while_a_batch_uses_them(name: str, tmp_path: Path, *, is_ours: bool) -> None:
    engine = RegistryEngine(name=name, offered=True)
    state = tmp_path / ("one" if is_ours else "two")

    def rebuild() -> bool:
        engine.calls.clear()
        ensure_image(engine, Platform.ALPINE, state=state, progress=lambda _line: None, rebuild=True)
        assert f"build {ALPINE}" in engine.calls
        return f"prune {LABEL_RECIPE}" in engine.calls

    assert rebuild()
    command = [sys.executable, "-c", USING, name, str(tmp_path / "one")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as batch:
        assert batch.stdout is not None
        assert batch.stdout.readline() == "uses\n"
        assert not rebuild()
        batch.kill()
    assert rebuild()


def test_batches_use_images_side_by_side_and_other_engines_are_apart(name: str, tmp_path: Path) -> None:
    with using_images(name, tmp_path):
        with using_images(name, tmp_path), removing_images(name, tmp_path) as is_free:
            assert not is_free
        with removing_images(f"{name}-2", tmp_path) as is_free:
            assert is_free
        with removing_images(name, tmp_path) as is_free:
            assert not is_free
    with removing_images(name, tmp_path) as is_free:
        assert is_free


def test_a_state_directory_that_cannot_be_used_is_told(name: str, tmp_path: Path) -> None:
    (tmp_path / "images").write_text("in the way")
    with (
        pytest.raises(SetupError, match=r"cannot be made .*; set ATESOR_STATE_DIR"),
        using_images(name, tmp_path),
    ):
        pass
