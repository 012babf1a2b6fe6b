"""Images are built from a base image, labelled and read."""

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from pytest_atesor.core.plan import Platform
from pytest_atesor.errors import SandboxError, SetupError
from pytest_atesor.sandbox.engines.host import HostEngine
from pytest_atesor.sandbox.image import ensure_image
from pytest_atesor.sandbox.interface import Engine, ImageBuild, Present
from pytest_atesor.sandbox.recipe import LABEL_RECIPE, UNFINISHED, VERSIONS_FILE, format_labels
from pytest_atesor.sandbox.sandbox import find_running_image, open_sandbox
from pytest_atesor.sandbox.select import select_engine
from pytest_atesor.sandbox.slots import state_directory

pytestmark = pytest.mark.engine

MARK = "org.pytest-atesor.conformance"
TAG = "localhost/atesor-conformance:built"


class Builder(NamedTuple):
    """An engine that builds images, and the sandboxes' own image in it, which stands for a registry's."""

    engine: Engine
    image: str


@pytest.fixture(params=["docker", "podman"])
def builder(request: pytest.FixtureRequest) -> Iterator[Builder]:
    try:
        engine = select_engine(request.param)
    except SetupError as error:
        pytest.skip(f"no {request.param} here: {error}")
    yield Builder(
        engine, ensure_image(engine, Platform.DEBIAN, state=state_directory(os.environ), progress=print)
    )
    engine.prune_images(MARK)
    subprocess.run([request.param, "rmi", "--force", TAG], capture_output=True, check=False)


def build(builder: Builder, place: Path, on_line: Callable[[str], None] = print) -> None:
    (place / "Containerfile").write_text("ARG BASE\nFROM ${BASE}\nENV BUILT=yes\n")
    plan = ImageBuild(
        tag=TAG,
        containerfile=place / "Containerfile",
        context=place,
        host_platform=None,
        arguments={"BASE": builder.image},
        labels={LABEL_RECIPE: UNFINISHED, MARK: ""},
        log=place / "build.log",
        timeout_s=600,
        on_line=on_line,
    )
    builder.engine.build_image(plan)


def test_what_an_image_says_of_itself_becomes_its_labels(builder: Builder, tmp_path: Path) -> None:
    engine = builder.engine
    build(builder, tmp_path)
    assert (engine.image_labels(TAG) or {})[LABEL_RECIPE] == UNFINISHED
    unfinished = engine.image_id(TAG)
    versions = engine.read_file(TAG, VERSIONS_FILE)
    assert {line.partition("=")[0] for line in versions.splitlines()} == {"gcc", "go", "cargo"}
    wanted = format_labels(digest="d", created_s=7, versions=versions)
    engine.label_image(TAG, wanted, tag=f"{TAG}-labelled")
    assert engine.image_id(TAG) == unfinished
    engine.label_image(TAG, wanted, tag=TAG)
    for _ in range(2):
        engine.untag_image(f"{TAG}-labelled")
        assert engine.image_id(f"{TAG}-labelled") is None
    labels = engine.image_labels(TAG) or {}
    assert wanted.items() <= labels.items()
    assert (
        labels["org.pytest-atesor.version.go"]
        == (engine.image_labels(builder.image) or {})["org.pytest-atesor.version.go"]
    )
    assert engine.image_id(TAG) != unfinished
    assert engine.read_file(TAG, VERSIONS_FILE) == versions


def test_a_build_is_logged_and_shown_line_by_line(builder: Builder, tmp_path: Path) -> None:
    lines: list[str] = []
    build(builder, tmp_path, lines.append)
    assert any("ENV BUILT" in line for line in lines)
    assert (tmp_path / "build.log").read_bytes().decode() == "".join(lines)


def test_a_build_that_fails_names_its_log(builder: Builder, tmp_path: Path) -> None:
    with pytest.raises(SandboxError, match=rf"build ended with exit code \d+; see {tmp_path}/build.log"):
        build(builder._replace(image="localhost/nonesuch:x"), tmp_path)
    assert "FROM" in (tmp_path / "build.log").read_text()


def test_a_sandbox_is_made_of_an_image_s_id_though_another_has_its_name(
    builder: Builder, tmp_path: Path
) -> None:
    engine = builder.engine
    build(builder, tmp_path)
    old = engine.image_id(TAG)
    assert old is not None
    engine.label_image(TAG, {"made": "later"}, tag=TAG)
    assert engine.image_id(TAG) != old
    name = f"atesor-image-id-{os.getpid()}"
    try:
        for is_reset in (True, False):
            open_sandbox(engine, name, image=old, state=tmp_path / "state", reset=is_reset)
            found = engine.state(name)
            assert isinstance(found, Present)
            assert (found.running, found.image_id) == (True, old)
        assert find_running_image(engine, name) == old
    finally:
        engine.remove(name)


def test_a_file_that_an_image_lacks_is_an_error(builder: Builder) -> None:
    with pytest.raises(SandboxError, match="No such file"):
        builder.engine.read_file(builder.image, "/nonesuch")


def test_without_an_engine_images_come_finished_from_their_archive(tmp_path: Path) -> None:
    engine = HostEngine(tmp_path)
    with pytest.raises(SandboxError, match="host: cannot read /x of image"):
        engine.read_file("image", "/x")
    with pytest.raises(SandboxError, match="host: cannot give image the labels a, b"):
        engine.label_image("image", {"a": "1", "b": "2"}, tag="image")
