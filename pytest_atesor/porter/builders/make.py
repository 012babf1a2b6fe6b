"""Plain make: a Makefile in the root or in a usual place below it."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pytest_atesor.porter.builders.interface import Builder, BuildOptions, Candidate, Project, Step, Suite
from pytest_atesor.porter.builders.shared import (
    depth_penalty,
    make_program,
    make_suites,
    staged_install,
    words,
)
from pytest_atesor.porter.directories import is_usual, list_places
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
_RULE = re.compile(r" *([A-Za-z0-9_./$(){}-][^:=#\t]*)(?:\t[ \t]*)?::?(?![:=])(.*)")
_VARIABLE = re.compile(r" *(?:(?:export|override|private) +)*(\w+)[ \t]*(:{0,3}|[?+!])=[ \t]*([^#]*)")
_DEFINE = re.compile(r" *(?:(?:export|override|private) +)*define +(\w+)")
_CONDITIONAL = re.compile(
    r" *(?:(ifn?(?:eq|def)|else|endif|endef)|\.[ \t]*(if\w*|elif\w*|else|endif))(?=[\s(!]|$)"
)
_INCLUDES = re.compile(r"^[ ]*[-.s]?include\b", re.MULTILINE)
_DEFAULT_GOAL = re.compile(r"^[ ]*\.DEFAULT_GOAL[ \t]*:?=[ \t]*(\S+)", re.MULTILINE)
_NOTHING = re.compile(r"[ \t]*(?:#|$)")
_USE = re.compile(r"\$[({](\w+)[)}]")
_MOST_WORDS = 200
_LONGEST_VALUE = 1000
_HELPERS = {"help", "usage", "default_help", "list", "print-help", "info", "none", "what"}
_QUOTED = re.compile(r"\"[^\"]*\"|'[^']*'|[12]?>&[12]")
_PRINTS = re.compile(r"[@+ \t-]*(?:(?:echo|printf|cat|true|false|exit)\b|:(?=\s|$)|$)[^|>`]*")
_PRINTS_ITSELF = re.compile(
    r"[@+ -]*(?:(?:e?grep|g?awk|sed|perl)\b.*MAKEFILE_LIST|\$[({](?:info|warning|error)\b)"
)
_CALLS_HELP = re.compile(rf"[@+ -]*\$[({{]MAKE[)}}](?: -\S+)* (?:{'|'.join(_HELPERS)})")
_GOALS = ("all", "build", "linux", "linux_noasm", "generic", "unix", "posix", "gcc")
_COMPILER = re.compile(r"\$[({](CC|CXX|LD|AR|LINK|COMPILE)\b|\b(gcc|g\+\+|cc|clang|ar rc|ar cr)\b")
_COMPILES = re.compile(rf"{_COMPILER.pattern}|\.(c|cc|cpp|cxx|o)\b|\$[({{]MAKE[)}}]")


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
        for place in list_places(tree):
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
                is_driver=not _COMPILER.search(text),
            )


def choose_target(text: str) -> str:
    """Return the goal to name on the command line; "" when the Makefile's own default builds.

    A default builds unless it is a helper by its name, asks for helpers only, or only prints.
    """
    rules = _read_rules(text)
    goals = _DEFAULT_GOAL.findall(text)
    default = goals[0] if goals else next(filter(_may_be_default, rules), "")
    is_sure = len(goals) == 1 or not any(one.is_conditional for one in rules.get(default, ())[:1])
    if default in _GOALS and _INCLUDES.search(text):
        is_sure = False  # the file that is included may give it more to do
    if len(goals) > 1 or not is_sure or not _only_helps(default, rules):
        return ""
    return next((one for one in _GOALS if one in rules and not _only_helps(one, rules)), "")


def _may_be_default(target: str) -> bool:
    return "%" not in target and ("/" in target or not target.startswith("."))


class _Line(NamedTuple):
    """A line of a Makefile, and whether it stands between an ``if`` and its ``endif``."""

    text: str
    is_conditional: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rule:
    """What one rule asks for, whether it has a recipe, and whether that does nothing but print."""

    wanted: tuple[str, ...]
    has_recipe: bool
    prints: bool
    is_conditional: bool


def _read_lines(text: str) -> Iterator[_Line]:
    """Yield the lines that say something: neither blank ones and comments nor the conditionals.

    What a ``define`` keeps for later counts as conditional.
    """
    depth = 0
    for line in re.sub(r"\\\n[ \t]*", " ", text.replace("\r\n", "\n")).split("\n"):
        found = _CONDITIONAL.match(line)
        if found:
            word = found[1] or found[2]
            depth += word.startswith("if") - (word in {"endif", "endef"})
        elif not _NOTHING.match(line):
            yield _Line(line, depth > 0)
            depth += bool(_DEFINE.match(line))


def _read_rules(text: str) -> dict[str, list[_Rule]]:
    """Return target to its rules, in the text's order."""
    lines = tuple(_read_lines(text))
    variables = _read_variables(lines)
    rules: dict[str, list[_Rule]] = {}
    for head, recipe in _split_rules(lines):
        found = _RULE.match(head.text)
        if found is None:
            continue
        wanted, _, first = found[2].partition("#")[0].partition(";")
        commands = [one for one in (first.strip(), *recipe) if one]
        rule = _Rule(
            wanted=tuple(_expand(wanted, variables)),
            has_recipe=bool(commands),
            prints=all(map(_prints, commands)),
            is_conditional=head.is_conditional,
        )
        for name in _expand(found[1], variables):
            rules.setdefault(name, []).append(rule)
    return rules


def _split_rules(lines: Iterable[_Line]) -> Iterator[tuple[_Line, tuple[str, ...]]]:
    """Yield each line that is no recipe's, with the recipe's lines that follow it."""
    head, recipe = _Line("", is_conditional=False), list[str]()
    for line in lines:
        if line.text.startswith("\t"):
            recipe.append(line.text.strip())
            continue
        yield head, tuple(recipe)
        head, recipe = line, []
    yield head, tuple(recipe)


def _read_variables(lines: Sequence[_Line]) -> dict[str, str]:
    """Return the variables whose value is certain: one assignment, which nothing adds to or depends on."""
    values: dict[str, str] = {}
    unsure: set[str] = set()
    for line in lines:
        found = _VARIABLE.match(line.text) or _DEFINE.match(line.text)
        if found is None:
            continue
        name, kind, value = found.groups() if found.re is _VARIABLE else (found[1], "!", "")
        if line.is_conditional or name in values or kind in {"+", "!"} or len(value) > _LONGEST_VALUE:
            unsure.add(name)
        values[name] = value
    return {name: value for name, value in values.items() if name not in unsure}


def _expand(text: str, variables: Mapping[str, str]) -> list[str]:
    """Return the first words with variables replaced, one level deep; an unknown one stays as it is."""
    return _USE.sub(lambda found: variables.get(found[1], found[0]), text, count=20).split()[:_MOST_WORDS]


def _only_helps(name: str, rules: Mapping[str, Sequence[_Rule]]) -> bool:
    """Say whether a target, and all that it asks for, does nothing but print."""
    left, seen = [name], set[str]()
    while left:
        one = left.pop()
        if one in seen or one in _HELPERS:
            continue
        seen.add(one)
        found = rules.get(one, ())
        does_something = any(rule.wanted or rule.has_recipe for rule in found)
        if not does_something or not all(rule.prints for rule in found):
            return False
        left.extend(word for rule in found for word in rule.wanted)
    return True


def _prints(line: str) -> bool:
    if _PRINTS_ITSELF.match(line) or _CALLS_HELP.fullmatch(line):
        return True
    commands = re.split(r"&&|\|\||;", _QUOTED.sub("", line))
    return all(_PRINTS.fullmatch(one) for one in commands)
