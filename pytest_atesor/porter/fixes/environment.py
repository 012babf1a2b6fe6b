"""The machine or the sandbox is at fault, not the package."""

from pytest_atesor.core.outcome import Cause
from pytest_atesor.porter.builders.interface import Tweak
from pytest_atesor.porter.fixes.interface import Change, Rule, Stop

__all__ = ["RULES"]

_KILLED = r"(?:Killed signal terminated program|virtual memory exhausted|[Cc]annot allocate memory|out of memory allocating|signal: killed|signal: 9, SIGKILL)"

RULES: tuple[Rule, ...] = (
    Rule(
        name="no-space",
        pattern=r"No space left on device|Disk quota exceeded",
        fix=Stop(cause=Cause.ENVIRONMENT, reason="no space left on the device while building"),
        sample="ccX1.s: Assembler messages:\nccX1.s: Fatal error: can't close x.o: No space left on device\n",
    ),
    Rule(
        name="memory-one-job",
        pattern=_KILLED,
        fix=Change(change=Tweak(jobs=1)),
        sample="c++: fatal error: Killed signal terminated program cc1plus\ncompilation terminated.\n",
    ),
    Rule(
        name="memory",
        pattern=_KILLED,
        fix=Stop(cause=Cause.ENVIRONMENT, reason="out of memory, even with one job at a time"),
        sample="cc1: out of memory allocating 65536 bytes after a total of 1351680 bytes\n",
    ),
    Rule(
        name="emulator-crash",
        pattern=r"qemu: uncaught target signal \d+|qemu-riscv64[^:\n]*: .*(?:Assertion|assertion)|internal compiler error: (?:Segmentation fault|Illegal instruction|Bus error)",
        fix=Change(change=Tweak(jobs=1)),
        sample="qemu: uncaught target signal 11 (Segmentation fault) - core dumped\nmake: *** [Makefile:20: table.h] Segmentation fault\n",
    ),
)
