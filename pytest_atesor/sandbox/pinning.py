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
def pinning_image(
    engine: Engine,
    platform: Platform,
    *,
    state: Path,
    progress: Callable[[str], None],
    accelerated: bool,
    environ: Mapping[str, str],
) -> Iterator[PinnedImage]:
    """Yield what :func:`ensure_image` finds or makes, which is there while entered, whoever takes its name.

    Raises SetupError.
    """
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


def _is_of_recipe(labels: Mapping[str, str] | None, platform: Platform, name: str) -> bool:
    is_accelerated = name == recipe.image_name(platform)
    digest = recipe.read_recipe_digest(platform, recipe.host_architecture(), accelerated=is_accelerated)
    return labels is not None and labels.get(recipe.LABEL_RECIPE) == digest
