import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_atesor.core.shards import Shard, cut_shard, parse_shard
from pytest_atesor.errors import UsageError


@given(st.integers(0, 2000), st.integers(2, 60))
def test_shards_cover_the_list_once_in_order_with_the_contracts_size(count: int, total: int) -> None:
    cuts = [cut_shard(count, Shard(index=index, total=total)) for index in range(total)]
    assert [position for cut in cuts for position in cut] == list(range(count))
    assert all(len(cut) <= math.ceil(count / total) for cut in cuts)
    full = count // math.ceil(count / total) if count else 0
    assert all(len(cut) == math.ceil(count / total) for cut in cuts[:full])


def test_a_total_of_one_turns_sharding_off() -> None:
    assert parse_shard(0, 1) is None
    assert parse_shard(None, 1) is None
    assert parse_shard(None, None) is None
    assert cut_shard(8, None) == range(8)


def test_trailing_shards_may_be_empty() -> None:
    # 8 packages in 5 shards: ceil is 2, so the fifth has nothing.
    assert len(cut_shard(8, Shard(index=4, total=5))) == 0


@pytest.mark.parametrize(
    ("index", "total"),
    [
        pytest.param(0, None, id="index-alone"),
        pytest.param(None, 3, id="total-alone"),
        pytest.param(3, 3, id="index-too-large"),
        pytest.param(-1, 3, id="index-negative"),
        pytest.param(0, 0, id="total-zero"),
        pytest.param(0, -2, id="total-negative"),
        pytest.param(1, 1, id="index-beyond-one"),
    ],
)
def test_a_bad_shard_is_a_usage_error(index: int | None, total: int | None) -> None:
    with pytest.raises(UsageError) as caught:
        parse_shard(index, total)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("index", "total", "words"),
    [
        pytest.param(3, None, "shard index 3 from A needs a shard total; ", id="index-alone"),
        pytest.param(None, 3, "shard total 3 from B needs a shard index from 0 to 2; ", id="total-alone"),
        pytest.param(3, 3, "shard index 3 from A is out of range; with 3 shards ", id="index-too-large"),
        pytest.param(0, 0, "shard total 0 from B is out of range; ", id="total-zero"),
    ],
)
def test_a_bad_shard_names_where_it_came_from(index: int | None, total: int | None, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_shard(index, total, index_origin="A", total_origin="B")
    assert str(caught.value).startswith(words)
