"""What a reader should know of products' ABI before using them elsewhere. Pure."""

import re
from collections.abc import Iterable, Iterator

from pytest_atesor.porter.scan import Artifact

__all__ = ["describe_abi"]

_USUAL_ABI = "lp64d"
_LOADERS = frozenset({"", "/lib/ld-linux-riscv64-lp64d.so.1", "/lib/ld-musl-riscv64.so.1"})
# What every Linux distribution for riscv64 builds for, and newer compilers' names for the same.
_EXTENSION = re.compile(r"(?:^rv64|_)(?P<name>[a-z][a-z0-9]*?)(?:\d+p\d+)?(?=_|$)")
_BASE = frozenset({
    "i", "m", "a", "f", "d", "c", "g",
    "zicsr", "zifencei", "zmmul", "zaamo", "zalrsc", "zca", "zcd", "zicntr", "zihpm",
})  # fmt: skip


def describe_abi(artifacts: Iterable[Artifact]) -> list[str]:
    """Return one line per kind of oddity: ABI, program interpreter, instructions beyond RV64GC."""
    seen: dict[str, str] = {}
    for one in artifacts:
        for what in _oddities(one):
            seen.setdefault(what, one.path)
    return [f"{what}: {path}" for what, path in sorted(seen.items())]


def _oddities(artifact: Artifact) -> Iterator[str]:
    facts = artifact.facts
    if facts.abi != _USUAL_ABI:
        yield f"unusual ABI {facts.abi} (this platform's is {_USUAL_ABI})"
    if not facts.compressed:
        yield "code without compressed instructions (RVC)"
    if facts.interpreter not in _LOADERS:
        yield f"unusual program interpreter {facts.interpreter}"
    more = [one["name"] for one in _EXTENSION.finditer(facts.architecture) if one["name"] not in _BASE]
    if more:
        yield f"code may need instructions beyond RV64GC ({', '.join(dict.fromkeys(more))})"
