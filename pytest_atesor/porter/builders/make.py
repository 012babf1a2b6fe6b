"""Plain make: a Makefile in the root or in a usual place below it."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from pytest_atesor.porter.builders.interface import Builder, BuildOptions, Candidate, Project, Step, Suite
from pytest_atesor.porter.builders.shared import (
    depth_penalty,
    make_program,
    make_suites,
    places,
    staged_install,
    words,
)
from pytest_atesor.porter.directories import is_usual
from pytest_atesor.porter.tree import Tree

__all__ = ["MakeBuilder", "MakeProject"]

_USUAL = ("GNUmakefile", "makefile", "Makefile")
_NAMES = (
    *_USUAL,
    "Makefile.linux",
    "makefile.linux",
    "Makefile.Linux",
    "makefile.unix",
    "Makefile.unix",
    "Makefile.gcc",
    "makefile.gcc",
    "Makefile.gnu",
    "makefile.gnu",
    "Makefile.posix",
)
_RULE = re.compile(
    r"^([A-Za-z0-9_./$(){}-][^:=#\t\n]*)(?:\t[ \t]*)?::?(?![:=])([^\n]*)\n?((?:\t[^\n]*(?:\n|\Z))*)",
    re.MULTILINE,
)
_VARIABLE = re.compile(r"^[ ]*(?:export[ ]+)?(\w+)[ \t]*[:?]{0,2}=[ \t]*([^\n#]{0,1000})", re.MULTILINE)
_USE = re.compile(r"\$[({](\w+)[)}]")
_MOST_WORDS = 200
_HELPERS = {"help", "usage", "default_help", "list", "print-help", "info", "none", "what"}
_QUOTED = re.compile(r"\"[^\"]*\"|'[^']*'|[12]?>&[12]")
_PRINTS = re.compile(r"[@+ \t-]*(?:(?:echo|printf|cat|true|false|exit)\b|:(?=\s|$)|$)[^|>`]*")
_PRINTS_ITSELF = re.compile(
    r"[@+ -]*(?:(?:e?grep|g?awk|sed|perl)\b.*MAKEFILE_LIST|\$[({](?:info|warning|error)\b)"
)
_CALLS_HELP = re.compile(rf"[@+ -]*\$[({{]MAKE[)}}](?: -\S+)* (?:{'|'.join(_HELPERS)})")
_GOALS = ("all", "build", "linux", "linux_noasm", "generic", "unix", "posix", "gcc", "release")
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
        return () if self.file in _USUAL else ("-f", self.file)


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
            # One that calls itself by its whole path wants to be called from above, as Info-ZIP's does.
            calls = re.compile(rf"-f[ ]*{re.escape(prefix + name)}(?![\w./-])")
            above = bool(place) and is_usual(tree, place) and calls.search(text) is not None
            rank = 60 - (5 if above else depth_penalty(place))
            if not _COMPILES.search(text):
                rank -= 25  # it may drive documentation or another build tool only
            if name not in _USUAL:
                rank -= 5
            yield Candidate(
                builder=self.name,
                directory="" if above else place,
                rank=rank,
                evidence=f"{prefix}{name}",
                project=MakeProject(file=prefix + name if above else name, target=choose_target(text)),
            )


def choose_target(text: str) -> str:
    """Return the goal to name on the command line; "" when the Makefile's own default builds.

    A default builds unless it is a helper by its name, asks for helpers only, or only prints.
    """
    rules = _read_rules(text)
    goal = re.search(r"^[ \t]*\.DEFAULT_GOAL[ \t]*:?=[ \t]*(\S+)", text, re.MULTILINE)
    default = goal.group(1) if goal else next((one for one in rules if not one.startswith(".")), "")
    if not _only_helps(default, rules):
        return ""
    return next((one for one in _GOALS if one in rules and not _only_helps(one, rules)), "")


@dataclass(slots=True)
class _Rule:
    """What a target asks for, and its recipe's lines."""

    wanted: list[str] = field(default_factory=list)
    recipe: list[str] = field(default_factory=list)


def _read_rules(text: str) -> dict[str, _Rule]:
    """Return target to rule, in the text's order; several rules of one target count together."""
    joined = re.sub(r"\\\n[ \t]*", " ", text)
    variables = dict(reversed(_VARIABLE.findall(joined)))
    rules: dict[str, _Rule] = {}
    for names, rest, below in _RULE.findall(joined):
        wanted, semicolon, first = rest.partition("#")[0].partition(";")
        recipe = (first if semicolon else "", *below.split("\n"))
        for name in _expand(names, variables):
            rule = rules.setdefault(name, _Rule())
            rule.wanted += _expand(wanted, variables)
            rule.recipe += (one.strip() for one in recipe if one.strip())
    return rules


def _expand(text: str, variables: Mapping[str, str]) -> list[str]:
    """Return the first words with variables replaced, one level deep."""
    return _USE.sub(lambda found: variables.get(found[1], found[0]), text, count=20).split()[:_MOST_WORDS]


def _only_helps(name: str, rules: Mapping[str, _Rule]) -> bool:
    """Say whether a target, and all that it asks for, does nothing but print."""
    left, seen = [name], set[str]()
    while left:
        one = left.pop()
        if one in seen or one in _HELPERS:
            continue
        seen.add(one)
        rule = rules.get(one)
        if rule is None or not (rule.wanted or rule.recipe) or not all(map(_prints, rule.recipe)):
            return False
        left.extend(rule.wanted)
    return True


def _prints(line: str) -> bool:
    if _PRINTS_ITSELF.match(line) or _CALLS_HELP.fullmatch(line):
        return True
    commands = re.split(r"&&|\|\||;", _QUOTED.sub("", line))
    return all(_PRINTS.fullmatch(one) for one in commands)
