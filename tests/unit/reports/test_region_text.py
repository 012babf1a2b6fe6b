import pytest
from rich.console import Console

from pytest_atesor.core.outcome import Status
from pytest_atesor.reports.terminal import (
    Progress,
    SlotLine,
    bound_remaining,
    draw_region,
    find_phase,
    format_seconds,
    paint_line,
)


def make_progress(
    *slots: SlotLine,
    estimate_s: float | None = 125.0,
    bound_s: float | None = 125.0,
    is_stopping: bool = False,
) -> Progress:
    counts = {Status.PASS: 2, Status.UNVERIFIED: 0, Status.FAIL: 1}
    return Progress(
        done=3,
        total=12,
        counts=counts,
        slots=slots,
        estimate_s=estimate_s,
        bound_s=bound_s,
        is_stopping=is_stopping,
    )


def make_slot(number: int, label: str = "zlib", expected_s: float | None = None, phase: str = "") -> SlotLine:
    return SlotLine(slot=f"w{number}", label=label, elapsed_s=61.9, expected_s=expected_s, phase=phase)


def draw(progress: Progress, *, width: int = 80, height: int = 24) -> str:
    console = Console(width=200, color_system=None)
    with console.capture() as capture:
        console.print(draw_region(progress, width=width, height=height))
    return capture.get()


@pytest.mark.parametrize(
    ("remaining", "workers", "bound"),
    [
        pytest.param([10.0, 20.0, 30.0], 1, 60.0, id="one slot"),
        pytest.param([10.0, 20.0, 30.0, 40.0], 2, 50.0, id="spread evenly"),
        pytest.param([10.0, 90.0], 4, 90.0, id="the longest case"),
        pytest.param([0.0], 4, 0.0, id="overdue"),
    ],
)
def test_the_time_left_is_a_lower_bound(remaining: list[float], workers: int, bound: float) -> None:
    assert bound_remaining(sum(remaining), max(remaining), workers) == bound


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0s"),
        (59.9, "59s"),
        (60.0, "1m00s"),
        (185.0, "3m05s"),
        (3599.9, "59m59s"),
        (3600.0, "1h00m"),
        (7620.0, "2h07m"),
        (360000.0, "100h00m"),
    ],
)
def test_seconds_are_whole_and_short(seconds: float, text: str) -> None:
    assert format_seconds(seconds) == text


def test_a_region_of_two_slots() -> None:
    assert (
        draw(make_progress(make_slot(1, phase="fetch: x"), make_slot(2, "gron-ng", 300.0, "build: make")))
        == """\
[#####...............] 3/12 about 2m05s left 2 PASS 1 FAIL
w1            1m01s  zlib     fetch: x
w2  1m01s of ~5m00s  gron-ng  build: make
"""
    )


def test_a_narrow_region_takes_two_lines_for_the_progress() -> None:
    assert (
        draw(make_progress(make_slot(1, phase="build"), bound_s=60.0), width=40)
        == """\
[##........] 3/12 about 2m05s left
2 PASS 1 FAIL
w1  1m01s  zlib  build
"""
    )


@pytest.mark.parametrize(
    ("estimate_s", "bound_s", "left"),
    [
        pytest.param(None, None, "", id="nothing known"),
        pytest.param(60.0, 60.0, " about 1m00s left", id="all known"),
        pytest.param(60.0, 30.0, " about 1m00s left, at least 30s", id="some known"),
        pytest.param(60.0, None, " about 1m00s left", id="by this batch alone"),
        pytest.param(60.0, 0.5, " about 1m00s left", id="overdue"),
    ],
)
def test_what_is_not_known_is_not_shown_as_nothing_left(
    estimate_s: float | None, bound_s: float | None, left: str
) -> None:
    progress = make_progress(estimate_s=estimate_s, bound_s=bound_s)
    assert draw(progress) == f"[#####...............] 3/12{left} 2 PASS 1 FAIL\n"


def test_a_batch_that_stops_says_so() -> None:
    assert draw(make_progress(is_stopping=True)).startswith(
        "[#####...............] 3/12 stopping, Ctrl-C kills 2 PASS"
    )


def test_slots_beyond_the_screen_are_counted() -> None:
    assert (
        draw(make_progress(*(make_slot(number) for number in range(1, 17))), height=6)
        == """\
[#####...............] 3/12 about 2m05s left 2 PASS 1 FAIL
w1  1m01s  zlib
w2  1m01s  zlib
and 14 more slots
"""
    )


@pytest.mark.parametrize(
    ("output", "phase"),
    [
        pytest.param(b"", None, id="no output"),
        pytest.param(b"==> [   1.0 s] fetch: x\n==> [  12.5 s] build\nmake -j2\n", "build", id="the last"),
        pytest.param(b"==> [   1.0 s] fetch\n==> [   2.0 s] bui", "fetch", id="a line still being written"),
        pytest.param(b"x ==> [   1.0 s] fetch\n==> now\n", None, id="only alike"),
        pytest.param(b"==> [   1.0 s] \x1b[2Jred\xff\xe2\x80\xae\n", "red\ufffd<U+202E>", id="hostile"),
        pytest.param(b"==> [   1.0 s] " + b"x" * 900_000 + b"\n", "x" * 59 + "\u2026", id="endless"),
    ],
)
def test_a_phase_is_the_last_line_that_announces_one(output: bytes, phase: str | None) -> None:
    assert find_phase(output) == phase


def test_a_status_is_painted_once_and_where_it_stands_first() -> None:
    text = paint_line("[1/2] w1 FAIL PASS 1.0 s - FAIL ", Status.FAIL)
    assert [(span.start, span.end, span.style) for span in text.spans] == [(9, 13, "red")]
    assert paint_line("w1 start PASS ", None).spans == []


@pytest.mark.parametrize("width", [20, 40, 60])
@pytest.mark.parametrize("height", [1, 3, 5, 10])
def test_a_region_fits_any_screen(width: int, height: int) -> None:
    slots = [make_slot(number, "日本語" * 30, 1.0, "build") for number in range(1, 9)]
    lines = draw(make_progress(*slots), width=width, height=height).splitlines()
    console = Console(color_system=None)
    assert len(lines) <= max(1, height - 2)
    assert all(console.render_str(line, markup=False).cell_len < width for line in lines)


def test_a_strangers_name_is_one_harmless_line() -> None:
    text = draw(make_progress(make_slot(1, "\x1b[2J[bold]a\nb\u202e\x07")))
    assert text.splitlines()[1:] == ["w1  1m01s  [bold]a b<U+202E>"]
