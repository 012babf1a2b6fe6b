import io

from pytest_atesor.porter.shell import Capture


def test_a_captured_line_is_cut_so_that_no_search_in_it_takes_long() -> None:
    capture = Capture(io.BytesIO())
    capture.write(b"before\n" + b"x" * 100_000 + b"\nafter\n")
    assert capture.text() == f"before\n{'x' * 2000}\nafter\n"


def test_everything_is_passed_on_whole() -> None:
    through = io.BytesIO()
    capture = Capture(through)
    capture.write(b"x" * 100_000)
    assert through.getvalue() == b"x" * 100_000
