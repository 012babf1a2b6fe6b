"""Makes sure that the sandbox image of a platform stands in an engine.

One process builds, under a lock that the kernel holds; the others wait and say so. What was bootstrapped is
kept as a compressed archive, so that a second engine only loads it. A build that fails leaves its log, and
where it was to replace older tools a mark that it is not tried again for a day.

An image with native tools must prove them when it is made (:mod:`.canary`). The proof stands beside the
archive; where the tools were refused, the plain image takes the image's place.
"""

import hashlib
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from platform import node
from typing import Protocol

from filelock import FileLock, Timeout

from pytest_atesor.core.child_outcome import clean_reason
from pytest_atesor.core.plan import Platform
from pytest_atesor.errors import SandboxError, SetupError
from pytest_atesor.sandbox import recipe
from pytest_atesor.sandbox.bootstrap import bootstrap_archive
from pytest_atesor.sandbox.building import explaining_disk, is_full_disk, show_lines
from pytest_atesor.sandbox.image_use import removing_images
from pytest_atesor.sandbox.interface import Engine, ImageBuild
from pytest_atesor.sandbox.proof import Proof, describe_proof, format_proof, read_proof
from pytest_atesor.sandbox.recipe import image_name, image_variant
from pytest_atesor.sandbox.slots import holding_claim

__all__ = [
    "Prover",
    "describe_image",
    "ensure_image",
    "hold_lock",
    "image_name",
    "is_current",
    "proof_file",
]

_REGISTRY_ANSWER_S = 15.0
_BUILD_S = 3600.0
_DAY_S = 86_400


class Prover(Protocol):
    """What tries an image's native tools; see :func:`~pytest_atesor.sandbox.canary.prove_image`."""

    def __call__(self, engine: Engine, image: str, *, variant: str, state: Path) -> Proof:
        """Return what came of it. Raises SetupError when there is no answer."""


@dataclass(frozen=True, slots=True)
class _Job:
    engine: Engine
    platform: Platform
    accelerated: bool
    digest: str
    state: Path
    progress: Callable[[str], None]
    environ: Mapping[str, str]

    @property
    def directory(self) -> Path:
        """The image store."""
        return self.state / "images"

    @property
    def variant(self) -> str:
        """The word for the image in file names."""
        return image_variant(self.platform, accelerated=self.accelerated)

    @property
    def tag(self) -> str:
        """The image's name."""
        return image_name(self.platform, accelerated=self.accelerated)

    @property
    def unfinished_tag(self) -> str:
        """The name of the image while it is built; no other state directory's build has it."""
        place = f"{node()} {self.state.absolute()}"
        return f"{self.tag}-{hashlib.sha256(os.fsencode(place)).hexdigest()[:16]}"

    @property
    def archive(self) -> Path:
        """The file that keeps what was bootstrapped."""
        return self.directory / f"{self.variant}-{self.digest[:16]}.tar.zst"

    @property
    def needs_proof(self) -> bool:
        """Say whether the image has native tools."""
        return self.accelerated and recipe.has_native_tools(self.platform)

    @property
    def proof(self) -> Path:
        """The file of the proof."""
        return proof_file(self.directory, self.variant, self.digest)

    @property
    def failed(self) -> Path:
        """The mark of a build with newer tools that failed."""
        return self.directory / f"{self.variant}-{self.digest[:16]}.failed"

    @property
    def unproven(self) -> Path:
        """The mark of an image that was made and not tried yet: whoever was to do it may have been killed."""
        return self.proof.with_suffix(".pending")


def _try_canaries(engine: Engine, image: str, *, variant: str, state: Path) -> Proof:
    from pytest_atesor.sandbox.canary import prove_image  # noqa: PLC0415 - every agent's start imports this module

    return prove_image(engine, image, variant=variant, state=state)


def proof_file(directory: Path, variant: str, digest: str) -> Path:
    """Return where the proof of an image stands in the image store ``directory``."""
    return directory / f"{variant}-{digest[:16]}.proof.json"


def ensure_image(  # noqa: PLR0913 - keyword-only facts of one image
    engine: Engine,
    platform: Platform,
    *,
    state: Path,
    progress: Callable[[str], None],
    rebuild: bool = False,
    accelerated: bool = True,
    must_prove: bool = False,
    prove: Prover = _try_canaries,
    environ: Mapping[str, str] = os.environ,
) -> str:
    """Return the name of the platform's image in that engine, built when absent or of another recipe.

    ``accelerated`` asks for the one with native tools, where the platform has one; it is the plain one all
    the same where ``prove`` refused them. ``must_prove`` asks for a proof of an image that is there without.
    ``progress`` gets one line per step, and where ``environ`` has ATESOR_SETUP_STREAM=1 the output too.
    Raises SetupError, with the log's path, when it cannot be made.
    """
    host = recipe.host_architecture()
    digest = recipe.read_recipe_digest(platform, host, accelerated=accelerated)
    job = _Job(engine, platform, accelerated, digest, state, progress, environ)
    refused = None if rebuild else _find_refusal(job)
    if refused is None:
        _provide(job, rebuild=rebuild, must_prove=must_prove, prove=prove)
        refused = _find_refusal(job)
    if refused is None:
        return job.tag
    progress(f"{describe_proof(refused)}; the plain image is used, about ten times slower (see {job.proof})")
    plain = replace(
        job, accelerated=False, digest=recipe.read_recipe_digest(platform, host, accelerated=False)
    )
    _provide(plain, rebuild=rebuild, must_prove=False, prove=prove)
    return plain.tag


def _provide(job: _Job, *, rebuild: bool, must_prove: bool, prove: Prover) -> None:
    """Make sure that the image stands in the engine, and that its native tools were tried."""
    engine, tag = job.engine, job.tag
    labels = engine.image_labels(tag)
    if not rebuild and _is_usable(job, labels) and not _is_open(job, must_prove):
        _warn_of_tools(job, labels or {})
        return
    purpose = f"the {job.variant} image for {engine.name}"
    with hold_lock(job.directory / f"{job.variant}.lock", purpose, job.progress), _hold_name(job):
        labels = engine.image_labels(tag)
        if rebuild or not _is_usable(job, labels):
            if job.needs_proof:
                _write(job.unproven, "")
            with explaining_disk(job.directory):
                _renew(job, labels, rebuild=rebuild)
            labels = engine.image_labels(tag)
            if not _is_outdated(job, labels):  # else it was said where no newer one could be made
                _warn_of_tools(job, labels or {})
            _remove_old_images(job)
        else:
            _warn_of_tools(job, labels or {})
        if _is_open(job, must_prove):
            _prove(job, prove, known=None if rebuild else read_proof(job.proof))


def _warn_of_tools(job: _Job, labels: Mapping[str, str]) -> None:
    """Say what an image that is used as it is has against it."""
    for tool in recipe.find_unreadable_tools(labels):
        job.progress(
            f"warning: the image {job.tag} has {tool}, of unknown age; atesor setup --rebuild makes it anew"
        )
    old = ", ".join(recipe.find_old_tools(labels))
    if _is_outdated(job, labels):
        job.progress(
            f"warning: the image with {old} is used, because no other could be made today; "
            "atesor setup --rebuild tries again"
        )
    elif old:
        job.progress(
            f"warning: the image {job.tag} has {old}, older than a batch needs: there was no newer one when "
            "it was made; it is made again after a day, or by atesor setup --rebuild"
        )


def _remove_old_images(job: _Job) -> None:
    """Remove the images that ours has replaced; an old image in the way of nothing is no reason to stop."""
    with suppress(SandboxError), removing_images(job.engine.name, job.state) as is_free:
        if is_free:
            job.engine.prune_images(recipe.LABEL_RECIPE)


@contextmanager
def _hold_name(job: _Job) -> Iterator[None]:
    """Hold the image's name in the engine, whose users may have several state directories."""
    storage = None if job.engine.is_remote else job.engine.probe().storage
    if storage is None:
        yield
        return
    place = hashlib.sha256(os.fsencode(storage)).hexdigest()[:16]
    waits = f"waiting for another user's process that makes the {job.variant} image for {job.engine.name}"
    with holding_claim(job.engine.name, f"image-{job.variant}-{place}", lambda: job.progress(waits)):
        yield


def _renew(job: _Job, labels: Mapping[str, str] | None, *, rebuild: bool) -> None:
    """Make the image; the one in its place has these ``labels``. Raises SetupError.

    One whose tools are too old is built, not loaded again; where that fails, it is still the best there is,
    for a day.
    """
    if rebuild:
        _make(job, keep_archive=False)
        return
    if not _is_outdated(job, labels) or _is_of_today(job.archive):
        _make(job, keep_archive=True)
        labels = job.engine.image_labels(job.tag)
    if labels is None or not _is_outdated(job, labels):
        return
    if _is_of_today(job.failed):
        _warn_of_tools(job, labels)
        return
    old = ", ".join(recipe.find_old_tools(labels))
    job.progress(f"the image {job.tag} has {old}, older than a batch needs, and is made again")
    try:
        _make(job, keep_archive=False)
    except SetupError as error:
        with suppress(SetupError):
            _write(job.failed, "")
        job.progress(f"warning: the image with {old} is used, because no other can be made: {error}")


def _is_outdated(job: _Job, labels: Mapping[str, str] | None) -> bool:
    """Say whether an image is of today's recipe and all the same not to be used as it is."""
    return (
        labels is not None
        and labels.get(recipe.LABEL_RECIPE) == job.digest
        and not is_current(labels, job.digest, now_s=time.time())
    )


def _is_usable(job: _Job, labels: Mapping[str, str] | None) -> bool:
    """Say whether the image in the engine is used as it is: it is current, or no other can be made today."""
    is_best = _is_outdated(job, labels) and _is_of_today(job.failed)
    return is_best or is_current(labels, job.digest, now_s=time.time())


def _is_of_today(file: Path) -> bool:
    """Say whether a file of the image store was made within a day, for another engine perhaps."""
    try:
        return time.time() - file.stat().st_mtime < _DAY_S
    except OSError:
        return False


def _is_open(job: _Job, must_prove: bool) -> bool:  # noqa: FBT001 - one of our own
    """Say whether the image's native tools are to be tried: nobody did, or whoever made it was killed."""
    if not job.needs_proof:
        return False
    return job.unproven.exists() or (must_prove and read_proof(job.proof) is None)


def _prove(job: _Job, prove: Prover, *, known: Proof | None) -> None:
    """Try the native tools, unless ``known`` is of the very archive that the image came from."""
    labels = job.engine.image_labels(job.tag) or {}
    if known is None or known.created != labels.get(recipe.LABEL_CREATED, ""):
        job.progress("trying the native tools against the emulated ones, about a minute")
        proof = prove(job.engine, job.tag, variant=job.variant, state=job.state)
        _write(job.proof, format_proof(proof))
        if proof.has_passed:
            job.progress(describe_proof(proof))
    job.unproven.unlink(missing_ok=True)


def _write(file: Path, text: str) -> None:
    """Replace a file of the image store, whole. Raises SetupError."""
    written = file.with_suffix(".new")
    try:
        written.write_text(text, encoding="utf-8")
        written.replace(file)
    except OSError as error:
        raise SetupError(f"{file} cannot be written ({error.strerror}); set ATESOR_STATE_DIR") from error


def _find_refusal(job: _Job) -> Proof | None:
    """Return the proof that the image's native tools cannot be used; None without one."""
    proof = read_proof(job.proof) if job.needs_proof else None
    return None if proof is None or proof.has_passed else proof


def is_current(labels: Mapping[str, str] | None, digest: str, *, now_s: float) -> bool:
    """Tell whether an image with these labels can be used as it is.

    One with too old tools is built again, but not on the day it was made: there is nothing newer then.
    """
    if labels is None or labels.get(recipe.LABEL_RECIPE) != digest:
        return False
    created = labels.get(recipe.LABEL_CREATED, "")
    fresh = created.isdigit() and now_s - int(created) < _DAY_S
    return fresh or not recipe.find_old_tools(labels)


def describe_image(engine: Engine, platform: Platform, *, state: Path, accelerated: bool = True) -> str:
    """Return one line on the platform's image in that engine, and on its native tools. Makes nothing."""
    digest = recipe.read_recipe_digest(platform, recipe.host_architecture(), accelerated=accelerated)
    job = _Job(engine, platform, accelerated, digest, state, lambda _line: None, {})
    labels = engine.image_labels(job.tag)
    if not _is_usable(job, labels):
        state_of_it = "there is none" if labels is None else f"{job.tag} is out of date"
        return f"{state_of_it}; the first batch makes it, or atesor setup"
    if not job.needs_proof:
        return f"{job.tag}, without native tools"
    proof = read_proof(job.proof)
    if proof is None:
        return f"{job.tag}; its native tools were not tried here: atesor setup tries them"
    where = f"what was compared: {job.proof}"
    return f"{job.tag}; {describe_proof(proof)}; {where}"


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
    archive = job.archive
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
            environ=job.environ,
        )
        _forget_old_archives(job.directory, job.variant)
    job.progress(f"loading the {job.variant} image into {job.engine.name}")
    try:
        job.engine.load_image(archive)
    except (OSError, SandboxError) as error:
        raise SetupError(_explain_loading(error, archive)) from error


def _explain_loading(error: OSError | SandboxError, archive: Path) -> str:
    """Say why an archive was not loaded; to delete it helps only where the system has refused nothing."""
    advice = "delete it to build it anew"
    if is_full_disk(error):
        advice = "free some space where images are kept and try again"
    elif isinstance(error, OSError) or isinstance(error.__cause__, OSError):
        advice = "mend that and try again"
    return f"the image archive {archive} cannot be loaded ({error}); {advice}"


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
    host = recipe.host_architecture()
    if can_bootstrap and job.accelerated and host is None:
        return False  # there are no native tools to put into it
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
    is_mixed = can_bootstrap and job.accelerated
    arguments = {"BASE": base, "HOST_PLATFORM": f"linux/{host}"} if is_mixed else {"BASE": base}
    try:
        job.engine.build_image(
            ImageBuild(
                tag=job.unfinished_tag,
                containerfile=recipe.containerfile(job.platform, accelerated=job.accelerated),
                context=recipe.recipe_directory(),
                host_platform=arguments.get("HOST_PLATFORM"),
                arguments=arguments,
                labels={recipe.LABEL_RECIPE: recipe.UNFINISHED},
                log=log,
                timeout_s=_BUILD_S,
                on_line=show_lines(job.progress, job.environ),
            )
        )
        versions = job.engine.read_file(job.unfinished_tag, recipe.VERSIONS_FILE)
        job.engine.label_image(
            job.unfinished_tag,
            recipe.format_labels(digest=job.digest, created_s=int(time.time()), versions=versions),
            tag=job.tag,
        )
    except SandboxError as error:
        if not can_bootstrap:
            raise SetupError(f"the {job.variant} image cannot be built: {error}") from error
        job.progress(str(error))
        return False
    finally:
        with suppress(SandboxError):
            job.engine.untag_image(job.unfinished_tag)
    return True
