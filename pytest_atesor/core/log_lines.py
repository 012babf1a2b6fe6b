"""The one line of a log that tells a person what went wrong, found at its end.

Three kinds of line: noise says nothing about a failure and is never chosen; an echo only repeats that
something failed ("make: *** Error 2") and is chosen when there is nothing better; everything else is
meaningful.
"""

import re
from typing import Final

from pytest_atesor.core.text import sanitize, sanitize_line

__all__ = ["find_last_meaningful_line"]

_NOISE: Final = re.compile(
    r"""
      \W*$                                                     # rules, carets, spinners
    | \S*make(?:\[\d+\])?:\ (?:Entering|Leaving)\ directory
    | \S*make(?:\[\d+\])?:\ (?:Nothing\ to\ be\ done|(?:\*\*\*\ )?Waiting\ for\ unfinished)
    | (?:See|Try|Use)\ ['"`\u2018].*--?h(?:elp)?\b             # where to read on, after the error
    | (?:rm|mkdir)\ -\w+\ \S                                   # make's echo of its tidying up
    | ninja:\ (?:Entering\ directory|no\ work\ to\ do)
    | \[\s*\d+%\]                                              # CMake's progress
    | [\W_]*\d{1,3}(?:\.\d+)?\s?%[\W_]*$                       # bars
    | (?:remote:\ )?(?:Counting|Compressing|Receiving|Resolving|Enumerating|Unpacking|Updating)\ \w+:\s+\d+%
    | (?=[\s\d])\s*+(?:\d++\s++)?+\|(?:\s|$)                   # a compiler quoting the source
    | Traceback\ \(most\ recent\ call\ last\):
    | During\ handling\ of\ the\ above\ exception
    | The\ above\ exception\ was\ the\ direct\ cause
    | \s+File\ ".*",\ line\ \d+
    | (?:In\ file\ included\ from|\s+from)\ \S+:\d+
    | \++\ (?:exit|return|set)\b                               # set -x
    | (?:real|user|sys)\s+\d+m
    """,
    re.VERBOSE,
)
_ECHO: Final = re.compile(
    r"""
      \S*make(?:\[\d+\])?:\ \*\*\*\ .*(?:Error\ \d+|Interrupt|Terminated|Stop\.)
    | \S*make(?:\[\d+\])?:\ .*\(ignored\)
    | ninja:\ build\ stopped
    | \[\d+/\d+\]                                              # ninja's progress
    | FAILED:\s
    | compilation\ terminated
    | collect2:\ error:\ ld\ returned
    | \d+\ (?:errors?|warnings?)\b.*generated
    | (?:--\ )?Configuring\ incomplete
    | See\ also\ "
    | A\ full\ log\ can\ be\ found
    | (?:error:\ )?could\ not\ compile
    | warning:\ build\ failed
    | \S*(?:ba|da|)sh:\ line\ \d+:\s+\d+\ (?:Killed|Terminated)
    """,
    re.VERBOSE,
)
_FRAME: Final = re.compile(r'\s+File ".*", line \d+')


def find_last_meaningful_line(tail: bytes | str, limit: int = 300) -> str:
    """Return the most telling line near the end of a log, sanitized, in at most ``limit`` characters.

    Empty when the tail holds no text at all; when every line is noise, the last one with text.
    """
    lines = [line.rstrip() for line in sanitize(tail).split("\n")]
    echo = noise = ""
    for line, above in zip(reversed(lines), [*reversed(lines[:-1]), ""], strict=True):
        if not line:
            continue
        if _NOISE.match(line) or _FRAME.match(above):
            noise = noise or line
        elif _ECHO.match(line):
            echo = echo or line
        else:
            return sanitize_line(line, limit)
    return sanitize_line(echo or noise, limit)
