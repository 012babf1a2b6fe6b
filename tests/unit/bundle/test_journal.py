import os
import resource
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_atesor.bundle.journal import Journal, read_journal
from pytest_atesor.core.attempt import AttemptRecord
from pytest_atesor.core.events import AttemptEnded, AttemptStarted, BatchEnded, CasesSelected, Event
from pytest_atesor.errors import BundleError

RecordFactory = Callable[..., AttemptRecord]
AT = "2026-01-02T03:04:05Z"


@pytest.fixture
def events(make_record: RecordFactory) -> list[Event]:
    return [
        CasesSelected(at=AT, case_ids=("zlib",)),
        AttemptStarted(at=AT, case_id="zlib", attempt_id="001", slot="base-w1", worker="gw0"),
        AttemptEnded(at=AT, record=make_record("zlib", reason="größe \u2028 “x”")),
        BatchEnded(at=AT, exit_code=0),
    ]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.jsonl"


def write(path: Path, *events: Event) -> None:
    journal = Journal(path, read_journal(path))
    for event in events:
        journal.append(event)
    journal.close()


def test_what_is_appended_is_read_in_order(path: Path, events: list[Event]) -> None:
    write(path, *events[:2])
    write(path, *events[2:])
    content = read_journal(path)
    assert content.events == tuple(events)
    assert (content.lines, content.torn_bytes, content.size_bytes) == (4, 0, path.stat().st_size)


def test_a_missing_journal_is_empty(path: Path) -> None:
    assert read_journal(path).events == ()


def test_a_journal_cut_at_any_byte_loses_only_its_last_line_and_goes_on(
    path: Path, events: list[Event]
) -> None:
    write(path, *events)
    whole = path.read_bytes()
    ends = [index + 1 for index, byte in enumerate(whole) if byte == 0x0A]
    for size in range(len(whole) + 1):
        path.write_bytes(whole[:size])
        content = read_journal(path)
        kept = sum(end <= size for end in ends)
        assert content.events == tuple(events[:kept])
        assert content.torn_bytes == size - ([0, *ends][kept])
        write(path, events[-1])
        again = read_journal(path)
        assert again.events == (*events[:kept], events[-1])
        assert again.torn_bytes == 0


def test_blocks_of_zeros_after_a_power_cut_count_as_torn(path: Path, events: list[Event]) -> None:
    write(path, *events)
    with path.open("ab") as file:
        file.write(b"\0" * 4096)
    assert read_journal(path).torn_bytes == 4096
    assert read_journal(path).events == tuple(events)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        pytest.param(b"garbage\n", "line 2 is not valid JSON", id="garbage"),
        pytest.param(b"\n", "line 2 is not valid JSON", id="empty-line"),
        pytest.param(b"\0\0\0\n", "line 2 is not valid JSON", id="zeros"),
        pytest.param(b"\xff\xfe\n", "line 2 is not UTF-8", id="binary"),
        pytest.param(b"", "line 2: seq is 3, not 2: lines were lost or edited", id="line-lost"),
    ],
)
def test_a_bad_line_elsewhere_is_an_error_that_names_file_and_line(
    path: Path, events: list[Event], damage: bytes, message: str
) -> None:
    write(path, *events)
    lines = path.read_bytes().splitlines(keepends=True)
    lines[1] = damage
    path.write_bytes(b"".join(lines))
    with pytest.raises(BundleError) as caught:
        read_journal(path)
    assert f"{path}, {message}" in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_a_newer_journal_is_read_and_never_written(path: Path, events: list[Event]) -> None:
    write(path, *events)
    with path.open("ab") as file:
        file.write(b'{"schema":"journal_v2","seq":5,"at":"x","type":"party"}\n')
    before = path.read_bytes()
    content = read_journal(path)
    assert content.newer
    assert content.events == tuple(events)
    with pytest.raises(BundleError, match="written by a newer version"):
        Journal(path, content)
    assert path.read_bytes() == before


def test_a_full_disk_is_a_clear_error_and_the_journal_stays_whole(path: Path, events: list[Event]) -> None:
    journal = Journal(path, read_journal(path))
    journal.append(events[0])
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    # Room for a part of the next line: the kernel takes that much and refuses the rest.
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 20, hard))
    try:
        with pytest.raises(BundleError, match=r"cannot append to .*journal\.jsonl: "):
            journal.append(events[1])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, handler)
    assert read_journal(path).events == (events[0],)
    assert read_journal(path).torn_bytes == 0
    journal.append(events[1])
    journal.close()
    assert read_journal(path).events == tuple(events[:2])


def test_a_disk_that_takes_no_cut_either_is_the_same_error_and_the_cut_is_made_up_for(
    path: Path, events: list[Event]
) -> None:
    journal = Journal(path, read_journal(path))
    journal.append(events[0])
    (descriptor,) = (int(link.name) for link in Path("/proc/self/fd").iterdir() if link.resolve() == path)
    kept = os.dup(descriptor)
    with Path("/dev/full").open("wb") as full:  # it refuses to be written and to be cut
        os.dup2(full.fileno(), descriptor)
        for _ in range(2):
            with pytest.raises(BundleError, match="cannot append to"):
                journal.append(events[1])
    os.write(kept, b'{"schema":"journal')  # what a disk that is gone in between may have taken
    os.dup2(kept, descriptor)
    os.close(kept)
    journal.append(events[1])
    journal.close()
    assert read_journal(path).events == tuple(events[:2])


def test_children_do_not_inherit_the_file(path: Path) -> None:
    journal = Journal(path, read_journal(path))
    links = [link for link in Path("/proc/self/fd").iterdir() if link.exists() and link.samefile(path)]
    assert links
    assert not any(os.get_inheritable(int(link.name)) for link in links)
    journal.close()
    journal.close()
