import os
import threading
import time
from pathlib import Path

import pytest
from filelock import FileLock
from sandbox_fakes import FakeEngine

from pytest_atesor.core.plan import Platform
from pytest_atesor.errors import SetupError
from pytest_atesor.sandbox.image import ensure_image, is_current
from pytest_atesor.sandbox.recipe import LABEL_RECIPE, format_labels, host_architecture, read_recipe_digest

DEBIAN = "localhost/pytest-atesor-sandbox:debian"
ALPINE = "localhost/pytest-atesor-sandbox:alpine"
NOW_S = 1_000_000_000
NEW = "go=1.27.0\ncargo=1.96.0\n"
OLD = "go=1.24.0\ncargo=1.96.0\n"


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
    ensure_image(engine, Platform.DEBIAN, state=tmp_path, progress=lambda _line: None)
    assert engine.calls == [f"load {archive.name}", f"prune {LABEL_RECIPE}"]


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
        assert waiting.wait(20)
        engine.images[DEBIAN] = current_labels()
    other.join(20)
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

    ensure_image(engine, Platform.DEBIAN, state=tmp_path, progress=progress)
    assert words == [f"process {os.getpid()}, which makes the debian image for {engine.name}"]
