from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_atesor.porter.counts import FRAMEWORKS, Counts, Tally

_AUTOMAKE = """\
Making check in lib
make[1]: Entering directory '/w/lib'
PASS: one
FAIL: two
============================================================================
Testsuite summary for x 1.0
============================================================================
# TOTAL: 5
# PASS:  2
# SKIP:  1
# XFAIL: 0
# FAIL:  1
# XPASS: 0
# ERROR: 1
make[2]: *** [Makefile:1: test-suite.log] Error 1
# TOTAL: 1
# PASS:  1
# SKIP:  0
# XFAIL: 0
# FAIL:  0
# XPASS: 0
# ERROR: 0
"""
_MESON = """\
1/3 one        OK              0.10s
2/3 two        FAIL            0.10s   exit status 1
3/3 three      TIMEOUT         9.00s   killed by signal 15 SIGTERM

Ok:                 1
Expected Fail:      0
Fail:               1
Unexpected Pass:    0
Skipped:            0
Timeout:            1
"""
_GO = """\
=== RUN   TestA
--- PASS: TestA (0.00s)
=== RUN   TestB
    --- FAIL: TestB/sub (0.00s)
--- FAIL: TestB (0.00s)
--- SKIP: TestC (0.00s)
FAIL\texample.org/x\t0.1s
FAIL\texample.org/x/broken [build failed]
"""
_CARGO = """\
running 3 tests
test result: FAILED. 2 passed; 1 failed; 4 ignored; 0 measured; 0 filtered out; finished in 0.01s
test result: ok. 19 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.22s
"""


def _count(framework: str, output: str) -> Counts | None:
    tally = Tally(framework)
    tally.feed(output.encode())
    return tally.counts()


@pytest.mark.parametrize(
    ("framework", "output", "counts"),
    [
        pytest.param("make", _AUTOMAKE, Counts(passed=3, failed=2, skipped=1), id="automake"),
        pytest.param(
            "make",
            "PASS: a\nXFAIL: b\nSKIP: c\nERROR: d\n",
            Counts(passed=2, failed=1, skipped=1),
            id="files",
        ),
        pytest.param(
            "make", "All 8 tests behaved as expected (1 expected failures)\n", Counts(passed=8), id="serial"
        ),
        pytest.param("make", "./check\neverything fine\n", None, id="words-only"),
        pytest.param(
            "ctest", "75% tests passed, 1 tests failed out of 4\n", Counts(passed=3, failed=1), id="ctest"
        ),
        pytest.param("ctest", "100% tests passed out of 22\n", Counts(passed=22), id="ctest-4"),
        pytest.param("meson", _MESON, Counts(passed=1, failed=2), id="meson"),
        pytest.param("go", _GO, Counts(passed=1, failed=2, skipped=1), id="go"),
        pytest.param("cargo", _CARGO, Counts(passed=21, failed=1, skipped=4), id="cargo"),
    ],
)
def test_summary_lines_are_added_up(framework: str, output: str, counts: Counts | None) -> None:
    assert _count(framework, output) == counts


@given(cuts=st.lists(st.integers(0, len(_AUTOMAKE)), max_size=20))
def test_it_does_not_matter_how_the_output_is_cut(cuts: list[int]) -> None:
    tally = Tally("make")
    places = [0, *sorted(cuts), len(_AUTOMAKE)]
    for start, end in pairwise(places):
        tally.feed(_AUTOMAKE[start:end].encode())
    assert tally.counts() == Counts(passed=3, failed=2, skipped=1)


@given(data=st.lists(st.binary(max_size=300), max_size=8), framework=st.sampled_from(sorted(FRAMEWORKS)))
def test_a_strangers_bytes_never_raise(data: list[bytes], framework: str) -> None:
    tally = Tally(framework)
    for one in data:
        tally.feed(one)
    tally.counts()


def test_a_line_without_an_end_takes_bounded_memory() -> None:
    tally = Tally("cargo")
    for _ in range(200):
        tally.feed(b"x" * 65_536)
    assert len(tally._rest) <= 65_536  # noqa: SLF001 - the bound is the promise
    assert tally.counts() is None


def test_numbers_that_no_suite_has_are_no_numbers() -> None:
    assert _count("make", "# PASS: 99999999999999999999\n") is None


@pytest.mark.parametrize(
    ("output", "nothing"),
    [("make[1]: Nothing to be done for 'check-am'.\nMaking check in src\n", True), ("./t\n", False)],
    ids=["make-alone", "a-command"],
)
def test_a_goal_that_ran_nothing_is_told(output: str, nothing: object) -> None:
    tally = Tally("make")
    tally.feed(output.encode())
    assert tally.ran_nothing is nothing
