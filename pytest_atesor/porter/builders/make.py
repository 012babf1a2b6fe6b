"""Plain make: a Makefile in the root or in a usual place below it."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from pytest_atesor.porter.builders.interface import Builder, BuildOptions, Candidate, Project, Step, Suite
from pytest_atesor.porter.builders.shared import (
    depth_penalty,
    make_program,
    make_suites,
    places,
    staged_install,
    words,
)
from pytest_atesor.porter.tree import Tree

__all__ = ["MakeBuilder", "MakeProject"]

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


@dataclass(frozen=True, slots=True, kw_only=True)
class MakeProject(Project):
    """The Makefile's name, and the goal to name ("": its default builds)."""

    file: str = "Makefile"
    target: str = ""

    def plan(self, options: BuildOptions) -> tuple[Step, ...]:
        """Build, then install into the staging directory as a help to find the product."""
        chosen = self._chosen()
        is_named = not self.target or any("=" not in one for one in options.tweak.make_args)
        goals = () if is_named else (self.target,)
        make = f"{make_program(options)}{words(chosen)}"
        base = f"{make} -j{options.jobs}{words(options.tweak.make_args)}"
        return (
            Step(name="build", script=f"{base}{words(goals)}"),
            staged_install(
                f"{make}{words(options.tweak.make_args)} install DESTDIR=STAGE PREFIX=/usr prefix=/usr"
            ),
        )

    def plan_suites(self, options: BuildOptions) -> tuple[Suite, ...]:
        """Return the goals, one job at a time: tests written by hand share their files."""
        settings = [one for one in options.tweak.make_args if "=" in one]
        return make_suites(f"{make_program(options)}{words((*self._chosen(), *settings))}", self.file)

    def _chosen(self) -> tuple[str, ...]:
        return () if self.file in _NAMES[:3] else ("-f", self.file)


class MakeBuilder(Builder):
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
            rank = 60 - depth_penalty(place)
            if not _COMPILES.search(text):
                rank -= 25  # it may drive documentation or another build tool only
            if name not in _NAMES[:3]:
                rank -= 5
            yield Candidate(
                builder=self.name,
                directory=place,
                rank=rank,
                evidence=f"{prefix}{name}",
                project=MakeProject(file=name, target=choose_target(text)),
            )


def choose_target(text: str) -> str:
    """Return the goal to name on the command line; "" when the Makefile's own default builds."""
    goal = re.search(r"^\s*\.DEFAULT_GOAL\s*:?=\s*(\S+)", text, re.MULTILINE)
    rules = [name for found in _RULE.finditer(text) for name in found.group(1).split()]
    default = goal.group(1) if goal else next((one for one in rules if not one.startswith(".")), "")
    if default not in _HELPERS:
        return ""
    return next((one for one in ("all", "build", "linux", "release") if one in rules), "")
