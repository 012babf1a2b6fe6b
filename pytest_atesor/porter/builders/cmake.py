"""CMake: a CMakeLists.txt with a project, in the root or in a usual place below it."""

import json
import re
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
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
from pytest_atesor.porter.directories import is_usual, list_places
from pytest_atesor.porter.tree import Tree

__all__ = ["OFFLINE", "PRESET", "CMakeBuilder", "CMakeProject"]

PRESET = "cmake-preset"
"""The ``prepare`` word that configures with one of the project's presets."""

OFFLINE = "cmake-offline"
"""The ``prepare`` word that takes libraries from the system where the project would download them."""

_EXTRA_PLACES = ("cmake", "build/cmake", "cmake_unofficial", "build/CMake", "contrib/cmake", "projects/cmake")
_OPTION = re.compile(
    r"""^[ \t]*(?:cmake_dependent_)?option[ \t]*\(\s*"?([A-Za-z0-9_]+)"?""", re.IGNORECASE | re.MULTILINE
)
# A macro of the project's own counts where its arguments are those of option().
_OWN_OPTION = re.compile(
    r"""^[ \t]*(\w{1,60})[ \t]*\(\s*"?([A-Za-z0-9_]+)"?\s+"[^"\n]*"\s+"?(?:ON|OFF|TRUE|FALSE)"?\s*\)""",
    re.IGNORECASE | re.MULTILINE,
)
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_TESTS = frozenset({"unittest", "unittests", "test", "tests", "testing", "gtest", "googletest"})
_EXTRAS = _TESTS | {
    "bench",
    "benchmark",
    "benchmarks",
    "benchmarking",
    "fuzz",
    "fuzzer",
    "fuzzers",
    "fuzzing",
    "doc",
    "docs",
    "documentation",
    "doxygen",
    "manpages",
    "testbed",
}
_REFUSALS = frozenset({"without", "disable", "no", "not", "dont", "skip", "exclude", "ignore"})
_DOWNLOADS = frozenset({"download", "downloads", "fetch", "fetchcontent"})
_OFFERS = (
    {"offline"},
    {"disconnected"},
    {"use", "system"},
    {"prefer", "system"},
    {"use", "local", "packages"},
)
_LANGUAGES = re.compile(r"^[ \t]*project[ \t]*\(", re.IGNORECASE | re.MULTILINE)
_NAME = re.compile(r"^[ \t]*project[ \t]*\(\s*\"?([A-Za-z0-9_.+-]+)", re.IGNORECASE | re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class CMakeProject(Project):
    """What CMake can be told of this project.

    ``extras`` are its options for tests, benchmarks, fuzzing and documentation, ``tests`` those of them for
    tests, ``preset`` is one for an ordinary build or "", ``offline`` are the arguments that keep it from
    downloading.
    """

    extras: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()
    preset: str = ""
    offline: tuple[str, ...] = ()

    def plan(self, options: BuildOptions) -> tuple[Step, ...]:
        """Configure, build, and install into the staging directory if that works."""
        off = [f"-D{name}=OFF" for name in self.extras]
        generator = "Unix Makefiles" if "cmake-makefiles" in options.tweak.prepare else "Ninja"
        chosen = ["--preset", self.preset] if self.preset and PRESET in options.tweak.prepare else []
        offline = self.offline if OFFLINE in options.tweak.prepare else ()
        arguments = words((*chosen, "-G", generator, *off, *offline, *options.tweak.cmake_args))
        return (
            Step(
                name="configure",
                script=(
                    f"cmake -S . -B {BUILD_DIRECTORY} -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX=/usr "
                    f"-DBUILD_TESTING=OFF -DFETCHCONTENT_QUIET=OFF{arguments}"
                ),
                is_attempt=False,
            ),
            Step(name="build", script=f"cmake --build {BUILD_DIRECTORY} -j {options.jobs}"),
            staged_install(f"env DESTDIR=STAGE cmake --install {BUILD_DIRECTORY}"),
        )

    def heeds(self, word: str) -> bool:
        """Without a preset or an option against downloads there is nothing to choose."""
        return bool({PRESET: self.preset, OFFLINE: self.offline}.get(word, True))

    def plan_suites(self, options: BuildOptions) -> tuple[Suite, ...]:
        """Turn the tests on that the build had left out, build them in the same place, run ctest."""
        on = [f"-D{name}=ON" for name in self.tests]
        return (
            Suite(
                framework="ctest",
                command="ctest",
                probe=(
                    "grep -rEqis --include=CMakeLists.txt --include='*.cmake' "
                    "'enable_testing|include *[(] *CTest' ."
                ),
                prepare=(
                    f"cmake -S . -B {BUILD_DIRECTORY} -DBUILD_TESTING=ON{words(on)}\n"
                    f"cmake --build {BUILD_DIRECTORY} -j {options.jobs}"
                ),
                script=f"ctest --test-dir {BUILD_DIRECTORY} --output-on-failure -j {options.jobs}",
            ),
        )


class CMakeBuilder(Builder):
    """Configures out of source and builds everything but tests, benchmarks and documentation."""

    name = "cmake"
    commands = ("cmake", "cc")

    def find(self, tree: Tree) -> Iterable[Candidate]:
        """Yield a candidate for each place with a CMakeLists.txt; one without ``project`` ranks last."""
        for place in list_places(tree, _EXTRA_PLACES):
            prefix = f"{place}/" if place else ""
            name = f"{prefix}CMakeLists.txt"
            if not tree.has(name):
                continue
            text = tree.text(name)
            rank = 76 - depth_penalty(place)
            if not _LANGUAGES.search(text):
                rank -= 50
            own = _own_names(tree, prefix)
            names = {one: _telling_words(one, own) for one in list_options(tree, place)}
            extras = [one for one, said in names.items() if _is_extra(said)]
            yield Candidate(
                builder=self.name,
                directory=place,
                rank=rank,
                evidence=name,
                project=CMakeProject(
                    extras=tuple(extras),
                    tests=tuple(one for one in extras if names[one] & _TESTS),
                    offline=tuple(filter(None, (_keep_offline(*one) for one in names.items()))),
                    preset=choose_preset(tree.text(f"{prefix}CMakePresets.json")),
                ),
            )


def choose_preset(text: str) -> str:
    """Return the name of the configure preset that most likely means an ordinary build here, "" for none."""
    try:
        listed = json.loads(text).get("configurePresets", [])
        presets = [one for one in listed if not one.get("hidden") and _is_plain(json.dumps(one))]
        names = [str(one["name"]) for one in presets]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return ""
    wanted = ("linux.*release", "release.*linux", "^release", "^default", "release", "linux", "")
    found = (one for pattern in wanted for one in names if re.search(pattern, one, re.IGNORECASE))
    return next(found, "")


def _is_plain(preset: str) -> bool:
    """Say whether a preset is for no other system, compiler or package manager."""
    return not re.search(
        r"vcpkg|conan|Visual Studio|Xcode|Windows|Darwin|macos|android|emscripten|mingw|clang-cl|"
        r"asan|sanitize|coverage|Toolchain",
        preset,
        re.IGNORECASE,
    )


def list_options(tree: Tree, place: str) -> tuple[str, ...]:
    """Return the names of the boolean options in the first levels, each once."""
    prefix = f"{place}/" if place else ""
    names: dict[str, None] = {}
    for name in sorted(tree.files):
        if not name.startswith(prefix) or name[len(prefix) :].count("/") > 1:
            continue
        if name.endswith(("CMakeLists.txt", ".cmake")):
            text = tree.text(name)
            names.update(dict.fromkeys(_OPTION.findall(text)))
            own = (said for macro, said in _OWN_OPTION.findall(text) if "option" in macro.lower())
            names.update(dict.fromkeys(own))
    return tuple(names)


def _own_names(tree: Tree, prefix: str) -> set[tuple[str, ...]]:
    """Return the project's own names, each as its words: in the names of its options they say nothing.

    A part of it in a usual directory may have a name of its own.
    """
    names = [f"{prefix}CMakeLists.txt"]
    for name in tree.files:
        directory, *rest = name.removeprefix(prefix).split("/")
        if rest == ["CMakeLists.txt"] and name.startswith(prefix) and is_usual(tree, directory):
            names.append(name)
    return {words for name in names for said in _NAME.findall(tree.text(name)) if (words := _words_of(said))}


def _telling_words(option: str, own: Iterable[tuple[str, ...]]) -> frozenset[str]:
    """Return the words of an option's name that do not belong to a project's whole name in it."""
    words = _words_of(option)
    for name in own:
        for start in range(len(words) - len(name), -1, -1):
            if words[start : start + len(name)] == name:
                words = words[:start] + words[start + len(name) :]
    return frozenset(words)


def _is_extra(words: AbstractSet[str]) -> bool:
    return bool(words & _EXTRAS) and not words & _REFUSALS


def _keep_offline(option: str, words: AbstractSet[str]) -> str:
    """Return the argument that keeps an option from downloading, "" where it has nothing to do with that."""
    is_offer = any(one <= words for one in _OFFERS)
    # CPM.cmake's own options have its name too
    is_download = bool(words & _DOWNLOADS) or {"use", "cpm"} <= words
    if words & _EXTRAS or not (is_offer or is_download):
        return ""
    return f"-D{option}={'ON' if is_offer != bool(words & _REFUSALS) else 'OFF'}"


def _words_of(name: str) -> tuple[str, ...]:
    return tuple(one.lower() for one in _WORD.findall(name))
