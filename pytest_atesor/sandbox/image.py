"""Makes sure that the sandbox image of a platform stands in an engine.

One process builds, under a lock that the kernel holds; the others wait and say so. What was bootstrapped is
kept as a compressed archive, so that a second engine only loads it. A build that fails leaves its log and
nothing else.
"""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from pytest_atesor.core.child_outcome import clean_reason
from pytest_atesor.core.plan import Platform
from pytest_atesor.errors import SandboxError, SetupError
from pytest_atesor.sandbox import recipe
from pytest_atesor.sandbox.bootstrap import bootstrap_archive
from pytest_atesor.sandbox.interface import Engine, ImageBuild
from pytest_atesor.sandbox.recipe import image_name, image_variant

__all__ = ["ensure_image", "hold_lock", "image_name", "is_current"]

_REGISTRY_ANSWER_S = 15.0
_BUILD_S = 3600.0
_DAY_S = 86_400


@dataclass(frozen=True, slots=True)
class _Job:
    engine: Engine
    platform: Platform
    accelerated: bool
    digest: str
    directory: Path
    progress: Callable[[str], None]

    @property
    def variant(self) -> str:
        """The word for the image in file names."""
        return image_variant(self.platform, accelerated=self.accelerated)

    @property
    def tag(self) -> str:
        """The image's name."""
        return image_name(self.platform, accelerated=self.accelerated)


def ensure_image(
    engine: Engine,
    platform: Platform,
    *,
    state: Path,
    progress: Callable[[str], None],
    rebuild: bool = False,
    accelerated: bool = True,
) -> str:
    """Return the name of the platform's image in that engine, built when absent or of another recipe.

    ``accelerated`` asks for the one with native tools, where the platform has one. ``progress`` gets one line
    per step. Raises SetupError, with the log's path, when it cannot be made.
    """
    host = recipe.host_architecture()
    digest = recipe.read_recipe_digest(platform, host, accelerated=accelerated)
    job = _Job(engine, platform, accelerated, digest, state / "images", progress)
    tag = job.tag
    labels = engine.image_labels(tag)
    if not rebuild and is_current(labels, digest, now_s=time.time()):
        for tool in recipe.find_unreadable_tools(labels or {}):
            progress(
                f"warning: the image {tag} has {tool}, of unknown age; atesor setup --rebuild makes it anew"
            )
        return tag
    with hold_lock(
        job.directory / f"{job.variant}.lock", f"the {job.variant} image for {engine.name}", progress
    ):
        if rebuild or not is_current(engine.image_labels(tag), digest, now_s=time.time()):
            _make(job, keep_archive=not rebuild)
            with suppress(SandboxError):  # an old image in the way of nothing is no reason to stop
                engine.prune_images(recipe.LABEL_RECIPE)
    return tag


def is_current(labels: Mapping[str, str] | None, digest: str, *, now_s: float) -> bool:
    """Tell whether an image with these labels can be used as it is.

    One with too old tools is built again, but not on the day it was made: there is nothing newer then.
    """
    if labels is None or labels.get(recipe.LABEL_RECIPE) != digest:
        return False
    created = labels.get(recipe.LABEL_CREATED, "")
    fresh = created.isdigit() and now_s - int(created) < _DAY_S
    return fresh or not recipe.find_old_tools(labels)


@contextmanager
def hold_lock(file: Path, purpose: str, progress: Callable[[str], None]) -> Iterator[None]:
    """Hold the lock; who waits is told for whom by the file beside it, removed when it is freed."""
    holder = file.with_suffix(".holder")
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = FileLock(file)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            progress(f"waiting for {_read_holder(holder)} (lock {file})")
            lock.acquire()
    except OSError as error:
        raise SetupError(f"the lock {file} cannot be taken ({error}); set ATESOR_STATE_DIR") from error
    try:
        with suppress(OSError):  # only the waiting line is poorer without it
            holder.write_text(f"process {os.getpid()}, which makes {purpose}", encoding="utf-8")
        yield
    finally:
        with suppress(OSError):
            holder.unlink()
        lock.release()


def _read_holder(holder: Path) -> str:
    try:
        said = clean_reason(holder.read_text(encoding="utf-8", errors="replace"))
    except OSError:
        said = ""
    return said or "another process that makes the image"


def _make(job: _Job, *, keep_archive: bool) -> None:
    """Load the kept archive, else build from a registry's base image, else bootstrap and load."""
    archive = job.directory / f"{job.variant}-{job.digest[:16]}.tar.zst"
    if not (keep_archive and archive.exists()):
        if _build_from_registry(job):
            return
        bootstrap_archive(
            job.platform,
            archive,
            tag=job.tag,
            digest=job.digest,
            progress=job.progress,
            accelerated=job.accelerated,
        )
        _forget_old_archives(job.directory, job.variant)
    job.progress(f"loading the {job.variant} image into {job.engine.name}")
    try:
        job.engine.load_image(archive)
    except SandboxError as error:
        raise SetupError(
            f"the image archive {archive} cannot be loaded ({error}); delete it to build it anew"
        ) from error


def _forget_old_archives(directory: Path, variant: str) -> None:
    """Keep the newest two archives: going back to the former recipe is then a matter of seconds."""
    archives = sorted(
        directory.glob(f"{variant}-{'[0-9a-f]' * 16}.tar.zst"), key=lambda file: file.stat().st_mtime
    )
    for old in archives[:-2]:
        old.unlink()


def _build_from_registry(job: _Job) -> bool:
    """Build from the registry's base image; False when no registry answers or the build fails."""
    base = recipe.BASE_IMAGES[job.platform]
    can_bootstrap = job.platform in recipe.BOOTSTRAP_SUITES
    if not job.engine.is_offered(base, timeout_s=_REGISTRY_ANSWER_S):
        if can_bootstrap:
            job.progress(f"no registry offers {base} to {job.engine.name}; packages are used instead")
            return False
        raise SetupError(
            f"no registry offers {base} to {job.engine.name}, and {job.platform} cannot be made without one; "
            "check the network or choose --atesor-platform debian"
        )
    log = job.directory / f"{job.variant}-build.log"
    job.progress(f"building the {job.variant} image from {base}; log: {log}")
    log.unlink(missing_ok=True)
    host = recipe.host_architecture()
    is_mixed = can_bootstrap and job.accelerated and host is not None
    arguments = {"BASE": base, "HOST_PLATFORM": f"linux/{host}"} if is_mixed else {"BASE": base}
    try:
        job.engine.build_image(
            ImageBuild(
                tag=job.tag,
                containerfile=recipe.containerfile(job.platform, accelerated=job.accelerated),
                context=recipe.recipe_directory(),
                host_platform=arguments.get("HOST_PLATFORM"),
                arguments=arguments,
                labels=recipe.format_labels(digest=job.digest, created_s=int(time.time())),
                log=log,
                timeout_s=_BUILD_S,
            )
        )
    except SandboxError as error:
        if not can_bootstrap:
            raise SetupError(f"the {job.variant} image cannot be built: {error}") from error
        job.progress(str(error))
        return False
    return True
