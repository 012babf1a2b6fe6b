"""What a build system's file provides, and the values that pass between detection, fixes and the build.

Everything here is a plan: nothing runs. Paths are relative to the package's tree, ``""`` is its root, and
byte names that are no UTF-8 carry surrogate escapes.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Protocol

from pytest_atesor.porter.needs import Need
from pytest_atesor.porter.tree import Tree

__all__ = [
    "BUILD_DIRECTORY",
    "STAGE",
    "BuildOptions",
    "Builder",
    "Candidate",
    "Project",
    "Step",
    "Suite",
    "Tweak",
]

BUILD_DIRECTORY = "atesor-build"
"""Where out-of-source builds and Go write, below the candidate's directory."""

STAGE = "$ATESOR_STAGE"
"""The staging directory of ``make install``, as scripts spell it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One shell script of a build, run with ``sh -eu`` in the candidate's directory.

    A step that is not ``required`` may fail without failing the attempt. ``network`` asks for the network,
    which a build never gets. Where ``is_attempt`` is False nothing was built yet, and a failure that a fix
    answers does not count as one of the allowed attempts.
    """

    name: str
    script: str
    required: bool = True
    network: bool = False
    is_attempt: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Tweak:
    """One change to the way a package is built; what a fix is made of.

    ``compiler_*`` go through a wrapper in front of every C and C++ compiler, so that they reach builds which
    ignore CFLAGS: flags to append (``c_add`` for C only) and shell patterns of flags to drop. ``prepare``
    names edits of the fresh tree. ``jobs`` of None changes nothing.
    """

    compiler_add: tuple[str, ...] = ()
    compiler_drop: tuple[str, ...] = ()
    c_add: tuple[str, ...] = ()
    cxx_add: tuple[str, ...] = ()
    configure_args: tuple[str, ...] = ()
    cmake_args: tuple[str, ...] = ()
    meson_args: tuple[str, ...] = ()
    make_args: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    prepare: tuple[str, ...] = ()
    jobs: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildOptions:
    """What an attempt is built with: the fixes so far, on top of the builder's own defaults."""

    jobs: int
    source_url: str = ""
    fixes: tuple[str, ...] = ()
    tweak: Tweak = field(default_factory=Tweak)

    def with_fix(self, name: str, change: Tweak) -> "BuildOptions":
        """Return the options with one more fix, named for the record."""
        merged = Tweak(
            **{
                one: getattr(self.tweak, one)
                + tuple(v for v in getattr(change, one) if v not in getattr(self.tweak, one))
                for one in _LISTS
            },
            jobs=change.jobs if change.jobs is not None else self.tweak.jobs,
        )
        return replace(self, fixes=(*self.fixes, name), tweak=merged, jobs=merged.jobs or self.jobs)


_LISTS = (
    "compiler_add",
    "compiler_drop",
    "c_add",
    "cxx_add",
    "configure_args",
    "cmake_args",
    "meson_args",
    "make_args",
    "environment",
    "prepare",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """One way to run a project's own tests after its build.

    ``framework`` says whose summary lines to expect in the output; ``command`` is what results show.
    Scripts run with ``sh -eu`` in the candidate's directory. ``probe`` says by its exit code whether the tree
    has such tests, and runs nothing of the tree's; "" means that it may. ``prepare`` builds the tests where
    ``script`` does not.
    """

    framework: str
    command: str
    script: str
    probe: str = ""
    prepare: str = ""


class Project(Protocol):
    """What a builder read off one place of the tree: a frozen value of the builder's own, and its plans."""

    def plan(self, options: BuildOptions) -> tuple[Step, ...]:
        """Return the steps that build it, in order."""

    def plan_suites(self, options: BuildOptions) -> tuple[Suite, ...]:  # noqa: ARG002 - for those that differ
        """Return the ways to run its tests; the first whose probe answers is taken."""
        return ()

    def test_needs(self, options: BuildOptions) -> tuple[Need, ...]:  # noqa: ARG002 - for those that differ
        """Return what its tests need beyond its build and can do without, as far as the tree says."""
        return ()

    def heeds(self, word: str) -> bool:  # noqa: ARG002 - for those that differ
        """Say whether a ``prepare`` word of a fix can change anything here."""
        return True

    @property
    def declared(self) -> tuple[Need, ...]:
        """What its metadata asks of a registry, for logs that name nothing."""
        return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One way to build the tree. The highest ``rank`` is tried first; ``evidence`` says what was seen.

    ``is_driver`` says that the build file names no compiler: it may only call other tools.
    """

    builder: str
    directory: str
    rank: int
    evidence: str
    project: Project
    is_driver: bool = False


class Builder(Protocol):
    """One build system. What has a default here is for those that differ."""

    @property
    def name(self) -> str:
        """The build system's name, as results show it."""

    @property
    def commands(self) -> tuple[str, ...]:
        """The programs that the sandbox must have before the first attempt."""

    def find(self, tree: Tree) -> Iterable[Candidate]:
        """Yield what in the tree this builder can build."""

    @property
    def language(self) -> str:
        """The language whose share of the sources must carry its candidates ("go", "rust"); "" for none."""
        return ""

    @property
    def is_stopgap(self) -> bool:
        """Whether it only helps where no build system is: it never stands in for one that failed."""
        return False

    @property
    def borrowing(self) -> tuple[str, ...]:
        """The ``prepare`` words that make it build with the platform's packaged libraries."""
        return ()

    @property
    def no_product(self) -> str:
        """What a build that passed and left nothing native may mean; "" without a guess."""
        return ""
