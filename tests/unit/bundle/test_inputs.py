import os
from pathlib import Path

import pytest

from pytest_atesor.bundle.inputs import TreeReader, read_input
from pytest_atesor.errors import BadInputError


@pytest.fixture
def reader(tmp_path: Path) -> TreeReader:
    (tmp_path / "batch" / "cases").mkdir(parents=True)
    (tmp_path / "batch" / "cases" / "a.yaml").write_text("a: 1")
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles" / "p.yaml").write_text("p: 1")
    (tmp_path / "secret.yaml").write_text("s: 1")
    return TreeReader(tmp_path / "batch" / "m.yaml", tmp_path / "profiles")


def test_files_are_read_below_their_root(reader: TreeReader, tmp_path: Path) -> None:
    case = reader.read_case("cases/a.yaml")
    assert (case.path, case.data) == (str(tmp_path / "batch" / "cases" / "a.yaml"), b"a: 1")
    assert reader.read_import("p.yaml").data == b"p: 1"


def test_a_link_inside_is_one_file_with_its_target(reader: TreeReader, tmp_path: Path) -> None:
    (tmp_path / "batch" / "b.yaml").symlink_to("cases/a.yaml")
    assert reader.read_case("b.yaml").identity == reader.read_case("cases/a.yaml").identity


@pytest.mark.parametrize("target", ["../secret.yaml", "../gone.yaml", "/etc/passwd"])
def test_a_link_that_leads_out_is_refused(reader: TreeReader, tmp_path: Path, target: str) -> None:
    (tmp_path / "batch" / "b.yaml").symlink_to(target)
    with pytest.raises(BadInputError, match=r"b\.yaml leads out of the manifest's directory"):
        reader.read_case("b.yaml")


def test_a_linked_directory_that_leads_out_is_refused(reader: TreeReader, tmp_path: Path) -> None:
    (tmp_path / "profiles" / "up").symlink_to("..")
    with pytest.raises(BadInputError, match="leads out of the profile root"):
        reader.read_import("up/secret.yaml")


def test_a_root_that_is_itself_a_link_is_fine(reader: TreeReader, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("batch")
    assert (
        TreeReader(tmp_path / "link" / "m.yaml", tmp_path / "profiles").read_case("cases/a.yaml").data
        == b"a: 1"
    )
    assert reader.read_case("cases/a.yaml").data == b"a: 1"


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("gone.yaml", "does not exist"),
        ("cases", "is no file"),
        ("cases/a.yaml/x", "cannot be read"),
        ("pipe", "is no file"),
    ],
    ids=["missing", "directory", "below-a-file", "pipe"],
)
def test_what_is_no_file_is_told_so(reader: TreeReader, tmp_path: Path, path: str, message: str) -> None:
    os.mkfifo(tmp_path / "batch" / "pipe")
    with pytest.raises(BadInputError, match=message):
        reader.read_case(path)


def test_a_fragment_that_is_missing_is_told_with_the_root_that_it_counts_from(
    reader: TreeReader, tmp_path: Path
) -> None:
    root = tmp_path / "profiles"
    with pytest.raises(BadInputError) as caught:
        reader.read_import("gone.yaml")
    said = f"{root}/gone.yaml does not exist; imports count from the profile root {root}"
    assert str(caught.value) == f"{said} (--atesor-profile-root)"


def test_a_huge_file_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "huge.yaml"
    with path.open("wb") as file:
        file.truncate(10**12)
    with pytest.raises(BadInputError, match="an input has at most"):
        read_input(path)
