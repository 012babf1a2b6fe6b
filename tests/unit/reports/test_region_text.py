import pytest
from rich.console import Console

from pytest_atesor.core.outcome import Status
from pytest_atesor.reports.terminal import Progress, SlotLine, bound_remaining, draw_region, format_seconds


def make_progress(*slots: SlotLine, remaining_s: float | None = 125.0) -> Progress:
    counts = {Status.PASS: 2, Status.UNVERIFIED: 0, Status.FAIL: 1}
    return Progress(done=3, total=12, counts=counts, slots=slots, remaining_s=remaining_s)


def make_slot(number: int, label: str = "zlib", expected_s: float | None = None) -> SlotLine:
    return SlotLine(slot=f"w{number}", label=label, elapsed_s=61.9, expected_s=expected_s)


def draw(progress: Progress, *, width: int = 80, height: int = 24) -> str:
    console = Console(width=200, color_system=None)
    with console.capture() as capture:
        console.print(draw_region(progress, width=width, height=height))
    return capture.get()


@pytest.mark.parametrize(
    ("remaining", "workers", "bound"),
    [
        pytest.param([], 2, None, id="nothing known"),
        pytest.param([10.0, 20.0, 30.0], 1, 60.0, id="one slot"),
        pytest.param([10.0, 20.0, 30.0, 40.0], 2, 50.0, id="spread evenly"),
        pytest.param([10.0, 90.0], 4, 90.0, id="the longest case"),
        pytest.param([0.0], 4, 0.0, id="overdue"),
    ],
)
def test_the_time_left_is_a_lower_bound(remaining: list[float], workers: int, bound: float | None) -> None:
    assert bound_remaining(remaining, workers) == bound


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
        draw(make_progress(make_slot(1), make_slot(2, "gron", expected_s=300.0)))
        == """\
[#####...............] 3/12 at least 2m05s left 2 PASS 1 FAIL
w1  1m01s zlib
w2  1m01s of about 5m00s gron
"""
    )


def test_nothing_known_is_not_shown_as_nothing_left() -> None:
    assert draw(make_progress(remaining_s=None)) == "[#####...............] 3/12 2 PASS 1 FAIL\n"


def test_slots_beyond_the_screen_are_counted() -> None:
    assert (
        draw(make_progress(*(make_slot(number) for number in range(1, 17))), height=6)
        == """\
[#####...............] 3/12 at least 2m05s left 2 PASS 1 FAIL
w1  1m01s zlib
w2  1m01s zlib
and 14 more slots
"""
    )


@pytest.mark.parametrize("width", [20, 40, 60])
@pytest.mark.parametrize("height", [1, 3, 5, 10])
def test_a_region_fits_any_screen(width: int, height: int) -> None:
    slots = [make_slot(number, "日本語" * 30, expected_s=1.0) for number in range(1, 9)]
    lines = draw(make_progress(*slots), width=width, height=height).splitlines()
    console = Console(color_system=None)
    assert len(lines) <= max(1, height - 2)
    assert all(console.render_str(line, markup=False).cell_len < width for line in lines)


def test_a_strangers_name_is_one_harmless_line() -> None:
    text = draw(make_progress(make_slot(1, "\x1b[2J[bold]a\nb\u202e\x07")))
    assert text.splitlines()[1:] == ["w1  1m01s [bold]a b<U+202E>"]
