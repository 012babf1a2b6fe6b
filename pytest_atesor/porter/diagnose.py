"""From a failed attempt's output to the rules that match it, in order.

Pure: which of them can still help is the run's decision.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from pytest_atesor.porter.builders.interface import Tweak
from pytest_atesor.porter.fixes import RULES
from pytest_atesor.porter.fixes.interface import Install, Rule
from pytest_atesor.porter.needs import Need, NeedKind

__all__ = ["Match", "diagnose", "failed_checks", "render"]

_MOST_NAMES = 24
_CHECK = re.compile(
    r"^checking (?:for|whether) +(?P<what>[^\n]{1,120}?)\.\.\.(?: \(cached\))? *(?:no|not found|none)$",
    re.MULTILINE,
)
_LISTED = re.compile(r"(?<![\w.+<>=-])[A-Za-z](?:[\w.+-]*[\w+])?")
_ERROR = re.compile(r"(?:^|configure: )(?:error|ERROR):", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """A rule that matches, and the names that its pattern caught, first match first, without repeats.

    ``last`` is where in the log its last match is, from and to.
    """

    rule: Rule
    names: tuple[str, ...]
    last: tuple[int, int] = (0, 0)

    def follows(self, other: "Match") -> bool:
        """Say whether the log has this sign behind the last one of ``other``."""
        return self.last[0] >= other.last[1]

    def needs(self, log: str) -> tuple[Need, ...]:
        """Return what the rule says is missing; () when it installs nothing."""
        if not isinstance(self.rule.fix, Install):
            return ()
        kind = self.rule.fix.kind
        needs = tuple(Need(kind=kind, name=name) for name in self.rule.fix.names or self.names)
        if kind is NeedKind.WORDS and {"autotools", "configure"} & set(self.rule.builders):
            return (*failed_checks(log), *needs)
        return needs


def diagnose(log: str, builder: str, rules: Iterable[Rule] = RULES) -> Iterator[Match]:
    """Yield the rules that match ``log`` and apply to ``builder``, in their order."""
    for rule in rules:
        if rule.builders and builder not in rule.builders:
            continue
        found: dict[str, None] = {}
        last: tuple[int, int] | None = None
        for one in _compiled(rule.pattern).finditer(log):
            last = one.span()
            found.update(dict.fromkeys(_caught(one)))
            if len(found) >= _MOST_NAMES:
                break
        if last is not None:
            yield Match(rule=rule, names=tuple(found), last=last)


def failed_checks(log: str) -> tuple[Need, ...]:
    """Return what configure looked for in vain right before it gave up: libraries, headers, modules."""
    errors = list(_ERROR.finditer(log))
    before = log[: errors[-1].start()] if errors else log
    needs: list[Need] = []
    for one in list(_CHECK.finditer(before[-8000:]))[-2:]:
        what = one.group("what")
        libraries, headers = re.findall(r"-l([\w.+-]+)", what), re.findall(r"\b([\w./+-]+\.h(?:pp)?)\b", what)
        needs += [Need(kind=NeedKind.LIBRARY, name=one) for one in libraries]
        needs += [Need(kind=NeedKind.HEADER, name=one) for one in headers]
        module = re.match(r"([A-Za-z][\w.+-]*)(?: *[<>=]+ *[\w.]+)?$", what)
        if module and not needs:
            needs.append(Need(kind=NeedKind.WORDS, name=module.group(1)))
    return tuple(dict.fromkeys(reversed(needs)))


def render(change: Tweak, names: tuple[str, ...]) -> Tweak:
    """Return ``change`` with ``{name}`` in its words replaced; a word that has it appears once per name."""

    def words(values: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(
            dict.fromkeys(
                value.replace("{name}", name)
                for value in values
                for name in (names if "{name}" in value else ("",))
            )
        )

    return Tweak(
        compiler_add=words(change.compiler_add),
        compiler_drop=words(change.compiler_drop),
        c_add=words(change.c_add),
        cxx_add=words(change.cxx_add),
        configure_args=words(change.configure_args),
        cmake_args=words(change.cmake_args),
        meson_args=words(change.meson_args),
        make_args=words(change.make_args),
        environment=change.environment,
        prepare=change.prepare,
        jobs=change.jobs,
    )


def _caught(match: "re.Match[str]") -> tuple[str, ...]:
    """Return the names in one match: what its first group caught, or each word of group ``each``."""
    groups = {key: value for key, value in match.groupdict().items() if value}
    whole, version = groups.pop("of", ""), groups.pop("version", "")
    names = _LISTED.findall(groups["each"]) if "each" in groups else list(groups.values())[:1]
    if version:
        names = [f"{one}@{version}" for one in names]
    return tuple(f"{whole}::{one}" if whole else one for one in names[:_MOST_NAMES])


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> "re.Pattern[str]":
    return re.compile(pattern, re.MULTILINE)
