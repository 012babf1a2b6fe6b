"""The image of a batch: the one that it began with, whatever becomes of the name meanwhile."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from pytest_atesor.core.plan import Platform
from pytest_atesor.errors import SetupError
from pytest_atesor.sandbox import recipe
from pytest_atesor.sandbox.image import ensure_image
from pytest_atesor.sandbox.image_use import using_images
from pytest_atesor.sandbox.interface import Engine

__all__ = ["PinnedImage", "pinning_image"]

_TRIES: Final = 5


@dataclass(frozen=True, slots=True)
class PinnedImage:
    """An image by the name that it had and by its id, which no other will ever have."""

    name: str
    id: str


@contextmanager
def pinning_image(  # noqa: PLR0913 - keyword-only facts of one batch
    engine: Engine,
    platform: Platform,
    *,
    state: Path,
    progress: Callable[[str], None],
    accelerated: bool,
    environ: Mapping[str, str],
    former: PinnedImage | None = None,
) -> Iterator[PinnedImage]:
    """Yield what :func:`ensure_image` finds or makes, which is there while entered, whoever takes its name.

    A batch that goes on gets its ``former`` image, or is told that it cannot: the engine has it no more, or
    another version of this program made it. Raises SetupError.
    """
    if former is not None:
        with using_images(engine.name, state):
            if _is_of_recipe(engine.image_labels(former.id), platform, former.name):
                _tell_plain(platform, former.name, progress, is_expected=not accelerated)
                yield former
                return
        progress(
            f"the image {former.name} that the batch was built in before ({former.id[:12]}) is gone, or "
            "another version of this program made it; the batch goes on in the one of today"
        )
    ensure = partial(
        ensure_image,
        engine,
        platform,
        state=state,
        progress=progress,
        accelerated=accelerated,
        environ=environ,
    )
    name = ensure()  # before: where images are used, none is removed
    with using_images(engine.name, state):
        for _ in range(_TRIES):
            identifier = engine.image_id(name)
            if identifier is not None and _is_of_recipe(engine.image_labels(identifier), platform, name):
                yield PinnedImage(name, identifier)
                return
            name = ensure()
    raise SetupError(
        f"the image {name} is replaced again and again by another version of this program; "
        "start one after the other"
    )


def _tell_plain(platform: Platform, name: str, progress: Callable[[str], None], *, is_expected: bool) -> None:
    if not is_expected and name != recipe.image_name(platform):
        progress("the batch goes on in the plain image that it began with, about ten times slower")


def _is_of_recipe(labels: Mapping[str, str] | None, platform: Platform, name: str) -> bool:
    is_accelerated = name == recipe.image_name(platform)
    digest = recipe.read_recipe_digest(platform, recipe.host_architecture(), accelerated=is_accelerated)
    return labels is not None and labels.get(recipe.LABEL_RECIPE) == digest
