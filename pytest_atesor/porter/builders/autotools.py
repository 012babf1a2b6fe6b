"""Autotools: a generated ``configure``, or the sources of one."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from pytest_atesor.porter.builders.configure import is_autoconf
from pytest_atesor.porter.builders.interface import Builder, BuildOptions, Candidate, Project, Step, Suite
from pytest_atesor.porter.builders.shared import depth_penalty, make_suites, staged_install, words
from pytest_atesor.porter.directories import list_places
from pytest_atesor.porter.tree import Tree

__all__ = ["AutotoolsBuilder", "AutotoolsProject"]

_SCRIPTS = (
    "autogen.sh",
    "bootstrap",
    "bootstrap.sh",
    "buildconf",
    "buildconf.sh",
    "autogen",
    "autobuild.sh",
    "autoconf.sh",
)
_SOURCES = ("configure.ac", "configure.in")


@dataclass(frozen=True, slots=True, kw_only=True)
class AutotoolsProject(Project):
    """Whether configure is there, the project's script that generates it, whether config.sub is too old.

    ``has_gnulib`` says that it is made with gnulib's own ``bootstrap``.
    """

    is_generated: bool = True
    script: str = ""
    has_gnulib: bool = False
    is_stale: bool = False

    def plan(self, options: BuildOptions) -> tuple[Step, ...]:
        """Generate if need be, configure, build, and install into the staging directory if that works."""
        steps: list[Step] = []
        regenerate = "autoreconf" in options.tweak.prepare
        if not self.is_generated or regenerate:
            generate = _generate(self.script, has_gnulib=self.has_gnulib)
            steps.append(Step(name="generate", script=generate, is_attempt=False))
        refresh = ""
        if self.is_stale or "config-sub" in options.tweak.prepare:
            refresh = (
                "find . \\( -name config.sub -o -name config.guess \\) -type f | while read -r one; do "
                "for new in /usr/share/misc /usr/share/gnu-config /usr/share/automake-*; do\n"
                '[ ! -f "$new/${one##*/}" ] || { cp -f "$new/${one##*/}" "$one"; break; }; done; done\n'
            )
        arguments = words(options.tweak.configure_args)
        make = words(options.tweak.make_args)
        steps += [
            Step(
                name="configure",
                script=(
                    f"{refresh}chmod +x configure\n"
                    f"./configure --prefix=/usr --disable-dependency-tracking{arguments}"
                ),
                is_attempt=False,
            ),
            Step(name="build", script=f"make -j{options.jobs}{make}"),
            staged_install(f"make{make} install DESTDIR=STAGE"),
        ]
        return tuple(steps)

    def plan_suites(self, options: BuildOptions) -> tuple[Suite, ...]:
        """Return automake's ``check``; its harness keeps parallel tests apart."""
        return make_suites(f"make -j{options.jobs}{words(options.tweak.make_args)}")


class AutotoolsBuilder(Builder):
    """Generates ``configure`` where it is missing, with autoreconf or else the project's own script."""

    name = "autotools"
    commands = ("make", "cc")

    def find(self, tree: Tree) -> Iterable[Candidate]:
        """Yield a candidate for each place with a generated configure or with its sources."""
        for place in list_places(tree):
            prefix = f"{place}/" if place else ""
            generated = tree.has(f"{prefix}configure") and is_autoconf(tree.text(f"{prefix}configure"))
            source = next((one for one in _SOURCES if tree.has(prefix + one)), None)
            if not generated and source is None:
                continue
            # A release has gnulib's files already, of the version that it was made with.
            is_gnulibs = tree.has(f"{prefix}bootstrap") and tree.has(f"{prefix}bootstrap.conf")
            has_gnulib = is_gnulibs and not generated
            scripts = ("bootstrap", *_SCRIPTS) if has_gnulib else _SCRIPTS
            script = next((one for one in scripts if tree.has(prefix + one)), "")
            rank = 80 if generated else 72
            automake = tree.has(f"{prefix}Makefile.am", f"{prefix}Makefile.in")
            if not automake and tree.has(f"{prefix}Makefile"):
                rank = 58  # the Makefile stands on its own; configure only fine-tunes it
            yield Candidate(
                builder=self.name,
                directory=place,
                rank=rank - depth_penalty(place),
                evidence=f"{prefix}{'configure' if generated else source}",
                project=AutotoolsProject(
                    is_generated=generated,
                    script=script,
                    has_gnulib=has_gnulib,
                    is_stale=_has_stale_config_sub(tree),
                ),
            )


def _generate(script: str, *, has_gnulib: bool) -> str:
    if has_gnulib:  # it brings files that autoreconf misses, and runs that itself
        return (
            "for gnulib in gnulib .gnulib /usr/share/gnulib; do [ ! -f $gnulib/gnulib-tool ] || break; done\n"
            f'chmod +x {script}\n./{script} --skip-po --no-git --gnulib-srcdir="$gnulib"\n[ -f configure ]'
        )
    commands = "mkdir -p m4\nautoreconf -fi"
    if not script:
        return commands
    # Some trees need more than autoreconf does (sub-projects, generated version files), so their own script
    # may try. What a failed autoreconf left would let it pass: autoconf tells of a macro that is missing only
    # the first time, and leaves a configure with its name in it.
    return (
        f"mkdir -p m4\nautoreconf -fi || {{ echo 'autoreconf failed; trying ./{script}'; "
        f"rm -rf autom4te.cache configure; chmod +x {script}; "
        f"NOCONFIGURE=1 ./{script}; }}\n"
        f"[ -f configure ] || {{ chmod +x {script}; NOCONFIGURE=1 ./{script}; }}\n[ -f configure ]"
    )


def _has_stale_config_sub(tree: Tree) -> bool:
    for name in tree.files:
        if name.rpartition("/")[2] == "config.sub" and not re.search(
            r"riscv64|riscv\*|riscv \|", tree.text(name)
        ):
            return True
    return False
