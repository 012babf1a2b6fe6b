"""What is said on standard error before pytest's own reporter exists."""

from pytest_atesor.control.output import print_error
from pytest_atesor.core.text import LONGEST_LINE, sanitize_line

__all__ = ["say"]


def say(line: str) -> None:
    """Print one line of this program's own; where standard error is lost, nothing happens."""
    shown = sanitize_line(line, LONGEST_LINE)  # a path in it may have any character
    print_error(f"atesor: {shown}")
