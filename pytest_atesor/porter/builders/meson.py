"""Meson: a meson.build with a project."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from pytest_atesor.porter.builders.interface import (
    BUILD_DIRECTORY,
    Builder,
    BuildOptions,
    Candidate,
    Project,
    Step,
    Suite,
)
from pytest_atesor.porter.builders.shared import depth_penalty, staged_install, words
from pytest_atesor.porter.directories import list_places
from pytest_atesor.porter.tree import Tree

__all__ = ["SUBPROJECTS", "MesonBuilder", "MesonProject"]

SUBPROJECTS = "meson-subprojects"
"""The ``prepare`` word that downloads the subprojects which the project's wraps name, before the build."""

# What a failed download leaves would be reported in its place.
_DOWNLOAD = """\
before=$(ls -d subprojects/*/ 2>/dev/null || :)
timeout 600 meson subprojects download || {
  for one in subprojects/*/; do
    case "$before" in *"$one"*) ;; *) [ -n "$(ls "$one")" ] || rm -rf "$one" ;; esac
  done
  exit 1
}"""

_OPTION = re.compile(
    r"option\s*\(\s*'([A-Za-z0-9_-]+)'\s*,\s*type\s*:\s*'(boolean|feature|combo)'(?:[^()]|\([^()]*\))*\)"
)
_TESTS = re.compile(r"^(tests?|unit[-_]?tests?|build[-_]tests?|enable[-_]tests?)$")
_EXTRAS = re.compile(
    r"^(tests?|unit[-_]?tests?|build[-_]tests?|enable[-_]tests?|benchmarks?|docs?|build[-_]docs?|documentation|"
    r"gtk[-_]?docs?|man|man[-_]?pages?|fuzz(?:ing|ers?)?|introspection|doxygen)$"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MesonProject(Project):
    """Settings that turn tests, benchmarks and documentation off; whether wraps name subprojects."""

    extras: tuple[str, ...] = ()
    has_wraps: bool = False

    def plan(self, options: BuildOptions) -> tuple[Step, ...]:
        """Configure, build, and install into the staging directory if that works."""
        off = [f"-D{one}" for one in self.extras]
        arguments = words((*off, *options.tweak.meson_args))
        steps: tuple[Step, ...] = ()
        if self.has_wraps and SUBPROJECTS in options.tweak.prepare:
            steps = (Step(name="download", script=_DOWNLOAD, network=True, required=False),)
        return (
            *steps,
            Step(
                name="configure",
                script=(
                    f"meson setup {BUILD_DIRECTORY} --prefix=/usr --buildtype=release "
                    f"--wrap-mode=nodownload{arguments}"
                ),
                is_attempt=False,
            ),
            Step(name="build", script=f"ninja -C {BUILD_DIRECTORY} -j {options.jobs}"),
            staged_install(f"env DESTDIR=STAGE meson install -C {BUILD_DIRECTORY} --no-rebuild"),
        )

    def heeds(self, word: str) -> bool:
        """Without wraps there is nothing to download."""
        return self.has_wraps or word != SUBPROJECTS

    def plan_suites(self, options: BuildOptions) -> tuple[Suite, ...]:
        """Turn the tests on that the build had left out, build them in the same place, run them."""
        switched = [
            one.replace("=false", "=true").replace("=disabled", "=enabled")
            for one in self.extras
            if _TESTS.match(one.partition("=")[0])
        ]
        on = f"meson configure {BUILD_DIRECTORY}{words(f'-D{one}' for one in switched)}\n" if switched else ""
        return (
            Suite(
                framework="meson",
                command="meson test",
                probe="grep -rEqs --include=meson.build '(^|[^_a-z])test *[(]' .",
                prepare=f"{on}ninja -C {BUILD_DIRECTORY} -j {options.jobs}",
                script=(
                    f"meson test -C {BUILD_DIRECTORY} --no-rebuild --print-errorlogs --timeout-multiplier 5"
                ),
            ),
        )


class MesonBuilder(Builder):
    """Configures without downloads and builds everything but tests and documentation."""

    name = "meson"
    commands = ("meson", "ninja", "cc")

    def find(self, tree: Tree) -> Iterable[Candidate]:
        """Yield a candidate for each meson.build that declares a project."""
        for place in list_places(tree, ("build/meson", "contrib/meson")):
            prefix = f"{place}/" if place else ""
            name = f"{prefix}meson.build"
            if not tree.has(name) or not re.search(r"^[ \t]*project\s*\(", tree.text(name), re.MULTILINE):
                continue
            declared = tree.text(f"{prefix}meson.options") or tree.text(f"{prefix}meson_options.txt")
            yield Candidate(
                builder=self.name,
                directory=place,
                rank=74 - depth_penalty(place),
                evidence=name,
                project=MesonProject(
                    extras=extra_options(declared),
                    has_wraps=any(one.endswith(".wrap") for one in tree.below(f"{prefix}subprojects")),
                ),
            )


def extra_options(declared: str) -> tuple[str, ...]:
    """Return ``name=value`` settings that turn tests, benchmarks and documentation off."""
    settings = []
    for found in _OPTION.finditer(declared):
        name, kind = found.group(1), found.group(2)
        if not _EXTRAS.match(name):
            continue
        if kind == "boolean":
            settings.append(f"{name}=false")
        elif kind == "feature":
            settings.append(f"{name}=disabled")
    return tuple(settings)
