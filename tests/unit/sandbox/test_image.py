import errno
import os
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from filelock import FileLock
from sandbox_fakes import FakeEngine

from pytest_atesor.core.plan import Platform
from pytest_atesor.errors import SandboxError, SetupError
from pytest_atesor.sandbox.engines.store import ImageStore
from pytest_atesor.sandbox.image import describe_image, ensure_image, is_current, proof_file
from pytest_atesor.sandbox.interface import Engine, EngineInfo, ImageBuild
from pytest_atesor.sandbox.proof import Proof, read_proof
from pytest_atesor.sandbox.recipe import (
    LABEL_CREATED,
    LABEL_RECIPE,
    format_labels,
    host_architecture,
    read_recipe_digest,
)
from tests.unit.processes import LIMIT_S

DEBIAN = "localhost/pytest-atesor-sandbox:debian"
ALPINE = "localhost/pytest-atesor-sandbox:alpine"
NOW_S = 1_000_000_000
NEW = "go=1.27.0\ncargo=1.96.0\n"
OLD = "go=1.24.0\ncargo=1.96.0\n"


@dataclass
class Judge:
    """Tries native tools without a sandbox: its ``reason`` is the verdict, "" lets them pass."""

    reason: str = ""
    tried: list[str] = field(default_factory=list)

    def __call__(self, engine: Engine, image: str, *, variant: str, state: Path) -> Proof:
        assert (variant, state.is_dir()) == ("debian", True)
        self.tried.append(image)
        labels = engine.image_labels(image) or {}
        return Proof(
            image=image,
            recipe=labels.get(LABEL_RECIPE, ""),
            created=labels.get(LABEL_CREATED, ""),
            engine="fake 1.0",
            canaries="c",
            reason=self.reason,
            duration_s=1.0,
        )


def debian_proof(state: Path) -> Path:
    digest = read_recipe_digest(Platform.DEBIAN, host_architecture())
    return proof_file(state / "images", "debian", digest)


def current_labels(platform: Platform = Platform.DEBIAN) -> dict[str, str]:
    digest = read_recipe_digest(platform, host_architecture())
    return format_labels(digest=digest, created_s=int(time.time()), versions=NEW)


@pytest.mark.parametrize(
    ("created_s", "versions", "digest", "current"),
    [
        pytest.param(0, NEW, "d", True, id="new-tools"),
        pytest.param(0, NEW, "other", False, id="another-recipe"),
        pytest.param(0, OLD, "d", False, id="old-tools"),
        pytest.param(NOW_S - 3600, OLD, "d", True, id="old-tools-made-today"),
        pytest.param(NOW_S - 90_000, OLD, "d", False, id="old-tools-made-yesterday"),
        pytest.param(0, "", "d", True, id="versions-unknown"),
    ],
)
def test_an_image_is_current_by_recipe_and_tools(
    created_s: int, versions: str, digest: str, *, current: bool
) -> None:
    labels = format_labels(digest=digest, created_s=created_s, versions=versions)
    assert is_current(labels, "d", now_s=NOW_S) is current


@pytest.mark.parametrize("labels", [None, {}], ids=["absent", "unlabelled"])
def test_an_image_without_our_labels_is_not_current(labels: dict[str, str] | None) -> None:
    assert not is_current(labels, "d", now_s=NOW_S)


def test_a_current_image_is_used_at_once(tmp_path: Path) -> None:
    engine = FakeEngine(images={DEBIAN: current_labels()})
    lines: list[str] = []
    assert ensure_image(engine, Platform.DEBIAN, state=tmp_path, progress=lines.append) == DEBIAN
    assert (engine.calls, lines) == ([], [])
    assert not any(tmp_path.iterdir())


def test_a_version_that_cannot_be_read_is_a_warning_and_no_reason_to_build(tmp_path: Path) -> None:
    digest = read_recipe_digest(Platform.DEBIAN, host_architecture())
    engine = FakeEngine(images={DEBIAN: format_labels(digest=digest, created_s=0, versions="go=devel")})
    lines: list[str] = []
    ensure_image(engine, Platform.DEBIAN, state=tmp_path, progress=lines.append)
    assert engine.calls == []
    assert lines == [
        f"warning: the image {DEBIAN} has go 'devel', of unknown age; atesor setup --rebuild makes it anew"
    ]


def test_a_plain_image_stands_beside_the_accelerated_one(tmp_path: Path) -> None:
    engine = FakeEngine(offered=True, images={DEBIAN: current_labels()})
    tag = ensure_image(
        engine, Platform.DEBIAN, state=tmp_path, progress=lambda _line: None, accelerated=False
    )
    digest = read_recipe_digest(Platform.DEBIAN, host_architecture(), accelerated=False)
    assert tag == f"{DEBIAN}-plain"
    assert engine.images[tag][LABEL_RECIPE] == digest
    assert engine.images[DEBIAN] == current_labels()


def test_a_registry_that_answers_is_used(tmp_path: Path) -> None:
    engine = FakeEngine(offered=True, images={ALPINE: {"old": "1"}})
    ensure_image(engine, Platform.ALPINE, state=tmp_path, progress=lambda _line: None)
    assert engine.images[ALPINE][LABEL_RECIPE] == read_recipe_digest(Platform.ALPINE, host_architecture())
    assert engine.calls == ["offered? alpine:3.22 15", f"build {ALPINE}", f"prune {LABEL_RECIPE}"]


def test_an_image_from_a_registry_is_labelled_with_its_versions(tmp_path: Path) -> None:
    engine = FakeEngine(offered=True, versions="gcc=14.2.0\n" + OLD)
    ensure_image(engine, Platform.ALPINE, state=tmp_path, progress=lambda _line: None)
    labels = dict(engine.images[ALPINE])
    assert labels["org.pytest-atesor.version.go"] == "1.24.0"
    digest = read_recipe_digest(Platform.ALPINE, host_architecture())
    assert is_current(labels, digest, now_s=time.time())
    labels[LABEL_CREATED] = str(int(time.time()) - 90_000)
    engine.images[ALPINE], engine.versions = labels, NEW
    engine.calls.clear()
    ensure_image(engine, Platform.ALPINE, state=tmp_path, progress=lambda _line: None)
    assert engine.calls == ["offered? alpine:3.22 15", f"build {ALPINE}", f"prune {LABEL_RECIPE}"]
    assert engine.images[ALPINE]["org.pytest-atesor.version.go"] == "1.27.0"


class MuteEngine(FakeEngine):
    """Builds an image and cannot start it."""

    def read_file(self, image: str, path: str) -> str:
        raise SandboxError(f"fake run failed: {image} {path}")


class FullEngine(FakeEngine):
    """Builds an image and cannot label it."""

    def label_image(self, image: str, labels: Mapping[str, str], *, tag: str) -> None:
        raise SandboxError(f"fake build failed: {image} {labels} {tag}")


@pytest.mark.parametrize("kind", [MuteEngine, FullEngine])
def test_an_image_that_was_not_finished_is_none(kind: type[FakeEngine], tmp_path: Path) -> None:
    engine = kind(offered=True)
    with pytest.raises(SetupError, match=r"the alpine image cannot be built: fake (run|build) failed"):
        ensure_image(engine, Platform.ALPINE, state=tmp_path, progress=lambda _line: None)
    assert engine.images == {}


@pytest.mark.parametrize(("wish", "shown"), [("1", True), ("0", False), ("", False)])
def test_a_build_from_a_registry_is_shown_live_when_asked(tmp_path: Path, wish: str, *, shown: bool) -> None:
    lines: list[str] = []
    ensure_image(
        FakeEngine(offered=True),
        Platform.ALPINE,
        state=tmp_path,
        progress=lines.append,
        environ={"ATESOR_SETUP_STREAM": wish},
    )
    assert ("STEP 1: FROM base" in lines) is shown


@pytest.mark.parametrize("kind", [MuteEngine, FullEngine])
def test_an_old_image_is_kept_where_the_new_one_was_not_finished(
    kind: type[FakeEngine], tmp_path: Path
) -> None:
    digest = read_recipe_digest(Platform.ALPINE, host_architecture())
    old = format_labels(digest=digest, created_s=int(time.time()) - 90_000, versions=OLD)
    engine = kind(offered=True, images={ALPINE: old})
    lines: list[str] = []
    assert ensure_image(engine, Platform.ALPINE, state=tmp_path, progress=lines.append) == ALPINE
    assert engine.images == {ALPINE: old}
    assert "warning: the image with go 1.24.0 is used, because no other can be made" in lines[-1]


def test_a_newer_image_that_cannot_be_made_is_tried_once_a_day(tmp_path: Path) -> None:
    digest = read_recipe_digest(Platform.ALPINE, host_architecture())
    old = format_labels(digest=digest, created_s=int(time.time()) - 90_000, versions=OLD)
    engine = FakeEngine(offered=True, broken_build=True, images={ALPINE: old}, versions=NEW)

    def ensure() -> str:
        lines: list[str] = []
        assert ensure_image(engine, Platform.ALPINE, state=tmp_path, progress=lines.append) == ALPINE
        return lines[-1]

    assert "no other can be made: the alpine image cannot be built" in ensure()
    engine.calls.clear()
    assert ensure() == (
        "warning: the image with go 1.24.0 is used, because no other could be made today; "
        "atesor setup --rebuild tries again"
    )
    assert engine.calls == []
    (mark,) = (tmp_path / "images").glob("*.failed")
    os.utime(mark, (time.time() - 90_000,) * 2)
    engine.broken_build = False
    ensure()
    assert engine.images[ALPINE]["org.pytest-atesor.version.go"] == "1.27.0"


def test_those_who_waited_for_a_newer_image_do_not_try_again_where_it_failed(tmp_path: Path) -> None:
    digest = read_recipe_digest(Platform.ALPINE, host_architecture())
    old = format_labels(digest=digest, created_s=int(time.time()) - 90_000, versions=OLD)
    engine = SharedEngine(offered=True, broken_build=True, images={ALPINE: old})
    first: list[str] = []
    second: list[str] = []

    def ensure(lines: list[str]) -> threading.Thread:
        thread = threading.Thread(
            target=ensure_image,
            args=(engine, Platform.ALPINE),
            kwargs={"state": tmp_path, "progress": lines.append},
        )
        thread.start()
        return thread

    one = ensure(first)
    assert engine.builds.wait(LIMIT_S)
    two = ensure(second)
    while not second and two.is_alive():
        two.join(0.01)
    engine.may_go_on.set()
    for thread in (one, two):
        thread.join(LIMIT_S)
    assert engine.calls.count(f"build {ALPINE}") == 1
    assert [line.partition(":")[0] for line in second[1:]] == ["warning"]


def test_alpine_without_a_registry_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match=r"no registry offers alpine:3.22 to fake.*--atesor-platform debian"):
        ensure_image(FakeEngine(), Platform.ALPINE, state=tmp_path, progress=lambda _line: None)


def test_a_build_that_fails_names_its_log_and_can_be_tried_again(tmp_path: Path) -> None:
    engine = FakeEngine(offered=True, broken_build=True)
    with pytest.raises(SetupError, match="alpine image cannot be built"):
        ensure_image(engine, Platform.ALPINE, state=tmp_path, progress=lambda _line: None)
    engine.broken_build = False
    ensure_image(engine, Platform.ALPINE, state=tmp_path, progress=lambda _line: None)
    assert ALPINE in engine.images


def test_a_kept_archive_is_loaded_instead_of_built(tmp_path: Path) -> None:
    digest = read_recipe_digest(Platform.DEBIAN, host_architecture())
    archive = tmp_path / "images" / f"debian-{digest[:16]}.tar.zst"
    archive.parent.mkdir()
    archive.write_text("whole")
    engine = FakeEngine()
    ensure_image(engine, Platform.DEBIAN, state=tmp_path, progress=lambda _line: None, prove=Judge())
    assert engine.calls == [f"load {archive.name}", f"prune {LABEL_RECIPE}"]


class NarrowEngine(FakeEngine):
    """Cannot load: what it raises is ``refusal``."""

    refusal: OSError | SandboxError

    def load_image(self, archive: Path) -> None:
        assert archive.exists()
        raise self.refusal


class UnpackingEngine(FakeEngine):
    """Unpacks into ``place`` as sandboxes without a container engine do."""

    place: Path

    def load_image(self, archive: Path) -> None:
        ImageStore(self.place).load(archive)


@pytest.mark.parametrize(
    ("refusal", "advice"),
    [
        pytest.param(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), "free some space", id="full"),
        pytest.param(
            SandboxError("podman load failed: write /x: no space left on device"),
            "free some space",
            id="said",
        ),
        pytest.param(OSError(errno.EROFS, os.strerror(errno.EROFS)), "mend that", id="read-only"),
        pytest.param(SandboxError("podman load failed: no archive"), "delete it to build it anew", id="bad"),
    ],
)
def test_an_archive_is_to_be_deleted_only_where_the_disk_is_not_to_blame(
    refusal: OSError | SandboxError, advice: str, tmp_path: Path
) -> None:
    engine = NarrowEngine()
    engine.refusal = refusal
    with pytest.raises(SetupError) as caught:
        load_kept_archive(engine, tmp_path)
    said = str(caught.value)
    assert f"cannot be loaded ({refusal}); {advice}" in said
    assert ("delete" in said) == advice.startswith("delete")


def test_a_place_for_images_that_is_none_is_no_fault_of_the_archive(tmp_path: Path) -> None:
    engine = UnpackingEngine()
    engine.place = tmp_path / "file"
    engine.place.touch()
    with pytest.raises(SetupError, match=r"Not a directory.*\); mend that and try again$"):
        load_kept_archive(engine, tmp_path)


def load_kept_archive(engine: FakeEngine, state: Path) -> None:
    digest = read_recipe_digest(Platform.DEBIAN, host_architecture())
    archive = state / "images" / f"debian-{digest[:16]}.tar.zst"
    archive.parent.mkdir()
    archive.write_text("whole")
    ensure_image(engine, Platform.DEBIAN, state=state, progress=lambda _line: None, prove=Judge())


@pytest.mark.parametrize(
    ("holder", "said"),
    [
        (None, "waiting for another process that makes the image (lock "),
        ("process 7, which makes \x1b[31mit", "waiting for process 7, which makes it (lock "),
    ],
    ids=["unknown", "known"],
)
def test_those_who_come_second_wait_and_say_for_whom(tmp_path: Path, holder: str | None, said: str) -> None:
    engine = FakeEngine()
    (tmp_path / "images").mkdir()
    if holder is not None:
        (tmp_path / "images" / "debian.holder").write_text(holder)
    lock = FileLock(tmp_path / "images" / "debian.lock")
    waiting = threading.Event()
    lines: list[str] = []

    def progress(line: str) -> None:
        lines.append(line)
        waiting.set()

    other = threading.Thread(
        target=ensure_image, args=(engine, Platform.DEBIAN), kwargs={"state": tmp_path, "progress": progress}
    )
    with lock:
        other.start()
        assert waiting.wait(LIMIT_S)
        engine.images[DEBIAN] = current_labels()
    other.join(LIMIT_S)
    assert engine.calls == []
    assert len(lines) == 1
    assert lines[0].startswith(said)
    assert not (tmp_path / "images" / "debian.holder").exists()


def test_who_builds_leaves_word_of_itself_for_those_who_wait(tmp_path: Path) -> None:
    digest = read_recipe_digest(Platform.DEBIAN, host_architecture())
    archive = tmp_path / "images" / f"debian-{digest[:16]}.tar.zst"
    archive.parent.mkdir()
    archive.write_text("whole")
    engine = FakeEngine()
    words: list[str] = []

    def progress(_line: str) -> None:
        words.append((tmp_path / "images" / "debian.holder").read_text())

    ensure_image(engine, Platform.DEBIAN, state=tmp_path, progress=progress, prove=Judge())
    assert set(words) == {f"process {os.getpid()}, which makes the debian image for {engine.name}"}


@dataclass
class SharedEngine(FakeEngine):
    """An engine that several users have, whose images are in one place; a build waits for ``may_go_on``."""

    storage: Path | None = None
    builds: threading.Event = field(default_factory=threading.Event)
    may_go_on: threading.Event = field(default_factory=threading.Event)

    def probe(self) -> EngineInfo:
        return replace(super().probe(), storage=self.storage)

    def build_image(self, build: ImageBuild) -> None:
        self.builds.set()
        assert self.may_go_on.wait(LIMIT_S)
        super().build_image(build)


def test_two_users_of_one_engine_build_one_image(tmp_path: Path) -> None:
    engine = SharedEngine(offered=True, storage=tmp_path)
    first: list[str] = []
    second: list[str] = []

    def ensure(user: str, lines: list[str]) -> threading.Thread:
        thread = threading.Thread(
            target=ensure_image,
            args=(engine, Platform.ALPINE),
            kwargs={"state": tmp_path / user, "progress": lines.append},
        )
        thread.start()
        return thread

    one = ensure("one", first)
    assert engine.builds.wait(LIMIT_S)
    two = ensure("two", second)
    while not second and two.is_alive():
        two.join(0.01)
    engine.may_go_on.set()
    for thread in (one, two):
        thread.join(LIMIT_S)
    assert second == ["waiting for another user's process that makes the alpine image for fake"]
    assert engine.calls.count(f"build {ALPINE}") == 1


def test_an_image_is_tried_once_when_it_was_made(tmp_path: Path) -> None:
    engine, judge = FakeEngine(offered=True), Judge()
    for _ in range(2):
        tag = ensure_image(engine, Platform.DEBIAN, state=tmp_path, progress=lambda _line: None, prove=judge)
        assert tag == DEBIAN
    assert judge.tried == [DEBIAN]
    assert read_proof(debian_proof(tmp_path)) == Judge()(engine, DEBIAN, variant="debian", state=tmp_path)
    ensure_image(
        engine, Platform.DEBIAN, state=tmp_path, progress=lambda _line: None, prove=judge, rebuild=True
    )
    assert judge.tried == [DEBIAN, DEBIAN]


def test_where_the_native_tools_are_refused_the_plain_image_is_used_and_it_is_said(tmp_path: Path) -> None:
    engine, judge = FakeEngine(offered=True), Judge("cxx: section .text: the bytes differ")
    for _ in range(2):
        lines: list[str] = []
        tag = ensure_image(engine, Platform.DEBIAN, state=tmp_path, progress=lines.append, prove=judge)
        assert tag == f"{DEBIAN}-plain"
        (said,) = (line for line in lines if "refused" in line)
        assert said == (
            "native tools refused: cxx: section .text: the bytes differ; the plain image is used, "
            f"about ten times slower (see {debian_proof(tmp_path)})"
        )
    assert judge.tried == [DEBIAN]


def test_a_rebuild_gives_refused_tools_another_chance(tmp_path: Path) -> None:
    engine = FakeEngine(offered=True)

    def ensure(judge: Judge, *, rebuild: bool) -> str:
        return ensure_image(
            engine,
            Platform.DEBIAN,
            state=tmp_path,
            progress=lambda _line: None,
            prove=judge,
            rebuild=rebuild,
        )

    assert ensure(Judge("broken"), rebuild=False) == f"{DEBIAN}-plain"
    assert ensure(Judge(), rebuild=True) == DEBIAN
    assert ensure(Judge("never asked"), rebuild=False) == DEBIAN


def test_who_was_killed_before_the_proof_leaves_it_to_the_next(tmp_path: Path) -> None:
    engine = FakeEngine(offered=True)

    def killed(_engine: Engine, _image: str, *, variant: str, state: Path) -> Proof:
        raise KeyboardInterrupt(variant, state)

    with pytest.raises(KeyboardInterrupt):
        ensure_image(engine, Platform.DEBIAN, state=tmp_path, progress=lambda _line: None, prove=killed)
    judge = Judge("broken")
    tag = ensure_image(engine, Platform.DEBIAN, state=tmp_path, progress=lambda _line: None, prove=judge)
    assert (tag, judge.tried) == (f"{DEBIAN}-plain", [DEBIAN])


def test_an_image_of_somebody_else_s_is_tried_only_on_demand(tmp_path: Path) -> None:
    engine, judge = FakeEngine(images={DEBIAN: current_labels()}), Judge()
    ensure_image(engine, Platform.DEBIAN, state=tmp_path, progress=lambda _line: None, prove=judge)
    assert judge.tried == []
    ensure_image(
        engine,
        Platform.DEBIAN,
        state=tmp_path,
        progress=lambda _line: None,
        prove=judge,
        must_prove=True,
    )
    assert judge.tried == [DEBIAN]


def test_a_plain_image_has_nothing_to_prove(tmp_path: Path) -> None:
    judge = Judge("never asked")
    for platform, accelerated in ((Platform.DEBIAN, False), (Platform.ALPINE, True)):
        ensure_image(
            FakeEngine(offered=True),
            platform,
            state=tmp_path,
            progress=lambda _line: None,
            accelerated=accelerated,
            must_prove=True,
            prove=judge,
        )
    assert judge.tried == []


def test_the_image_and_its_proof_are_told_in_one_line(tmp_path: Path) -> None:
    engine = FakeEngine(offered=True)

    def describe(platform: Platform = Platform.DEBIAN) -> str:
        return describe_image(engine, platform, state=tmp_path)

    assert describe() == "there is none; the first batch makes it, or atesor setup"
    engine.images[DEBIAN] = {"old": "1"}
    assert describe() == f"{DEBIAN} is out of date; the first batch makes it, or atesor setup"
    engine.images[DEBIAN] = current_labels()
    assert describe() == f"{DEBIAN}; its native tools were not tried here: atesor setup tries them"
    ensure_image(
        engine,
        Platform.DEBIAN,
        state=tmp_path,
        progress=lambda _line: None,
        prove=Judge("broken"),
        must_prove=True,
    )
    assert describe() == (
        f"{DEBIAN}; native tools refused: broken; what was compared: {debian_proof(tmp_path)}"
    )
    engine.images[ALPINE] = current_labels(Platform.ALPINE)
    assert describe(Platform.ALPINE) == f"{ALPINE}, without native tools"
