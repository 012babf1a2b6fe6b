import pytest

from pytest_atesor.core.selection import select_names
from pytest_atesor.errors import UsageError

KNOWN = ["zlib", "gron", "anew", "Zlib"]


@pytest.mark.parametrize(
    ("wanted", "indexes"),
    [
        pytest.param([], (0, 1, 2, 3), id="all"),
        pytest.param(["anew", "gron"], (1, 2), id="list-order"),
        pytest.param(["gron", "gron"], (1,), id="twice-counts-once"),
        pytest.param(["Zlib"], (3,), id="exact-case"),
    ],
)
def test_names_select_exactly_and_in_list_order(wanted: list[str], indexes: tuple[int, ...]) -> None:
    assert select_names(KNOWN, wanted, "packages/x.json") == indexes


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        pytest.param(["grn"], 'packages/x.json has no package "grn"; did you mean "gron"?', id="near"),
        pytest.param(["GRON"], 'packages/x.json has no package "GRON"; did you mean "gron"?', id="case"),
        pytest.param(
            ["qqq"], 'packages/x.json has no package "qqq"; see the names in packages/x.json', id="far"
        ),
        pytest.param(
            ["gron", "grn", "qqq"],
            'packages/x.json has no package "grn"; did you mean "gron"? (and 1 more unknown name)',
            id="two",
        ),
        pytest.param(
            ["zli"], 'packages/x.json has no package "zli"; did you mean "zlib" or "Zlib"?', id="both-cases"
        ),
    ],
)
def test_an_unknown_name_is_a_usage_error_with_near_matches(wanted: list[str], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        select_names(KNOWN, wanted, "packages/x.json")
    assert str(caught.value) == message
    assert caught.value.exit_code == 2


def test_an_unknown_case_is_called_a_case() -> None:
    with pytest.raises(UsageError) as caught:
        select_names(KNOWN, ["qqq"], "s.yaml", "case")
    assert str(caught.value) == 's.yaml has no case "qqq"; --collect-only lists them'
