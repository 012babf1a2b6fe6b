"""The log of a child: exact below the cap, head and tail with a count above it, readable at every moment."""

import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from pytest_atesor.runners.output import TAIL_BYTES, CappedLog

MARKER = re.compile(rb"\n\[atesor: (\d+) bytes of output dropped here\]\n")

# One example reuses the file of the one before, which is what opening a log afresh must bear anyway.
same_directory = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


@same_directory
@given(
    sizes=st.lists(st.integers(0, 40), max_size=12),
    cap=st.integers(0, 60),
    saves=st.sets(st.integers(0, 11)),
)
@example(sizes=[10, 1], cap=10, saves=set())
@example(sizes=[40], cap=0, saves={0})
def test_the_file_is_the_output_or_its_ends_with_the_right_count(
    tmp_path: Path, sizes: list[int], cap: int, saves: set[int]
) -> None:
    path = tmp_path / "run.log"
    output = b""
    with CappedLog(path, cap) as log:
        for index, size in enumerate(sizes):
            chunk = bytes((len(output) + offset) % 251 for offset in range(size))
            output += chunk
            log.write(chunk)
            if index in saves:
                log.checkpoint()
    text = path.read_bytes()
    if len(output) <= cap:
        assert text == output
        return
    found = MARKER.search(text)
    assert found is not None
    head, tail = text[: found.start()], text[found.end() :]
    assert output.startswith(head)
    assert output.endswith(tail)
    assert (len(head), len(tail)) == (cap - cap // 2, cap // 2)
    assert log.kept_bytes == cap
    assert log.dropped_bytes == int(found[1]) == len(output) - cap
    assert log.error is None


def test_output_below_the_cap_can_be_followed_live(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    with CappedLog(path, 1000) as log:
        log.write(b"first\n")
        assert path.read_bytes() == b"first\n"


def test_a_checkpoint_makes_a_flooded_log_readable_while_it_grows(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    with CappedLog(path, 10) as log:
        log.write(b"0123456789abcdef")
        assert path.read_bytes() == b"0123456789"
        log.checkpoint()
        assert path.read_bytes() == b"01234\n[atesor: 6 bytes of output dropped here]\nbcdef"


def test_the_tail_in_memory_does_not_depend_on_the_cap(tmp_path: Path) -> None:
    with CappedLog(tmp_path / "run.log", 10) as log:
        for number in range(5000):
            log.write(b"%30d\n" % number)
    assert len(log.tail()) == TAIL_BYTES
    assert log.tail().endswith(b" 4999\n")


@pytest.mark.parametrize(
    ("path", "message"),
    [("/dev/full", "No space left on device"), ("/proc/none/run.log", "No such file or directory")],
    ids=["full disk", "no directory"],
)
def test_a_failing_disk_is_recorded_and_output_still_counts(path: str, message: str) -> None:
    with CappedLog(Path(path), 100) as log:
        log.write(b"x" * 60)
        log.checkpoint()
        log.write(b"y" * 60)
    assert log.error == message
    assert (log.kept_bytes, log.dropped_bytes) == (0, 120)
    assert log.tail() == b"x" * 60 + b"y" * 60
