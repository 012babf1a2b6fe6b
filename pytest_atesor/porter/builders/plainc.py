"""No build system at all: a handful of C or C++ files with one ``main``."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from pytest_atesor.porter.builders.interface import Builder, BuildOptions, Candidate, Project, Step
from pytest_atesor.porter.builders.shared import words
from pytest_atesor.porter.tree import Tree

__all__ = ["PlainCBuilder", "PlainCProject"]

_MAIN = re.compile(r"^[ \t]*(?:(?:int|void|auto)\s+)?main\s*\(", re.MULTILINE)
_SUFFIXES = {".c": "cc", ".cc": "c++", ".cpp": "c++", ".cxx": "c++"}
_MOST_FILES = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainCProject(Project):
    """The files that belong to every program, and those with a ``main`` of their own."""

    sources: tuple[str, ...]
    mains: tuple[str, ...] = ()

    def plan(self, options: BuildOptions) -> tuple[Step, ...]:  # noqa: ARG002 - the protocol's
        """Compile and link with the usual system libraries; without ``main``, make a shared library."""
        sources, mains = self.sources, self.mains
        compiler = "c++" if any(_suffix(one) != ".c" for one in [*sources, *mains]) else "cc"
        common = f"{compiler} -O2 -I. -Iinclude -I.. -I../include"
        libraries = "-lm -lpthread -ldl"
        if len(mains) == 1:
            script = f"{common} -o{words([_output(mains[0]), *sources])} {libraries}"
        elif mains:
            script = "\n".join(
                f"{common} -o{words([_output(one), one, *sources])} {libraries}" for one in mains
            )
        else:
            script = f"{common} -fPIC -shared -o libatesor-plain.so{words(sources)} {libraries}"
        return (Step(name="build", script=script),)


class PlainCBuilder(Builder):
    """Compiles the files of one directory into one program."""

    name = "plain-c"
    commands = ("cc",)
    is_stopgap = True

    def find(self, tree: Tree) -> Iterable[Candidate]:
        """Yield one candidate per directory whose files define exactly one ``main``, or none (a library)."""
        for place, rank in (("", 10), ("src", 8), ("source", 7)):
            files = sorted(name for name in tree.below(place) if _suffix(name) in _SUFFIXES)
            if not files or len(files) > _MOST_FILES:
                continue
            mains = [name for name in files if _MAIN.search(tree.text(name))]
            usable = [name for name in files if name not in mains]
            programs = [mains[0]] if len(mains) == 1 else []
            prefix = f"{place}/" if place else ""
            yield Candidate(
                builder=self.name,
                directory=place,
                rank=rank if programs else rank - 5,
                evidence=f"{len(files)} source files in ./{place}, {len(mains)} with main",
                project=PlainCProject(
                    sources=tuple(one.removeprefix(prefix) for one in [*programs, *usable]),
                    mains=tuple(one.removeprefix(prefix) for one in mains),
                ),
            )


def _output(source: str) -> str:
    return re.sub(r"[.][a-z]+$", ".out", source)


def _suffix(name: str) -> str:
    return "." + name.rpartition(".")[2] if "." in name else ""
