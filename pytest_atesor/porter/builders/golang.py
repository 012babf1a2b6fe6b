"""Go: modules with any number of main packages, vendored or not, workspaces, and trees older than modules.

Where no module proxy can be reached, the same tree builds in GOPATH mode against the distribution's packaged
sources (``/usr/share/gocode``), as the distribution's own builds do.
"""

import itertools
import posixpath
import re
from collections.abc import Iterable
from dataclasses import dataclass

from pytest_atesor.core.urls import SourceUrlError
from pytest_atesor.porter.builders.interface import (
    BUILD_DIRECTORY,
    Builder,
    BuildOptions,
    Candidate,
    Project,
    Step,
    Suite,
)
from pytest_atesor.porter.builders.shared import depth_penalty, limit_download, quote
from pytest_atesor.porter.dependency_tables import GO_MODULES
from pytest_atesor.porter.directories import list_places
from pytest_atesor.porter.tree import Tree

__all__ = ["ANY_LINKNAME", "GOPATH_MODE", "UPDATE_MODULES", "GoBuilder", "GoProject", "has_programs"]

GOPATH_MODE = "go-gopath"
"""The ``prepare`` word that switches to the distribution's packaged sources."""

UPDATE_MODULES = "go-modules-update"
"""The ``prepare`` word that lets go complete go.mod and go.sum; packaged sources have neither."""

ANY_LINKNAME = "go-linkname"
"""The ``prepare`` word that lets the linker take references to what the standard library keeps to itself."""

_NAMELESS = "local/package"
_DOWNLOAD_SECONDS = 600
_TIDY_SECONDS = 300
_SIDE = (
    r"(^|/)(_?examples?|samples?|testdata|tests?|testing|e2e|hack|scripts?|tools|benchmarks?|contrib|internal"
    r"|docs?|gen)"
    r"(/|$)"
)

_MAIN = re.compile(r"^package[ \t]+main\b", re.MULTILINE)
_MOST_FILES = 500
_REQUIRES = re.compile(r"^[ \t]*require\b", re.MULTILINE)

# Main packages that are products: those outside examples, tests and tools, or all when there are only such.
_FIND_MAINS = r"""
out="$PWD/BUILD_DIRECTORY"; mkdir -p "$out"
cd "$tree"
go list -e -f '{{if and (eq .Name "main") (or .GoFiles .CgoFiles)}}{{.ImportPath}}{{end}}' $packages |
  sed '/^$/d' > "$out/.mains"
grep -Ev 'SIDE' "$out/.mains" > "$out/.products" || cp "$out/.mains" "$out/.products"
""".replace("BUILD_DIRECTORY", BUILD_DIRECTORY).replace("SIDE", _SIDE)

_BUILD_MAINS = r"""
if [ ! -s "$out/.products" ]; then
  echo 'no main package: a library; compiling it without output'
  go build $packages
fi
while read -r main; do
  name=${main##*/}
  case $name in v[0-9]|v[0-9][0-9]) name=${main%/*}; name=${name##*/};; .|'') name=${tree##*/};; esac
  while [ -e "$out/$name" ]; do name="$name-2"; done
  echo "+ go build -o $name $main"
  go build -o "$out/$name" "$main"
done < "$out/.products"
rm -f "$out/.mains" "$out/.products"
"""

# All missing imports at once, so that one installation serves them.
_FIND_MISSING = r"""
[ -s "$out/.products" ] || printf '%s\n' $packages > "$out/.products"
go list -e -deps -f '{{with .Error}}{{.Err}}{{end}}' $(cat "$out/.products") |
  grep -A1 'cannot find package' > "$out/.missing" || exit 0
cat "$out/.missing"
exit 1
"""

_COPY = r"""
copy() { rm -rf "$2"; mkdir -p "$2"; tar -cf - -C "$1" --exclude=./.git . | tar -xf - -C "$2"; }
"""

_LINK_MOVED = f"""
for one in {" ".join(f"{new}={old}" for new, old in GO_MODULES.items())}; do
  new=${{one%=*}}; old=/usr/share/gocode/src/${{one#*=}}
  if [ -d "$old" ] && ! [ -e "/usr/share/gocode/src/$new" ]; then
    mkdir -p "$HOME/go/src/${{new%/*}}"; ln -sfn "$old" "$HOME/go/src/$new"
  fi
done
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class GoProject(Project):
    """The module's path ("" without a go.mod), and whether it has vendor/ and asks for other modules.

    ``members`` are the directories of its workspace's modules, () where there is no workspace.
    ``paths`` are their import paths. ``is_workspace`` says that they are built together, not one alone:
    all of them, or, where the root is one of them, those beside it that are more than tests and tools.
    """

    module: str = ""
    members: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    is_workspace: bool = False
    is_vendored: bool = False
    requires: bool = False

    def plan(self, options: BuildOptions) -> tuple[Step, ...]:
        """Download the modules where there are any to download, then build."""
        if self._is_gopath(options):
            return self._gopath_steps(options)
        steps = []
        updates = UPDATE_MODULES in options.tweak.prepare
        if (self.requires or updates) and not self._uses_vendor(options):
            download = limit_download("go mod download", _DOWNLOAD_SECONDS, "modules")
            tidy = _tidy(self.members) if updates else ""
            script = f"{_lower_directive(options, self.members)}{tidy}{download}"
            steps.append(Step(name="download", script=script, network=True, is_attempt=False))
        return (*steps, Step(name="build", script=self._enter(options) + _FIND_MAINS + _BUILD_MAINS))

    def plan_suites(self, options: BuildOptions) -> tuple[Suite, ...]:
        """Return ``go test`` of every package, without the network."""
        return (
            Suite(
                framework="go",
                command="go test ./...",
                probe="find . -name '*_test.go' -not -path './vendor/*' | grep -q .",
                script=(
                    f'{self._enter(options)}export GOPROXY=off\ncd "$tree"\n'
                    f"go test -v -vet=off -p {options.jobs} $packages"
                ),
            ),
        )

    def _is_gopath(self, options: BuildOptions) -> bool:
        return GOPATH_MODE in options.tweak.prepare or not self.module

    def _uses_vendor(self, options: BuildOptions) -> bool:
        return self.is_vendored and UPDATE_MODULES not in options.tweak.prepare

    def _enter(self, options: BuildOptions) -> str:
        """Return the lines that set the mode up and name the place of the packages, ``$tree``."""
        return self._packages(options) + self._mode(options)

    def _packages(self, options: BuildOptions) -> str:
        """Return the line that names what to build: ``./...`` ends where another module begins."""
        if not self.is_workspace:
            return "packages=./...\n"
        is_gopath, has_root = self._is_gopath(options), "." in self.members
        places = [
            path if is_gopath else one if one == "." else f"./{one}"
            for path, one in zip(self.paths, self.members, strict=True)
            if not (has_root and re.search(_SIDE, one))
        ]
        return f"packages={quote(' '.join(f'{one}/...' for one in places))}\n"

    def _mode(self, options: BuildOptions) -> str:
        flags = self._flags(options)
        if not self._is_gopath(options):
            lower = _lower_directive(options, self.members)
            return f'{lower}export GOFLAGS="${{GOFLAGS:-}} {flags}"\ntree=$PWD\n'
        below = "" if self.is_workspace else f"/{quote(self._place(options))}"
        return (
            f'export GO111MODULE=off GOPATH="$HOME/go:/usr/share/gocode" GOFLAGS="{flags}"\n'
            f"tree=$HOME/go/src{below}\n{_LINK_MOVED}"
        )

    def _place(self, options: BuildOptions) -> str:
        """Return where packaged sources would have the module."""
        return _without_version(self.module or _import_path(options.source_url)) or _NAMELESS

    def _flags(self, options: BuildOptions) -> str:
        """Return GOFLAGS; ``-mod`` is an error where there are no modules, ``-mod=mod`` in a workspace."""
        flags = ["-buildvcs=false"]
        if not self._is_gopath(options):
            flags += ["-mod=vendor"] if self._uses_vendor(options) else []
            if UPDATE_MODULES in options.tweak.prepare:
                flags.append("-mod=readonly" if self.members else "-mod=mod")
        if ANY_LINKNAME in options.tweak.prepare:
            flags.append("-ldflags=-checklinkname=0")
        return " ".join(flags)

    def _gopath_steps(self, options: BuildOptions) -> tuple[Step, ...]:
        enter = self._enter(options)
        sources = {} if self.is_workspace else {self._place(options): "."}
        pairs = zip(self.paths, self.members, strict=True)
        for path, member in sorted(pairs, key=lambda pair: pair[1] != "."):
            sources.setdefault(path, member)
        above_first = sorted(sources.items())
        copy = _COPY + "".join(
            f'copy {quote(one)} "$HOME/go/src/"{quote(path)}\n' for path, one in above_first
        )
        return (
            Step(name="imports", script=f"{enter}{copy}{_FIND_MAINS}{_FIND_MISSING}", is_attempt=False),
            Step(name="build", script=f"{enter}{_FIND_MAINS}{_BUILD_MAINS}"),
        )


class GoBuilder(Builder):
    """Builds each main package of the module into one directory."""

    name = "go"
    commands = ("go", "cc")
    language = "go"
    borrowing = (GOPATH_MODE,)
    no_product = "the Go packages compile for riscv64, but none of them is a program that leaves a file"

    def find(self, tree: Tree) -> Iterable[Candidate]:
        """Yield a candidate for each go.mod near the root, or for a root with Go files and none."""
        found = False
        members = _workspace_members(tree) if tree.has("go.work") else ()
        if members and not tree.has("go.mod"):
            found = True
            yield _workspace(tree, members)
        for place in _places(tree):
            prefix = f"{place}/" if place else ""
            if tree.has(f"{prefix}go.mod"):
                found = True
                yield self._module(tree, place, prefix, members)
        if not found and any(name.endswith(".go") for name in tree.files):
            yield Candidate(
                builder=self.name,
                directory="",
                rank=50,
                evidence="Go files without go.mod",
                project=GoProject(),
            )

    def _module(self, tree: Tree, place: str, prefix: str, members: tuple[str, ...]) -> Candidate:
        text = tree.text(f"{prefix}go.mod")
        vendored = tree.has(f"{prefix}vendor/modules.txt")
        around = members if (place or ".") in members else ()
        built = [text, *(_manifest(tree, one) for one in around)]
        return Candidate(
            builder=self.name,
            directory=place,
            rank=88 - depth_penalty(place),
            evidence=f"{prefix}go.mod" + (" with vendor/" if vendored else ""),
            project=GoProject(
                module=_module_path(text),
                members=tuple(posixpath.relpath(one, place or ".") for one in around),
                paths=_member_paths(tree, around, own=place or "."),
                is_workspace=bool(around) and not place,
                is_vendored=vendored,
                requires=any(map(_REQUIRES.search, built)),
            ),
        )


def has_programs(tree: Tree, directory: str) -> bool:
    """Say whether a main package lies in ``directory`` that is more than an example, a test or a tool."""
    prefix = f"{directory}/"
    names = (
        name
        for name in sorted(tree.files)
        if name.startswith(prefix)
        and name.endswith(".go")
        and not name.endswith("_test.go")
        and not re.search(_SIDE, name)
    )
    return any(_MAIN.search(tree.text(name)) for name in itertools.islice(names, _MOST_FILES))


def _places(tree: Tree) -> tuple[str, ...]:
    """Return where modules are looked for: each program below ``cmd/`` may be one of its own."""
    programs = sorted(one for one in tree.directories if re.fullmatch(r"cmd/[^/]+", one))
    return tuple(dict.fromkeys((*list_places(tree, ("cmd", "go", "cli")), *programs)))


def _workspace_members(tree: Tree) -> tuple[str, ...]:
    """Return the directories that go.work uses, as far as they have a go.mod and a plain name."""
    text = re.sub(r"//[^\n]*", "", tree.text("go.work"))
    used = " ".join(
        one
        for found in re.finditer(r"^[ \t]*use[ \t]*(?:\(([^)]*)\)|(\S+))", text, re.MULTILINE)
        for one in found.groups()
        if one
    )
    plain = (posixpath.normpath(one.strip('"')) for one in used.split())
    return tuple(
        one
        for one in plain
        if re.fullmatch(r"[\w./+-]+", one) and tree.has(posixpath.normpath(f"{one}/go.mod"))
    )


def _manifest(tree: Tree, member: str) -> str:
    return tree.text(posixpath.normpath(f"{member}/go.mod"))


def _member_paths(tree: Tree, members: tuple[str, ...], own: str = "") -> tuple[str, ...]:
    """Return where packaged sources would have the members; each version of a module has its own.

    The one in the directory ``own`` is placed first, then the others in their order.
    """
    paths: dict[str, str] = {}
    for one in sorted(members, key=lambda member: member != own):
        full = _module_path(_manifest(tree, one)) or _NAMELESS
        short = _without_version(full)
        paths[one] = full if short in paths.values() else short
    return tuple(paths[one] for one in members)


def _module_path(text: str) -> str:
    module = re.search(r"^[ \t]*module[ \t]+\"?([^\s\"]+)", text, re.MULTILINE)
    path = module.group(1) if module else ""
    return "" if ".." in path.split("/") else path


def _without_version(path: str) -> str:
    return re.sub(r"/v[0-9]+$", "", path)


def _workspace(tree: Tree, members: tuple[str, ...]) -> Candidate:
    manifests = [_manifest(tree, one) for one in members]
    return Candidate(
        builder="go",
        directory="",
        rank=88,
        evidence=f"go.work with {len(members)} module(s)",
        project=GoProject(
            module="workspace",
            members=members,
            paths=_member_paths(tree, members),
            is_workspace=True,
            is_vendored=tree.has("vendor/modules.txt"),
            requires=any(map(_REQUIRES.search, manifests)),
        ),
    )


def _lower_directive(options: BuildOptions, members: tuple[str, ...]) -> str:
    if "go-directive" not in options.tweak.prepare:
        return ""
    edit = 'edit -toolchain=none -go="$version"\n'
    return "version=$(go env GOVERSION | sed 's/go\\([0-9]*[.][0-9]*\\).*/\\1/')\n" + (
        "".join(f"(cd {quote(one)}; GOWORK=off go mod {edit[:-1]})\n" for one in members) + f"go work {edit}"
        if members
        else f"go mod {edit}"
    )


def _tidy(members: tuple[str, ...]) -> str:
    """Return the line that completes go.mod and go.sum as far as that goes, module by module."""
    steps = [f"(cd {quote(one)}; GOWORK=off go mod tidy -e) || :" for one in members]
    steps += ["go work use"] if members else ["go mod tidy -e"]
    return f"timeout {_TIDY_SECONDS} sh -c {quote('; '.join(steps))} || :\n"


def _import_path(url: str) -> str:
    from pytest_atesor.core.names import derive_owner_repo  # noqa: PLC0415 - only trees without go.mod need it

    try:
        owner, repo = derive_owner_repo(url)
    except SourceUrlError:
        return ""
    host = re.search(r"(?:://|@)(?:[^/@]*@)?([^/:]+)", url)
    return f"{host.group(1) if host else 'local'}/{owner}/{repo.removesuffix('.git')}"
