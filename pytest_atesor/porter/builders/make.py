"""Plain make: a Makefile in the root or in a usual place below it."""

import re
from collections.abc import Iterable

from pytest_atesor.porter.builders.interface import BuildOptions, Candidate, Step
from pytest_atesor.porter.builders.shared import depth_penalty, places, staged_install, words
from pytest_atesor.porter.tree import Tree

__all__ = ["MakeBuilder"]

_NAMES = (
    "GNUmakefile",
    "makefile",
    "Makefile",
    "Makefile.linux",
    "makefile.unix",
    "Makefile.unix",
    "Makefile.gcc",
)
_RULE = re.compile(r"^([A-Za-z0-9_./$()-][^:=#\t\n]*?)\s*::?(?![:=])", re.MULTILINE)
_HELPERS = {"help", "usage", "default_help", "list", "print-help", "info", "none", "what"}
_COMPILES = re.compile(
    r"\$[({](CC|CXX|LD|AR|LINK|COMPILE)\b|\b(gcc|g\+\+|cc|clang|ar rc|ar cr)\b|\.(c|cc|cpp|cxx|o)\b"
    r"|\$[({]MAKE[)}]"
)


class MakeBuilder:
    """Runs make with its default target, or the one that builds when the default only prints help."""

    name = "make"
    commands = ("make", "cc")

    def find(self, tree: Tree) -> Iterable[Candidate]:
        """Yield a candidate for each place with a Makefile that compiles something."""
        for place in places(tree):
            prefix = f"{place}/" if place else ""
            name = next((one for one in _NAMES if tree.has(prefix + one)), None)
            if name is None:
                continue
            text = tree.text(prefix + name)
            facts = {"file": name, "target": choose_target(text)}
            rank = 60 - depth_penalty(place)
            if not _COMPILES.search(text):
                rank -= 25  # it may drive documentation or another build tool only
            if name not in _NAMES[:3]:
                rank -= 5
            yield Candidate(
                builder=self.name, directory=place, rank=rank, evidence=f"{prefix}{name}", facts=facts
            )

    def plan(self, candidate: Candidate, options: BuildOptions) -> tuple[Step, ...]:
        """Build, then install into the staging directory as a help to find the product."""
        file = candidate.facts["file"]
        chosen = () if file in _NAMES[:3] else ("-f", file)
        target = candidate.facts["target"]
        goals = () if not target or any("=" not in one for one in options.tweak.make_args) else (target,)
        base = f"make{words(chosen)} -j{options.jobs}{words(options.tweak.make_args)}"
        return (
            Step(name="build", script=f"{base}{words(goals)}"),
            staged_install(
                f"make{words((*chosen, *options.tweak.make_args))} install "
                "DESTDIR=STAGE PREFIX=/usr prefix=/usr"
            ),
        )


def choose_target(text: str) -> str:
    """Return the goal to name on the command line; "" when the Makefile's own default builds."""
    goal = re.search(r"^\s*\.DEFAULT_GOAL\s*:?=\s*(\S+)", text, re.MULTILINE)
    rules = [name for found in _RULE.finditer(text) for name in found.group(1).split()]
    default = goal.group(1) if goal else next((one for one in rules if not one.startswith(".")), "")
    if default not in _HELPERS:
        return ""
    return next((one for one in ("all", "build", "linux", "release") if one in rules), "")
