from pathlib import Path

import pytest

from pytest_atesor.commands.resources import copy_resources, list_resources
from pytest_atesor.errors import BadInputError

FILES = {"examples/a.yaml": b"a\n", "schemas/b.json": b"{}\n"}


def test_unchanged_files_are_no_conflict(tmp_path: Path) -> None:
    assert copy_resources(tmp_path / "to", FILES, force=False) == 2
    assert copy_resources(tmp_path / "to", FILES, force=False) == 0


def test_all_changed_files_are_named_and_nothing_is_half_done(tmp_path: Path) -> None:
    (tmp_path / "examples").mkdir()
    (tmp_path / "examples/a.yaml").write_text("mine")
    with pytest.raises(BadInputError, match=r"examples/a\.yaml"):
        copy_resources(tmp_path, FILES, force=False)
    assert not (tmp_path / "schemas").exists()
    assert copy_resources(tmp_path, FILES, force=True) == 2
    assert (tmp_path / "examples/a.yaml").read_bytes() == b"a\n"


@pytest.mark.parametrize("link", ["examples", "schemas/b.json"])
def test_no_link_is_followed_even_by_force(tmp_path: Path, link: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    target = tmp_path / "to" / link
    target.parent.mkdir(parents=True, exist_ok=True)
    target.symlink_to(outside)
    with pytest.raises(BadInputError, match="links"):
        copy_resources(tmp_path / "to", FILES, force=True)
    assert not list(outside.iterdir())


def test_a_file_in_the_place_of_the_directory_is_what_is_blamed(tmp_path: Path) -> None:
    (tmp_path / "f").touch()
    with pytest.raises(BadInputError) as caught:
        copy_resources(tmp_path / "f", {"examples/a": b"a", "examples/b": b"b"}, force=False)
    assert str(caught.value) == f"{tmp_path}/f is a file, not a directory; choose another place"


def test_schemas_are_the_programs_own() -> None:
    import pytest_atesor.core.schemas as own  # noqa: PLC0415 - a package of data only

    folder = Path(own.__path__[0])
    assert list_resources()["schemas/sweep_v1.schema.json"] == (folder / "sweep_v1.schema.json").read_bytes()
