import pytest

from pytest_atesor.core.limits import parse_size, share_memory

GIB = 1024**3


@pytest.mark.parametrize(
    ("text", "size"),
    [("4G", 4 * GIB), ("512m", GIB // 2), ("1GiB", GIB), ("2TB", 2048 * GIB), ("1073741824", GIB)],
)
def test_sizes_are_read_as_people_write_them(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "G", "-1G", "1.5G", "4 apples", "1", "0", "1M"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"size|too little"):
        parse_size(text)


@pytest.mark.parametrize(("total", "slots", "share"), [(24, 4, 6), (24, 0, 24), (1, 64, 0.5)])
def test_a_slot_gets_its_share_of_the_machine(total: int, slots: int, share: float) -> None:
    assert share_memory(total * GIB, slots) == share * GIB
